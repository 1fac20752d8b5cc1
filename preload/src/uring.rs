//! Rings of io_uring that liburing makes: what is asked for through a ring no function tells, but that there is one does.
//!
//! A program that makes its ring itself maps it by `mmap`, which shows as much; liburing goes straight to the kernel. All of
//! its ways to a ring go through these functions.

use std::ffi::{CStr, c_int, c_uint, c_void};

use dlio_tracer::calls::meaning::uring_made;

use crate::optional::optional;

/// As the loader knows it.
const LIBRARIES: &[&CStr] = &[c"liburing.so.2", c"liburing.so.1"];

optional! {
    LIBRARIES;
    io_uring_queue_init_params c"LIBURING_2.0" (entries: c_uint, ring: *mut c_void, parameters: *mut c_void); |next, call| {
        let ret = next(entries, ring, parameters);
        uring_made(call.end(), entries, ret);
        ret
    }
    io_uring_queue_init_mem c"LIBURING_2.5" (entries: c_uint, ring: *mut c_void, parameters: *mut c_void, memory: *mut c_void,
                                             size: usize);
    |next, call| {
        let ret = next(entries, ring, parameters, memory, size);
        uring_made(call.end(), entries, ret);
        ret
    }
}
