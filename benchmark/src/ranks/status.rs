//! The last span that each rank of a run started, and how the rank failed, in memory that all ranks see. With it, a rank that
//! waits at a barrier can report the activity of a missing rank, or why that rank is gone.
//!
//! Ranks write their spans through [`note`]. Spans of loader workers and writers have other names.
//!
//! ```text
//! 0              1 + the rank that failed first; 0 before
//! of each rank   the last span (4 numbers) · its failure · its final bytes
//! ```

use crate::failure::{Failure, Kind};
use crate::system::clock::monotonic_millis;
use crate::system::shared_memory::SharedNumbers;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Names of spans that show where a rank is.
const STAGES: &[&str] =
    &["root", "generate", "epoch", "block", "evaluate", "fetch", "compute", "checkpoint.save", "checkpoint.load"];

/// Numbers of a span: the stage plus one, the time, and two more with its values.
const SPAN: usize = 4;

/// Bytes that a rank leaves once: their number plus one, then the bytes.
struct Field {
    start: usize,
    bytes: usize,
}

/// The exit code and the first line of the failure.
const FAILURE: Field = Field { start: SPAN, bytes: 512 };
const LAST_BYTES: Field = Field { start: FAILURE.end(), bytes: 512 };

const HEAD: usize = 1;
const WIDTH: usize = LAST_BYTES.end();
const NONE: u64 = u64::MAX;

impl Field {
    const fn end(&self) -> usize {
        self.start + 1 + self.bytes / 8
    }
}

const fn count(ranks: u64) -> usize {
    HEAD + ranks as usize * WIDTH
}

static BOARD: OnceLock<StatusBoard> = OnceLock::new();
static RANK: AtomicU64 = AtomicU64::new(NONE);

