#!/bin/sh
# Cleans dlio's crates that another clone has built. All clones share one build directory, so that dependencies are built once; if
# the sources of this clone are older, cargo would use the crate of the other clone. Run it in the clone.
set -eu
target=${CARGO_TARGET_DIR:?set by the Makefile}
clone=$(pwd -P)
[ "$(cat "$target/clone" 2>/dev/null)" != "$clone" ] || exit 0
for kept in "$target"/*/.fingerprint "$target"/*/*/.fingerprint; do
    [ ! -d "$kept" ] || rm -rf "$kept"/dlio-*
done
mkdir -p "$target"
printf '%s\n' "$clone" > "$target/clone"
