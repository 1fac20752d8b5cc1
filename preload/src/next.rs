//! The function a hook stands before: found once, kept for good.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering::*};

/// The next definition of a name in the order of loading.
pub struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    pub const fn new(name: &'static CStr) -> Next {
        Next { name, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Its address; null where no library has it.
    #[inline(always)]
    pub fn get(&self) -> *mut c_void {
        let found = self.found.load(Relaxed);
        if found.is_null() { self.find() } else { found }
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        // SAFETY: a terminated name; two threads that ask at once find the same.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Relaxed);
        found
    }
}

/// What a hook returns where the real function does not exist.
pub trait Missing {
    fn missing() -> Self;
}

macro_rules! missing_number {
    ($($of:ty)*) => {$(
        impl Missing for $of {
            fn missing() -> $of {
                // SAFETY: the address of this thread's errno is always valid.
                unsafe { *libc::__errno_location() = libc::ENOSYS };
                -1i8 as $of
            }
        }
    )*};
}
missing_number!(i32 u32 i64 usize isize);

impl<T> Missing for *mut T {
    fn missing() -> *mut T {
        <i32 as Missing>::missing();
        std::ptr::null_mut()
    }
}

impl Missing for () {
    fn missing() {}
}
