//! Requests that the C library executes on its own threads: one event when a request is submitted, another when its
//! result is fetched. The reads and writes of those threads are internal to the C library and not recorded.

use std::ffi::{c_int, c_void};

use dlio_tracer::calls::call::Done;
use dlio_tracer::calls::meaning::*;
use dlio_tracer::naming::descriptor_files;
use dlio_tracer::ops::Op;
use libc::{aiocb, off_t, size_t, ssize_t, timespec};

use crate::rows;

rows! { Posix
    [aio_read aio_read64] (request: *mut aiocb) -> c_int; {
        unless leaves_out(fd_of(request));
        |done, ret| submitted(done, Op::AIO_READ, request, ret)
    }
    [aio_write aio_write64] (request: *mut aiocb) -> c_int; {
        unless leaves_out(fd_of(request));
        |done, ret| submitted(done, Op::AIO_WRITE, request, ret)
    }
    [aio_fsync aio_fsync64] (kind: c_int, request: *mut aiocb) -> c_int; {
        unless leaves_out(fd_of(request));
        |done, ret| plain(done, Op::AIO_FSYNC, descriptor_files::file(fd_of(request)), fd_of(request), ret as i64)
    }
    [aio_return aio_return64] (request: *mut aiocb) -> ssize_t; {
        unless leaves_out(fd_of(request));
        // The result does not come with an errno, and the request may be reused afterwards.
        with error = libc::aio_error(request);
        |done, ret| fetched(done, request, error, ret as i64)
    }
    [aio_suspend aio_suspend64] (list: *const *const aiocb, count: c_int, timeout: *const timespec) -> c_int; {
        |done, ret| on_nothing(done, Op::AIO_SUSPEND, count as i64, 0, ret as i64)
    }
    [aio_cancel aio_cancel64] (fd: c_int, request: *mut aiocb) -> c_int; {
        unless leaves_out(fd);
        |done, ret| plain(done, Op::AIO_CANCEL, descriptor_files::file(fd), fd, ret as i64)
    }
    [lio_listio lio_listio64] (mode: c_int, list: *const *mut aiocb, count: c_int, signal: *mut c_void) -> c_int; {
        |done, ret| on_nothing(done, Op::LIO_LISTIO, count as i64, 0, ret as i64)
    }
}

/// Returns the descriptor of a request, or -1.
///
/// # Safety
/// `request` is null or a request.
unsafe fn fd_of(request: *const aiocb) -> c_int {
    // SAFETY: null, or a request of the program's own.
    if request.is_null() { -1 } else { unsafe { (*request).aio_fildes } }
}

/// Returns the position and length of a request.
///
/// # Safety
/// `request` is a request that can be read.
unsafe fn range_of(request: *const aiocb) -> (off_t, size_t) {
    // SAFETY: the real call has just read the same fields.
    unsafe { ((*request).aio_offset, (*request).aio_nbytes) }
}

/// # Safety
/// `request` is a request that can be read.
unsafe fn submitted(done: Done, op: Op, request: *const aiocb, ret: c_int) {
    // SAFETY: as above.
    unsafe {
        let (at, size) = range_of(request);
        on_descriptor(done, op, fd_of(request), at, size as i64, ret as i64);
    }
}

/// Records a fetched result. The C library notes the operation in the request, regardless of the function that
/// submitted it; a bit marks the 64-bit names.
///
/// # Safety
/// `request` is a request that can be read.
unsafe fn fetched(done: Done, request: *const aiocb, error: c_int, ret: i64) {
    const NAME_64: c_int = 128;
    // SAFETY: the real call has just read the same request.
    unsafe {
        let (fd, (at, size)) = (fd_of(request), range_of(request));
        let result = if ret < 0 { -error as i64 } else { ret };
        let moved = |op| done.record(op, descriptor_files::file(fd), fd, (at, true), size as i64, result);
        match (*request).aio_lio_opcode & !NAME_64 {
            libc::LIO_READ => moved(Op::AIO_READ_DONE),
            libc::LIO_WRITE => moved(Op::AIO_WRITE_DONE),
            _ => done.record(Op::AIO_FSYNC_DONE, descriptor_files::file(fd), fd, (0, true), 0, result),
        }
    }
}
