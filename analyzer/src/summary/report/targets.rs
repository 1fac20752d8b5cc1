//! The object of the next step: the files, the reader or the server that took the time.

use super::Summary;
use super::headline::Bottleneck;
use super::locked::locked_file;
use super::named_pipe::{named_pipe, writer};
use super::patterns::{OTHERS, PatternUse};
use super::verdict::training_waits;
use super::wait_enders::most;
use super::waits::called;
use crate::summary::count::remote_ends::RemoteEnd;
use crate::summary::figures::units::{bytes, many};
use crate::summary::waits::trainers::WaitKind;

/// Files are named if they took this share of the time of all files.
const MOST: f64 = 0.5;

/// Files that a step concerns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FileUse {
    Read,
    Written,
}

/// Returns what the bottleneck concerns; `None` if the trace does not show it, or if it is not one thing.
pub fn of_bottleneck(bottleneck: Bottleneck, summary: &Summary) -> Option<String> {
    use Bottleneck::*;
    match bottleneck {
        PipeBound => named_pipe(summary).map(|pipe| match writer(summary) {
            Some(writer) => called(&writer.called, writer.pid, writer.pid),
            None => format!("the program that writes {pipe}"),
        }),
        StorageBound | OwnReads | FileCallBound => files(FileUse::Read, summary),
        CheckpointBound | WriteBound => files(FileUse::Written, summary),
        NetworkBound => server(summary),
        SynchronizationBound if summary.training.len() == 1 => server(summary),
        LockBound | OwnLock if let Some(file) = locked_file(summary) => Some(format!("the lock of {}", file.path)),
        SleepBound if let Some(sleeper) = sleeper(summary) => Some(sleeper),
        PreprocessingBound | GilBound | SleepBound | LockBound | SubprocessBound | ReaderHangs => reader(summary),
        _ => None,
    }
}

/// Returns the files that took most of the time, such as `1,200 files /data/train/*.npy (3.2 GB read)`.
pub fn files(how: FileUse, summary: &Summary) -> Option<String> {
    let moved = |row: &PatternUse| match how {
        FileUse::Read => (row.use_.bytes_read, row.use_.bytes_written),
        FileUse::Written => (row.use_.bytes_written, row.use_.bytes_read),
    };
    let all: u64 = summary.patterns.iter().map(|row| row.use_.time_ns).sum();
    let mut rows = summary.patterns.iter().filter(|row| moved(row).0 > moved(row).1);
    let first = rows.find(|row| row.pattern != OTHERS)?;
    let is_most = first.use_.time_ns as f64 >= MOST * all as f64;
    let word = if how == FileUse::Read { "read" } else { "written" };
    let size = bytes(moved(first).0 as f64);
    let names = &first.names;
    is_most.then(|| match first.files {
        0..=1 => format!("{names} ({size} {word})"),
        count => format!("{} {names} ({size} {word})", many(count, "file", "files")),
    })
}

/// Returns the reader for which the only trainer waited most.
fn reader(summary: &Summary) -> Option<String> {
    let waits = training_waits(summary)?;
    let [group] = waits.groups.as_slice() else { return None };
    most(group, WaitKind::Data, waits.waited).map(|(row, _)| row.named())
}

/// Returns the process that slept while the readers of the only trainer waited for it.
fn sleeper(summary: &Summary) -> Option<String> {
    let waits = training_waits(summary)?;
    let [group] = waits.groups.as_slice() else { return None };
    let process = summary.processes.iter().find(|process| Some(process.proc) == group.loading.sleeper)?;
    Some(called(&process.program, process.pid, process.pid))
}

/// Returns the remote end with the most bytes.
fn server(summary: &Summary) -> Option<String> {
    let end: &RemoteEnd = summary.dataset.peers.first()?;
    let connections = many(end.connections, "connection", "connections");
    let place = if end.is_local() { "a server on this host, " } else { "" };
    Some(format!("{place}{} ({connections}, {})", end.address, bytes(end.bytes as f64)))
}
