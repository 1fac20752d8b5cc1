//! The place of what is tested: named by the environment, else in the folder cargo built these tests into.

use std::path::{Path, PathBuf};

/// The preloaded library, or a sentence with the command that builds it.
pub fn library() -> Result<PathBuf, String> {
    let path = named("DLIO_PRELOAD").unwrap_or_else(|| target().join("preload/libdliotrace.so"));
    existing(path, "cargo build --profile preload --package dlio-preload --package dlio-inline", "DLIO_PRELOAD")
}

/// What talks to an MPI, where `make build-mpi` was asked for.
pub fn mpi_library() -> Option<PathBuf> {
    named("DLIO_DIST").map(|place| place.join("lib/libdlio_mpi.so")).filter(|file| file.is_file())
}

/// One of the commands, or a sentence with the command that builds it.
pub fn command(name: &str) -> Result<PathBuf, String> {
    let folder = named("DLIO_BIN_DIR").unwrap_or_else(|| target().join("release"));
    existing(folder.join(name), "cargo build --release --bins", "DLIO_BIN_DIR")
}

/// The target folder: tests run from `TARGET/release/deps`.
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
        false => Err(format!("{} is no file: `{build}` makes it, or {variable} names another place", path.display())),
    }
}
