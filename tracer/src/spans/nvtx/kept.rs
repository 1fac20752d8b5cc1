//! Strings that a program registers once and then refers to by a handle. They are copied, because the program may free them, and
//! kept as text, because their numbers change in a forked child.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering::*};

use dlio_schemas::native::names::NameKind;

use crate::kernel::{hash, sys};
use crate::spans::library_calls::Number;
use crate::thread::lock::Lock;

/// A handle of NVTX: the address of an entry, or null.
pub type Handle = *const c_void;

/// A string that was registered.
pub struct Kept {
    hash: AtomicU64,
    text: AtomicPtr<u8>,
    length: AtomicUsize,
    number: Number,
}

impl Kept {
    const fn free() -> Kept {
        Kept {
            hash: AtomicU64::new(0),
            text: AtomicPtr::new(std::ptr::null_mut()),
            length: AtomicUsize::new(0),
            number: Number::new(),
        }
    }

    pub fn handle(&self) -> Handle {
        std::ptr::from_ref(self).cast()
    }

    pub fn text(&self) -> &[u8] {
        let (text, length) = (self.text.load(Acquire), self.length.load(Relaxed));
        // SAFETY: an entry's text is written before its address, and is permanent.
        if text.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(text, length) } }
    }

    pub fn number(&self, kind: NameKind) -> u32 {
        self.number.get(kind, self.text())
    }
}

/// A table of strings, each in it once; all zeros if it is empty.
pub struct Table<const N: usize> {
    entries: [Kept; N],
    used: AtomicUsize,
    lock: Lock,
}

impl<const N: usize> Table<N> {
    pub const fn new() -> Table<N> {
        Table { entries: [const { Kept::free() }; N], used: AtomicUsize::new(0), lock: Lock::new() }
    }

    /// Returns the entry of a string, which is added if it is new; `None` if there is no space.
    pub fn keep(&self, text: &[u8]) -> Option<&Kept> {
        let hash = hash::of(text, 0);
        let of_text = |kept: &&Kept| kept.hash.load(Relaxed) == hash && kept.text() == text;
        let known = |from: usize| self.entries[from..self.used.load(Acquire)].iter().find(of_text);
        let seen = self.used.load(Acquire);
        if let Some(kept) = known(0) {
            return Some(kept);
        }
        // A signal handler that interrupted this gets no entry.
        let _guard = self.lock.take()?;
        if let Some(kept) = known(seen) {
            return Some(kept);
        }
        let kept = self.entries.get(self.used.load(Relaxed))?;
        let copy = ARENA.copy(text)?;
        kept.hash.store(hash, Relaxed);
        kept.length.store(text.len(), Relaxed);
        kept.text.store(copy, Release);
        self.used.fetch_add(1, Release);
        Some(kept)
    }

    /// Returns the entry of a handle; `None` if no entry has it.
    pub fn find(&self, handle: Handle) -> Option<&Kept> {
        let offset = handle.addr().checked_sub(self.entries.as_ptr().addr())?;
        let place = (offset % size_of::<Kept>() == 0).then_some(offset / size_of::<Kept>())?;
        self.entries[..self.used.load(Acquire)].get(place)
    }

    /// Returns the index of an entry.
    pub fn place(&self, kept: &Kept) -> u32 {
        ((kept.handle().addr() - self.entries.as_ptr().addr()) / size_of::<Kept>()) as u32
    }

    pub fn at(&self, place: u32) -> Option<&Kept> {
        self.entries.get(place as usize)
    }
}

/// Memory of strings, which is never freed.
struct Arena {
    lock: Lock,
    free: UnsafeCell<(*mut u8, usize)>,
}

// SAFETY: the free memory is used under the lock.
unsafe impl Sync for Arena {}

static ARENA: Arena = Arena { lock: Lock::new(), free: UnsafeCell::new((std::ptr::null_mut(), 0)) };

impl Arena {
    /// Strings are mapped in chunks of this size.
    const CHUNK: usize = 16 * sys::PAGE;

    /// Returns a permanent copy; `None` if there is no memory.
    fn copy(&self, text: &[u8]) -> Option<*mut u8> {
        let _guard = self.lock.take()?;
        // SAFETY: the lock is held.
        let (next, left) = unsafe { &mut *self.free.get() };
        if *left < text.len().max(1) {
            let chunk = sys::map_memory(Arena::CHUNK.max(text.len()));
            if chunk.is_null() {
                return None;
            }
            (*next, *left) = (chunk, Arena::CHUNK.max(text.len()));
        }
        let copy = *next;
        // SAFETY: the memory is free and large enough.
        unsafe { copy.copy_from_nonoverlapping(text.as_ptr(), text.len()) };
        let used = text.len().max(1);
        (*next, *left) = (copy.wrapping_add(used), *left - used);
        Some(copy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_is_kept_once_and_found_by_its_handle() {
        static TABLE: Table<3> = Table::new();
        let first = TABLE.keep(b"forward").unwrap();
        let empty = TABLE.keep(b"").unwrap();
        assert!(std::ptr::eq(TABLE.keep(b"forward").unwrap(), first));
        assert_eq!((first.text(), empty.text()), (&b"forward"[..], &b""[..]));
        let long = vec![b'x'; 3 * Arena::CHUNK];
        assert_eq!(TABLE.keep(&long).unwrap().text(), long);
        assert!(TABLE.keep(b"one more").is_none());
        assert!(std::ptr::eq(TABLE.find(empty.handle()).unwrap(), empty));
        assert_eq!((TABLE.place(first), TABLE.place(empty)), (0, 1));
        for wrong in [std::ptr::null(), first.handle().wrapping_byte_add(1), first.handle().wrapping_byte_sub(8)] {
            assert!(TABLE.find(wrong).is_none());
        }
        assert!(TABLE.find(first.handle().wrapping_byte_add(3 * size_of::<Kept>())).is_none());
    }
}
