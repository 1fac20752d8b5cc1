#!/bin/sh
# Builds the wheel into $DLIO_DIST/wheel and prints its path. DLIO_WHEEL_PROGRAMS=0 leaves the programs out.
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/dlio-target}"
export DLIO_DIST="${DLIO_DIST:-$here/../target/dist}"
folder="${1:-$DLIO_DIST/wheel}"
mkdir -p "$folder"
cd "$here"
echo "$folder/$(python3 -c 'import backend, sys; print(backend.build_wheel(sys.argv[1]))' "$folder")"
