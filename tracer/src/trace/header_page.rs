//! The first page of the ring file: what a reader finds of a process that was killed, and counters that all of the tracer
//! adds to. It comes with the first event; what is counted before is added to it.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*, compiler_fence};

use dlio_schemas::clock::Anchor;
use dlio_schemas::native::ring::{self, header};

use crate::kernel::{clock, single_thread_atomics};

/// The pointer to the page: on a page that a forked child finds zeroed, however it was forked.
static CELL: AtomicPtr<AtomicPtr<u8>> = AtomicPtr::new(std::ptr::null_mut());
static LOST_EARLY: AtomicU64 = AtomicU64::new(0);

/// The page, or null while there is no image.
pub fn page() -> *mut u8 {
    let cell = CELL.load(Acquire);
    // SAFETY: the cell, once mapped, stays.
    if cell.is_null() { std::ptr::null_mut() } else { unsafe { (*cell).load(Acquire) } }
}

/// Publishes the page of an image, or that there is none. The first time `new_cell` gives the place that points to it, or
/// null without memory; then this is `false`.
pub fn publish(page: *mut u8, new_cell: impl FnOnce() -> *mut AtomicPtr<u8>) -> bool {
    let mut cell = CELL.load(Acquire);
    if cell.is_null() && page.is_null() {
        return true;
    }
    if cell.is_null() {
        cell = new_cell();
        if cell.is_null() {
            return false;
        }
        CELL.store(cell, Release);
    }
    // SAFETY: the cell is mapped for good, zeroed or written by this function only.
    unsafe { (*cell).store(page, Release) };
    true
}

/// All of it; `None` while there is no image.
pub fn bytes() -> Option<&'static [u8]> {
    let page = page();
    // SAFETY: the page stays mapped, and what is read of it is constant or a number of its own.
    (!page.is_null()).then(|| unsafe { std::slice::from_raw_parts(page, ring::HEADER_SIZE) })
}

/// Facts of the process.
pub fn facts(page: &[u8]) -> &[u8] {
    let used = u32::from_le_bytes([0, 1, 2, 3].map(|i| page[header::FIELDS_USED + i])) as usize;
    &page[header::FIELDS..header::FIELDS + used]
}

/// Adds to the facts of the process, under the lock of the image. `false` where they have no room.
pub fn add_facts(facts: &[u8]) -> bool {
    let page = page();
    if page.is_null() {
        return false;
    }
    // SAFETY: the page is mapped, and what follows its facts is written under the lock alone.
    let page = unsafe { std::slice::from_raw_parts_mut(page, ring::HEADER_SIZE) };
    let used = u32::from_le_bytes([0, 1, 2, 3].map(|i| page[header::FIELDS_USED + i])) as usize;
    let Some(room) = page[header::FIELDS + used..].get_mut(..facts.len()) else { return false };
    room.copy_from_slice(facts);
    compiler_fence(Release);
    // Last, for a reader after a kill.
    page[header::FIELDS_USED..header::FIELDS_USED + 4].copy_from_slice(&((used + facts.len()) as u32).to_le_bytes());
    true
}

pub fn read_anchor(page: &[u8], at: usize) -> Anchor {
    let number = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"));
    Anchor { ticks: number(at), boot_ns: number(at + 8), real_ns: number(at + 16) }
}

/// A number in the ring's header page.
pub fn counter(at: usize) -> Option<&'static AtomicU64> {
    let page = page();
    // SAFETY: the page stays mapped, and the offsets are multiples of eight within it.
    (!page.is_null()).then(|| unsafe { AtomicU64::from_ptr(page.add(at).cast()) })
}

pub fn count(at: usize, n: u64) -> bool {
    counter(at).map(|counter| counter.fetch_add(n, Relaxed)).is_some()
}

pub fn count_at(at: usize) -> u64 {
    counter(at).map_or(0, |counter| counter.load(Relaxed))
}

/// Events that happened and could not be recorded.
pub fn count_lost(n: u64) {
    if n > 0 && !count(header::LOST, n) {
        LOST_EARLY.fetch_add(n, Relaxed);
    }
}

/// Events that counted as lost while they waited are recorded after all.
pub fn take_back_lost(n: u64) {
    match counter(header::LOST) {
        Some(lost) => drop(lost.fetch_sub(n, Relaxed)),
        None => drop(LOST_EARLY.fetch_sub(n, Relaxed)),
    }
}

/// Events have gone into the table of counts: after a kill nobody else knows of them where the table is private memory.
pub fn note_tallied(n: u64) {
    count(header::TALLIED, n);
}

/// Calls that a filter left out.
pub fn count_filtered() {
    counter(header::FILTERED).into_iter().for_each(single_thread_atomics::count_one);
}

pub fn count_names_lost(n: u64) {
    count(header::NAMES_LOST, n);
}

pub fn count_misused_span() {
    count(header::MISUSED_SPANS, 1);
}

/// Events of which no image can tell, because there is none.
pub fn lost_early() -> u64 {
    LOST_EARLY.load(Relaxed)
}

/// Ticks the tracer's slow path took.
pub fn count_own_time(ticks: u64) {
    count(header::TRACER_TICKS, ticks);
}

/// Notes where the clocks stand, for a reader after a kill.
pub fn refresh_anchor() {
    let now = clock::anchor();
    for (i, value) in [now.ticks, now.boot_ns, now.real_ns].into_iter().enumerate() {
        if let Some(place) = counter(header::LAST_ANCHOR + 8 * i) {
            place.store(value, Relaxed);
        }
    }
}

/// Adds what was counted as lost before there was a page.
pub fn count_early_losses() {
    count_lost(LOST_EARLY.swap(0, Relaxed));
}

/// Forgets losses before: they are another process's.
pub fn forget_early_losses() {
    LOST_EARLY.store(0, Relaxed);
}
