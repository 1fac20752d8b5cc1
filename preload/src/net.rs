//! Messages through sockets, connections, and the creation of sockets.
//!
//! Most of these calls are cancellation points: a thread may be cancelled inside the real call, when the hook has
//! nothing to undo.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use dlio_tracer::calls::meaning::{read_here, wrote_here};
use dlio_tracer::calls::network::*;
use dlio_tracer::naming::paths;
use dlio_tracer::ops::Op;
use libc::{iovec, mmsghdr, msghdr, size_t, ssize_t, timespec};

use crate::rows;

type Address = *const c_void;
type Length = *mut c_uint;

/// Returns the number of bytes that a message requests.
///
/// # Safety
/// `message` is the argument of the real call.
unsafe fn wanted(message: *const msghdr) -> i64 {
    if message.is_null() || paths::leads_nowhere(message.cast()) {
        return 0;
    }
    // SAFETY: the real call has just read it, or failed because of its address, which was just checked.
    unsafe { bytes_of((*message).msg_iov, (*message).msg_iovlen) }
}

/// Returns the number of bytes in a list of buffers.
///
/// # Safety
/// `list` has `count` entries, if it is valid.
unsafe fn bytes_of(list: *const iovec, count: usize) -> i64 {
    // SAFETY: by the contract above.
    unsafe { crate::posix::wanted(list, count.min(1024) as c_int) }
}

/// Returns the number of bytes that `count` messages moved, and the number they request.
///
/// # Safety
/// `list` has `count` messages that the real call has just moved.
unsafe fn moved(list: *const mmsghdr, count: c_int) -> (i64, i64) {
    if list.is_null() || count <= 0 {
        return (0, 0);
    }
    // SAFETY: by the contract above.
    let messages = unsafe { std::slice::from_raw_parts(list, count as usize) };
    messages.iter().fold((0, 0), |(bytes, asked), message| {
        // SAFETY: as above.
        let more = unsafe { bytes_of(message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) };
        (bytes + message.msg_len as i64, asked + more)
    })
}

// ---- messages ---------------------------------------------------------------------------------------------------------

rows! { Net
    [recv] (fd: c_int, into: *mut c_void, size: size_t, flags: c_int) -> ssize_t; {
        |done, ret| messaged(done, Op::RECV, fd, size as i64, ret as i64)
    }
    [__recv_chk] (fd: c_int, into: *mut c_void, size: size_t, room: size_t, flags: c_int) -> ssize_t; {
        |done, ret| messaged(done, Op::RECV, fd, size as i64, ret as i64)
    }
    [recvfrom] (fd: c_int, into: *mut c_void, size: size_t, flags: c_int, from: *mut c_void, length: Length) -> ssize_t; {
        |done, ret| messaged(done, Op::RECVFROM, fd, size as i64, ret as i64)
    }
    [__recvfrom_chk] (fd: c_int, into: *mut c_void, size: size_t, room: size_t, flags: c_int, from: *mut c_void, length: Length) -> ssize_t; {
        |done, ret| messaged(done, Op::RECVFROM, fd, size as i64, ret as i64)
    }
    [recvmsg] (fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t; {
        |done, ret| messaged(done, Op::RECVMSG, fd, wanted(message), ret as i64)
    }
    [recvmmsg] (fd: c_int, list: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int; {
        |done, ret| {
            let (bytes, asked) = moved(list, ret);
            messaged_many(done, Op::RECVMMSG, fd, (ret as i64, bytes), asked)
        }
    }
    [send __send] (fd: c_int, from: *const c_void, size: size_t, flags: c_int) -> ssize_t; {
        |done, ret| messaged(done, Op::SEND, fd, size as i64, ret as i64)
    }
    [sendto] (fd: c_int, from: *const c_void, size: size_t, flags: c_int, to: Address, length: c_uint) -> ssize_t; {
        |done, ret| messaged(done, Op::SENDTO, fd, size as i64, ret as i64)
    }
    [sendmsg] (fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t; {
        |done, ret| messaged(done, Op::SENDMSG, fd, wanted(message), ret as i64)
    }
    [sendmmsg] (fd: c_int, list: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int; {
        |done, ret| {
            let (bytes, asked) = moved(list, ret);
            messaged_many(done, Op::SENDMMSG, fd, (ret as i64, bytes), asked)
        }
    }
}

// ---- connections ------------------------------------------------------------------------------------------------------

rows! { Net
    [connect __connect] (fd: c_int, address: Address, length: c_uint) -> c_int; {
        |done, ret| connected(done, fd, address, length, ret as i64)
    }
    [socketpair] (family: c_int, kind: c_int, protocol: c_int, ends: *mut c_int) -> c_int; {
        |done, ret| paired(done, if ret == 0 { (*ends, *ends.add(1)) } else { (-1, -1) }, ret as i64)
    }
    [shutdown] (fd: c_int, how: c_int) -> c_int; {
        |done, ret| on_socket(done, Op::SHUTDOWN, fd, how as i64, ret as i64)
    }
    [eventfd] (count: c_uint, flags: c_int) -> c_int; {
        |done, fd| eventfd_made(done, count as i64, flags as i64, fd)
    }
    [getaddrinfo] (host: *const c_char, service: *const c_char, hints: *const c_void, found: *mut *mut c_void) -> c_int; {
        |done, error| looked_up(done, name_of(host), error)
    }
}

// ---- eventfds ---------------------------------------------------------------------------------------------------------

/// Size of an eventfd's counter.
const COUNT: i64 = 8;

rows! { Posix
    [eventfd_read] (fd: c_int, into: *mut u64) -> c_int; {
        |done, ret| read_here(done, Op::READ, fd, COUNT, if ret == 0 { COUNT } else { -1 })
    }
    [eventfd_write] (fd: c_int, count: u64) -> c_int; {
        |done, ret| wrote_here(done, Op::WRITE, fd, COUNT, if ret == 0 { COUNT } else { -1 })
    }
}

/// Returns the name of a host; empty if it is null.
///
/// # Safety
/// `host` is null or a terminated name.
unsafe fn name_of<'a>(host: *const c_char) -> &'a [u8] {
    // SAFETY: by the contract above; the real call has read it.
    if host.is_null() { b"" } else { unsafe { CStr::from_ptr(host) }.to_bytes() }
}
