//! Counters of a thread as records, directly before the event that they belong to.

use std::sync::atomic::Ordering::*;

use dlio_schemas::ops::Layer;

use crate::kernel::switches::SWITCHES;
use crate::kernel::{clock, sys};
use crate::known::number;
use crate::process::config;
use crate::recording::{phase, ring};
use crate::thread::evidence::{Evidence, Precision};
use crate::thread::local::local;
use crate::trace::tally;

/// In tens of microseconds: the age of the previous counters at which a message takes new ones, and the minimum
/// duration of a wait for which the run delay is read.
const LONG: u64 = 100;
/// Minimum time between two readings of the run delay, in tens of microseconds. A reading takes up to 16 us, which is
/// too much in a short-lived process.
const DELAY_EVERY: u64 = 1000;

/// Returns `true` if waits are recorded and events are not only counted.
fn are_wanted() -> bool {
    let may = phase::mode() & 1 << Layer::Wait as u32 != 0 && !phase::is_filtered();
    may && !tally::is_on() && !config::get().counts
}

/// Takes counters before the record of a wait that ended at tick `end`.
pub fn at_wait(end: u64, duration: u64) {
    let ten_us = clock::ten_us();
    // Short ones are recorded only at the user's request.
    if duration >= ten_us {
        // SAFETY: the evidence is this thread's own.
        let is_due = || unsafe { Evidence::age_of_delay(&raw const (*local()).evidence, end) } >= DELAY_EVERY * ten_us;
        put(end, Precision { exact_cpu: false, run_delay: duration >= LONG * ten_us && is_due() });
    }
}

/// File type of an eventfd, which has none.
const NO_TYPE: u32 = 0;

/// Takes counters before the record of a read or write on a pipe, a socket or an eventfd, if the previous counters are old: a
/// thread that only works passes on its results and may never wait.
#[cold]
#[inline(never)]
pub fn at_message(start: u64, duration: u64, file: u32, fd: i32) {
    // Excluded events take no counters.
    if duration < SWITCHES.min_ticks.load(Relaxed) || file == number::FILTERED {
        return;
    }
    let end = start.wrapping_add(duration);
    let old = LONG * clock::ten_us();
    // SAFETY: the evidence is this thread's own.
    unsafe {
        let evidence = &raw mut (*local()).evidence;
        if Evidence::age(evidence, end) < old || Evidence::is_silent(evidence, fd, end, old) || !are_wanted() {
            return;
        }
        if ![libc::S_IFIFO, libc::S_IFSOCK, NO_TYPE].contains(&sys::type_device_and_inode(fd).0) {
            return Evidence::note_silent(evidence, fd, end, old);
        }
    }
    // SAFETY: as above.
    let is_due =
        unsafe { Evidence::age_of_delay(&raw const (*local()).evidence, end) } >= DELAY_EVERY * clock::ten_us();
    put(end, Precision { exact_cpu: true, run_delay: is_due });
}

/// Takes counters before the record of a mapping of a file, if the previous counters are old: page faults after it are
/// reads of the file, and a thread that only maps and computes may never wait.
#[cold]
#[inline(never)]
pub fn at_mapping(end: u64, duration: u64, file: u32) {
    if duration < SWITCHES.min_ticks.load(Relaxed) || file == number::FILTERED {
        return;
    }
    put_if_old(end, LONG);
}

/// Takes counters at a post that ends a wait, if the previous counters are old. Returns `true` if they were taken:
/// they belong to the next event.
pub fn at_post() -> bool {
    put_if_old(clock::ticks(), DELAY_EVERY)
}

/// Records the work of a thread since its last counters when the thread or the process ends, if there may be much of this work.
/// A thread without earlier counters neither waited nor passed anything on.
pub fn at_end() {
    // SAFETY: the evidence is this thread's own.
    if unsafe { Evidence::is_used(&raw const (*local()).evidence) } {
        put_if_old(clock::ticks(), LONG);
    }
}

/// Takes counters of a thread that has not just slept, if the previous ones are older than some tens of microseconds. Returns
/// `true` if they were due.
fn put_if_old(now: u64, old: u64) -> bool {
    let ten_us = clock::ten_us();
    // SAFETY: the evidence is this thread's own.
    let (age, age_of_delay) = unsafe {
        let evidence = &raw const (*local()).evidence;
        (Evidence::age(evidence, now), Evidence::age_of_delay(evidence, now))
    };
    let is_due = age >= old * ten_us && are_wanted();
    if is_due {
        put(now, Precision { exact_cpu: true, run_delay: age_of_delay >= DELAY_EVERY * ten_us });
    }
    is_due
}

fn put(end: u64, care: Precision) {
    // SAFETY: the line is this thread's own.
    unsafe {
        // In a handler inside the tracer's slow path, only a few events can be kept.
        if !are_wanted() || (*local()).busy != 0 {
            return;
        }
        if let Some(counters) = Evidence::take(&raw mut (*local()).evidence, end, care) {
            ring::put(counters.record(end));
        }
    }
}
