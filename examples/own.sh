#!/bin/sh
# Forgets the crates of ours that another clone has built. All clones share one build folder, so that dependencies are built
# once; cargo takes such a crate for this clone's where the sources here are older. Called in the clone.
set -eu
target=${CARGO_TARGET_DIR:?set by the Makefile}
clone=$(pwd -P)
[ "$(cat "$target/clone" 2>/dev/null)" != "$clone" ] || exit 0
for kept in "$target"/*/.fingerprint "$target"/*/*/.fingerprint; do
    [ ! -d "$kept" ] || rm -rf "$kept"/dlio-*
done
mkdir -p "$target"
printf '%s\n' "$clone" > "$target/clone"
