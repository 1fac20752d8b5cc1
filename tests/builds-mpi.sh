#!/bin/sh
# Succeeds where bindings of an MPI can be made. A machine may have an mpicc and nothing else: Debian's openmpi-bin brings one
# without mpi.h, and bindgen wants libclang with clang's own headers. Says what is missing where they cannot.
set -u
crate=$(dirname "$0")/../benchmark/mpi
no() { echo "benchmark/mpi: $1: not looked at; make test-mpi installs what it takes" >&2; exit 1; }

command -v "${MPICC:-mpicc}" >/dev/null || no "no mpicc"
printf '#include <mpi.h>\n' | "${MPICC:-mpicc}" -fsyntax-only -x c - 2>/dev/null || no "mpicc finds no mpi.h"
cargo check --quiet --release --locked --manifest-path "$crate/Cargo.toml" --target-dir "${CARGO_TARGET_DIR:-$crate/target}/mpi" \
    --package mpi-sys >/dev/null 2>&1 || no "no bindings can be made from mpi.h (is libclang-dev installed?)"
