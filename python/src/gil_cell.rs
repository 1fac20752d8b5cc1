//! State of an object that the interpreter's lock protects: accessible to any thread that holds the lock.

use std::cell::UnsafeCell;

use pyo3::Python;

pub struct GilCell<T>(UnsafeCell<T>);

// SAFETY: the value is accessed only through `with`, whose caller holds the interpreter's lock: one thread at a time.
// The module is built for the limited interface, which exists only for interpreters with that lock.
unsafe impl<T: Send> Sync for GilCell<T> {}

impl<T> GilCell<T> {
    pub const fn new(value: T) -> GilCell<T> {
        GilCell(UnsafeCell::new(value))
    }

    /// Runs `work` on the value. `work` must not call into Python, which could return here: callers convert objects
    /// before, and release them afterwards.
    #[inline(always)]
    pub fn with<R>(&self, _lock: Python, work: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the token proves that this thread holds the lock, and nothing within `work` releases it or enters
        // Python: this is the only reference.
        work(unsafe { &mut *self.0.get() })
    }

    /// Returns the value of an object without other references.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}
