//! Times of the larger activities: waits for batches, computing, passes through files, received messages.
//!
//! A mark is 64 bytes. A trace has at most a million of them, regardless of its length; beyond that there are only
//! counts.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The activity of a mark.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Activity {
    /// A span in which a trainer waits for its next batch.
    Fetch,
    Compute,
    /// A span that writes a checkpoint.
    Save,
    /// A span that reads a checkpoint.
    Restore,
    /// A span in which a data set is generated.
    Generate,
    /// A span of an evaluation: waits and compute of its thread inside it are not training.
    Evaluate,
    /// A span in which one sample is read.
    Sample,
    /// A file from opening to closing, with reads.
    Pass,
    /// Consecutive reads in a file that stays open.
    Run,
    /// A message received from another process.
    Take,
}

#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub what: Activity,
    pub proc: u32,
    pub tid: i32,
    pub start: i64,
    pub end: i64,
    /// Index of the file group, for passes and runs.
    pub family: u32,
    /// The file that is read; for a received message, its pipe or socket.
    pub file: u32,
    /// The number in the span.
    pub epoch: i32,
    pub bytes: u64,
    /// Time since the previous mark of this kind and thread ended, minus the time in calls that wait for other threads.
    pub busy_before: Option<i64>,
}

/// The maximum number of marks: 64 MiB of them.
const MARKS_MAX: usize = 1 << 20;

/// The number of marks, over all reading threads.
#[derive(Default)]
pub struct Budget(AtomicUsize);

impl Budget {
    /// Returns `true` if there is space for one more.
    pub fn take(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) < MARKS_MAX
    }
}
