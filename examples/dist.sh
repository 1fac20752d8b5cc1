#!/bin/sh
# Copies programs and libraries into the installed layout: bin/ and lib/ side by side, so that they find each other.
set -eu
target=${CARGO_TARGET_DIR:?set by the Makefile}
dist=${DLIO_DIST:?set by the Makefile}
mkdir -p "$dist/bin" "$dist/lib"
# Without debug information, which is most of the file; copied only if there is a newer one.
place() {
    [ "$2" -nt "$1" ] || strip --strip-debug -o "$2.new" "$1"
    # Running programs keep the old file mapped.
    [ ! -e "$2.new" ] || mv "$2.new" "$2"
}
for program in dlio dlio-analyze dlio-top; do
    place "$target/release/$program" "$dist/bin/$program"
done
ln -sf dlio "$dist/bin/dlio_benchmark"
# Only if it was built.
[ ! -e "$target/mpi/release/libdlio_mpi.so" ] || place "$target/mpi/release/libdlio_mpi.so" "$dist/lib/libdlio_mpi.so"
for library in libdliotrace.so libdliotrace_inline.so libdliotrace_rocm.so; do
    place "$target/preload/$library" "$dist/lib/$library"
done
: > "$dist/built"
