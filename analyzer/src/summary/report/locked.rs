//! The file whose lock threads waited for, if that explains the waits for locks.

use super::Summary;
use crate::summary::count::file_locks::LockedFile;
use crate::summary::figures::units::{many, time};
use crate::summary::training::RankGroup;
use crate::summary::waits::parts::Part;

/// Returns the file for whose lock threads waited longest, if that is a large part of the waits of all trainers for
/// locks.
pub fn locked_file(summary: &Summary) -> Option<&LockedFile> {
    let of_data = |group: &RankGroup| group.causes.map_or(0, |causes| causes.get(Part::Lock));
    let waited: i64 = summary.training.iter().map(|group| of_data(group) + group.lock_wait_ns.unwrap_or(0)).sum();
    summary.dataset.locked.first().filter(|file| 2 * file.wait_ns as i64 >= waited)
}

/// Returns the sentence that names the file.
pub fn sentence(summary: &Summary) -> String {
    match locked_file(summary) {
        Some(file) => format!(
            "Threads waited {} for the lock of {} ({}, summed over threads).",
            time(file.wait_ns as f64),
            file.path,
            many(file.waits, "wait", "waits")
        ),
        None => "The trace does not show which lock it was.".into(),
    }
}
