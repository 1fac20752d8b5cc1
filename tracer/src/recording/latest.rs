//! Values that change while the process runs: read when a block is written (at most once a second), when the program
//! pins its threads, and at the end. They are on the ring's first page, where a reader finds them if the process was
//! killed.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use dlio_schemas::native::fields::{FieldWriter, LATEST, key};
use dlio_schemas::native::ring::header;

use crate::kernel::limits::{Limit, Limits};
use crate::kernel::sys::CpuMask;
use crate::kernel::{machine, sys};
use crate::process::usage::{self, Depth};
use crate::process::{own_limits, process_info};
use crate::recording::phase;
use crate::trace::files::LOCK;
use crate::trace::header_page;

/// Minimum time between two readings.
const EVERY_NS: u64 = 1_000_000_000;

/// A younger process does not pay for files of /proc.
const SHORT_NS: u64 = 10_000_000;

/// Number of calls that pin a thread and cause an immediate reading, and number of those after which the list of CPUs
/// is also noted. A program may move its threads all the time.
const PINS_MAX: u32 = 16;
const LISTS_MAX: u32 = 4;

/// Number of changes of the process's own limits that are noted before its end.
const CHANGES_MAX: u32 = 4;

/// Time of the last reading.
static LAST: AtomicU64 = AtomicU64::new(0);
static PINS: AtomicU32 = AtomicU32::new(0);
static CHANGES: AtomicU32 = AtomicU32::new(0);

/// Resets the counts for a new image.
pub fn begin() {
    PINS.store(0, Relaxed);
    CHANGES.store(0, Relaxed);
}

/// Returns `true` if the kernel may be queried: a seccomp filter may end the process for a system call that its
/// author did not expect.
fn may_ask() -> bool {
    !phase::is_strict() && !phase::is_filtered()
}

/// Handles a written block.
pub fn at_block() {
    let now = sys::clock_ns(libc::CLOCK_MONOTONIC_COARSE);
    let last = LAST.load(Relaxed);
    let is_due = now.saturating_sub(last) >= EVERY_NS && may_ask() && process_info::age_ns() >= EVERY_NS;
    if is_due && LAST.compare_exchange(last, now, Relaxed, Relaxed).is_ok() {
        read_values(sys::process_id(), Depth::Files);
        if own_limits::have_changed() && CHANGES.fetch_add(1, Relaxed) < CHANGES_MAX {
            add_facts(own_limits::write_changed);
        }
    }
}

/// Adds facts to the ring's first page, for a reader after a kill.
fn add_facts(write: impl FnOnce(&mut FieldWriter)) {
    if let Some(_held) = LOCK.take() {
        let mut bytes = [0; 192];
        let mut writer = FieldWriter::new(&mut bytes);
        write(&mut writer);
        let used = writer.used();
        header_page::add_facts(&bytes[..used]);
    }
}

/// Notes that the process has pinned one of its threads, or another process.
pub fn at_pin() {
    if header_page::page().is_null() || !may_ask() {
        return;
    }
    let pins = PINS.fetch_add(1, Relaxed);
    if pins >= PINS_MAX {
        return at_block();
    }
    let mask = read_values(sys::process_id(), Depth::Files);
    if let Some(mask) = mask.filter(|_| pins < LISTS_MAX) {
        add_facts(|writer| usage::list(writer, key::CPUS_LIST_END, &mask));
    }
}

/// Writes the values at the end.
pub fn at_end(writer: &mut FieldWriter) {
    if may_ask() {
        let depth = if process_info::age_ns() >= SHORT_NS { Depth::Files } else { Depth::Calls };
        let mask = read_values(sys::process_id(), depth);
        mask.iter().for_each(|mask| usage::list(writer, key::CPUS_LIST_END, mask));
        if depth == Depth::Files {
            note_move(writer);
            note_shm(writer);
            own_limits::have_changed();
        }
        own_limits::write_changed(writer);
    }
    for (place, key) in LATEST.iter().enumerate() {
        let latest = header_page::count_at(header::LATEST + 8 * place).checked_sub(1);
        latest.into_iter().for_each(|value| writer.number(key, value.min(i64::MAX as u64) as i64));
    }
}

/// Reads the values, and returns the CPUs that the threads may run on.
fn read_values(pid: i32, depth: Depth) -> Option<CpuMask> {
    let told = machine::limits();
    let cpus = usage::cpus_of_threads(pid, told.as_ref().map_or(u64::MAX, |(cores, _)| *cores), depth);
    let latest = usage::latest(cpus.as_ref(), depth, told.as_ref().map(|(_, limits)| limits));
    for (place, value) in latest.into_iter().enumerate() {
        if let (Some(value), Some(counter)) = (value, header_page::counter(header::LATEST + 8 * place)) {
            counter.store(value.saturating_add(1), Relaxed);
        }
    }
    cpus
}

/// Writes the size of `/dev/shm` if it is not the recorded one, as in another mount namespace than the parent's.
fn note_shm(writer: &mut FieldWriter) {
    let told = machine::limits().map(|(_, limits)| limits.shm);
    if let Some(size) = sys::file_system_size(c"/dev/shm")
        && told.is_some_and(|told| told != Limit::Of(size))
    {
        writer.number(key::SHM_SIZE, size as i64);
    }
}

/// Writes the limits of the process's current groups, if they differ from the recorded ones.
fn note_move(writer: &mut FieldWriter) {
    if machine::limits().is_some_and(|(_, limits)| !limits.apply_here())
        && let Some(_held) = LOCK.take()
    {
        let limits = Limits::query(b"");
        usage::of_groups(writer, &limits);
        // A default replaces the recorded weight of the former group.
        limits.weight.into_iter().for_each(|weight| usage::of_weight(writer, weight));
    }
}
