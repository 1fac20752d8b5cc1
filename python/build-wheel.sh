#!/bin/sh
# Builds the wheel with maturin into $DLIO_DIST/wheel (or the first argument) and prints its path: modules, compiled engine, preload
# libraries and programs. DLIO_WHEEL_PROGRAMS=0 leaves the programs out. `--sdist DIR` builds the source distribution instead.
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
cache="${XDG_CACHE_HOME:-$HOME/.cache}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$cache/dlio-target}"
dist="${DLIO_DIST:-$here/../target/dist}"
command=build
[ "${1:-}" != --sdist ] || { command=sdist; shift; }
folder="${1:-$dist/wheel}"
[ -e "$dist/lib/libdliotrace.so" ] || { echo "cannot find $dist/lib/libdliotrace.so; run \`make build\`, or set DLIO_DIST to its directory" >&2; exit 1; }
mkdir -p "$folder"
folder="$(cd "$folder" && pwd)"
dist="$(cd "$dist" && pwd)"
"$here/../tests/setup.sh" wheel >&2
cd "$here"

# maturin packs the files of the package's directory, so they are copied there during the build.
exec 9< .
flock 9
made="$(mktemp -d "${TMPDIR:-/tmp}/dlio-wheel.XXXXXX")"
trap 'rm -rf dliotrace/bin dliotrace/lib THIRD-PARTY.txt "$made"' EXIT
mkdir -p dliotrace/bin dliotrace/lib
for library in libdliotrace.so libdliotrace_inline.so libdliotrace_rocm.so; do
    strip --strip-unneeded -o "dliotrace/lib/$library" "$dist/lib/$library"
done
if [ "${DLIO_WHEEL_PROGRAMS:-1}" != 0 ]; then
    for program in dlio dlio-analyze dlio-top; do
        strip --strip-unneeded -o "dliotrace/bin/$program" "$dist/bin/$program"
    done
fi
python3 ../packaging/notices.py "$made"
mv "$made/THIRD-PARTY.txt" .

PATH="$cache/dlio-wheel-venv/bin:$PATH"
if [ $command = sdist ]; then
    maturin sdist --out "$made/out" >&2
else
    # A separate directory: otherwise the programs' build and this one would wait for each other's lock.
    CARGO_TARGET_DIR="$CARGO_TARGET_DIR/python" maturin build --release --out "$made/out" >&2
fi
# A wheel of an earlier build may have another tag.
[ $command = sdist ] || rm -f "$folder"/dliotrace-*.whl
for file in "$made"/out/*; do
    mv "$file" "$folder/"
    echo "$folder/$(basename "$file")"
done
