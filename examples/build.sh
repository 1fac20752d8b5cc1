#!/bin/sh
# Builds the programs and the library. A build directory that was restored incompletely, or to another path, can lack static
# libraries made by build scripts. Cargo does not notice, but the compiler fails: such crates are rebuilt.
set -eu
target=${CARGO_TARGET_DIR:?set by the Makefile}

# build FOLDER OPTIONS: runs cargo build; FOLDER is the directory of the profile in the build directory.
build() {
    folder=$target/$1
    shift
    before=
    until cargo build "$@"; do
        lost=$(cargo build "$@" 2>&1 | sed -n 's/^error: could not find native static library `\([^`]*\)`.*/\1/p')
        [ -n "$lost" ] && [ "$lost" != "$before" ] || return 1
        before=$lost
        for library in $lost; do rebuild "$library"; done
    done
}

# rebuild LIBRARY: cleans the crates that build and link this library.
rebuild() {
    for output in $(grep -l "link-lib=static=$1\$" "$folder"/build/*/output); do
        for crate in $(printf '%s\n' "$output"; sed -n 's/^cargo::*rustc-link-search=native=//p' "$output"); do
            crate=$(expr "$crate" : '.*/build/\(.*\)-[0-9a-f]*/') || continue
            echo "lib$1.a is missing from the build directory; rebuilding $crate" >&2
            rm -rf "$folder"/build/"$crate"-* "$folder"/.fingerprint/"$crate"-*
        done
    done
}

"$(dirname "$0")/own.sh"
build release --release --workspace --exclude dlio-preload --bins
build preload --profile preload --package dlio-preload --package dlio-inline --package dlio-rocm
"$(dirname "$0")/dist.sh"
