//! What tells a file from another, and from itself after a change.

use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// A file that changed less than this before it was read may change again without another time: clocks of file systems
/// are that coarse.
const SETTLED: Duration = Duration::from_secs(2);

/// The facts of a file, or of an object that was listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Facts {
    pub size: u64,
    /// Seconds and nanoseconds of Unix time.
    pub modified: (i64, i64),
    pub changed: (i64, i64),
    pub inode: u64,
    pub device: u64,
}

impl Facts {
    /// True if a later change would have another time.
    pub fn is_settled(&self, now: SystemTime) -> bool {
        let time = SystemTime::UNIX_EPOCH + Duration::new(self.modified.0.max(0) as u64, self.modified.1 as u32);
        now.duration_since(time).is_ok_and(|age| age > SETTLED)
    }
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
