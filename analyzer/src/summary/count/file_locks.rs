//! Waits for locks on files, by file.
//!
//! A thread waits in a call that returns once it has the lock, or it sleeps after each call that was refused the lock.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::summary::waits::timeline::StepKind;

/// The waits for the locks of each file.
#[derive(Default, Serialize, Deserialize)]
pub struct FileLocks {
    waits: BTreeMap<u32, LockWaits>,
    /// The file whose lock the last call of the current thread was refused.
    #[serde(skip)]
    refused: Option<u32>,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct LockWaits {
    count: u64,
    ns: u64,
}

/// A file for whose lock threads waited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LockedFile {
    pub path: String,
    pub waits: u64,
    /// Summed over threads.
    pub wait_ns: u64,
}

/// The number of files in the report.
const LOCKED_FILES: usize = 3;

impl FileLocks {
    /// Starts with the events of another thread.
    pub fn begin(&mut self) {
        self.refused = None;
    }

    /// Notes that a call was refused the lock of a file.
    pub fn refused(&mut self, file: u32) {
        self.refused = Some(file);
    }

    /// Adds a call in which a thread waited: for the lock of a file, or for the next attempt to get one.
    pub fn step(&mut self, kind: StepKind, file: u32, ns: i64) {
        let awaited = match kind {
            StepKind::FileLock => Some(file),
            StepKind::Sleep => self.refused,
            _ => None,
        };
        self.refused = None;
        if let Some(file) = awaited {
            let waits = self.waits.entry(file).or_default();
            waits.count += 1;
            waits.ns += ns.max(0) as u64;
        }
    }

    pub fn merge(&mut self, other: FileLocks) {
        for (file, theirs) in other.waits {
            let mine = self.waits.entry(file).or_default();
            mine.count += theirs.count;
            mine.ns += theirs.ns;
        }
    }

    /// Renumbers files. Two that get one number are merged.
    pub fn renumber(&mut self, mut file: impl FnMut(u32) -> u32) {
        for (old, waits) in std::mem::take(&mut self.waits) {
            self.merge(FileLocks { waits: BTreeMap::from([(file(old), waits)]), refused: None });
        }
    }

    /// Returns the files for whose locks threads waited longest.
    pub fn longest(&self, paths: &[Arc<str>]) -> Vec<LockedFile> {
        let row = |(file, waits): (&u32, &LockWaits)| {
            let path = paths.get(*file as usize)?.to_string();
            Some(LockedFile { path, waits: waits.count, wait_ns: waits.ns })
        };
        let mut rows: Vec<_> = self.waits.iter().filter_map(row).filter(|row| row.wait_ns > 0).collect();
        rows.sort_by(|a, b| b.wait_ns.cmp(&a.wait_ns).then_with(|| a.path.cmp(&b.path)));
        rows.truncate(LOCKED_FILES);
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_after_a_refused_lock_waits_for_that_lock() {
        let mut locks = FileLocks::default();
        locks.step(StepKind::FileLock, 1, 10);
        locks.refused(2);
        locks.step(StepKind::Sleep, 0, 30);
        locks.step(StepKind::Sleep, 0, 1_000);
        locks.refused(2);
        locks.begin();
        locks.step(StepKind::Sleep, 0, 1_000);
        let paths: Vec<Arc<str>> = ["", "/a.lock", "/b.db"].map(Arc::from).into();
        let row = |path: &str, wait_ns| LockedFile { path: path.into(), waits: 1, wait_ns };
        assert_eq!(locks.longest(&paths), [row("/b.db", 30), row("/a.lock", 10)]);
        locks.renumber(|_| 1);
        assert_eq!(locks.longest(&paths), [LockedFile { path: "/a.lock".into(), waits: 2, wait_ns: 40 }]);
    }
}
