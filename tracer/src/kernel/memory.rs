//! Pages from the kernel, for an allocator of the tracer's own, and a reserve of them: the program may have taken all the
//! memory it is allowed, and an allocation that fails inside a library would be the end of it.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::*};

pub use crate::kernel::sys::yield_now;
use crate::kernel::sys::{self, PAGE};

/// The rest of the reserve: where it begins, and how many bytes.
static START: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// The first pages asked for, which most processes never go beyond: there without a system call.
#[repr(align(4096))]
struct First([AtomicUsize; FIRST_SIZE / size_of::<usize>()]);
const FIRST_SIZE: usize = 64 << 10;
crate::large! {
    static FIRST: First = First([const { AtomicUsize::new(0) }; FIRST_SIZE / size_of::<usize>()]);
}
static FIRST_IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Fresh zeroed pages: from the kernel, and where that has none from the [`Reserve`]; null without either.
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

/// Gives pages back.
pub fn unmap(memory: *mut u8, length: usize) {
    // Those of the library itself stay its own.
    if memory != first() {
        sys::unmap(memory, length);
    }
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
    /// Keeps what was taken with whoever took it.
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
