//! Pages from the kernel, for the tracer's own allocator, and a reserve of pages: the program may have used all the
//! memory it is allowed, and a failed allocation inside a library would end the process.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::*};

pub use crate::kernel::sys::yield_now;
use crate::kernel::sys::{self, PAGE};

/// The rest of the reserve: its start and length.
static START: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// The first pages to be allocated, available without a system call. Most processes need no more.
#[repr(align(4096))]
struct FirstPages([AtomicUsize; FIRST_SIZE / size_of::<usize>()]);
const FIRST_SIZE: usize = 64 << 10;
crate::large! {
    static FIRST: FirstPages = FirstPages([const { AtomicUsize::new(0) }; FIRST_SIZE / size_of::<usize>()]);
}
static FIRST_IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Returns fresh zeroed pages from the kernel or, if it has none, from the [`Reserve`]; null if both fail.
pub fn map(length: usize) -> *mut u8 {
    if length <= FIRST_SIZE && !FIRST_IS_TAKEN.swap(true, AcqRel) {
        return first();
    }
    let memory = sys::map_memory(length);
    if memory.is_null() { from_reserve(length.next_multiple_of(PAGE)) } else { memory }
}

fn first() -> *mut u8 {
    FIRST.0.as_ptr().cast_mut().cast()
}

/// Frees pages.
pub fn unmap(memory: *mut u8, length: usize) {
    // The library's own pages are never freed.
    if memory != first() {
        sys::unmap(memory, length);
    }
}

/// Takes pages from the end of the reserve, so the rest does not move.
fn from_reserve(length: usize) -> *mut u8 {
    match LEFT.fetch_update(AcqRel, Acquire, |left| left.checked_sub(length)) {
        Ok(left) => START.load(Acquire).wrapping_add(left - length),
        Err(_) => std::ptr::null_mut(),
    }
}

/// Pages set aside for work that must not fail half-way. There is at most one reserve.
pub struct Reserve(());

impl Reserve {
    /// Sets pages aside. `None` if there is not enough memory.
    pub fn of(length: usize) -> Option<Reserve> {
        let length = length.next_multiple_of(PAGE);
        let start = sys::map_memory(length);
        if start.is_null() {
            return None;
        }
        START.store(start, Release);
        LEFT.store(length, Release);
        Some(Reserve(()))
    }
}

impl Drop for Reserve {
    /// Releases the unused pages; pages already taken belong to their users.
    fn drop(&mut self) {
        let left = LEFT.swap(0, AcqRel);
        if left > 0 {
            sys::unmap(START.load(Acquire), left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserve_is_used_from_its_end() {
        let reserve = Reserve::of(3 * PAGE).expect("three pages");
        let start = START.load(Relaxed);
        assert_eq!(from_reserve(2 * PAGE), start.wrapping_add(PAGE));
        assert!(from_reserve(2 * PAGE).is_null());
        assert_eq!(from_reserve(PAGE), start);
        drop(reserve);
        assert!(from_reserve(PAGE).is_null());
        sys::unmap(start, 3 * PAGE);
    }
}
