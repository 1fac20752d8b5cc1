//! A chunk of the ring file for names: strings with numbers that were set aside for it, one thread's.
//!
//! Drawn in `dlio_schemas::native::ring`. Room for an entry is taken by one instruction that a signal cannot cut in two, as
//! a slot of the ring is.

use std::sync::atomic::{AtomicU32, Ordering::*, compiler_fence};

use dlio_schemas::native::names::{NameKind, complete, entry_size, write_entry};
use dlio_schemas::native::ring::{NAMES_HEAD, NAMES_USED, Shape};

use crate::thread::slots;

/// Numbers set aside for chunks so far. Goes on counting in a forked child, so that a number of the parent never means
/// something else there.
static NEXT_ID: AtomicU32 = AtomicU32::new(1);
static GIVEN: AtomicU32 = AtomicU32::new(0);

/// The part of a chunk that is left alone.
pub struct Kept {
    pub room: u32,
    pub ids: u32,
}

/// A chunk of names in the ring file: one thread's, and written by it alone.
#[derive(Clone, Copy)]
pub struct Chunk {
    memory: *mut u8,
    /// Bytes for entries.
    room: u32,
    /// Numbers set aside for it at a time.
    ids: u32,
}

impl Chunk {
    /// A fresh chunk of `size` bytes.
    ///
    /// # Safety
    /// `memory` is mapped for good, aligned to eight bytes, zeroed, and nobody else's.
    pub unsafe fn new(memory: *mut u8, size: usize) -> Chunk {
        // Enough for entries of the length paths have; where they are shorter, the numbers end before the room does.
        const BYTES_A_NAME: u32 = 32;
        let room = (size - NAMES_HEAD) as u32;
        let chunk = Chunk { memory, room, ids: room / BYTES_A_NAME };
        // SAFETY: by the contract above.
        unsafe { chunk.begin() };
        chunk
    }

    /// # Safety
    /// The chunk is empty.
    unsafe fn begin(&self) {
        let first = NEXT_ID.fetch_add(self.ids, Relaxed);
        // SAFETY: the head lies at the chunk's beginning.
        unsafe { self.memory.cast::<u32>().write_volatile(first) };
    }

    /// Bytes used in the lower half, entries in the upper.
    fn taken(&self) -> *mut u64 {
        self.memory.wrapping_add(NAMES_USED).cast()
    }

    /// Adds an entry. `None` if there is no room for it beside what is kept.
    ///
    /// # Safety
    /// The caller's thread is the one whose chunk this is.
    #[inline]
    pub unsafe fn put(self, kind: NameKind, text: &[u8], kept: Kept) -> Option<u32> {
        let size = entry_size(text);
        let split = |taken: u64| (taken as u32 as usize + size, (taken >> 32) as u32);
        // SAFETY: the head is mapped; what lies between `end - size` and `end` is taken by this call and no other.
        unsafe {
            // Before any of it is taken: behind a place that stays empty a reader looks for nothing more.
            let (end, index) = split(self.taken().read_volatile());
            if end > (self.room - kept.room) as usize || index >= self.ids - kept.ids {
                return None;
            }
            let (end, index) = split(slots::take(self.taken(), 1 << 32 | size as u64));
            // Handlers have come in between, which have taken what was kept for them.
            if end > self.room as usize || index >= self.ids {
                return None;
            }
            let place = self.memory.add(NAMES_HEAD + end - size);
            write_entry(kind, text, std::slice::from_raw_parts_mut(place, size));
            // Zero where the file was cut: the numbers are gone, and those from zero on mean others.
            let first = self.memory.cast::<u32>().read_volatile();
            (first != 0).then(|| first + index)
        }
    }

    /// First number, complete entries, and how many they are.
    ///
    /// # Safety
    /// Nobody empties the chunk meanwhile.
    pub unsafe fn entries(&self) -> (u32, &[u8], u32) {
        // SAFETY: the chunk is mapped for good; an entry that is being written is not looked at behind its kind.
        unsafe {
            let entries = std::slice::from_raw_parts(self.memory.add(NAMES_HEAD), self.used());
            let (entries, count) = complete(entries);
            (self.memory.cast::<u32>().read(), entries, count)
        }
    }

    /// True if this is the chunk of a small segment.
    pub fn is_small(&self) -> bool {
        self.room as usize + NAMES_HEAD == Shape::SMALL.names
    }

    fn used(&self) -> usize {
        // SAFETY: the head is mapped for good.
        (unsafe { self.taken().read_volatile() } as u32).min(self.room) as usize
    }

    /// Makes the chunk new: its entries have been written elsewhere, or are given up.
    ///
    /// # Safety
    /// Its thread adds nothing meanwhile.
    pub unsafe fn clear(&self) {
        let used = self.used();
        // SAFETY: within the chunk. The number of bytes goes first, so that a reader never sees entries by other numbers.
        unsafe {
            self.taken().write_volatile(0);
            compiler_fence(Release);
            self.memory.add(NAMES_HEAD).write_bytes(0, used);
            self.begin();
        }
    }
}

/// So many strings have been written.
pub fn count_given(names: u32) {
    GIVEN.fetch_add(names, Relaxed);
}

/// The number of strings that were given numbers, in this process and those it was forked from, as far as chunks were
/// written.
pub fn given() -> usize {
    GIVEN.load(Relaxed) as usize
}
