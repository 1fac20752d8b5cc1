//! Pages from the kernel, for an allocator of the tracer's own, and a reserve of them: the program may have taken all the
//! memory it is allowed, and an allocation that fails inside a library would be the end of it.

use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};

use crate::sys;
pub use crate::sys::{unmap, yield_now};

const PAGE: usize = 4096;

/// What is left of the reserve: where it begins, and how many bytes.
static START: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// Fresh zeroed pages: from the kernel, and where that has none from the [`Reserve`]; null without either.
pub fn map(length: usize) -> *mut u8 {
    let memory = sys::map_memory(length);
    if memory.is_null() { from_reserve(length.next_multiple_of(PAGE)) } else { memory }
}

/// The end of what is left, so that the rest stays where it is.
fn from_reserve(length: usize) -> *mut u8 {
    match LEFT.fetch_update(AcqRel, Acquire, |left| left.checked_sub(length)) {
        Ok(left) => START.load(Acquire).wrapping_add(left - length),
        Err(_) => std::ptr::null_mut(),
    }
}

/// Pages set aside for work that must not fail half-way. There is one at a time.
pub struct Reserve(());

impl Reserve {
    /// `None` where there is no such room.
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
    /// What was taken stays with whoever took it.
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
    fn a_reserve_is_given_out_from_its_end_until_nothing_is_left() {
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
