//! The named pipe that readers read, if that explains their time in calls on files.

use super::Summary;
use crate::summary::figures::pattern::pattern;

/// The Linux number of ESPIPE, the error of a call that sets the position in a pipe.
const ESPIPE: i32 = 29;

/// The pipes take this share of the time in calls on files.
const MOST: f64 = 0.5;

/// Returns a named pipe if it and those with similar names took most of the time in calls on files. Programs that open a file
/// set its position, which fails for a pipe.
pub fn named_pipe(summary: &Summary) -> Option<&str> {
    let all: u64 = summary.patterns.iter().map(|row| row.use_.time_ns).sum();
    let of_pipes = summary.failures.iter().filter(|failure| failure.errno == Some(ESPIPE));
    let is_most = |path: &&str| {
        let pattern = pattern(path);
        let row = summary.patterns.iter().find(|row| row.pattern == pattern);
        row.is_some_and(|row| row.use_.time_ns as f64 >= MOST * all as f64)
    };
    of_pipes.filter_map(|failure| failure.file.as_deref()).find(is_most)
}
