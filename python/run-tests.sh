#!/bin/sh
# Builds the wheel, installs it into a fresh virtual environment and runs the tests there, without Rust on the PATH.
# dlio-analyze is in DLIO_BIN_DIR or PATH. DLIO_WHEEL=FILE tests an existing wheel.
#
# The tests with PyTorch run if `make test-torch` has installed it; `run-tests.sh --torch` runs only these tests. The tests with
# clients of object stores run if `make test-stores` has installed them; `--stores` runs only these. The tests with trackers of
# experiments run if `make test-trackers` has installed them; `--trackers` runs only these.
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d "${TMPDIR:-/tmp}/dliotrace-tests.XXXXXX")"
trap 'rm -rf "$folder"' EXIT
torch="${DLIO_TORCH_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/dlio-torch-venv}"
base=python3
if [ -e "$torch/.installed" ]; then
    base="$torch/bin/python"
elif [ "${1:-}" = --torch ]; then
    echo "cannot test with PyTorch: it is not in $torch; run \`make test-torch\` to install it" >&2
    exit 1
fi
if [ "${1:-}" = --torch ]; then
    shift
    set -- test_torch test_torch_device test_run_torch test_verdicts.TorchVerdicts test_objects.S3TorchConnector "$@"
fi

stores="${DLIO_STORES_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/dlio-stores-venv}"
if [ "${1:-}" = --stores ]; then
    [ -e "$stores/.installed" ] || { echo "cannot test with clients of object stores: they are not in $stores; run \`make test-stores\` to install them" >&2; exit 1; }
    base=python3
    shift
    set -- test_objects "$@"
fi

trackers="${DLIO_TRACKERS_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/dlio-trackers-venv}"
if [ "${1:-}" = --trackers ]; then
    [ -e "$trackers/.installed" ] || { echo "cannot test with trackers: they are not in $trackers; run \`make test-trackers\` to install them" >&2; exit 1; }
    shift
    set -- test_report_targets "$@"
fi

wheel="${DLIO_WHEEL:-$(DLIO_WHEEL_PROGRAMS=0 "$here/build-wheel.sh" "$folder")}"
"$base" -m venv "$folder/venv"
python="$folder/venv/bin/python"
# PyTorch is imported from its own environment, in which nothing is installed.
[ "$base" = python3 ] || "$base" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
    > "$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
if [ -e "$stores/.installed" ]; then
    "$stores/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
        > "$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/stores.pth"
fi
if [ -e "$trackers/.installed" ]; then
    "$trackers/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
        > "$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/trackers.pth"
fi
if [ -e "$stores/.installed" ] || [ "$base" != python3 ]; then
    # The server for the clients.
    cargo build --quiet --release --workspace --exclude dlio-preload --example test_store --manifest-path "$here/../Cargo.toml"
    DLIO_TEST_STORE="${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/dlio-target}/release/examples/test_store"
    export DLIO_TEST_STORE
fi
find "$folder/venv" | grep -v __pycache__ | sort > "$folder/before"

# A library in Rust with a separate engine, in the same process.
DLIO_TEST_RUST_LIBRARY="$(cargo build --quiet --release --package dlio-example --lib --manifest-path "$here/../Cargo.toml" \
    --message-format json | sed -n 's/.*"filenames":\["\([^"]*libdlio_example.so\)".*/\1/p')"
export DLIO_TEST_RUST_LIBRARY
"$python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps "$wheel"

# Checks that the type stubs in the wheel agree with its modules. All categories are one class with different attributes.
tools="${XDG_CACHE_HOME:-$HOME/.cache}/dlio-wheel-venv/bin/python"
if [ -x "$tools" ]; then
    installed="$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
    mkdir -p "$folder/stubs/dliotrace/_analysis"
    cp "$installed"/dliotrace/*.pyi "$folder/stubs/dliotrace/"
    cp "$installed"/dliotrace/_analysis/*.pyi "$folder/stubs/dliotrace/_analysis/"
    echo 'dliotrace\.ai\.(checkpoint|comm|compute|data|device|pipeline)' > "$folder/allowed"
    # mypy does not check packages in its working directory.
    (cd "$folder/stubs" && PYTHONPATH="$installed" MYPYPATH=. "$tools" -B -m mypy.stubtest dliotrace --ignore-missing-stub \
        --allowlist "$folder/allowed")
    (cd "$folder" && MYPYPATH=stubs "$tools" -B -m mypy --strict --cache-dir "$folder/mypy" "$here/tests/programs/typed.py")
fi

cd "$here/tests"
PATH="$folder/venv/bin:/usr/bin:/bin" DLIO_BIN_DIR="${DLIO_BIN_DIR:-$(dirname "$(command -v dlio-analyze || echo ./none)")}" \
    "$python" -B -m unittest "$@"
[ -e "$stores/.installed" ] || echo "skipped: the tests with boto3, s3fs and others; \`make test-stores\` installs them and runs them"
[ -e "$trackers/.installed" ] || echo "skipped: the tests with W&B, MLflow and TensorBoard; \`make test-trackers\` installs them and runs them"
[ "$base" != python3 ] || echo "skipped: the tests with PyTorch; \`make test-torch\` installs it (some 6 GB) and runs them"

"$python" -m pip uninstall --quiet --yes dliotrace
find "$folder/venv" | grep -v __pycache__ | sort > "$folder/after"
diff "$folder/before" "$folder/after" || { echo "pip uninstall left the files listed above" >&2; exit 1; }
