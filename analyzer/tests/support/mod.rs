//! Directories of tests, the traces in them, and the program they run.

pub mod darshan;
pub mod exported;
pub mod program;
pub mod workers;

use tempfile::TempDir;

/// Makes a directory that is removed with the test.
pub fn temp_dir(name: &str) -> TempDir {
    tempfile::Builder::new().prefix(&format!("dlio-analyzer-{name}-")).tempdir().expect("a directory for the test")
}
