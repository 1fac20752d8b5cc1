#!/bin/sh
# Succeeds if bindings for the installed MPI can be built; otherwise prints what is missing. A host may have an mpicc and nothing
# else: Debian's openmpi-bin contains mpicc without mpi.h, and bindgen needs libclang with clang's own headers.
set -u
crate=$(dirname "$0")/../benchmark/mpi
no() { echo "benchmark/mpi is not checked: $1; make test-mpi installs the requirements" >&2; exit 1; }

command -v "${MPICC:-mpicc}" >/dev/null || no "no mpicc"
printf '#include <mpi.h>\n' | "${MPICC:-mpicc}" -fsyntax-only -x c - 2>/dev/null || no "mpicc finds no mpi.h"
cargo check --quiet --release --locked --manifest-path "$crate/Cargo.toml" --target-dir "${CARGO_TARGET_DIR:-$crate/target}/mpi" \
    --package mpi-sys >/dev/null 2>&1 || no "no bindings can be made from mpi.h (is libclang-dev installed?)"
