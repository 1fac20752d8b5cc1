//! A barrier in memory shared by all ranks of a host. No messages are sent: the last rank to arrive wakes the others.
//!
//! ```text
//! 0            rounds that all ranks have completed; waiting ranks sleep on this number
//! 1            arrivals of all ranks
//! 2 + 2 rank   arrivals of that rank
//! 3 + 2 rank   1 + the exit code the rank left with; 0 before
//! ```

use crate::system::shared_memory::SharedNumbers;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const OPEN: usize = 0;
const ALL: usize = 1;
const HEAD: usize = 2;
const WIDTH: usize = 2;

#[derive(Clone, Copy)]
pub struct SharedBarrier {
    numbers: &'static SharedNumbers,
    ranks: u64,
}

fn count(ranks: u64) -> usize {
    HEAD + WIDTH * ranks as usize
}

impl SharedBarrier {
    /// Creates a barrier for processes that this one forks.
    pub fn new(ranks: u64) -> io::Result<SharedBarrier> {
        SharedNumbers::new(count(ranks)).map(|numbers| SharedBarrier::of(numbers, ranks))
    }

    /// Creates a barrier for processes that are not children of this one; returns the path under which they open it.
    pub fn public(ranks: u64) -> io::Result<(SharedBarrier, String)> {
        let (numbers, file) = SharedNumbers::in_memory_file(count(ranks))?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        // The path works as long as the file is open, which is as long as this process lives.
        std::mem::forget(file);
        Ok((SharedBarrier::of(numbers, ranks), path))
    }

    /// Opens the barrier of another process.
    pub fn at(path: &Path, ranks: u64) -> io::Result<SharedBarrier> {
        SharedNumbers::of_file(count(ranks), path).map(|numbers| SharedBarrier::of(numbers, ranks))
    }

    fn of(numbers: SharedNumbers, ranks: u64) -> SharedBarrier {
        // Ranks live as long as the run.
        SharedBarrier { numbers: Box::leak(Box::new(numbers)), ranks }
    }

    fn of_rank(&self, rank: u64, which: usize) -> &AtomicU64 {
        self.numbers.at(HEAD + WIDTH * rank as usize + which)
    }

    /// Counts the arrival of a rank, and opens the barrier if it is the last; returns the number of the round.
    pub fn arrive(&self, rank: u64) -> u64 {
        let turn = self.note(rank);
        // The last rank sees everything that the others did before they arrived, and the ranks it wakes see it too.
        if self.numbers.at(ALL).fetch_add(1, Ordering::AcqRel) + 1 == turn * self.ranks {
            self.numbers.at(OPEN).store(turn, Ordering::Release);
            self.numbers.wake(OPEN);
        }
        turn
    }

    /// Counts the arrival of a rank at a barrier that is implemented elsewhere.
    pub fn note(&self, rank: u64) -> u64 {
        self.of_rank(rank, 0).fetch_add(1, Ordering::AcqRel) + 1
    }

    pub fn is_open(&self, turn: u64) -> bool {
        self.numbers.at(OPEN).load(Ordering::Acquire) >= turn
    }

    /// Sleeps until the barrier opens for this round, at most until the limit, or until a signal arrives.
    pub fn wait(&self, turn: u64, limit: Duration) {
        let open = self.numbers.at(OPEN).load(Ordering::Acquire);
        if open < turn {
            self.numbers.sleep_on(OPEN, open, limit);
        }
    }

    /// Returns the ranks that have not arrived for a round.
    pub fn missing(&self, turn: u64) -> Vec<u64> {
        (0..self.ranks).filter(|rank| self.of_rank(*rank, 0).load(Ordering::Acquire) < turn).collect()
    }

    pub fn note_farewell(&self, rank: u64, code: i32) {
        self.of_rank(rank, 1).store(1 + u64::from(code.unsigned_abs()), Ordering::Release);
    }

    /// Returns the exit code a rank left with.
    pub fn farewell(&self, rank: u64) -> Option<i32> {
        self.of_rank(rank, 1).load(Ordering::Acquire).checked_sub(1).map(|code| code as i32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_arrival_opens_the_barrier() {
        let gate = SharedBarrier::new(3).unwrap();
        assert_eq!((gate.arrive(0), gate.arrive(2), gate.is_open(1)), (1, 1, false));
        assert_eq!(gate.missing(1), [1]);
        assert_eq!((gate.arrive(1), gate.is_open(1), gate.is_open(2)), (1, true, false));
        assert_eq!(gate.arrive(1), 2);
        assert_eq!(gate.missing(2), [0, 2]);
    }

    #[test]
    fn sleeping_ranks_are_woken() {
        let gate = SharedBarrier::new(2).unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for _ in 0..1000 {
                    let turn = gate.arrive(1);
                    while !gate.is_open(turn) {
                        gate.wait(turn, Duration::from_secs(60));
                    }
                }
            });
            for _ in 0..1000 {
                let turn = gate.arrive(0);
                while !gate.is_open(turn) {
                    gate.wait(turn, Duration::from_secs(60));
                }
            }
        });
        assert!(gate.is_open(1000) && gate.missing(1000).is_empty());
    }

    #[test]
    fn a_farewell_has_its_code() {
        let gate = SharedBarrier::new(2).unwrap();
        gate.note_farewell(1, 0);
        assert_eq!((gate.farewell(0), gate.farewell(1)), (None, Some(0)));
        gate.note_farewell(1, 130);
        assert_eq!(gate.farewell(1), Some(130));
    }
}
