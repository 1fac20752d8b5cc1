#!/bin/sh
# What a span costs in Rust, C and Python: while nothing is traced, and recorded by the preloaded library. For Python, give
# the interpreter of an environment that has the wheel: `run.sh PYTHON`.
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
python="${1:-}"
target="${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/dlio-target}"
library="${DLIO_DIST:-$target/dist}/lib/libdliotrace.so"
folder="$(mktemp -d "${TMPDIR:-/tmp}/dlio-span-cost.XXXXXX")"
trap 'rm -rf "$folder"' EXIT

cargo build --quiet --release --package dlio-example --manifest-path "$here/../../Cargo.toml" --target-dir "$target"
cc -O2 -I "$here/../../tracer/include" -o "$folder/c" "$here/spans.c" -ldl

all() {
    "$target/release/span-cost"
    "$folder/c"
    [ -z "$python" ] || "$python" "$here/spans.py"
}

echo "nothing is traced:"
all
echo "recorded:"
export DLIO_TRACE_DIR="$folder/trace" DLIO_TRACE_FORMAT=native LD_PRELOAD="$library"
all
