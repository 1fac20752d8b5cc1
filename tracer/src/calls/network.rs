//! Calls on sockets: messages, connections, names of hosts.
//!
//! A call that finds nothing to take, and returns at once, is what a loop of events does all day: it is counted as left out.
//! Connections are all recorded, because they say who talks to whom.

use dlio_schemas::ops::Op;
use dlio_schemas::record::POS_UNKNOWN;

use crate::calls::call::Done;
use crate::calls::meaning::outcome;
use crate::calls::waits::is_short;
use crate::kernel::sockets;
use crate::known::{descriptors, number};
use crate::naming::{descriptor_files, object_names};
use crate::recording::counters;
use crate::thread::stack;
use crate::trace::header_page;

/// The socket of a descriptor. What is none has no part in this: a call on it failed.
fn socket(fd: i32, outcome: i64) -> u32 {
    const NO_SOCKET: [i64; 2] = [-libc::EBADF as i64, -libc::ENOTSOCK as i64];
    let file = if NO_SOCKET.contains(&outcome) { number::NONE } else { descriptor_files::file(fd) };
    if file == number::NONE { object_names::some_socket() } else { file }
}

/// A message was taken or sent, or could not be.
#[inline(always)]
pub fn messaged(done: Done, op: Op, fd: i32, requested: i64, ret: i64) {
    moved(done, op, fd, POS_UNKNOWN, requested, outcome(ret));
}

/// So many messages were taken or sent at once, with so many bytes.
#[inline(always)]
pub fn messaged_many(done: Done, op: Op, fd: i32, (messages, bytes): (i64, i64), requested: i64) {
    let failed = outcome(messages);
    moved(done, op, fd, messages.max(0), requested, if messages < 0 { failed } else { bytes });
}

fn moved(done: Done, op: Op, fd: i32, a: i64, requested: i64, outcome: i64) {
    if outcome == -libc::EAGAIN as i64 && is_short(done.duration) {
        return header_page::count_filtered();
    }
    let file = socket(fd, outcome);
    counters::at_message(done.start, done.duration, file, fd);
    done.record(op, file, fd, (a, a != POS_UNKNOWN), requested, outcome);
}

/// A socket was connected, is being connected, or could not be.
///
/// # Safety
/// `length` bytes can be read at `address`, unless the call failed for that.
pub unsafe fn connected(done: Done, fd: i32, address: *const libc::c_void, length: u32, ret: i64) {
    const UNREAD: [i32; 4] = [libc::EBADF, libc::ENOTSOCK, libc::EFAULT, libc::EINVAL];
    let outcome = outcome(ret);
    let is_read = !UNREAD.iter().any(|error| -*error as i64 == outcome);
    // SAFETY: by the contract above.
    let peer = if is_read { unsafe { sockets::given(address, length) } } else { None };
    let goes_on = [0, -libc::EINPROGRESS as i64, -libc::EINTR as i64].contains(&outcome);
    let to_peer = || stack::with_some_room(|| object_names::connecting(fd, peer?));
    let (file, other) = match to_peer() {
        Some(file) => {
            descriptors::renamed(fd, if goes_on { file } else { number::NONE });
            (file, 0)
        }
        None if ret == 0 => {
            // It may have been taken apart from its other end.
            descriptors::renamed(fd, number::NONE);
            (socket(fd, outcome), sockets::peer_process(fd))
        }
        None => (socket(fd, outcome), 0),
    };
    done.record(Op::CONNECT, file, fd, (other as i64, true), 0, outcome);
}

/// A connection was accepted, or none was there. `fd` is the socket that accepts.
pub fn accepted(done: Done, op: Op, fd: i32, flags: i64, ret: i32) {
    if ret < 0 && is_short(done.duration) {
        return header_page::count_filtered();
    }
    let outcome = outcome(ret as i64);
    let (file, other) = match ret {
        ..0 => (socket(fd, outcome), 0),
        _ => {
            // Whatever had this number before may have been closed unseen.
            descriptors::closed(ret);
            (descriptor_files::file(ret), sockets::peer_process(ret))
        }
    };
    done.record(op, file, fd, (other as i64, true), flags, outcome);
}

/// Two sockets were made that are each other's other end.
pub fn paired(done: Done, (first, second): (i32, i32), ret: i64) {
    let outcome = outcome(ret);
    if ret != 0 {
        return done.record(Op::SOCKETPAIR, object_names::some_socket(), -1, (0, true), 0, outcome);
    }
    let [own, other] = stack::with_some_room(|| {
        [first, second].map(|fd| {
            let inode = crate::kernel::sys::type_device_and_inode(fd).2;
            descriptors::closed(fd);
            descriptors::note_unless_seen(fd, object_names::local_socket(inode));
            inode
        })
    });
    done.record(Op::SOCKETPAIR, descriptors::seen(first), first, (own as i64, true), other as i64, outcome);
}

/// A call on a socket that moves nothing.
pub fn on_socket(done: Done, op: Op, fd: i32, a: i64, ret: i64) {
    let outcome = outcome(ret);
    done.record(op, socket(fd, outcome), fd, (a, true), 0, outcome);
}

/// An eventfd was made.
pub fn eventfd_made(done: Done, count: i64, flags: i64, fd: i32) {
    if fd < 0 {
        let outcome = outcome(fd as i64);
        return done.record(Op::EVENTFD, object_names::some_eventfd(), -1, (count, true), flags, outcome);
    }
    let (file, identity) = stack::with_some_room(object_names::new_eventfd);
    descriptors::opened(fd, file, 0);
    descriptors::set_eventfd(fd, identity);
    done.record(Op::EVENTFD, file, fd, (count, true), flags, fd as i64);
}

/// A host was looked up by its name, empty for this machine; `error` is what `getaddrinfo` returns.
pub fn looked_up(done: Done, host: &[u8], error: i32) {
    let file = stack::with_some_room(|| object_names::host(host));
    done.record(Op::GETADDRINFO, file, -1, (0, true), 0, errno_of(error));
}

/// The nearest error of the kernel's to one of a look-up.
fn errno_of(error: i32) -> i64 {
    let errno = match error {
        0 => 0,
        libc::EAI_SYSTEM => return outcome(-1),
        libc::EAI_NONAME => libc::ENOENT,
        libc::EAI_AGAIN => libc::EAGAIN,
        libc::EAI_MEMORY => libc::ENOMEM,
        libc::EAI_FAIL => libc::EIO,
        _ => libc::EINVAL,
    };
    -errno as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_look_ups_are_errors() {
        assert_eq!(errno_of(0), 0);
        assert_eq!(errno_of(libc::EAI_NONAME), -libc::ENOENT as i64);
        assert_eq!(errno_of(libc::EAI_SERVICE), -libc::EINVAL as i64);
    }
}
