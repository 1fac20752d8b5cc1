//! Failures: what failed, on which file, and the remedy; with the exit code.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 2 | refused before any work: a key, a value, a combination, an option |
//! | 3 | the data set is missing or smaller than requested |
//! | 4 | the operating system refused: a read, a write, a disk that is full |
//! | 5 | samples were unreadable or damaged: the first ended the run, or with `--on-error skip` it finished without them |
//! | 130 | stopped by Ctrl-C or a termination signal; results so far are on disk |

use dlio_schemas::secrets::without_logins;
use dlio_schemas::words::without_error_numbers;
use std::fmt;
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Refused = 2,
    MissingData = 3,
    System = 4,
    DamagedData = 5,
    Interrupted = 130,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub kind: Kind,
    pub what: String,
    /// The next command or thing to check; empty if there is none.
    pub remedy: String,
}

pub type Outcome<T> = Result<T, Failure>;

/// The remedy for a full disk if the key of the file is unknown.
const FREE_SPACE: &str = "free space there";

/// Returns the words of the system for an error, without its number.
pub fn reason(error: &std::io::Error) -> String {
    without_error_numbers(&error.to_string())
}

impl Failure {
    pub fn new(kind: Kind, what: impl Into<String>) -> Failure {
        Failure { kind, what: without_logins(&what.into()), remedy: String::new() }
    }

    pub fn refused(what: impl Into<String>) -> Failure {
        Failure::new(Kind::Refused, what)
    }

    pub fn damaged(path: &Path, what: impl fmt::Display) -> Failure {
        Failure::new(Kind::DamagedData, format!("{}: {what}", path.display()))
    }

    pub fn interrupted() -> Failure {
        Failure::new(Kind::Interrupted, "interrupted")
    }

    /// Returns the failure of a file operation. A missing file is missing data, not a system error.
    pub fn io(doing: &str, path: &Path, error: std::io::Error) -> Failure {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => Kind::MissingData,
            std::io::ErrorKind::UnexpectedEof => Kind::DamagedData,
            _ => Kind::System,
        };
        let failure = Failure::new(kind, format!("cannot {doing} {}: {error}", path.display()));
        match error.kind() {
            std::io::ErrorKind::StorageFull => failure.remedy(FREE_SPACE),
            std::io::ErrorKind::PermissionDenied => {
                failure.remedy("choose a directory that this user may read and write")
            }
            _ => failure,
        }
    }

    /// Returns the failure to write to a location. Unlike in [`Failure::io`], a directory that cannot be created is not
    /// missing data.
    pub fn unwritable(doing: &str, path: &Path, error: std::io::Error) -> Failure {
        Failure { kind: Kind::System, ..Failure::io(doing, path, error) }
    }

    /// Adds, for a full disk, the key that sets the file's location.
    pub fn elsewhere(self, key: &str) -> Failure {
        let full = self.remedy == FREE_SPACE;
        if full { self.remedy(format!("free space, or point {key} at a larger disk")) } else { self }
    }

    /// Prefixes the location, as in `job.yaml, line 3: `.
    pub fn at(mut self, place: &str) -> Failure {
        self.what.insert_str(0, place);
        self
    }

    pub fn remedy(mut self, remedy: impl Into<String>) -> Failure {
        self.remedy = remedy.into();
        self
    }

    pub fn exit_code(&self) -> i32 {
        self.kind as i32
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if !self.remedy.is_empty() {
            write!(f, "\n  {}", self.remedy)?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_a_system_failure_with_a_remedy() {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let failure = Failure::io("write", Path::new("/data/a.npz"), full);
        assert_eq!(failure.exit_code(), 4);
        assert!(failure.to_string().contains("/data/a.npz"));
        assert!(failure.to_string().contains("free space"));
        assert!(failure.elsewhere("workload.dataset.data_folder").remedy.contains("data_folder at a larger disk"));
        let refused = Failure::refused("no").remedy("another way").elsewhere("hydra.run.dir");
        assert_eq!(refused.remedy, "another way");
    }

    #[test]
    fn uncreatable_path_is_not_missing_data() {
        let absent = std::io::Error::from(std::io::ErrorKind::NotFound);
        assert_eq!(Failure::unwritable("create directory", Path::new("x"), absent).exit_code(), 4);
    }

    #[test]
    fn a_file_that_is_absent_is_missing_data() {
        let absent = std::io::Error::from(std::io::ErrorKind::NotFound);
        assert_eq!(Failure::io("open", Path::new("x"), absent).kind, Kind::MissingData);
    }
}
