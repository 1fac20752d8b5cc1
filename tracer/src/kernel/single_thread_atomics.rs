//! Numbers that any thread may change, without a bus lock while there is only one thread: such a lock takes as long
//! as twenty instructions, and most programs are single-threaded.
//!
//! Either way, each change is one instruction, which a signal handler cannot split.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::*};

use crate::kernel::switches::SWITCHES;

/// Notes that there is a second thread or soon will be. A thread whose start was not seen calls this at its first
/// event.
pub fn ends() {
    SWITCHES.is_threaded.store(true, Release);
}

#[inline(always)]
fn is_threaded() -> bool {
    cfg!(not(target_arch = "x86_64")) || SWITCHES.is_threaded.load(Relaxed)
}

/// Single instructions on a number in memory, without a lock.
#[cfg(target_arch = "x86_64")]
mod unlocked {
    use super::*;

    #[inline(always)]
    pub fn add(number: &AtomicI64, by: i64) -> i64 {
        let mut before = by;
        // SAFETY: the number is live and aligned.
        unsafe {
            std::arch::asm!("xadd qword ptr [{0}], {1}", in(reg) number.as_ptr(), inout(reg) before, options(nostack));
        }
        before
    }

    #[inline(always)]
    pub fn count_one(number: &AtomicU64) {
        // SAFETY: as above.
        unsafe { std::arch::asm!("inc qword ptr [{0}]", in(reg) number.as_ptr(), options(nostack)) };
    }

    #[inline(always)]
    pub fn take_one(number: &AtomicU32) -> u32 {
        let mut before = u32::MAX;
        // SAFETY: as above.
        unsafe {
            std::arch::asm!("xadd dword ptr [{0}], {1:e}", in(reg) number.as_ptr(), inout(reg) before, options(nostack));
        }
        before
    }

    #[inline(always)]
    pub fn change(number: &AtomicU64, from: u64, to: u64) -> u64 {
        let mut found = from;
        // SAFETY: as above.
        unsafe {
            std::arch::asm!("cmpxchg qword ptr [{0}], {1}", in(reg) number.as_ptr(), in(reg) to, inout("rax") found,
                options(nostack));
        }
        found
    }

    #[inline(always)]
    pub fn change_small(number: &AtomicU32, from: u32, to: u32) -> u32 {
        let mut found = from;
        // SAFETY: as above.
        unsafe {
            std::arch::asm!("cmpxchg dword ptr [{0}], {1:e}", in(reg) number.as_ptr(), in(reg) to, inout("eax") found,
                options(nostack));
        }
        found
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod unlocked {
    use super::*;

    pub fn add(number: &AtomicI64, by: i64) -> i64 {
        number.fetch_add(by, Relaxed)
    }

    pub fn count_one(number: &AtomicU64) {
        number.fetch_add(1, Relaxed);
    }

    pub fn take_one(number: &AtomicU32) -> u32 {
        number.fetch_sub(1, AcqRel)
    }

    pub fn change(number: &AtomicU64, from: u64, to: u64) -> u64 {
        number.compare_exchange(from, to, AcqRel, Acquire).unwrap_or_else(|found| found)
    }

    pub fn change_small(number: &AtomicU32, from: u32, to: u32) -> u32 {
        number.compare_exchange(from, to, AcqRel, Acquire).unwrap_or_else(|found| found)
    }
}

/// Adds to a number and returns its previous value.
#[inline(always)]
pub fn add(number: &AtomicI64, by: i64) -> i64 {
    if is_threaded() { number.fetch_add(by, Relaxed) } else { unlocked::add(number, by) }
}

/// Increments a number.
#[inline(always)]
pub fn count_one(number: &AtomicU64) {
    if is_threaded() {
        number.fetch_add(1, Relaxed);
    } else {
        unlocked::count_one(number);
    }
}

/// Decrements a number and returns its previous value.
#[inline(always)]
pub fn take_one(number: &AtomicU32) -> u32 {
    if is_threaded() { number.fetch_sub(1, AcqRel) } else { unlocked::take_one(number) }
}

/// Replaces a number and returns its previous value.
#[inline(always)]
pub fn swap(number: &AtomicU64, new: u64) -> u64 {
    if is_threaded() {
        return number.swap(new, AcqRel);
    }
    let mut before = number.load(Relaxed);
    loop {
        match unlocked::change(number, before, new) {
            found if found == before => return before,
            found => before = found,
        }
    }
}

/// Changes a zero to a one. Returns `false` if the number was not zero.
#[inline(always)]
pub fn claim(number: &AtomicU32) -> bool {
    if is_threaded() {
        return number.compare_exchange(0, 1, AcqRel, Relaxed).is_ok();
    }
    unlocked::change_small(number, 0, 1) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locked_and_unlocked_results_are_equal() {
        let (position, holders, entry) = (AtomicI64::new(5), AtomicU32::new(0), AtomicU64::new(7));
        assert_eq!((unlocked::add(&position, 3), unlocked::add(&position, -1)), (5, 8));
        assert_eq!((unlocked::change_small(&holders, 0, 1), unlocked::change_small(&holders, 0, 1)), (0, 1));
        assert_eq!((unlocked::take_one(&holders), holders.load(Relaxed)), (1, 0));
        assert_eq!((unlocked::change(&entry, 7, 9), unlocked::change(&entry, 7, 8)), (7, 9));
        unlocked::count_one(&entry);
        count_one(&entry);
        assert_eq!((unlocked::change(&entry, 11, 9), entry.load(Relaxed)), (11, 9));
        assert_eq!((swap(&entry, 1), entry.load(Relaxed), add(&position, 1)), (9, 1, 7));
        assert_eq!((claim(&holders), claim(&holders), take_one(&holders)), (true, false, 1));
    }
}