#[derive(Clone)]
pub struct StatusBoard(&'static SharedNumbers);

impl StatusBoard {
    pub fn new(ranks: u64) -> io::Result<StatusBoard> {
        SharedNumbers::new(count(ranks)).map(StatusBoard::of)
    }

    /// Creates a board for processes that are not children of this one; returns the path under which they open it.
    pub fn public(ranks: u64) -> io::Result<(StatusBoard, String)> {
        let (numbers, file) = SharedNumbers::in_memory_file(count(ranks))?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        // The path works as long as the file is open, which is as long as this process lives.
        std::mem::forget(file);
        Ok((StatusBoard::of(numbers), path))
    }

    /// Opens the board of another process.
    pub fn at(path: &Path, ranks: u64) -> io::Result<StatusBoard> {
        SharedNumbers::of_file(count(ranks), path).map(StatusBoard::of)
    }

    fn of(numbers: SharedNumbers) -> StatusBoard {
        // Ranks live as long as the run.
        StatusBoard(Box::leak(Box::new(numbers)))
    }

    /// Declares that this process is this rank.
    pub fn join(&self, rank: u64) {
        let _ = BOARD.set(self.clone());
        RANK.store(rank, Ordering::Relaxed);
    }

    fn number(&self, rank: u64, place: usize) -> &AtomicU64 {
        self.0.at(HEAD + rank as usize * WIDTH + place)
    }

    /// Leaves bytes; those beyond the size of the field are cut off.
    fn leave(&self, rank: u64, field: &Field, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(field.bytes)];
        for (place, part) in bytes.chunks(8).enumerate() {
            let mut eight = [0; 8];
            eight[..part.len()].copy_from_slice(part);
            self.number(rank, field.start + 1 + place).store(u64::from_le_bytes(eight), Ordering::Relaxed);
        }
        self.number(rank, field.start).store(1 + bytes.len() as u64, Ordering::Release);
    }

    /// Returns the bytes that a rank left.
    fn left(&self, rank: u64, field: &Field) -> Option<Vec<u8>> {
        let length = self.number(rank, field.start).load(Ordering::Acquire).checked_sub(1)? as usize;
        let places = 0..field.bytes / 8;
        let words = places.map(|place| self.number(rank, field.start + 1 + place).load(Ordering::Relaxed));
        let bytes = words.flat_map(u64::to_le_bytes).take(length);
        Some(bytes.collect())
    }

    fn note_failure(&self, rank: u64, failure: &Failure) {
        let first_line = failure.what.lines().next().unwrap_or_default();
        self.leave(rank, &FAILURE, &[&failure.exit_code().to_le_bytes(), first_line.as_bytes()].concat());
        // An interrupt reaches all ranks, and without a message another rank is the cause.
        if failure.kind != Kind::Interrupted && !failure.what.is_empty() {
            let _ = self.0.at(0).compare_exchange(0, 1 + rank, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    fn failure(&self, rank: u64) -> Option<(i32, String)> {
        let bytes = self.left(rank, &FAILURE)?;
        let (code, text) = bytes.split_first_chunk::<4>()?;
        Some((i32::from_le_bytes(*code), String::from_utf8_lossy(text).into_owned()))
    }

    fn first_failed(&self) -> Option<u64> {
        self.0.at(0).load(Ordering::Acquire).checked_sub(1)
    }
}

/// Notes the failure of this rank for the others, before it leaves them.
pub fn note_failure(failure: &Failure) {
    if let (Some(board), Some(rank)) = (BOARD.get(), own_rank()) {
        board.note_failure(rank, failure);
    }
}

/// Returns the exit code with which a rank leaves after a failure, and the first line of the failure, which is empty if
/// another rank is the cause.
pub fn failure(rank: u64) -> Option<(i32, String)> {
    BOARD.get()?.failure(rank)
}

/// Returns the rank that was the first to fail on its own; a killed rank cannot note it.
pub fn first_failed() -> Option<u64> {
    BOARD.get()?.first_failed()
}

/// Leaves the final bytes of this rank.
pub fn note_last_bytes(bytes: &[u8]) {
    if let (Some(board), Some(rank)) = (BOARD.get(), own_rank()) {
        board.leave(rank, &LAST_BYTES, bytes);
    }
}

/// Returns the final bytes of a rank.
pub fn last_bytes(rank: u64) -> Option<Vec<u8>> {
    BOARD.get()?.left(rank, &LAST_BYTES)
}

/// Returns the rank of this process, or of the process that forked it, if there are several ranks.
pub fn own_rank() -> Option<u64> {
    Some(RANK.load(Ordering::Relaxed)).filter(|rank| *rank != NONE)
}

/// Notes that a span has started in this process.
#[inline]
pub fn note(name: &str, values: &[(&'static str, u64)]) {
    let rank = RANK.load(Ordering::Relaxed);
    if rank == NONE {
        return;
    }
    let (Some(board), Some(stage)) = (BOARD.get(), STAGES.iter().position(|stage| *stage == name)) else { return };
    let value = |key: &str| values.iter().find(|(known, _)| *known == key).map_or(NONE, |(_, value)| *value);
    let numbers = [stage as u64 + 1, monotonic_millis() as u64, value("epoch"), value("step").min(value("checkpoint"))];
    numbers
        .into_iter()
        .enumerate()
        .for_each(|(place, number)| board.number(rank, place).store(number, Ordering::Relaxed));
}

/// "last began compute (epoch 2, step 14) 61 s ago"
pub fn last(rank: u64) -> Option<String> {
    let board = BOARD.get()?;
    let number = |place| board.number(rank, place).load(Ordering::Relaxed);
    let stage = STAGES.get(number(0).checked_sub(1)? as usize)?;
    let since = (monotonic_millis() as u64).saturating_sub(number(1)) as f64 / 1e3;
    let counted = if stage.starts_with("checkpoint") { "checkpoint" } else { "step" };
    let parts: Vec<String> = [("epoch", number(2)), (counted, number(3))]
        .into_iter()
        .filter(|(_, value)| *value != NONE)
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    let parts = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    Some(format!("last started {stage}{parts} {since:.1} s ago"))
}

/// Returns the warning about a rank that does not arrive at a barrier.
pub fn missing(rank: u64, waited: Duration) -> String {
    let doing = last(rank).unwrap_or_else(|| "has not started".into());
    format!("rank {rank} has not reached the barrier for {:.0} s: it {doing}", waited.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_failure_and_last_bytes_remain() {
        let board = StatusBoard::new(3).unwrap();
        assert_eq!((board.first_failed(), board.failure(2), board.left(2, &LAST_BYTES)), (None, None, None));
        board.note_failure(0, &Failure::interrupted());
        board.note_failure(1, &Failure::new(Kind::System, ""));
        board.note_failure(2, &Failure::new(Kind::DamagedData, "a file\nmore").remedy("x"));
        board.note_failure(1, &Failure::new(Kind::System, "later"));
        assert_eq!(board.first_failed(), Some(2));
        assert_eq!(board.failure(2), Some((5, "a file".into())));
        board.leave(2, &LAST_BYTES, &[7; 13]);
        assert_eq!(board.left(2, &LAST_BYTES), Some(vec![7; 13]));
        board.leave(0, &LAST_BYTES, &[8; 1000]);
        assert_eq!(board.left(0, &LAST_BYTES), Some(vec![8; 512]));
        assert_eq!((board.left(1, &LAST_BYTES), board.failure(2).unwrap().0), (None, 5));
    }
}
