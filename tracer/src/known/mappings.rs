//! Addresses that map files: a `munmap` or `madvise` is an event only if it affects a file.
//!
//! A table of fixed size, written under a lock and read without one. If it is full, a new mapping is not noted, so
//! its end is not an event. Most calls affect plain memory and are rejected by two comparisons.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};

use crate::kernel::sys;
use crate::known::number;
use crate::thread::lock::Lock;

/// Maximum number of mappings noted at a time: 24 bytes each, in memory that is not touched before the first.
const SLOTS: usize = 4096;

#[repr(C)]
struct Mapping {
    start: AtomicUsize,
    /// Zero marks a free slot.
    end: AtomicUsize,
    file: AtomicU32,
}

static LOCK: Lock = Lock::new();
static TABLE: AtomicPtr<Mapping> = AtomicPtr::new(std::ptr::null_mut());
/// Number of slots ever used.
static USED: AtomicUsize = AtomicUsize::new(0);
/// The address range that contains every mapping noted so far.
static LOWEST: AtomicUsize = AtomicUsize::new(usize::MAX);
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

/// Notes that a file was mapped. A fixed mapping removes the mappings it replaces.
pub fn add(start: usize, size: usize, file: u32) {
    let Some(_held) = LOCK.take() else { return };
    cut(start, start.saturating_add(size));
    put(start, start.saturating_add(size), file);
}

/// Returns the file mapped at `start`, or the first one mapped after it, if that is before `start + size`.
#[inline(always)]
pub fn file(start: usize, size: usize) -> Option<u32> {
    if start >= HIGHEST.load(Relaxed) || start.saturating_add(size) <= LOWEST.load(Relaxed) {
        return None;
    }
    search(start, start.saturating_add(size))
}

/// Removes a range that is about to be unmapped. Call this before the real call: afterwards another thread may reuse
/// the addresses.
pub fn remove(start: usize, size: usize) {
    if let Some(_held) = LOCK.take() {
        cut(start, start.saturating_add(size));
    }
}

/// Forgets the file numbers, which are no longer valid, but not that these addresses map files.
pub fn forget_files() {
    LOCK.reset();
    places().iter().for_each(|place| place.file.store(number::NONE, Relaxed));
}

fn places() -> &'static [Mapping] {
    let table = TABLE.load(Acquire);
    // SAFETY: the table has PLACES slots, for which zeroed memory is a value, and is never unmapped.
    if table.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(table, USED.load(Acquire).min(SLOTS)) } }
}

#[cold]
fn search(start: usize, end: usize) -> Option<u32> {
    let overlaps = |place: &&Mapping| place.start.load(Relaxed) < end && start < place.end.load(Acquire);
    places().iter().filter(overlaps).min_by_key(|place| place.start.load(Relaxed)).map(|place| place.file.load(Relaxed))
}

/// Removes a range from every mapping. Call this under the lock.
fn cut(start: usize, end: usize) {
    for place in places() {
        let (from, to) = (place.start.load(Relaxed), place.end.load(Relaxed));
        if from >= end || start >= to {
            continue;
        }
        place.end.store(if from < start { start } else { 0 }, Release);
        if end < to {
            put(end, to, place.file.load(Relaxed));
        }
    }
}

/// Fills a free slot. Call this under the lock.
fn put(start: usize, end: usize, file: u32) {
    if TABLE.load(Acquire).is_null() {
        TABLE.store(sys::map_memory(SLOTS * size_of::<Mapping>()).cast(), Release);
    }
    if !places().iter().any(|place| place.end.load(Relaxed) == 0) {
        let used = USED.load(Relaxed);
        if used == SLOTS || TABLE.load(Relaxed).is_null() {
            return;
        }
        USED.store(used + 1, Release);
    }
    if let Some(place) = places().iter().find(|place| place.end.load(Relaxed) == 0) {
        place.start.store(start, Relaxed);
        place.file.store(file, Relaxed);
        place.end.store(end, Release);
        LOWEST.fetch_min(start, Relaxed);
        HIGHEST.fetch_max(end, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_mapping_can_be_removed() {
        add(0x10_0000, 0x5000, 7);
        add(0x20_0000, 0x1000, 8);
        assert_eq!((file(0x10_0000, 1), file(0x10_4fff, 1), file(0x10_5000, 1)), (Some(7), Some(7), None));
        assert_eq!(file(0x0f_0000, 0x2_0000), Some(7));
        remove(0x10_1000, 0x1000);
        assert_eq!((file(0x10_0000, 1), file(0x10_1000, 0x1000), file(0x10_2000, 1)), (Some(7), None, Some(7)));
        remove(0, 0x10_4000);
        assert_eq!((file(0x10_0000, 0x4000), file(0x10_4000, 1)), (None, Some(7)));
        add(0x20_0000, 0x1000, 9);
        assert_eq!(file(0x20_0000, 1), Some(9));
        remove(0x10_0000, 0x20_0000);
        assert_eq!(file(0, usize::MAX), None);
    }
}
