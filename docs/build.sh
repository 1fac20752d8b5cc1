#!/bin/sh
# Builds the book into target/docs. Installs mdBook with cargo into the cache directory if it is missing (some minutes, once).
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
tools="${XDG_CACHE_HOME:-$HOME/.cache}/dlio-tools"
PATH="$PATH:$tools/bin"
command -v mdbook > /dev/null || cargo install --quiet --locked --root "$tools" --target-dir "$tools/target" mdbook
mdbook build "$here"
echo "the book is $(cd "$here/../target/docs" && pwd)/index.html"
