//! The entry through which CUDA starts a profiler: it loads the file that `CUDA_INJECTION64_PATH` names.
//!
//! Nothing here runs unless that variable names this library.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering::*};

use dlio_tracer::life::lifecycle;
use dlio_tracer::ops::Layer;
use dlio_tracer::spans::cupti::client::{self, Version};

use crate::slots;

/// Starts recording the work of GPUs. The result keeps this library loaded; it is used by the whole process.
///
/// # Safety
/// As CUDA calls it.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "CUDA looks up this name")]
pub unsafe extern "C" fn InitializeInjection() -> c_int {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    if lifecycle::records(Layer::App) && !IS_DONE.swap(true, AcqRel) {
        let found = find().ok_or(c"libcupti is not found; add its directory to LD_LIBRARY_PATH");
        // A client that has only version 1 would be refused beside one of version 2, and maybe also after it.
        let is_old = slots::is_called_without(c"cuptiSubscribe", c"cuptiSubscribe_v2");
        let allowed = if is_old { Version::One } else { Version::Two };
        // SAFETY: CUDA is initializing, and the library is not closed.
        match found.and_then(|library| unsafe { client::subscribe(library, allowed) }) {
            Ok(()) => client::replacements().for_each(|(name, _, hook)| slots::replace_calls(name, hook)),
            Err(cause) => lifecycle::say(&[b"cannot record the work of the GPU (--gpu): ", cause.to_bytes()]),
        }
    }
    1
}

/// Returns the copy of CUPTI that the process has loaded, because a second one does not work; otherwise loads one.
fn find() -> Option<*mut c_void> {
    const NAMES: [&CStr; 3] = [c"libcupti.so.13", c"libcupti.so.12", c"libcupti.so.11.8"];
    const INSTALLED: &CStr = c"/usr/local/cuda/extras/CUPTI/lib64/libcupti.so";
    let open = |name: &CStr, flags: c_int| {
        // SAFETY: a terminated name.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | flags) };
        (!handle.is_null()).then_some(handle)
    };
    let loaded = NAMES.iter().find_map(|name| open(name, libc::RTLD_NOLOAD));
    loaded.or_else(|| NAMES.iter().chain([&INSTALLED]).find_map(|name| open(name, 0)))
}
