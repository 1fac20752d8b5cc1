//! When the larger things happened: waits for batches, computing, passes through files, messages taken.
//!
//! A mark is 64 bytes. A trace has a million of them at most, whatever its length; beyond that there are only counts.

use std::sync::atomic::{AtomicUsize, Ordering};

/// What a mark is of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum What {
    /// A span in which a trainer waits for its next batch.
    Fetch,
    Compute,
    /// A span that writes a checkpoint.
    Save,
    /// A span that reads one back.
    Restore,
    /// A span in which a data set is made.
    Generate,
    /// A span of an evaluation: what its thread waits for and computes in it is no training.
    Evaluate,
    /// A span in which one sample is read.
    Sample,
    /// A file from opening to closing, with reads.
    Pass,
    /// Reads that follow one another in a file that stays open.
    Run,
    /// A message taken from another process.
    Take,
}

#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub what: What,
    pub proc: u32,
    pub tid: i32,
    pub start: i64,
    pub end: i64,
    /// Place of the family of files, for passes and runs.
    pub family: u32,
    /// What is read; of a message taken, what it came through.
    pub file: u32,
    /// As a span numbers it.
    pub epoch: i32,
    pub bytes: u64,
    /// Since the mark before it of the same kind and thread ended, less the time in calls that wait for others.
    pub busy_before: Option<i64>,
}

/// Marks that are kept: 64 MiB of them.
const MARKS_MAX: usize = 1 << 20;

/// How many marks there are, on all threads that read.
#[derive(Default)]
pub struct Budget(AtomicUsize);

impl Budget {
    /// Whether there is room for one more.
    pub fn take(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) < MARKS_MAX
    }
}
