//! `libdliotrace_inline.so`: redirects the calls of a function by writing into it.
//!
//! `libdliotrace.so` loads it from its own directory if `DLIO_TRACE_INLINE=1`, and determines the functions and their
//! replacements.

use std::ffi::c_void;

#[cfg(target_arch = "x86_64")]
mod instructions;

/// Not the program's allocator, which may be its own and not ready yet.
#[global_allocator]
static HEAP: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

/// Permanently overwrites the first instructions of a function with a jump and keeps a copy of them. Returns the
/// entry to the original function; null if it cannot be patched.
///
/// # Safety
/// `function` is null or a function, and `instead` is a function with the same signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlio_redirect_v1(function: *mut c_void, instead: *const c_void) -> *const c_void {
    // SAFETY: by the contract; a detour that is never dropped is permanent.
    unsafe {
        let Ok(detour) = retour::RawDetour::new(function.cast(), instead.cast()) else { return std::ptr::null() };
        let detour = std::mem::ManuallyDrop::new(detour);
        if detour.enable().is_err() { std::ptr::null() } else { std::ptr::from_ref(detour.trampoline()).cast() }
    }
}
