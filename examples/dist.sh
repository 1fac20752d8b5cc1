#!/bin/sh
# Lays programs and library out as they are installed: bin/ and lib/ side by side, where they find each other.
set -eu
target=${CARGO_TARGET_DIR:?set by the Makefile}
dist=${DLIO_DIST:?set by the Makefile}
mkdir -p "$dist/bin" "$dist/lib"
for program in dlio dlio-analyze; do
    ln -f "$target/release/$program" "$dist/bin/$program" 2>/dev/null || cp "$target/release/$program" "$dist/bin/$program"
done
ln -sf dlio "$dist/bin/dlio_benchmark"
cp "$target/preload/libdliotrace.so" "$dist/lib/libdliotrace.so.new"
# A program that has the old one mapped keeps it.
mv "$dist/lib/libdliotrace.so.new" "$dist/lib/libdliotrace.so"
