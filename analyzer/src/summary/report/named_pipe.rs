//! The named pipe that readers read, if that explains their time in file calls, and its writer.

use super::Summary;
use super::processes::ProcessUse;
use super::shared::SharedFile;
use super::waits::called;
use crate::summary::figures::pattern::pattern;

/// The Linux number of ESPIPE, the error of a call that sets the position in a pipe.
const ESPIPE: i32 = 29;

/// The pipes take this share of the time in file calls.
const MOST: f64 = 0.5;

/// Returns a named pipe if it and those with similar names took most of the time in file calls. Programs that open a file
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

/// Returns the file that took most of the time in file calls, if processes write it and others read no more than that: a
/// named pipe, or a file of results.
fn handed_over(summary: &Summary) -> Option<&SharedFile> {
    let all: u64 = summary.patterns.iter().map(|row| row.use_.time_ns).sum();
    let first = summary.shared.first().filter(|file| file.use_.time_ns as f64 >= MOST * all as f64)?;
    (first.use_.bytes_read > 0 && first.use_.bytes_read <= first.use_.bytes_written).then_some(first)
}

/// Returns the process that writes the file which another one reads; `None` if several may be it.
pub fn writer(summary: &Summary) -> Option<&ProcessUse> {
    let file = handed_over(summary)?;
    let mut writers = summary.processes.iter().filter(|process| process.work.bytes_written >= file.use_.bytes_written);
    writers.next().filter(|_| writers.next().is_none())
}

/// Returns a text on the file in which reads take most of the time, if that is a named pipe or another process writes it;
/// `true` for a pipe.
pub fn source(summary: &Summary) -> Option<(String, bool)> {
    let writer =
        writer(summary).map_or("another process".into(), |process| called(&process.called, process.pid, process.pid));
    let text = |path: &str, what: &str| format!("most of that in reads of {path}, {what} {writer} writes");
    let pipe = named_pipe(summary).map(|path| (text(path, "a named pipe that"), true));
    pipe.or_else(|| handed_over(summary).map(|file| (text(&file.path, "which"), false)))
}
