//! A chunk of the ring file for one thread's names: strings, with the numbers reserved for them.
//!
//! Drawn in `dlio_schemas::native::ring`. Space for an entry is taken with one instruction, which a signal cannot split,
//! like a slot of the ring.

use std::sync::atomic::{AtomicU32, Ordering::*, compiler_fence};

use dlio_schemas::native::names::{NameKind, complete, entry_size, write_entry};
use dlio_schemas::native::ring::{NAMES_HEAD, NAMES_USED, Shape};

use crate::thread::slots;

/// Next number to reserve for a chunk. It continues in a forked child, so that a number of the parent never gets
/// another meaning there.
static NEXT_ID: AtomicU32 = AtomicU32::new(1);
static GIVEN: AtomicU32 = AtomicU32::new(0);

/// The part of a chunk that is kept free.
pub struct HandlerReserve {
    pub room: u32,
    pub ids: u32,
}

/// A chunk of names in the ring file, which belongs to one thread and is written only by it.
#[derive(Clone, Copy)]
pub struct Chunk {
    memory: *mut u8,
    /// Bytes for entries.
    room: u32,
    /// Numbers reserved at a time.
    ids: u32,
}

impl Chunk {
    /// Creates a chunk of `size` bytes.
    ///
    /// # Safety
    /// `memory` is mapped permanently, aligned to eight bytes, zeroed, and not used by anything else.
    pub unsafe fn new(memory: *mut u8, size: usize) -> Chunk {
        // Enough for entries with the usual length of paths; if they are shorter, the numbers run out before the
        // space does.
        const BYTES_A_NAME: u32 = 32;
        let room = (size - NAMES_HEAD) as u32;
        let chunk = Chunk { memory, room, ids: room / BYTES_A_NAME };
        // SAFETY: by the contract above.
        unsafe { chunk.begin() };
        chunk
    }

    /// Reserves numbers and resets the head.
    ///
    /// # Safety
    /// The chunk is empty.
    unsafe fn begin(&self) {
        let first = NEXT_ID.fetch_add(self.ids, Relaxed);
        // SAFETY: the head is at the chunk's start.
        unsafe { self.memory.cast::<u32>().write_volatile(first) };
    }

    /// Returns the counter: bytes used in the lower half, entries in the upper.
    fn taken(&self) -> *mut u64 {
        self.memory.wrapping_add(NAMES_USED).cast()
    }

    /// Adds an entry. `None` if there is no space for it, not counting the reserve `kept`.
    ///
    /// # Safety
    /// The chunk belongs to the calling thread.
    #[inline]
    pub unsafe fn put(self, kind: NameKind, text: &[u8], kept: HandlerReserve) -> Option<u32> {
        let size = entry_size(text);
        let split = |taken: u64| (taken as u32 as usize + size, (taken >> 32) as u32);
        // SAFETY: the head is mapped; the bytes between `end - size` and `end` belong to this call alone.
        unsafe {
            // Before any of it is taken: a reader stops at an empty entry.
            let (end, index) = split(self.taken().read_volatile());
            if end > (self.room - kept.room) as usize || index >= self.ids - kept.ids {
                return None;
            }
            let (end, index) = split(slots::take(self.taken(), 1 << 32 | size as u64));
            // Handlers came in between and took the reserve.
            if end > self.room as usize || index >= self.ids {
                return None;
            }
            let place = self.memory.add(NAMES_HEAD + end - size);
            write_entry(kind, text, std::slice::from_raw_parts_mut(place, size));
            // Zero if the file was truncated: the numbers are lost, and those from zero on belong to other names.
            let first = self.memory.cast::<u32>().read_volatile();
            (first != 0).then(|| first + index)
        }
    }

    /// Returns the first number, the complete entries, and their count.
    ///
    /// # Safety
    /// The chunk is not cleared in the meantime.
    pub unsafe fn entries(&self) -> (u32, &[u8], u32) {
        // SAFETY: the chunk is mapped permanently; of an entry that is being written, only the kind is read.
        unsafe {
            let entries = std::slice::from_raw_parts(self.memory.add(NAMES_HEAD), self.used());
            let (entries, count) = complete(entries);
            (self.memory.cast::<u32>().read(), entries, count)
        }
    }

    /// Returns `true` if this is the chunk of a small segment.
    pub fn is_small(&self) -> bool {
        self.room as usize + NAMES_HEAD == Shape::SMALL.names
    }

    fn used(&self) -> usize {
        // SAFETY: the head is mapped permanently.
        (unsafe { self.taken().read_volatile() } as u32).min(self.room) as usize
    }

    /// Resets the chunk after its entries were written elsewhere or given up.
    ///
    /// # Safety
    /// Its thread adds nothing in the meantime.
    pub unsafe fn clear(&self) {
        let used = self.used();
        // SAFETY: within the chunk. The number of bytes is reset first, so that a reader never sees entries with
        // other numbers.
        unsafe {
            self.taken().write_volatile(0);
            compiler_fence(Release);
            self.memory.add(NAMES_HEAD).write_bytes(0, used);
            self.begin();
        }
    }
}

/// Counts written strings.
pub fn count_assigned(names: u32) {
    GIVEN.fetch_add(names, Relaxed);
}

/// Returns how many strings were assigned numbers, in this process and its ancestors, counting only written chunks.
pub fn names_assigned() -> usize {
    GIVEN.load(Relaxed) as usize
}
