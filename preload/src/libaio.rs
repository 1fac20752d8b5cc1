//! Requests of libaio, which the kernel carries out: each is one event, see [`dlio_tracer::requests`].
//!
//! Only libaio's own functions are looked into: a library that has others by these names gets its calls as they came.

use std::ffi::{CStr, c_int, c_long, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::*};

use dlio_tracer::engine;
use dlio_tracer::ops::Layer;
use dlio_tracer::requests::{self, Event, Request};
use dlio_tracer::stack::with_some_room;

/// The function a hook stands before, looked for at its first call: few programs have it.
struct Next {
    found: AtomicPtr<c_void>,
    is_libaio: AtomicBool,
}

unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, name: *const libc::c_char, version: *const libc::c_char) -> *mut c_void;
}

impl Next {
    const fn new() -> Next {
        Next { found: AtomicPtr::new(std::ptr::null_mut()), is_libaio: AtomicBool::new(false) }
    }

    /// Its address, and whether it is libaio's; null where no library has it.
    fn get(&self, name: &CStr, version: &CStr) -> (*mut c_void, bool) {
        let found = self.found.load(Acquire);
        if !found.is_null() {
            return (found, self.is_libaio.load(Relaxed));
        }
        let (found, is_libaio) = with_some_room(|| search(name, version));
        self.is_libaio.store(is_libaio, Relaxed);
        self.found.store(found, Release);
        (found, is_libaio)
    }
}

/// What the loader would have given the caller: the next one that is there for all, or that of a libaio which a library has
/// brought for itself.
fn search(name: &CStr, version: &CStr) -> (*mut c_void, bool) {
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
        let own = [c"libaio.so.1", c"libaio.so.1t64"].into_iter().find_map(|library| {
            let handle = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            let found = if handle.is_null() { handle } else { dlvsym(handle, name.as_ptr(), version.as_ptr()) };
            (!found.is_null()).then_some(found)
        });
        (own.unwrap_or(std::ptr::null_mut()), own.is_some())
    }
}

/// `next` is the real function, `call` the beginning of one that is recorded. Results are negative numbers of errors, and
/// errno is left alone.
macro_rules! hooks {
    ($($name:ident $version:literal ($($arg:ident: $of:ty),*); |$next:ident, $call:ident| $body:expr)*) => {$(
        /// # Safety
        /// As libaio's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $of),*) -> c_int {
            static NEXT: Next = Next::new();
            let (address, is_libaio) = NEXT.get($crate::c_name!($name), $version);
            if address.is_null() {
                return -libc::ENOSYS;
            }
            // SAFETY: the function of this name has this signature; the arguments go on as they came.
            unsafe {
                let $next = std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($of),*) -> c_int>(address);
                let call = if is_libaio { engine::begin(Layer::Posix) } else { None };
                let Some($call) = call else { return $next($($arg),*) };
                $body
            }
        }
    )*};
}

hooks! {
    io_submit c"LIBAIO_0.1" (context: *mut c_void, count: c_long, list: *const *const Request); |next, call| {
        let noted = requests::submits(context.addr(), list, count);
        let ret = next(context, count, list);
        requests::submitted(call.end(), noted, ret);
        ret
    }
    io_getevents c"LIBAIO_0.4" (context: *mut c_void, least: c_long, most: c_long, events: *mut Event, timeout: *mut c_void);
    |next, call| {
        let ret = next(context, least, most, events, timeout);
        call.end();
        requests::fetched(events, ret);
        ret
    }
    io_pgetevents c"LIBAIO_0.5" (context: *mut c_void, least: c_long, most: c_long, events: *mut Event, timeout: *mut c_void,
                                 signals: *mut c_void);
    |next, call| {
        let ret = next(context, least, most, events, timeout, signals);
        call.end();
        requests::fetched(events, ret);
        ret
    }
    io_cancel c"LIBAIO_0.4" (context: *mut c_void, request: *mut Request, event: *mut Event); |next, call| {
        let ret = next(context, request, event);
        requests::cancelled(call.end(), event, ret);
        ret
    }
    io_destroy c"LIBAIO_0.4" (context: *mut c_void); |next, call| {
        let ret = next(context);
        call.end();
        if ret == 0 {
            requests::destroyed(context.addr());
        }
        ret
    }
}
