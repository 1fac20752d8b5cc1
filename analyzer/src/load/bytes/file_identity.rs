//! Identifies a file, and detects changes to it.

use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// A file that changed less than this before it was read may change again with the same timestamp, because of the
/// coarse clocks of file systems.
const SETTLED: Duration = Duration::from_secs(2);

/// The identity of a file, or of a listed object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileIdentity {
    pub size: u64,
    /// Seconds and nanoseconds of Unix time.
    pub modified: (i64, i64),
    pub changed: (i64, i64),
    pub inode: u64,
    pub device: u64,
}

impl FileIdentity {
    /// Returns `true` if a later change would have a different timestamp.
    pub fn is_settled(&self, now: SystemTime) -> bool {
        let time = SystemTime::UNIX_EPOCH + Duration::new(self.modified.0.max(0) as u64, self.modified.1 as u32);
        now.duration_since(time).is_ok_and(|age| age > SETTLED)
    }
}

impl From<std::fs::Metadata> for FileIdentity {
    fn from(facts: std::fs::Metadata) -> FileIdentity {
        FileIdentity {
            size: facts.len(),
            modified: (facts.mtime(), facts.mtime_nsec()),
            changed: (facts.ctime(), facts.ctime_nsec()),
            inode: facts.ino(),
            device: facts.dev(),
        }
    }
}
