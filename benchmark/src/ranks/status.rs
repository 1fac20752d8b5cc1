//! The last span that each rank of a run started, in memory that all ranks see. A rank waiting at a barrier can report
//! what a missing rank is doing.
//!
//! Ranks write through [`note`], which every span of theirs passes; spans of loader workers and writers have other
//! names.

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

/// Numbers per rank: the stage plus one, the time, and two more with the values of the span.
const WIDTH: usize = 4;
const NONE: u64 = u64::MAX;

static BOARD: OnceLock<StatusBoard> = OnceLock::new();
static RANK: AtomicU64 = AtomicU64::new(NONE);

#[derive(Clone)]
pub struct StatusBoard(&'static SharedNumbers);

impl StatusBoard {
    pub fn new(ranks: u64) -> io::Result<StatusBoard> {
        SharedNumbers::new(ranks as usize * WIDTH).map(StatusBoard::of)
    }

    /// Creates a board for processes that are not children of this one; returns the path under which they open it.
    pub fn public(ranks: u64) -> io::Result<(StatusBoard, String)> {
        let (numbers, file) = SharedNumbers::in_memory_file(ranks as usize * WIDTH)?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        // The path works as long as the file is open, which is as long as this process lives.
        std::mem::forget(file);
        Ok((StatusBoard::of(numbers), path))
    }

    /// Opens the board of another process.
    pub fn at(path: &Path, ranks: u64) -> io::Result<StatusBoard> {
        SharedNumbers::of_file(ranks as usize * WIDTH, path).map(StatusBoard::of)
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
        self.0.at(rank as usize * WIDTH + place)
    }
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
