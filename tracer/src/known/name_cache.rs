//! The numbers assigned to strings, by the hash of the string: a table of fixed size that forgets old strings when it
//! is full.
//!
//! A string can be in one of the four slots of its set. Each slot has a tag, taken from the hash and stored
//! separately. Tags alone are enough to recognize a new name, and most names are new when a program walks through
//! files. All tags together fit into a near cache, even while the kernel fills that cache with the files it opens.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, Ordering::*};

use crate::kernel::{hash, sys};

/// Number of slots of the tables, each replaced by the next when it is full: a process that uses few names touches
/// little memory. The largest table is 144 KiB.
const SLOTS: [usize; 3] = [FEW, 1024, 8192];
const FEW: usize = 64;
const WAYS: usize = 4;

/// Special tags.
const EMPTY: u16 = 0;
const BEING_WRITTEN: u16 = 1;

#[repr(C)]
struct TagSet([AtomicU16; WAYS]);

#[repr(C)]
struct Slot {
    hash: AtomicU64,
    id: AtomicU32,
}

/// The start of a table, followed by its sets and then its slots, four per set.
#[repr(C, align(64))]
struct Head {
    /// Number of sets minus one.
    last: AtomicU32,
    /// Number of strings in the table.
    count: AtomicU32,
}

#[repr(C)]
struct SmallTable {
    head: Head,
    sets: [TagSet; FEW / WAYS],
    places: [Slot; FEW],
}

static SMALLEST: SmallTable = SmallTable {
    head: Head { last: AtomicU32::new((FEW / WAYS - 1) as u32), count: AtomicU32::new(0) },
    sets: [const { TagSet([const { AtomicU16::new(EMPTY) }; WAYS]) }; FEW / WAYS],
    places: [const { Slot { hash: AtomicU64::new(0), id: AtomicU32::new(0) } }; FEW],
};

static TABLE: AtomicPtr<Head> = AtomicPtr::new((&raw const SMALLEST).cast_mut().cast());
static IS_GROWING: AtomicBool = AtomicBool::new(false);
/// The slot of a full set that is replaced next.
static TURN: AtomicU32 = AtomicU32::new(0);

/// Differs between images, so that entries of one image are not found in the next.
static SALT: AtomicU64 = AtomicU64::new(0);

#[inline(always)]
fn salted(hash: u64) -> u64 {
    hash ^ SALT.load(Relaxed)
}

/// Returns the number assigned to a hash, if it is cached.
#[inline]
pub fn find(hash: u64) -> Option<u32> {
    let hash = salted(hash);
    let table = table();
    let (set, places, tag) = (table.set(hash), table.places(hash), tag_of(hash));
    for (way, place) in set.0.iter().zip(places) {
        if way.load(Acquire) == tag && place.hash.load(Acquire) == hash {
            let id = place.id.load(Acquire);
            // The slot may have been reused for another string in between.
            if way.load(Acquire) == tag && place.hash.load(Acquire) == hash {
                return Some(id);
            }
        }
    }
    None
}

/// Caches `id` under a hash.
pub fn remember(hash: u64, id: u32) {
    let hash = salted(hash);
    let table = table();
    // Inexact if threads collide, which is acceptable.
    let count = table.head().count.load(Relaxed).wrapping_add(1);
    table.head().count.store(count, Relaxed);
    table.place(hash, id);
    if count as usize >= table.size() / 2 && table.size() < SLOTS[SLOTS.len() - 1] {
        grow(table);
    }
}

/// A table, which is mapped permanently.
#[derive(Clone, Copy)]
struct Table(*const Head);

#[inline(always)]
fn table() -> Table {
    Table(TABLE.load(Acquire))
}

#[inline(always)]
fn tag_of(hash: u64) -> u16 {
    (hash >> 48) as u16 | 1 << 15
}

impl Table {
    const fn bytes(places: usize) -> usize {
        size_of::<Head>() + places / WAYS * size_of::<TagSet>() + places * size_of::<Slot>()
    }

