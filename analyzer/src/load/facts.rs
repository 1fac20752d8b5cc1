//! What tells a file from another, and from itself after a change.

use std::os::unix::fs::MetadataExt;

/// The facts of a file, or of an object that was listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    pub size: u64,
    /// Seconds and nanoseconds of Unix time.
    pub modified: (i64, i64),
    pub changed: (i64, i64),
    pub inode: u64,
    pub device: u64,
}

impl From<std::fs::Metadata> for Facts {
    fn from(facts: std::fs::Metadata) -> Facts {
        Facts {
            size: facts.len(),
            modified: (facts.mtime(), facts.mtime_nsec()),
            changed: (facts.ctime(), facts.ctime_nsec()),
            inode: facts.ino(),
            device: facts.dev(),
        }
    }
}
