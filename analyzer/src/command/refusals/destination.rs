//! Files and directories that cannot be written.

use std::path::PathBuf;

use arrow::error::ArrowError;

use crate::atomic_file::system_error;

/// The reason why an output path cannot be written.
#[derive(Debug)]
pub enum Destination {
    /// The system rejects the write.
    Unwritable(PathBuf, std::io::Error),
    Parquet(PathBuf, ArrowError),
    /// The directory for Parquet is not empty.
    NotEmpty(PathBuf),
    /// The directory for a cut trace has content.
    Occupied(PathBuf),
    /// Another program is writing Parquet there.
    BeingWritten(PathBuf),
    /// The file exists and would be replaced.
    Exists(PathBuf),
    /// The file would become part of the input trace.
    AmongTraces(PathBuf),
}

impl std::fmt::Display for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Destination::Unwritable(path, error) => {
                write!(f, "cannot write {}: {error}; {}", path.display(), remedy(error))
            }
            Destination::Parquet(path, error) => match system_error(&error.to_string()) {
                Some(error) => write!(f, "cannot write {}: {error}; {}", path.display(), remedy(&error)),
                None => write!(f, "cannot write {}: {error}", path.display()),
            },
            Destination::NotEmpty(path) => {
                write!(
                    f,
                    "cannot write {}: the directory is not empty; give --parquet a new directory, or remove \
                    this one",
                    path.display()
                )
            }
            Destination::Occupied(path) => {
                write!(
                    f,
                    "cannot write {}: it exists and is not an empty directory; give --cut a new one",
                    path.display()
                )
            }
            Destination::BeingWritten(path) => {
                write!(
                    f,
                    "cannot write {}: another dlio-analyze is writing there; give --parquet another directory",
                    path.display()
                )
            }
            Destination::Exists(path) if path.is_dir() => {
                write!(f, "cannot write {}: it is a directory; choose another path", path.display())
            }
            Destination::Exists(path) => {
                write!(f, "cannot write {}: it exists; --force replaces it", path.display())
            }
            Destination::AmongTraces(path) => write!(
                f,
                "cannot write {}: it is among the traces, and would be read as one of them from now on; choose \
                 another directory",
                path.display()
            ),
        }
    }
}

/// Returns a hint for an error of the system.
fn remedy(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind::{FileTooLarge, NotFound, QuotaExceeded, StorageFull};
    match error.kind() {
        NotFound => "create its directory first, or choose another path",
        StorageFull | QuotaExceeded => "free some space, or choose another disk",
        FileTooLarge => "raise the limit on file sizes (ulimit -f), or write less",
        _ => "choose another path",
    }
}