    #[inline(always)]
    fn head(self) -> &'static Head {
        // SAFETY: the table is mapped permanently.
        unsafe { &*self.0 }
    }

    #[inline(always)]
    fn last(self) -> usize {
        self.head().last.load(Relaxed) as usize
    }

    fn size(self) -> usize {
        (self.last() + 1) * WAYS
    }

    #[inline(always)]
    fn set(self, hash: u64) -> &'static TagSet {
        // SAFETY: the sets follow, `last + 1` of them; zeroed memory is an empty set.
        unsafe { &*self.0.add(1).cast::<TagSet>().add(hash as usize & self.last()) }
    }

    #[inline(always)]
    fn places(self, hash: u64) -> &'static [Slot; WAYS] {
        // SAFETY: the slots follow the sets.
        unsafe {
            let first = self.0.add(1).cast::<TagSet>().add(self.last() + 1).cast::<Slot>();
            &*first.add((hash as usize & self.last()) * WAYS).cast()
        }
    }

    /// Takes an empty slot, or the next one to be replaced. If another thread is taking that slot now, the string is
    /// not cached and gets another number the next time.
    fn place(self, hash: u64, id: u32) {
        let (set, places) = (self.set(hash), self.places(hash));
        let empty = set.0.iter().position(|way| way.load(Relaxed) == EMPTY);
        let at = empty.unwrap_or_else(|| {
            let turn = TURN.load(Relaxed);
            TURN.store(turn.wrapping_add(1), Relaxed);
            turn as usize % WAYS
        });
        let before = set.0[at].load(Relaxed);
        if before != BEING_WRITTEN && set.0[at].compare_exchange(before, BEING_WRITTEN, AcqRel, Relaxed).is_ok() {
            places[at].hash.store(hash, Release);
            places[at].id.store(id, Release);
            set.0[at].store(tag_of(hash), Release);
        }
    }
}

/// Replaces a full table with the next larger one.
#[cold]
fn grow(old: Table) {
    if IS_GROWING.swap(true, AcqRel) {
        return;
    }
    let size = SLOTS.into_iter().find(|places| *places > old.size()).unwrap_or(old.size());
    let new = Table(sys::map_memory(Table::bytes(size)).cast());
    // If there is no memory, this is not tried again.
    if new.0.is_null() {
        return;
    }
    new.head().last.store((size / WAYS - 1) as u32, Relaxed);
    for set in 0..old.size() / WAYS {
        let (tags, places) = (old.set(set as u64), old.places(set as u64));
        for (way, place) in tags.0.iter().zip(places).filter(|(way, _)| way.load(Acquire) > BEING_WRITTEN) {
            let (hash, id) = (place.hash.load(Acquire), place.id.load(Acquire));
            if way.load(Acquire) == tag_of(hash) {
                new.place(hash, id);
            }
        }
    }
    new.head().count.store(old.head().count.load(Relaxed), Relaxed);
    TABLE.store(new.0.cast_mut(), Release);
    IS_GROWING.store(false, Release);
}

/// Forgets all numbers: they belong to an image that has ended.
pub fn forget() {
    SALT.store(hash::of(&[], SALT.load(Relaxed) + 1), Relaxed);
    table().head().count.store(0, Relaxed);
    IS_GROWING.store(false, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> u64 {
        hash::of(&number.to_le_bytes(), 7)
    }

    #[test]
    fn latest_entry_is_always_found() {
        // Passes through all table sizes and wraps around the largest one many times.
        for number in 0..100_000 {
            remember(hash(number), number as u32);
            assert_eq!(find(hash(number)), Some(number as u32));
            assert_eq!(find(hash(number + 1_000_000)), None);
        }
        let known = (90_000..100_000).filter(|number| find(hash(*number)) == Some(*number as u32)).count();
        assert!(known > 4_000, "{known} of the last 10,000 in {} places", table().size());
        let wrong = (0..100_000).filter(|number| find(hash(*number)).is_some_and(|id| id as u64 != *number)).count();
        assert_eq!(wrong, 0);
    }
}
