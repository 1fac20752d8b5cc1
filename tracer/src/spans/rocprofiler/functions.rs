//! The functions of rocprofiler-sdk, which the process has loaded before it looks for tools.

use std::ffi::{CStr, c_char, c_int, c_void};

pub type Status = c_int;
pub const SUCCESS: Status = 0;

/// `rocprofiler_context_id_t` and `rocprofiler_buffer_id_t`: structures of one number.
pub type Id = u64;

/// `rocprofiler_record_header_t`.
#[repr(C)]
pub struct Header {
    pub category: u32,
    pub kind: u32,
    pub payload: *const u8,
}

/// A callback's record: 7 or 8 words, depending on the version, which the library passes as a value.
#[repr(C)]
pub struct CodeRecord(pub [u64; 8]);

pub type OnBuffer = unsafe extern "C" fn(Id, Id, *const *const Header, usize, *mut c_void, u64);
pub type OnCode = unsafe extern "C" fn(CodeRecord, *mut c_void, *mut c_void);
pub type OnAgents = unsafe extern "C" fn(c_int, *const *const u8, usize, *mut c_void) -> Status;

#[derive(Clone, Copy)]
pub struct Functions {
    pub create_context: unsafe extern "C" fn(*mut Id) -> Status,
    pub create_buffer: unsafe extern "C" fn(Id, usize, usize, c_int, OnBuffer, *mut c_void, *mut Id) -> Status,
    pub trace: unsafe extern "C" fn(Id, c_int, *const c_int, usize, Id) -> Status,
    pub call_back: unsafe extern "C" fn(Id, c_int, *const c_int, usize, OnCode, *mut c_void) -> Status,
    pub start: unsafe extern "C" fn(Id) -> Status,
    pub flush: unsafe extern "C" fn(Id) -> Status,
    pub agents: unsafe extern "C" fn(c_int, OnAgents, usize, *mut c_void) -> Status,
    time: unsafe extern "C" fn(*mut u64) -> Status,
    text: unsafe extern "C" fn(Status) -> *const c_char,
}

impl Functions {
    /// Returns the functions; `None` if one is missing.
    pub fn load() -> Option<Functions> {
        let library = library();
        // SAFETY: functions of these names have these types since version 0.5.
        unsafe {
            Some(Functions {
                create_context: function(library, c"rocprofiler_create_context")?,
                create_buffer: function(library, c"rocprofiler_create_buffer")?,
                trace: function(library, c"rocprofiler_configure_buffer_tracing_service")?,
                call_back: function(library, c"rocprofiler_configure_callback_tracing_service")?,
                start: function(library, c"rocprofiler_start_context")?,
                flush: function(library, c"rocprofiler_flush_buffer")?,
                agents: function(library, c"rocprofiler_query_available_agents")?,
                time: function(library, c"rocprofiler_get_timestamp")?,
                text: function(library, c"rocprofiler_get_status_string")?,
            })
        }
    }

    /// Returns the time of the library's clock, in nanoseconds.
    pub fn time(&self) -> Option<u64> {
        let mut ns = 0;
        // SAFETY: a function that writes a number.
        (unsafe { (self.time)(&mut ns) } == SUCCESS).then_some(ns)
    }

    /// Returns the library's text for an error.
    pub fn text_of(&self, status: Status) -> &'static CStr {
        // SAFETY: a function that returns a constant, or null.
        unsafe {
            let text = (self.text)(status);
            if text.is_null() { c"rocprofiler-sdk returns an unknown error" } else { CStr::from_ptr(text) }
        }
    }
}

/// Returns the library. If it is loaded by another name, its functions are visible to all.
fn library() -> *mut c_void {
    const NAMES: [&CStr; 3] = [c"librocprofiler-sdk.so.1", c"librocprofiler-sdk.so.0", c"librocprofiler-sdk.so"];
    // SAFETY: terminated names.
    let open = |name: &CStr| unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    NAMES.into_iter().map(open).find(|library| !library.is_null()).unwrap_or(libc::RTLD_DEFAULT)
}

/// Returns a function of a library.
///
/// # Safety
/// `F` is the type of the function with this name.
unsafe fn function<F: Copy>(library: *mut c_void, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: by the contract above.
    unsafe {
        let address = libc::dlsym(library, name.as_ptr());
        (!address.is_null()).then(|| std::mem::transmute_copy::<*mut c_void, F>(&address))
    }
}
