//! The real function behind a hook: looked up once and kept permanently.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::*};

use dlio_tracer::thread::stack::{on_large_stack, with_stack_space};

/// The next definition of a name in load order.
#[repr(C)]
pub struct Next {
    found: AtomicPtr<c_void>,
    /// Stored here as bytes: a pointer would have to be relocated by the loader, in every process and for every
    /// function.
    name: [u8; NAME_MAX],
}

/// Longest name, including its terminating zero.
const NAME_MAX: usize = 24;

impl Next {
    pub const fn new(name: &str) -> Next {
        let (text, mut bytes, mut at) = (name.as_bytes(), [0; NAME_MAX], 0);
        assert!(text.len() < NAME_MAX, "a longer name than any so far");
        while at < text.len() {
            bytes[at] = text[at];
            at += 1;
        }
        Next { found: AtomicPtr::new(std::ptr::null_mut()), name: bytes }
    }

    /// Returns its address; null if no library has it.
    #[inline(always)]
    pub fn get(&self) -> *mut c_void {
        let found = self.found.load(Relaxed);
        if found.is_null() { self.find() } else { found }
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        // The loader needs some kilobytes of stack, which the caller may not have.
        let found = with_stack_space(|| self.search());
        self.found.store(found, Relaxed);
        found
    }

    fn search(&self) -> *mut c_void {
        let own = CStr::from_bytes_until_nul(&self.name).unwrap_or_default();
        let version = VERSIONS.iter().find(|(name, _)| *name == own);
        // SAFETY: terminated names; two threads that search at the same time find the same function.
        unsafe {
            let of_version = version.map(|(name, version)| dlvsym(libc::RTLD_NEXT, name.as_ptr(), version.as_ptr()));
            match of_version.filter(|found| !found.is_null()) {
                Some(found) => found,
                None => libc::dlsym(libc::RTLD_NEXT, own.as_ptr()),
            }
        }
    }
}

/// Finds every hooked function. Searching takes a lock of the loader, which may be held by a thread that loads a
/// library and waits, in one of its constructors, for a second thread. So this runs before there is a second thread.
pub fn find_all() {
    static FOUND: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" {
        #[link_name = "__start_dlio_next"]
        static FIRST: *const c_void;
        #[link_name = "__stop_dlio_next"]
        static END: *const c_void;
    }
    if !FOUND.swap(true, Relaxed) {
        // SAFETY: the linker collects that section into one array and defines both of its ends.
        let all = unsafe {
            let (first, end) = ((&raw const FIRST).cast::<Next>(), (&raw const END).cast::<Next>());
            std::slice::from_raw_parts(first, end.offset_from(first) as usize)
        };
        on_large_stack(|| all.iter().for_each(|next| _ = next.get()));
    }
}

/// Names for which the C library keeps an older function for programs of twenty years ago. Before glibc 2.36, a
/// search for "the next one" found the older one, and an older `pthread_cond_wait` misinterprets the variable, which
/// is smaller.
#[cfg(target_arch = "x86_64")]
const VERSIONS: &[(&CStr, &CStr)] = &[
    (c"pthread_cond_wait", c"GLIBC_2.3.2"),
    (c"pthread_cond_timedwait", c"GLIBC_2.3.2"),
    (c"pthread_cond_signal", c"GLIBC_2.3.2"),
    (c"pthread_cond_broadcast", c"GLIBC_2.3.2"),
    (c"pthread_cond_init", c"GLIBC_2.3.2"),
    (c"pthread_cond_destroy", c"GLIBC_2.3.2"),
    (c"posix_spawn", c"GLIBC_2.15"),
    (c"posix_spawnp", c"GLIBC_2.15"),
    (c"fmemopen", c"GLIBC_2.22"),
    (c"sched_setaffinity", c"GLIBC_2.3.4"),
    (c"pthread_setaffinity_np", c"GLIBC_2.3.4"),
];
#[cfg(not(target_arch = "x86_64"))]
const VERSIONS: &[(&CStr, &CStr)] = &[];

unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

/// The result of a hook whose real function does not exist.
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
