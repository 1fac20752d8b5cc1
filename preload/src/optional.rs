//! Hooks for functions of a library that few programs have.
//!
//! Only the library's own functions, which have its version, are recorded. Calls to other functions of these names
//! are passed on unchanged. Results are negative error numbers, and errno is not changed.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::*};

use dlio_tracer::thread::stack::with_stack_space;

/// The real function behind a hook, looked up at its first call.
pub struct Next {
    found: AtomicPtr<c_void>,
    is_meant: AtomicBool,
}

unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

impl Next {
    pub const fn new() -> Next {
        Next { found: AtomicPtr::new(std::ptr::null_mut()), is_meant: AtomicBool::new(false) }
    }

    /// Returns its address, and whether it belongs to the library; null if it does not exist. `hook` is the function
    /// that precedes it.
    pub fn get(&self, name: &CStr, version: &CStr, libraries: &[&CStr], hook: *const c_void) -> (*mut c_void, bool) {
        let found = self.found.load(Acquire);
        if !found.is_null() {
            return (found, self.is_meant.load(Relaxed));
        }
        let (found, is_meant) = with_stack_space(|| search(name, version, libraries, hook));
        self.is_meant.store(is_meant, Relaxed);
        self.found.store(found, Release);
        (found, is_meant)
    }
}

/// Searches in the order in which the loader would have: the next global definition; that of the library, which
/// another library has loaded for itself; or one that a library contains privately.
fn search(name: &CStr, version: &CStr, libraries: &[&CStr], hook: *const c_void) -> (*mut c_void, bool) {
    // SAFETY: terminated names; a library that is not loaded is not loaded for this either.
    unsafe {
        let of_version = dlvsym(libc::RTLD_NEXT, name.as_ptr(), version.as_ptr());
        if !of_version.is_null() {
            return (of_version, true);
        }
        let other = libc::dlsym(libc::RTLD_NEXT, name.as_ptr());
        if !other.is_null() {
            return (other, false);
        }
        let own = libraries.iter().find_map(|library| {
            let handle = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            let found = if handle.is_null() { handle } else { dlvsym(handle, name.as_ptr(), version.as_ptr()) };
            (!found.is_null()).then_some(found)
        });
        own.map_or_else(|| (inside_another(name, hook), false), |own| (own, true))
    }
}

/// Maximum length of an inspected path; a longer one is skipped.
const PATH: usize = 1024;

/// More libraries than any program has.
const LOADED_MAX: usize = 4096;

/// The path of a loaded object, by its number.
struct Loaded {
    left: usize,
    path: [u8; PATH],
}

/// Returns a function inside an object that was loaded privately; null if there is none.
fn inside_another(name: &CStr, hook: *const c_void) -> *mut c_void {
    /// # Safety
    /// As the loader calls it.
    unsafe extern "C" fn take(info: *mut libc::dl_phdr_info, _size: usize, wanted: *mut c_void) -> c_int {
        // SAFETY: the loader passes a description, and the pointer given below.
        let (info, wanted) = unsafe { (&*info, &mut *wanted.cast::<Loaded>()) };
        if wanted.left > 0 {
            wanted.left -= 1;
            return 0;
        }
        let path: &[u8] = match info.dlpi_name.is_null() {
            true => b"\0",
            // SAFETY: a terminated name.
            false => unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes_with_nul(),
        };
        let path = if path.len() > PATH { b"\0" } else { path };
        wanted.path[..path.len()].copy_from_slice(path);
        1
    }
    for number in 0..LOADED_MAX {
        let mut loaded = Loaded { left: number, path: [0; PATH] };
        // SAFETY: the callback's data lives until it returns.
        if unsafe { libc::dl_iterate_phdr(Some(take), (&raw mut loaded).cast()) } == 0 {
            break;
        }
        let path = CStr::from_bytes_until_nul(&loaded.path).unwrap_or_default();
        if path.is_empty() {
            continue;
        }
        // SAFETY: terminated names; the object is closed again, and remains loaded because the caller is in it.
        unsafe {
            let handle = libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if handle.is_null() {
                continue;
            }
            let found = libc::dlsym(handle, name.as_ptr());
            libc::dlclose(handle);
            if !found.is_null() && found.cast_const() != hook {
                return found;
            }
        }
    }
    std::ptr::null_mut()
}

/// `next` is the real function, `call` the start of a recorded call.
macro_rules! optional {
    ($libraries:ident; $($name:ident $version:literal ($($arg:ident: $of:ty),*); |$next:ident, $call:ident| $body:expr)*) => {$(
        /// # Safety
        /// As the library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $of),*) -> c_int {
            static NEXT: $crate::optional::Next = $crate::optional::Next::new();
            let hook = $name as *const c_void;
            let (address, is_meant) = NEXT.get($crate::c_name!($name), $version, $libraries, hook);
            if address.is_null() {
                return -libc::ENOSYS;
            }
            // SAFETY: the function of this name has this signature; the arguments are passed on unchanged.
            unsafe {
                let $next = std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($of),*) -> c_int>(address);
                let layer = dlio_tracer::ops::Layer::Posix;
                let call = if is_meant { dlio_tracer::calls::call::begin(layer) } else { None };
                let Some($call) = call else { return $next($($arg),*) };
                $body
            }
        }
    )*};
}

pub(crate) use optional;
