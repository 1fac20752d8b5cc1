//! State of an object that the interpreter's lock protects: free to reach for whoever holds the lock.

use std::cell::UnsafeCell;

use pyo3::Python;

pub struct Held<T>(UnsafeCell<T>);

// SAFETY: the value is reached through `with` only, whose caller holds the interpreter's lock: one thread at a time. The
// module is built for the limited interface, which exists only for interpreters with that lock.
unsafe impl<T: Send> Sync for Held<T> {}

impl<T> Held<T> {
    pub const fn new(value: T) -> Held<T> {
        Held(UnsafeCell::new(value))
    }

    /// Runs `work` on the value. `work` must not call into Python, which could come back here: callers convert objects
    /// before, and let go of them after.
    #[inline(always)]
    pub fn with<R>(&self, _lock: Python, work: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the token proves that this thread holds the lock, and nothing within `work` lets go of it or enters
        // Python: this is the only reference.
        work(unsafe { &mut *self.0.get() })
    }

    /// The value, of an object nobody else knows any more.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}
