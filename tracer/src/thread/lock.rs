//! The one lock of the tracer, for what happens once a thread or once a file, never once a call.
//!
//! It knows its owner, so that a signal handler that interrupts the owner gets "no" and not a deadlock.

use std::sync::atomic::{AtomicU32, Ordering::*};

use crate::kernel::sys;
use crate::thread::local::own_id;

/// Zero is free, else the thread id of the owner.
pub struct Lock(AtomicU32);

/// Proof that the lock is held; freed when dropped.
pub struct Held<'a>(&'a Lock);

impl Lock {
    pub const fn new() -> Lock {
        Lock(AtomicU32::new(0))
    }

    /// Waits for other threads. `None` when this very thread holds the lock already.
    pub fn take(&self) -> Option<Held<'_>> {
        let me = own_id();
        let mut waited = 0u32;
        loop {
            match self.0.compare_exchange(0, me, Acquire, Relaxed) {
                Ok(_) => return Some(Held(self)),
                Err(owner) if owner == me => return None,
                Err(owner) => self.wait(owner, &mut waited),
            }
        }
    }

    /// A process cloned by the kernel's call alone has its parent's memory and one thread: nobody is there to free a lock
    /// that another thread held.
    fn wait(&self, owner: u32, waited: &mut u32) {
        const PATIENCE: u32 = 1000;
        *waited += 1;
        if (*waited).is_multiple_of(PATIENCE) && !sys::thread_exists(owner) {
            let _ = self.0.compare_exchange(owner, 0, Release, Relaxed);
        }
        sys::yield_now();
    }

    /// In a forked child, where the owner may be a thread that does not exist any more.
    pub fn reset(&self) {
        self.0.store(0, Release);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.0.store(0, Release);
    }
}
