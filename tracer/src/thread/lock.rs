//! The one lock of the tracer, for operations once per thread or per file, never once per call.
//!
//! It knows its owner, so a signal handler that interrupts the owner gets a refusal instead of a deadlock.

use std::sync::atomic::{AtomicU32, Ordering::*};

use crate::kernel::sys;
use crate::thread::local::own_id;

/// Zero if free, otherwise the thread id of the owner.
pub struct Lock(AtomicU32);

/// Proof that the lock is held; dropping it releases the lock.
pub struct LockGuard<'a>(&'a Lock);

impl Lock {
    pub const fn new() -> Lock {
        Lock(AtomicU32::new(0))
    }

    /// Takes the lock, waiting for other threads. `None` if this thread already holds it.
    pub fn take(&self) -> Option<LockGuard<'_>> {
        let me = own_id();
        let mut waited = 0u32;
        loop {
            match self.0.compare_exchange(0, me, Acquire, Relaxed) {
                Ok(_) => return Some(LockGuard(self)),
                Err(owner) if owner == me => return None,
                Err(owner) => self.wait(owner, &mut waited),
            }
        }
    }

    /// Waits for the owner. A process cloned directly by the kernel's call has its parent's memory and one thread: if
    /// another thread held the lock, no thread exists that could release it.
    fn wait(&self, owner: u32, waited: &mut u32) {
        const PATIENCE: u32 = 1000;
        *waited += 1;
        if (*waited).is_multiple_of(PATIENCE) && !sys::thread_exists(owner) {
            let _ = self.0.compare_exchange(owner, 0, Release, Relaxed);
        }
        sys::yield_now();
    }

    /// Releases the lock in a forked child, where the owner may be a thread that no longer exists.
    pub fn reset(&self) {
        self.0.store(0, Release);
    }
}

impl Drop for LockGuard<'_> {
    fn drop(&mut self) {
        self.0.0.store(0, Release);
    }
}
