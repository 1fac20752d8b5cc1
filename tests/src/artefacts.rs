//! The location of the tested artefacts: named by the environment, otherwise in the directory where cargo built these
//! tests.

use std::path::{Path, PathBuf};

/// Returns the preloaded library, or a message with the command that builds it.
pub fn library() -> Result<PathBuf, String> {
    let path = named("DLIO_PRELOAD").unwrap_or_else(|| target().join("preload/libdliotrace.so"));
    existing(
        path,
        "cargo build --profile preload --package dlio-preload --package dlio-inline --package dlio-rocm",
        "DLIO_PRELOAD",
    )
}

/// Returns the library for MPI, if `make build-mpi` was run.
pub fn mpi_library() -> Option<PathBuf> {
    named("DLIO_DIST").map(|place| place.join("lib/libdlio_mpi.so")).filter(|file| file.is_file())
}

/// Returns one of the commands, or a message with the command that builds it.
pub fn command(name: &str) -> Result<PathBuf, String> {
    let folder = named("DLIO_BIN_DIR").unwrap_or_else(|| target().join("release"));
    existing(folder.join(name), "cargo build --release --bins", "DLIO_BIN_DIR")
}

/// Returns the target directory: tests run from `TARGET/release/deps`.
pub fn target() -> PathBuf {
    let own = std::env::current_exe().expect("a running program has a path");
    own.ancestors().nth(3).unwrap_or(Path::new("/")).to_path_buf()
}

fn named(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn existing(path: PathBuf, build: &str, variable: &str) -> Result<PathBuf, String> {
    match path.is_file() {
        true => Ok(path),
        false => Err(format!(
            "{} is not a file: run `{build}` to build it, or set {variable} to another path",
            path.display()
        )),
    }
}
