//! Calls that wait for others: which of them are worth an event.
//!
//! `sem_wait` on a semaphore that is free and `poll` without a timeout did not wait. There are a hundred of them for one
//! that did, and they say nothing about where the time went: they are counted as left out and not recorded. What tells
//! them apart is the time they took, so that nothing has to be asked before the real call.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use dlio_schemas::ops::Op;

use crate::calls::call::Done;
use crate::kernel::clock;
use crate::known::number;
use crate::naming::descriptor_files;
use crate::process::config;
use crate::trace::header_page;

/// A thread that sleeps and is woken at once takes about as long; a call that finds what it came for, a tenth of it.
pub const SHORT_NS: u64 = 10_000;

/// In ticks; zero while nobody knows how many that are.
static SHORT_TICKS: AtomicU64 = AtomicU64::new(0);

/// The time the process has to have run before its own clock is good enough for [`SHORT_NS`].
const MEASURED_NS: u64 = 1_000_000;

/// Records a call that waited; `outcome` is its result as the operation's row has it.
pub fn waited(done: Done, op: Op, fd: i32, a: i64, b: i64, outcome: i64) {
    if is_short(done.duration) {
        return header_page::count_filtered();
    }
    done.record(op, number::NONE, fd, (a, true), b, outcome);
}

/// Records a call that waited for descriptors and found `fd` ready; -1 where it found none.
pub fn waited_for(done: Done, op: Op, fd: i32, a: i64, b: i64, outcome: i64) {
    if is_short(done.duration) {
        return header_page::count_filtered();
    }
    // A filter leaves files out, not the time that is waited for them.
    let file = match descriptor_files::file(fd) {
        number::FILTERED => number::NONE,
        file => file,
    };
    done.record(op, file, fd, (a, true), b, outcome);
}

/// True for a call that took too little time to have waited.
pub fn is_short(ticks: u64) -> bool {
    let known = SHORT_TICKS.load(Relaxed);
    ticks < if known != 0 { known } else { short_ticks() }
}

#[cold]
fn short_ticks() -> u64 {
    if config::get().short_waits {
        SHORT_TICKS.store(1, Relaxed);
        return 1;
    }
    let now = clock::anchor();
    let ticks = (SHORT_NS as u128 * clock::rate_hz(&now) as u128 / 1_000_000_000).max(1) as u64;
    if clock::age_ns(&now) >= MEASURED_NS {
        SHORT_TICKS.store(ticks, Relaxed);
    }
    ticks
}
