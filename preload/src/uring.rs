//! io_uring rings of liburing, which enters the kernel itself: the functions that create and end a ring, submit
//! requests, wait for results and register files. The requests are read from the ring, see
//! [`dlio_tracer::calls::uring`].
//!
//! Programs that make these calls by the function `syscall` are in [`crate::syscall`].

use std::ffi::{CStr, c_int, c_uint, c_void};

use dlio_tracer::calls::uring::queues::{LibraryRing, Params};
use dlio_tracer::calls::uring::rings::{self, Change};

use crate::optional::optional;

/// The library's names for the loader.
const LIBRARIES: &[&CStr] = &[c"liburing.so.2"];

/// Used for the functions that create a ring.
macro_rules! creates {
    ($ring:ident, $entries:ident, $call:ident, $real:expr) => {{
        rings::creates_in_library($ring);
        let ret = $real;
        rings::created_in_library($call.end(), $ring, $entries, ret);
        ret
    }};
}

/// Used for the functions that change the registered files.
macro_rules! registers {
    ($ring:ident, $call:ident, $real:expr, $change:expr) => {{
        let ret = $real;
        $call.end();
        if ret >= 0 {
            rings::registered_in_library($ring, $change);
        }
        ret
    }};
}

// ---- rings ----------------------------------------------------------------------------------------------------------

optional! {
    LIBRARIES;
    io_uring_queue_init c"LIBURING_2.0" (entries: c_uint, ring: *mut LibraryRing, flags: c_uint); |next, call| {
        creates!(ring, entries, call, next(entries, ring, flags))
    }
    io_uring_queue_init_params c"LIBURING_2.0" (entries: c_uint, ring: *mut LibraryRing, parameters: *mut c_void);
    |next, call| {
        creates!(ring, entries, call, next(entries, ring, parameters))
    }
    io_uring_queue_init_mem c"LIBURING_2.5" (entries: c_uint, ring: *mut LibraryRing, parameters: *mut c_void,
                                             memory: *mut c_void, size: usize);
    |next, call| {
        creates!(ring, entries, call, next(entries, ring, parameters, memory, size))
    }
    // Returns nothing.
    io_uring_queue_exit c"LIBURING_2.0" (ring: *mut LibraryRing); |next, call| {
        call.end();
        rings::ends_in_library(ring);
        next(ring)
    }
}

// ---- requests and results -------------------------------------------------------------------------------------------

optional! {
    LIBRARIES;
    io_uring_submit c"LIBURING_2.0" (ring: *mut LibraryRing); |next, call| {
        rings::enter_library(call, ring, || next(ring))
    }
    io_uring_submit_and_wait c"LIBURING_2.0" (ring: *mut LibraryRing, count: c_uint); |next, call| {
        rings::enter_library(call, ring, || next(ring, count))
    }
    io_uring_submit_and_wait_timeout c"LIBURING_2.2" (ring: *mut LibraryRing, result: *mut c_void, count: c_uint,
                                                      time: *mut c_void, signals: *mut c_void);
    |next, call| {
        rings::enter_library(call, ring, || next(ring, result, count, time, signals))
    }
    io_uring_submit_and_wait_min_timeout c"LIBURING_2.8" (ring: *mut LibraryRing, result: *mut c_void, count: c_uint,
                                                          time: *mut c_void, least: c_uint, signals: *mut c_void);
    |next, call| {
        rings::enter_library(call, ring, || next(ring, result, count, time, least, signals))
    }
    io_uring_submit_and_wait_reg c"LIBURING_2.8" (ring: *mut LibraryRing, result: *mut c_void, count: c_uint,
                                                  index: c_int);
    |next, call| {
        rings::enter_library(call, ring, || next(ring, result, count, index))
    }
    io_uring_submit_and_get_events c"LIBURING_2.3" (ring: *mut LibraryRing); |next, call| {
        rings::enter_library(call, ring, || next(ring))
    }
    io_uring_get_events c"LIBURING_2.3" (ring: *mut LibraryRing); |next, call| {
        rings::enter_library(call, ring, || next(ring))
    }
    io_uring_wait_cqes c"LIBURING_2.0" (ring: *mut LibraryRing, result: *mut c_void, count: c_uint, time: *mut c_void,
                                        signals: *mut c_void);
    |next, call| {
        rings::enter_library(call, ring, || next(ring, result, count, time, signals))
    }
    io_uring_wait_cqe_timeout c"LIBURING_2.0" (ring: *mut LibraryRing, result: *mut c_void, time: *mut c_void);
    |next, call| {
        rings::enter_library(call, ring, || next(ring, result, time))
    }
    io_uring_peek_batch_cqe c"LIBURING_2.0" (ring: *mut LibraryRing, results: *mut c_void, count: c_uint);
    |next, call| {
        rings::enter_library(call, ring, || next(ring, results, count))
    }
    // The inline functions that wait for a result call it if there is none.
    __io_uring_get_cqe c"LIBURING_2.0" (ring: *mut LibraryRing, result: *mut c_void, submit: c_uint, count: c_uint,
                                        signals: *mut c_void);
    |next, call| {
        rings::enter_library(call, ring, || next(ring, result, submit, count, signals))
    }
    __io_uring_sqring_wait c"LIBURING_2.0" (ring: *mut LibraryRing); |next, call| {
        rings::enter_library(call, ring, || next(ring))
    }
}

