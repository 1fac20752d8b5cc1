//! Calls of CUDA and HIP in which the host waits for a device: of the runtimes that programs and Python packages bring with
//! them, and of the drivers.
//!
//! [`hooks`] are the functions that changed slots call. A library that is loaded with `dlopen` and whose functions are looked up
//! by `dlsym` is recorded, too. The CUDA runtime gets the functions of its driver from the driver itself, so these calls are not
//! hooked; the call of the runtime is recorded.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::Relaxed};

use dlio_tracer::life::lifecycle;
use dlio_tracer::ops::Layer;

use crate::libraries::Family;
use crate::libraries::entry::Entry;
use crate::libraries::imports::Object;

mod hooks;

/// Two versions of the runtime, the driver, and HIP; others are not recorded.
const LIBRARIES_MAX: usize = 4;

static LIBRARIES: [Library; LIBRARIES_MAX] = [const { Library::new() }; LIBRARIES_MAX];
static USED: AtomicUsize = AtomicUsize::new(0);

/// Addresses by function.
type Functions = [AtomicPtr<c_void>; hooks::FUNCTIONS];

/// A loaded library.
struct Library {
    entry: Entry,
    real: Functions,
    hooks: Functions,
}

impl Library {
    const fn new() -> Library {
        Library {
            entry: Entry::new(),
            real: [const { AtomicPtr::new(std::ptr::null_mut()) }; hooks::FUNCTIONS],
            hooks: [const { AtomicPtr::new(std::ptr::null_mut()) }; hooks::FUNCTIONS],
        }
    }
}

pub struct Device;

impl Family for Device {
    const LAYER: Layer = Layer::Device;
    const LIBRARIES: usize = LIBRARIES_MAX;
    const FUNCTIONS: usize = hooks::FUNCTIONS;

    fn has_name(file_name: &[u8]) -> bool {
        // Packages add a hash to the name of a runtime that they bring with them: `libcudart-d0da41ae.so.11.0`.
        let starts = |with: &[u8]| file_name.starts_with(with);
        starts(b"libcudart") || starts(b"libcuda.so") || starts(b"libamdhip64")
    }

    fn is_main(object: &Object) -> bool {
        let defines = |name: &CStr| !object.defined(name).is_null();
        defines(c"cudaDeviceSynchronize") || defines(c"cuCtxSynchronize") || defines(c"hipDeviceSynchronize")
    }

    fn used() -> &'static AtomicUsize {
        &USED
    }

    fn entry(library: usize) -> &'static Entry {
        &LIBRARIES[library].entry
    }

    fn real(library: usize, function: usize) -> *mut c_void {
        LIBRARIES[library].real[function].load(Relaxed)
    }

    fn hook(library: usize, function: usize) -> *mut c_void {
        LIBRARIES[library].hooks[function].load(Relaxed)
    }

    fn function(name: &CStr) -> Option<usize> {
        let is_likely = |start: &[u8]| name.to_bytes().starts_with(start);
        (is_likely(b"cu") || is_likely(b"hip")).then(|| hooks::names().position(|known| known == name))?
    }

    fn fill(library: usize, object: &Object) {
        for (name, real) in hooks::names().zip(&LIBRARIES[library].real) {
            real.store(object.defined(name), Relaxed);
        }
        hooks::fill(library, &LIBRARIES[library].hooks);
    }

    fn reject() {
        static IS_SAID: AtomicBool = AtomicBool::new(false);
        if !IS_SAID.swap(true, Relaxed) {
            lifecycle::say(&[b"calls of a fifth library of CUDA or HIP are not recorded"]);
        }
    }
}
