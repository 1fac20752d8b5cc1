#!/bin/sh
# Lays programs and library out as they are installed: bin/ and lib/ side by side, where they find each other.
set -eu
target=${CARGO_TARGET_DIR:?set by the Makefile}
dist=${DLIO_DIST:?set by the Makefile}
mkdir -p "$dist/bin" "$dist/lib"
# Without what only a debugger reads, which is most of it; copied only when there is a newer one.
place() {
    [ "$2" -nt "$1" ] || strip --strip-debug -o "$2.new" "$1"
    # A program that has the old one mapped keeps it.
    [ ! -e "$2.new" ] || mv "$2.new" "$2"
}
for program in dlio dlio-analyze dlio-top; do
    place "$target/release/$program" "$dist/bin/$program"
done
ln -sf dlio "$dist/bin/dlio_benchmark"
# Only where it was asked for.
[ ! -e "$target/mpi/release/libdlio_mpi.so" ] || place "$target/mpi/release/libdlio_mpi.so" "$dist/lib/libdlio_mpi.so"
for library in libdliotrace.so libdliotrace_inline.so; do
    place "$target/preload/$library" "$dist/lib/$library"
done
: > "$dist/built"