// ---- registered files -----------------------------------------------------------------------------------------------

optional! {
    LIBRARIES;
    io_uring_register_files c"LIBURING_2.0" (ring: *mut LibraryRing, list: *const c_int, count: c_uint); |next, call| {
        registers!(ring, call, next(ring, list, count), Change::All { list, count })
    }
    io_uring_register_files_tags c"LIBURING_2.1" (ring: *mut LibraryRing, list: *const c_int, tags: *const c_void,
                                                  count: c_uint);
    |next, call| {
        registers!(ring, call, next(ring, list, tags, count), Change::All { list, count })
    }
    io_uring_register_files_sparse c"LIBURING_2.2" (ring: *mut LibraryRing, count: c_uint); |next, call| {
        registers!(ring, call, next(ring, count), Change::All { list: std::ptr::null(), count })
    }
    io_uring_register_files_update c"LIBURING_2.0" (ring: *mut LibraryRing, first: c_uint, list: *const c_int,
                                                    count: c_uint);
    |next, call| {
        registers!(ring, call, next(ring, first, list, count), Change::Some { first, list, count })
    }
    io_uring_register_files_update_tag c"LIBURING_2.1" (ring: *mut LibraryRing, first: c_uint, list: *const c_int,
                                                        tags: *const c_void, count: c_uint);
    |next, call| {
        registers!(ring, call, next(ring, first, list, tags, count), Change::Some { first, list, count })
    }
    io_uring_unregister_files c"LIBURING_2.0" (ring: *mut LibraryRing); |next, call| {
        registers!(ring, call, next(ring), Change::None)
    }
}

// ---- the library's names of the kernel's calls ----------------------------------------------------------------------

optional! {
    LIBRARIES;
    io_uring_setup c"LIBURING_2.3" (entries: c_uint, parameters: *mut Params); |next, call| {
        let ret = next(entries, parameters);
        rings::created(call.end(), entries, parameters, ret as i64);
        ret
    }
    io_uring_enter c"LIBURING_2.3" (fd: c_uint, submit: c_uint, count: c_uint, flags: c_uint, signals: *mut c_void);
    |next, call| {
        let real = || next(fd, submit, count, flags, signals) as i64;
        rings::enter(call, fd as c_int, flags, real, |ret| ret) as c_int
    }
    io_uring_enter2 c"LIBURING_2.3" (fd: c_uint, submit: c_uint, count: c_uint, flags: c_uint, argument: *mut c_void,
                                     size: usize);
    |next, call| {
        let real = || next(fd, submit, count, flags, argument, size) as i64;
        rings::enter(call, fd as c_int, flags, real, |ret| ret) as c_int
    }
    io_uring_register c"LIBURING_2.3" (fd: c_uint, operation: c_uint, argument: *const c_void, count: c_uint);
    |next, call| {
        let ret = next(fd, operation, argument, count);
        call.end();
        if ret >= 0 {
            rings::registered(fd as c_int, operation, argument.expose_provenance(), count, ret as i64);
        }
        ret
    }
}
