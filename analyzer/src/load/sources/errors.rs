//! Errors in the inputs: one file of many, or all of them.

use std::path::PathBuf;

use dlio_schemas::native::Damage;

/// An input that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub path: PathBuf,
    pub what: Damage,
    /// The maximum number of events lost by that; `None` if unknown.
    pub events_max: Option<u64>,
}

/// Why there is nothing to analyze. One sentence each: the problem, its location, the remedy.
#[derive(Debug)]
pub enum LoadError {
    Missing(PathBuf),
    Unreadable(PathBuf, std::io::Error),
    /// A location in a bucket: the problem, and the remedy.
    Bucket(String, String),
    /// A pipe, socket or device.
    NoFile(PathBuf),
    /// A directory of Parquet whose writer has not finished, or was killed.
    Unfinished(PathBuf),
    Empty(PathBuf),
    /// With the names of the supported formats.
    NoTrace(PathBuf, String),
    /// A file that seems to be meant as a trace but is not one: the reason, and the remedy.
    Useless(PathBuf, &'static str),
    Unusable(PathBuf, Damage),
    NoMatch(String),
    BadPattern(String, String),
    Memory(std::io::Error),
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LoadError::Missing(path) if path.as_os_str().as_encoded_bytes().starts_with(b"--") => write!(
                f,
                "cannot read {}: no such file or directory; everything after -- is a trace, so put this option before it",
                path.display()
            ),
            LoadError::Missing(path) => write!(
                f,
                "cannot read {}: no such file or directory; pass the directory of a trace, which -o or DLIO_TRACE_DIR sets \
                 (default: ./dlio-trace)",
                path.display()
            ),
            LoadError::Unreadable(path, error) => {
                write!(f, "cannot read {}: {error}; check its permissions", path.display())
            }
            LoadError::Bucket(place, why) => write!(f, "cannot read {place}: {why}"),
            LoadError::NoFile(path) => write!(
                f,
                "cannot read {}: a pipe or device, but a trace is read more than once; write it to a file first: cat {} > FILE",
                path.display(),
                path.display()
            ),
            LoadError::Unfinished(path) => write!(
                f,
                "cannot read {}: an unfinished export; wait for the dlio-analyze --parquet that writes it, or run it again if \
                 that was killed",
                path.display()
            ),
            LoadError::Empty(path) => write!(
                f,
                "cannot read {}: this directory contains no readable trace; trace a program into it first: dlio trace -o {} -- PROGRAM",
                path.display(),
                path.display()
            ),
            LoadError::NoTrace(path, formats) => {
                write!(
                    f,
                    "cannot read {}: its content is in no format that dlio-analyze reads; pass the directory that dlio trace wrote, or a file or \
                     directory in one of these formats: .dlt, .ring, {formats}",
                    path.display()
                )
            }
            LoadError::Useless(path, why) => write!(f, "cannot read {}: {why}", path.display()),
            LoadError::Unusable(path, damage) => write!(f, "cannot read {}: {damage}", path.display()),
            LoadError::NoMatch(pattern) => {
                write!(f, "cannot read {pattern}: no file matches this pattern; check the spelling")
            }
            LoadError::BadPattern(pattern, why) => write!(
                f,
                "{pattern}: not a valid pattern ({why}); use * ? [..] \
                and **"
            ),
            LoadError::Memory(error) => write!(
                f,
                "cannot decompress a trace: out of memory ({error}); free some and \
                try again"
            ),
        }
    }
}

impl std::error::Error for LoadError {}
