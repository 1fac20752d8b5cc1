//! The waiters of each semaphore, condition or barrier, and the thread that posted last: a table by address.
//!
//! ```text
//! wait  ── registers as a waiter ──> real call ──> reads the stamp, if there is a new one
//! post  ── leaves a stamp, if there is a waiter ──> real call
//! ```
//!
//! A post without a waiter reads one cache line and writes nothing. A post before the wait started cannot have ended
//! it, so it does not matter. If the addresses of two objects share a slot, the slot's key distinguishes them: an
//! object whose slot is used by another object's waiters is not tracked.
//!
//! A thread that is cancelled inside a wait remains registered: its object keeps the slot, and every later post leaves
//! a stamp, which takes ten nanoseconds each. A forked child finds the table zeroed by the kernel.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use dlio_schemas::evidence::Waker;

use crate::kernel::{clock, sys};
use crate::thread::local::own_id;

const BITS: u32 = 12;
const SLOTS: usize = 1 << BITS;

#[repr(C, align(32))]
struct Slot {
    /// Address of the object.
    key: AtomicUsize,
    waiters: AtomicU32,
    /// Thread whose wait succeeded last.
    taker: AtomicU32,
    /// Thread that posted last while there was a waiter, and [`BY_TAKER`].
    poster: AtomicU32,
    /// Number of stamps. Two simultaneous posts may count as one.
    posts: AtomicU32,
    /// Time of the last post in ticks.
    posted: AtomicU64,
}

/// Flag in the poster's word, above the bits of its thread id: the poster was also the last taker.
const BY_TAKER: u32 = 1 << 31;

/// Whole pages, which the kernel wipes.
#[repr(C, align(4096))]
struct Table([Slot; SLOTS]);

crate::large! {
    static TABLE: Table = Table(
        [const {
            Slot {
                key: AtomicUsize::new(0),
                waiters: AtomicU32::new(0),
                taker: AtomicU32::new(0),
                poster: AtomicU32::new(0),
                posts: AtomicU32::new(0),
                posted: AtomicU64::new(0),
            }
        }; SLOTS],
    );
}

/// `true` once the kernel wipes the table in children.
static IS_USED: AtomicBool = AtomicBool::new(false);
static IS_WIPED: AtomicBool = AtomicBool::new(false);

#[inline(always)]
fn slot(object: usize) -> &'static Slot {
    &TABLE.0[((object as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - BITS)) as usize]
}

/// Stamps a post; call this before the real post. Returns `true` if another thread waits for it.
#[inline(always)]
pub fn post(object: usize) -> bool {
    let slot = slot(object);
    let is_awaited = slot.waiters.load(Acquire) != 0 && slot.key.load(Relaxed) == object;
    if is_awaited {
        stamp(slot);
    }
    is_awaited
}

#[cold]
#[inline(never)]
fn stamp(slot: &Slot) {
    let me = own_id();
    let by_taker = if slot.taker.load(Relaxed) == me { BY_TAKER } else { 0 };
    slot.poster.store(me | by_taker, Relaxed);
    slot.posted.store(clock::ticks(), Relaxed);
    slot.posts.store(slot.posts.load(Relaxed).wrapping_add(1), Release);
}

/// Returns `true` if the calling thread was the last to take this semaphore.
pub fn is_taken_by_caller(object: usize) -> bool {
    let slot = slot(object);
    slot.key.load(Relaxed) == object && slot.taker.load(Relaxed) == own_id()
}

/// Notes that a semaphore was taken without a wait. Has no effect until the table is in use.
#[inline]
pub fn took(object: usize) {
    if !IS_USED.load(Relaxed) {
        return;
    }
    let slot = slot(object);
    if slot.key.load(Relaxed) != object {
        if slot.waiters.load(Relaxed) != 0 {
            return;
        }
        slot.taker.store(0, Relaxed);
        slot.key.store(object, Relaxed);
    }
    slot.taker.store(own_id(), Relaxed);
}

/// A wait that has started.
#[derive(Clone, Copy)]
pub struct Waiting {
    pub object: usize,
    /// Number of stamps at the start; `None` if another object uses the slot.
    posts: Option<u32>,
}

/// Registers a waiter; call this before the real wait.
#[inline]
pub fn wait(object: usize) -> Waiting {
    if !IS_USED.load(Relaxed) {
        use_table();
    }
    let slot = slot(object);
    let waiters = slot.waiters.fetch_add(1, AcqRel);
    let is_its = slot.key.load(Relaxed) == object;
    if !is_its && waiters != 0 {
        slot.waiters.fetch_sub(1, Release);
        return Waiting { object, posts: None };
    }
    if !is_its {
        slot.taker.store(0, Relaxed);
        slot.key.store(object, Release);
    }
    Waiting { object, posts: Some(slot.posts.load(Relaxed)) }
}

/// Registers a thread that arrives at a barrier; call this before the real call. The last thread to arrive ends the
/// waits of all.
pub fn arrive(object: usize) -> Waiting {
    post(object);
    wait(object)
}

