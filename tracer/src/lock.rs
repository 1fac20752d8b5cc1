//! The one lock of the tracer, for what happens once a thread or once a file, never once a call.
//!
//! It knows its owner, so that a signal handler that interrupts the owner gets "no" and not a deadlock.

use std::sync::atomic::{AtomicU32, Ordering::*};

use crate::sys;

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
        let me = sys::thread_id();
        loop {
            match self.0.compare_exchange(0, me, Acquire, Relaxed) {
                Ok(_) => return Some(Held(self)),
                Err(owner) if owner == me => return None,
                Err(_) => sys::yield_now(),
            }
        }
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
