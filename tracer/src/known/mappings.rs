//! Addresses that are files: a `munmap` or `madvise` is an event where it concerns a file, and only there.
//!
//! A table of fixed size, written under a lock and read without one. A mapping that finds no room is not remembered: its
//! end is then not an event. Most calls concern plain memory and are turned away by two comparisons.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};

use crate::kernel::sys;
use crate::known::number;
use crate::thread::lock::Lock;

/// Mappings remembered at once: 24 bytes each, in memory that is not touched before the first.
const PLACES: usize = 4096;

#[repr(C)]
struct Mapping {
    start: AtomicUsize,
    /// Zero marks a free place.
    end: AtomicUsize,
    file: AtomicU32,
}

static LOCK: Lock = Lock::new();
static TABLE: AtomicPtr<Mapping> = AtomicPtr::new(std::ptr::null_mut());
/// Places ever used.
static USED: AtomicUsize = AtomicUsize::new(0);
/// All mappings there ever were lie between these.
static LOWEST: AtomicUsize = AtomicUsize::new(usize::MAX);
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

/// A file was mapped. What a fixed mapping replaces is gone.
pub fn add(start: usize, size: usize, file: u32) {
    let Some(_held) = LOCK.take() else { return };
    cut(start, start.saturating_add(size));
    put(start, start.saturating_add(size), file);
}

/// The file mapped at or first after `start`, if any is before `start + size`.
#[inline(always)]
pub fn file(start: usize, size: usize) -> Option<u32> {
    if start >= HIGHEST.load(Relaxed) || start.saturating_add(size) <= LOWEST.load(Relaxed) {
        return None;
    }
    search(start, start.saturating_add(size))
}

/// Addresses are about to be given up; said before the call, after which they may be another thread's.
pub fn remove(start: usize, size: usize) {
    if let Some(_held) = LOCK.take() {
        cut(start, start.saturating_add(size));
    }
}

/// File numbers have lost their meaning; that these are files has not.
pub fn forget_files() {
    LOCK.reset();
    places().iter().for_each(|place| place.file.store(number::NONE, Relaxed));
}

fn places() -> &'static [Mapping] {
    let table = TABLE.load(Acquire);
    // SAFETY: the table has PLACES places, for which zeroed memory is a value, and is never unmapped.
    if table.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(table, USED.load(Acquire).min(PLACES)) } }
}

#[cold]
fn search(start: usize, end: usize) -> Option<u32> {
    let overlaps = |place: &&Mapping| place.start.load(Relaxed) < end && start < place.end.load(Acquire);
    places().iter().filter(overlaps).min_by_key(|place| place.start.load(Relaxed)).map(|place| place.file.load(Relaxed))
}

/// Takes a range out of every mapping. Under the lock.
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

/// Fills a free place. Under the lock.
fn put(start: usize, end: usize, file: u32) {
    if TABLE.load(Acquire).is_null() {
        TABLE.store(sys::map_memory(PLACES * size_of::<Mapping>()).cast(), Release);
    }
    if !places().iter().any(|place| place.end.load(Relaxed) == 0) {
        let used = USED.load(Relaxed);
        if used == PLACES || TABLE.load(Relaxed).is_null() {
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
    fn parts_of_a_mapping_can_go() {
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
