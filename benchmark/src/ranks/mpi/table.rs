//! The functions of `libdlio_mpi.so`, which the program loads when an MPI started it. This file is compiled into both.
//!
//! Each function returns 0 or an MPI error code, for which [`Table::error_text`] returns a message. At most one
//! collective is in flight at a time, and all calls come from one thread.

use std::ffi::{c_int, c_void};

/// Raised with every change of this table.
pub const VERSION: u32 = 1;

#[repr(C)]
pub struct Table {
    pub version: u32,
    /// Writes the MPI's own name, truncated to `room` bytes; returns the bytes written. May be called before `begin`.
    pub name: unsafe extern "C" fn(into: *mut u8, room: usize) -> usize,
    /// Joins the other ranks.
    pub begin: unsafe extern "C" fn(rank: *mut u64, size: *mut u64) -> c_int,
    /// Leaves the other ranks. Either all ranks call this or none.
    pub end: unsafe extern "C" fn() -> c_int,
    pub start_barrier: unsafe extern "C" fn() -> c_int,
    /// Starts sending `length` bytes to all ranks. For each rank, `counts` is the number of bytes to receive and
    /// `places` is their position in `into`. All buffers must remain unchanged until the collective is done.
    pub start_gather: unsafe extern "C" fn(
        own: *const u8,
        length: c_int,
        into: *mut u8,
        counts: *const c_int,
        places: *const c_int,
    ) -> c_int,
    /// Sets `done` to 1 if the operation in flight has finished, and `bytes` to the bytes of a read.
    pub test: unsafe extern "C" fn(done: *mut c_int, bytes: *mut c_int) -> c_int,
    /// Opens a file for reading, together with all other ranks. `path` ends in a zero byte.
    pub open: unsafe extern "C" fn(path: *const u8, file: *mut *mut c_void) -> c_int,
    /// Starts reading `length` bytes at `offset` while all other ranks read theirs. The buffer must remain unchanged
    /// until the read is done.
    pub start_read: unsafe extern "C" fn(file: *mut c_void, offset: i64, into: *mut u8, length: c_int) -> c_int,
    /// Closes a file, together with all other ranks.
    pub close: unsafe extern "C" fn(file: *mut c_void) -> c_int,
    pub error_text: unsafe extern "C" fn(code: c_int, into: *mut u8, room: usize) -> usize,
}
