//! The functions of `libdlio_mpi.so`, which the program loads when an MPI started it. This file is compiled into both.
//!
//! Each returns 0, or an MPI error code that [`Table::error_text`] has words for. At most one collective is under way at a
//! time, all on one thread.

use std::ffi::{c_int, c_void};

/// Raised with every change below.
pub const VERSION: u32 = 1;

#[repr(C)]
pub struct Table {
    pub version: u32,
    /// Writes what the MPI calls itself, as much as there is room for; returns the bytes written. Before `begin` too.
    pub name: unsafe extern "C" fn(into: *mut u8, room: usize) -> usize,
    /// Joins the other ranks.
    pub begin: unsafe extern "C" fn(rank: *mut u64, size: *mut u64) -> c_int,
    /// Leaves them. All ranks must come here, or none.
    pub end: unsafe extern "C" fn() -> c_int,
    pub start_barrier: unsafe extern "C" fn() -> c_int,
    /// Starts giving `length` bytes to all. `counts` and `places` say for each rank how many bytes of it come where in
    /// `into`. All memory must stay as it is until the collective is done.
    pub start_gather: unsafe extern "C" fn(
        own: *const u8,
        length: c_int,
        into: *mut u8,
        counts: *const c_int,
        places: *const c_int,
    ) -> c_int,
    /// Sets `done` to 1 if what was started is finished, and `bytes` to how many a read gave.
    pub test: unsafe extern "C" fn(done: *mut c_int, bytes: *mut c_int) -> c_int,
    /// Opens a file for reading, together with all other ranks. `path` ends in a zero byte.
    pub open: unsafe extern "C" fn(path: *const u8, file: *mut *mut c_void) -> c_int,
    /// Starts reading so many bytes at `offset`, while all other ranks read theirs. The memory must stay as it is until
    /// that is done.
    pub start_read: unsafe extern "C" fn(file: *mut c_void, offset: i64, into: *mut u8, length: c_int) -> c_int,
    /// Closes it, together with all other ranks.
    pub close: unsafe extern "C" fn(file: *mut c_void) -> c_int,
    pub error_text: unsafe extern "C" fn(code: c_int, into: *mut u8, room: usize) -> usize,
}
