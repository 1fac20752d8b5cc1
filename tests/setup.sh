#!/bin/sh
# Installs missing packages on a Debian-like system with Rust. Prints nothing if all of them are installed.
#
#   setup.sh demo         for the build
#   setup.sh test         also for `make test`
#   setup.sh packages     to build and test packages
#   setup.sh torch        PyTorch (6 GB), and libraries that the jobs with a known cause of waiting import
#   setup.sh trackers     W&B, MLflow and tensorboardX (300 MB)
#   setup.sh frameworks   JAX, TensorFlow and Ray for the recipes in docs/ (2.6 GB)
#   setup.sh mpi          Open MPI, its Fortran compiler, and libclang to generate its bindings
#   setup.sh kubernetes   PyYAML, which reads the manifests of the recipe
#   setup.sh stores       clients of object stores (130 MB) and servers (nginx, OpenStack Swift; 120 MB)
set -eu

wanted="cc:gcc make:make pkg-config:pkg-config cmake:cmake"
case "${1:-demo}" in
    demo | wheel | packages | kubernetes) tested='' ;;
    *) tested=1
       wanted="$wanted c++:g++ python3:python3 git:git strace:strace sqlite3:sqlite3 valgrind:valgrind faketime:faketime \
           musl-gcc:musl-tools ruby:ruby" ;;
esac

[ "${1:-demo}" = stores ] && wanted="$wanted nginx:nginx-light memcached:memcached faketime:faketime swift-ring-builder:swift \
    swift-proxy-server:swift-proxy swift-account-server:swift-account swift-container-server:swift-container \
    swift-object-server:swift-object"

[ "${1:-demo}" = mpi ] && wanted="$wanted mpirun:openmpi-bin mpicc:libopenmpi-dev gfortran:gfortran"

[ "${1:-demo}" = packages ] && wanted="$wanted debootstrap:debootstrap rpmbuild:rpm lintian:lintian rpmlint:rpmlint fakeroot:fakeroot"

missing=""
for pair in $wanted; do
    command -v "${pair%%:*}" >/dev/null 2>&1 || missing="$missing ${pair#*:}"
done
# Libraries have no command to look for. libclang-cpp, which other programs install, is not libclang.
[ -z "$tested" ] || [ -e /usr/include/libaio.h ] || missing="$missing libaio-dev"
[ -z "$tested" ] || [ -e /usr/include/liburing.h ] || missing="$missing liburing-dev"
[ "${1:-demo}" != mpi ] || [ -n "$(find /usr/lib -name 'libclang*.so*' ! -name 'libclang-cpp*' -print -quit)" ] || \
    missing="$missing libclang-dev"
command -v cargo >/dev/null 2>&1 || { echo "cargo is missing: install Rust 1.95 or newer with rustup" >&2; exit 1; }

if [ -n "$missing" ]; then
    command -v apt-get >/dev/null 2>&1 || { echo "install these first:$missing" >&2; exit 1; }
    echo "installing$missing"
    root=""
    [ "$(id -u)" = 0 ] || root=sudo
    # shellcheck disable=SC2086 # a list of words
    $root apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1 || {
        $root apt-get update -qq
        # shellcheck disable=SC2086
        $root apt-get install -y -qq --no-install-recommends $missing >/dev/null
    }
fi

# packages VENV STAMP NAMES: installs Python packages into a separate environment outside the clone.
packages() {
    if [ "$(cat "$1/$2" 2>/dev/null)" != "$3" ]; then
        # After an interrupted installation, an environment has Python but no pip.
        "$1/bin/python" -m pip --version >/dev/null 2>&1 || python3 -m venv "$1"
        # shellcheck disable=SC2086 # a list of words
        "$1/bin/python" -m pip install --quiet --disable-pip-version-check $3
        echo "$3" > "$1/$2"
    fi
}

cache="${XDG_CACHE_HOME:-$HOME/.cache}"
# maturin builds the wheel; the rest tests it.
case "${1:-demo}" in wheel | test | packages) packages "$cache/dlio-wheel-venv" .installed "maturin==1.16.0 auditwheel==6.8.2 twine==7.0.0 mypy==2.4.1" ;; esac
case "${1:-demo}" in
    # Libraries that read dlio's files in the tests, as users do.
    test) packages "$cache/dlio-venv" .readers "numpy h5py pandas pyarrow pillow polars duckdb viztracer prometheus_client nvtx" ;;
    # Compatible versions: without them, pip searches for minutes.
    stores) packages "$cache/dlio-stores-venv" .installed \
        "aiobotocore==3.10.0 boto3==1.43.117 s3fs==2026.9.0 smart_open==9.0.2 minio==7.2.20" ;;
    trackers) packages "$cache/dlio-trackers-venv" .installed "wandb==0.31.0 mlflow-skinny==3.17.2 tensorboardX==2.6.5" ;;
    kubernetes) packages "$cache/dlio-kubernetes-venv" .installed "PyYAML==6.0.3" ;;
    frameworks) packages "$cache/dlio-frameworks-venv" .installed "jax tensorflow-cpu ray" ;;
    torch)
        packages "$cache/dlio-torch-venv" .installed "torch lightning transformers accelerate numpy safetensors s3torchconnector"
        jobs="$(dirname "$0")/jobs/waits/requirements"
        packages "$cache/dlio-torch-venv" .jobs "$(sed '/^#/d' "$jobs.txt" | tr '\n' ' ')"
        # Without dependencies, which are clients of all clouds and old versions of numpy and transformers.
        packages "$cache/dlio-torch-venv" .streaming "--no-deps $(sed '/^#/d' "$jobs-alone.txt" | tr '\n' ' ')" ;;
esac
