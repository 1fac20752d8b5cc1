//! The entry through which ROCm finds a profiler: its libraries look for the function `rocprofiler_configure`.
//!
//! The function is in a library of its own, which is loaded when it is looked for. Programs end if they find it and
//! rocprofiler-sdk is not installed, so that is checked first. Nothing here runs unless `CUDA_INJECTION64_PATH` names this
//! library: `dlio trace --gpu` sets it.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::*};

use dlio_tracer::kernel::variables;
use dlio_tracer::life::lifecycle;
use dlio_tracer::ops::Layer;
use dlio_tracer::spans::rocprofiler::client;

use crate::own_files;

const LIBRARY: &[u8] = b"libdliotrace_rocm.so";
const LOOKED_FOR: &CStr = c"rocprofiler_configure";

/// Called before a function is looked up: loads the library with the function of tools if it is that one.
///
/// # Safety
/// `name` is null or terminated.
pub unsafe fn before_lookup(name: *const c_char) {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    // SAFETY: by the contract; almost all names differ in their first letters.
    let is_likely = || unsafe { *name == b'r' as c_char && *name.add(1) == b'o' as c_char };
    // SAFETY: as above.
    if name.is_null() || !is_likely() || unsafe { CStr::from_ptr(name) } != LOOKED_FOR {
        return;
    }
    if is_requested()
        && lifecycle::records(Layer::App)
        && !IS_DONE.swap(true, AcqRel)
        && let Err(cause) = load()
    {
        lifecycle::say(&[b"cannot record the work of the GPU (--gpu): ", cause.to_bytes()]);
    }
}

fn is_requested() -> bool {
    let own = || own_files::path().map(CStr::to_bytes);
    variables::variable("CUDA_INJECTION64_PATH").is_some_and(|tool| Some(tool) == own())
}

fn load() -> Result<(), &'static CStr> {
    if !finds_sdk() {
        return Err(c"librocprofiler-sdk is not found; install it with ROCm 6.3 or later, or add its directory to \
                     LD_LIBRARY_PATH");
    }
    let path = own_files::beside(LIBRARY).ok_or(c"the directory of libdliotrace.so is unknown")?;
    let library = open(&path, libc::RTLD_NOW | libc::RTLD_GLOBAL);
    let place: *const AtomicPtr<c_void> = function(library, c"dlio_rocprofiler_v1").cast();
    // SAFETY: the library's static of this name has this type, and it is never closed.
    match unsafe { place.as_ref() } {
        Some(place) => place.store(client::configure as *mut c_void, Release),
        None => return Err(c"libdliotrace_rocm.so is not found next to libdliotrace.so; install both"),
    }
    Ok(())
}

/// Returns `true` if the process has rocprofiler-sdk, or can load it. Without a choice of the user, that is the one in the
/// directory of the library that looks for tools, which is of the same version.
fn finds_sdk() -> bool {
    const NAMES: [&CStr; 3] = [c"librocprofiler-sdk.so", c"librocprofiler-sdk.so.1", c"librocprofiler-sdk.so.0"];
    const REGISTER: &CStr = c"librocprofiler-register.so.0";
    if variables::variable("ROCPROFILER_REGISTER_LIBRARY").is_some_and(|path| !path.is_empty()) {
        return true;
    }
    let flags = libc::RTLD_LAZY | libc::RTLD_GLOBAL;
    let is_sdk = |library: *mut c_void| !function(library, c"rocprofiler_set_api_table").is_null();
    let in_directory = || {
        let register =
            function(open(REGISTER, libc::RTLD_LAZY | libc::RTLD_NOLOAD), c"rocprofiler_register_library_api_table");
        // SAFETY: a struct of pointers that the call fills in; the library stays loaded.
        let path = unsafe {
            let mut object: libc::Dl_info = std::mem::zeroed();
            let is_found = !register.is_null() && libc::dladdr(register, &mut object) != 0;
            (is_found && !object.dli_fname.is_null()).then(|| CStr::from_ptr(object.dli_fname))
        };
        let beside = |name: &&CStr| path.and_then(|path| own_files::beside_file(path, name.to_bytes()));
        NAMES.iter().filter_map(beside).any(|path| is_sdk(open(&path, flags)))
    };
    let by_name = |flags: c_int| NAMES.iter().any(|name| is_sdk(open(name, flags)));
    by_name(flags | libc::RTLD_NOLOAD) || in_directory() || by_name(flags)
}

fn open(path: &CStr, flags: c_int) -> *mut c_void {
    // SAFETY: a terminated name.
    unsafe { libc::dlopen(path.as_ptr(), flags) }
}

/// Returns a function or static of a library; null if there is none.
fn function(library: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: a library that is never closed, and a terminated name.
    if library.is_null() { library } else { unsafe { libc::dlsym(library, name.as_ptr()) } }
}
