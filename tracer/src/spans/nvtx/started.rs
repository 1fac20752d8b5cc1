//! Ranges that a program started and has not ended yet, by their ids. They may end on another thread.
//!
//! The latest ranges are kept, without a lock. A range that never ends is replaced by the range that starts 1,024 ranges later.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use crate::kernel::clock;
use crate::recording::wiped_page;
use crate::trace::header_page;

/// More ranges than programs have open at a time.
const OPEN_MAX: usize = 1024;

struct Slot {
    /// Zero if the slot is free, or is being written.
    id: AtomicU64,
    start: AtomicU64,
    name: AtomicU32,
    category: AtomicU32,
    domain: AtomicU32,
    /// The image in which it started: a forked child does not end its parent's ranges.
    generation: AtomicU32,
}

crate::large! {
    static OPEN: [Slot; OPEN_MAX] = [const {
        Slot {
            id: AtomicU64::new(0),
            start: AtomicU64::new(0),
            name: AtomicU32::new(0),
            category: AtomicU32::new(0),
            domain: AtomicU32::new(0),
            generation: AtomicU32::new(0),
        }
    }; OPEN_MAX];
}

static LAST_ID: AtomicU64 = AtomicU64::new(0);

/// A range that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Started {
    pub start: u64,
    pub name: u32,
    pub category: u32,
    pub domain: u32,
}

fn slot(id: u64) -> &'static Slot {
    &OPEN[id as usize % OPEN_MAX]
}

/// Starts a range now, and returns its id.
pub fn start(name: u32, category: u32, domain: u32) -> u64 {
    let id = LAST_ID.fetch_add(1, Relaxed) + 1;
    let (slot, generation) = (slot(id), wiped_page::generation());
    if slot.id.swap(0, AcqRel) != 0 && slot.generation.load(Relaxed) == generation {
        header_page::count_lost(1);
    }
    slot.name.store(name, Relaxed);
    slot.category.store(category, Relaxed);
    slot.domain.store(domain, Relaxed);
    slot.generation.store(generation, Relaxed);
    slot.start.store(clock::ticks(), Relaxed);
    slot.id.store(id, Release);
    id
}

/// Removes a range; `None` if it is unknown, has ended, or started in another image.
pub fn end(id: u64) -> Option<Started> {
    let slot = slot(id);
    let is_known = id != 0 && slot.id.load(Acquire) == id;
    let range = Started {
        start: slot.start.load(Relaxed),
        name: slot.name.load(Relaxed),
        category: slot.category.load(Relaxed),
        domain: slot.domain.load(Relaxed),
    };
    let is_of_image = slot.generation.load(Relaxed) == wiped_page::generation();
    // If the slot was reused in the meantime, its id has changed, and the values are not used.
    let is_removed = is_known && slot.id.compare_exchange(id, 0, AcqRel, Relaxed).is_ok();
    (is_removed && is_of_image).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_ends_once_on_any_thread_and_old_ones_make_way() {
        let (first, second) = (start(1, 2, 3), start(4, 5, 6));
        let range = std::thread::spawn(move || end(first)).join().unwrap().unwrap();
        assert_eq!((range.name, range.category, range.domain), (1, 2, 3));
        assert_eq!((end(first), end(0), end(u64::MAX)), (None, None, None));
        let later: Vec<u64> = (0..OPEN_MAX).map(|_| start(7, 8, 9)).collect();
        assert_eq!(end(second), None);
        assert!(later.into_iter().all(|id| end(id).is_some_and(|range| range.name == 7)));
    }
}