/// Enables the table.
#[cold]
pub fn use_table() {
    let wiped = sys::wipe_on_fork((&raw const TABLE).cast_mut().cast(), size_of::<Table>());
    IS_WIPED.store(wiped, Relaxed);
    IS_USED.store(true, Relaxed);
}

impl Waiting {
    /// Ends the wait: the thread is no longer a waiter. `takes` is true if it got a semaphore.
    #[inline]
    pub fn over(self, takes: bool) {
        if self.posts.is_none() {
            return;
        }
        let slot = slot(self.object);
        if takes {
            slot.taker.store(own_id(), Relaxed);
        }
        slot.waiters.fetch_sub(1, Release);
    }

    /// Returns the thread that ended a wait which succeeded at a tick.
    pub fn waker(self, end: u64) -> Waker {
        let Some(before) = self.posts else { return Waker { flags: Waker::SEVERAL, ..Waker::default() } };
        let slot = slot(self.object);
        let posts = slot.posts.load(Acquire).wrapping_sub(before);
        // Without a waiter, another object may have taken the slot in the meantime.
        if posts == 0 || slot.key.load(Relaxed) != self.object {
            return Waker::default();
        }
        let (poster, posted) = (slot.poster.load(Relaxed), slot.posted.load(Relaxed));
        let woken_us = end.saturating_sub(posted).saturating_mul(10) / clock::ten_us();
        let several = if posts > 1 { Waker::SEVERAL } else { 0 };
        let by_taker = if poster & BY_TAKER != 0 { Waker::BY_TAKER } else { 0 };
        Waker { tid: poster & !BY_TAKER, woken_us: woken_us.min(u32::MAX as u64) as u32, flags: several | by_taker }
    }
}

/// Clears the table in a forked child, if the kernel has not done so.
pub fn forget() {
    if IS_USED.load(Relaxed) && !IS_WIPED.load(Relaxed) {
        for slot in &TABLE.0 {
            slot.waiters.store(0, Relaxed);
            slot.key.store(0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: u64 = u64::MAX;

    fn on_another_thread(work: impl FnOnce() + Send) -> u32 {
        std::thread::scope(|scope| {
            let run = || {
                work();
                own_id()
            };
            scope.spawn(run).join().unwrap()
        })
    }

    #[test]
    fn a_post_during_the_wait_names_its_thread() {
        let object = 0x1000;
        on_another_thread(|| _ = post(object));
        let waiting = wait(object);
        assert_eq!(waiting.waker(END), Waker::default(), "a post before the wait");
        let other = on_another_thread(|| _ = post(object));
        let waker = waiting.waker(END);
        waiting.over(true);
        assert_eq!((waker.tid, waker.flags), (other, 0));
        on_another_thread(|| _ = post(object));
        assert_eq!(waiting.waker(END).flags, 0, "no thread waits any longer");
    }

    #[test]
    fn several_posts_set_the_flag() {
        let object = 0x2000;
        let waiting = wait(object);
        (0..2).for_each(|_| _ = post(object));
        assert_eq!(waiting.waker(END).flags, Waker::SEVERAL);
        waiting.over(false);
    }

    #[test]
    fn lock_posts_differ_from_handover_posts() {
        let object = 0x3000;
        use_table();
        // Taken without a wait, as by sem_trywait.
        let taker = on_another_thread(|| {
            took(object);
            assert!(is_taken_by_caller(object));
        });
        let waiting = wait(object);
        // Thread ids are not reused that quickly.
        assert_ne!(taker, own_id());
        on_another_thread(|| {
            took(object);
            post(object);
        });
        assert_eq!(waiting.waker(END).flags, Waker::BY_TAKER);
        waiting.over(true);
        assert!(is_taken_by_caller(object));
    }

    #[test]
    fn forked_child_inherits_no_waiters() {
        let object = 0x5000;
        let waiting = wait(object);
        // SAFETY: the child reads the table and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            forget();
            let left = slot(object).waiters.load(Relaxed);
            // SAFETY: ends this process immediately.
            unsafe { libc::_exit(left as i32) };
        }
        let mut status = -1;
        // SAFETY: waits for the child that was just forked.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!((status, slot(object).waiters.load(Relaxed)), (0, 1));
        waiting.over(true);
    }

    #[test]
    fn objects_that_share_a_slot_do_not_mix() {
        let first = 0x4000;
        let second = (1..).map(|i| first + i * 8).find(|&other| std::ptr::eq(slot(other), slot(first))).unwrap();
        let waiting = wait(first);
        let other = wait(second);
        post(second);
        assert_eq!(waiting.waker(END), Waker::default());
        assert_eq!(other.waker(END).flags, Waker::SEVERAL);
        other.over(true);
        waiting.over(true);
        // There is no waiter, so the slot is free for the other object.
        let again = wait(second);
        post(second);
        assert_eq!(again.waker(END).tid, own_id());
        again.over(true);
    }
}
