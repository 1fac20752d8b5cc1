//! io_uring rings created by liburing: the requests through a ring make no function call, but its creation does.
//!
//! A program that creates its ring itself maps it with `mmap`, which is recorded; liburing calls the kernel directly.
//! All its ways to create a ring use these functions.

use std::ffi::{CStr, c_int, c_uint, c_void};

use dlio_tracer::calls::meaning::uring_made;

use crate::optional::optional;

/// The library's names for the loader.
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
