//! The first page of the ring file: the data that a reader finds if the process was killed, and counters used by the
//! whole tracer. It is created at the first event, and earlier counts are added to it at that time.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*, compiler_fence};

use dlio_schemas::clock::Anchor;
use dlio_schemas::native::ring::{self, header};

use crate::kernel::{clock, single_thread_atomics};

/// The pointer to the page: on a page that a forked child finds zeroed, however it was forked.
static CELL: AtomicPtr<AtomicPtr<u8>> = AtomicPtr::new(std::ptr::null_mut());
static LOST_EARLY: AtomicU64 = AtomicU64::new(0);

/// Returns the page, or null while there is no image.
pub fn page() -> *mut u8 {
    let cell = CELL.load(Acquire);
    // SAFETY: the cell, once mapped, is permanent.
    if cell.is_null() { std::ptr::null_mut() } else { unsafe { (*cell).load(Acquire) } }
}

/// Publishes the page of an image, or null if there is none. The first time, `new_cell` returns the cell for the
/// pointer, or null without memory; in that case this returns `false`.
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
    // SAFETY: the cell is mapped permanently, and zeroed or written only by this function.
    unsafe { (*cell).store(page, Release) };
    true
}

/// Returns the whole page; `None` while there is no image.
pub fn bytes() -> Option<&'static [u8]> {
    let page = page();
    // SAFETY: the page is permanent, and the parts that are read are constant or separate numbers.
    (!page.is_null()).then(|| unsafe { std::slice::from_raw_parts(page, ring::HEADER_SIZE) })
}

/// Returns the facts of the process.
pub fn facts(page: &[u8]) -> &[u8] {
    let used = u32::from_le_bytes([0, 1, 2, 3].map(|i| page[header::FIELDS_USED + i])) as usize;
    &page[header::FIELDS..header::FIELDS + used]
}

/// Adds to the facts of the process, under the image lock. Returns `false` if there is no space.
pub fn add_facts(facts: &[u8]) -> bool {
    let page = page();
    if page.is_null() {
        return false;
    }
    // SAFETY: the page is mapped, and the part after its facts is written only under the lock.
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

/// Returns a counter in the ring's header page.
pub fn counter(at: usize) -> Option<&'static AtomicU64> {
    let page = page();
    // SAFETY: the page is permanent, and the offsets are multiples of eight within it.
    (!page.is_null()).then(|| unsafe { AtomicU64::from_ptr(page.add(at).cast()) })
}

pub fn count(at: usize, n: u64) -> bool {
    counter(at).map(|counter| counter.fetch_add(n, Relaxed)).is_some()
}

pub fn count_at(at: usize) -> u64 {
    counter(at).map_or(0, |counter| counter.load(Relaxed))
}

/// Counts events that happened and could not be recorded.
pub fn count_lost(n: u64) {
    if n > 0 && !count(header::LOST, n) {
        LOST_EARLY.fetch_add(n, Relaxed);
    }
}

/// Takes back events that counted as lost while they were queued, because they are recorded now.
pub fn take_back_lost(n: u64) {
    match counter(header::LOST) {
        Some(lost) => drop(lost.fetch_sub(n, Relaxed)),
        None => drop(LOST_EARLY.fetch_sub(n, Relaxed)),
    }
}

/// Counts events added to the table of counts: after a kill this is the only record of them if the table is private
/// memory.
pub fn note_tallied(n: u64) {
    count(header::TALLIED, n);
}

/// Counts calls that a filter excluded.
pub fn count_filtered() {
    counter(header::FILTERED).into_iter().for_each(single_thread_atomics::count_one);
}

pub fn count_names_lost(n: u64) {
    count(header::NAMES_LOST, n);
}

pub fn count_misused_span() {
    count(header::MISUSED_SPANS, 1);
}

/// Returns the number of events lost without an image.
pub fn lost_early() -> u64 {
    LOST_EARLY.load(Relaxed)
}

/// Counts the ticks of the tracer's slow path.
pub fn count_own_time(ticks: u64) {
    count(header::TRACER_TICKS, ticks);
}

/// Updates the clock anchor, for a reader after a kill.
pub fn refresh_anchor() {
    let now = clock::anchor();
    for (i, value) in [now.ticks, now.boot_ns, now.real_ns].into_iter().enumerate() {
        if let Some(place) = counter(header::LAST_ANCHOR + 8 * i) {
            place.store(value, Relaxed);
        }
    }
}

/// Adds the losses that were counted before the page existed.
pub fn count_early_losses() {
    count_lost(LOST_EARLY.swap(0, Relaxed));
}

/// Forgets earlier losses, which belong to another process.
pub fn forget_early_losses() {
    LOST_EARLY.store(0, Relaxed);
}
