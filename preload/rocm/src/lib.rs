//! `libdliotrace_rocm.so`: the function by which ROCm's library for profilers (rocprofiler-sdk) finds a tool.
//!
//! That library looks for the function in all libraries of the process. `libdliotrace.so` loads this one, from its own
//! directory, when it does so in a program that `dlio trace --gpu` runs.

// Without the standard library it has 4 KB instead of 270 KB. A profile that unwinds panics, as that of lints, needs it.
#![cfg_attr(panic = "abort", no_std)]

use core::ffi::{c_char, c_void};
use core::sync::atomic::{AtomicPtr, Ordering::*};

#[cfg(panic = "abort")]
#[panic_handler]
fn end(_: &core::panic::PanicInfo) -> ! {
    loop {}
}

/// The function that is called: one of `libdliotrace.so`, which stores it here; null until then.
#[unsafe(no_mangle)]
pub static dlio_rocprofiler_v1: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

type Configure = unsafe extern "C" fn(u32, *const c_char, u32, *mut c_void) -> *const c_void;

/// Returns the description of the tool, or null if there is none.
///
/// # Safety
/// As rocprofiler-sdk calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_configure(
    version: u32,
    runtime: *const c_char,
    priority: u32,
    client: *mut c_void,
) -> *const c_void {
    let function = dlio_rocprofiler_v1.load(Acquire);
    if function.is_null() {
        return core::ptr::null();
    }
    // SAFETY: a function of this type, and the arguments are passed on.
    unsafe {
        let configure = core::mem::transmute::<*mut c_void, Configure>(function);
        configure(version, runtime, priority, client)
    }
}
