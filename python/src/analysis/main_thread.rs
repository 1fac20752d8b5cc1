//! The main thread, on which Python handles signals: work for it from other threads.

use std::ffi::{c_int, c_void};

use pyo3::ffi;
use pyo3::prelude::*;

type Call = Box<dyn FnOnce(Python<'_>) -> PyResult<()> + Send>;

/// Returns `true` on the main thread.
pub fn is_current() -> bool {
    // SAFETY: calls without arguments that cannot fail; glibc 2.17 has no `gettid`.
    unsafe { libc::syscall(libc::SYS_gettid) == libc::c_long::from(libc::getpid()) }
}

/// Calls a function on the main thread, as soon as that executes Python again. An error is raised there.
pub fn call_later(call: impl FnOnce(Python<'_>) -> PyResult<()> + Send + 'static) {
    let call: *mut Call = Box::into_raw(Box::new(Box::new(call)));
    // SAFETY: a function and its argument, which needs no interpreter lock.
    if unsafe { ffi::Py_AddPendingCall(Some(run), call.cast()) } != 0 {
        // SAFETY: from `into_raw` above; the interpreter has not accepted it.
        drop(unsafe { Box::from_raw(call) });
    }
}

extern "C" fn run(call: *mut c_void) -> c_int {
    // SAFETY: from `into_raw` in `call_later`; the interpreter calls this once.
    let call = unsafe { Box::from_raw(call.cast::<Call>()) };
    Python::attach(|py| match call(py) {
        Ok(()) => 0,
        Err(error) => {
            error.restore(py);
            -1
        }
    })
}
