//! `libdliotrace_inline.so`: leads the calls of a function elsewhere, by writing into it.
//!
//! Loaded by `libdliotrace.so` from beside itself where `DLIO_TRACE_INLINE=1`; which functions, and where to, it is told.

use std::ffi::c_void;

/// Not the program's: its malloc may be its own, and may not be ready yet.
#[global_allocator]
static HEAP: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

/// Overwrites the first instructions of a function with a jump and keeps a copy of them, for good. Returns the way to the
/// function as it was; null where it cannot be patched.
///
/// # Safety
/// `function` is null or a function, and `instead` one of the same signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlio_redirect_v1(function: *mut c_void, instead: *const c_void) -> *const c_void {
    // SAFETY: by the contract; a detour that is never dropped stays for good.
    unsafe {
        let Ok(detour) = retour::RawDetour::new(function.cast(), instead.cast()) else { return std::ptr::null() };
        let detour = std::mem::ManuallyDrop::new(detour);
        if detour.enable().is_err() { std::ptr::null() } else { std::ptr::from_ref(detour.trampoline()).cast() }
    }
}
