//! Calls on sockets: messages, connections, host names.
//!
//! An event loop constantly makes calls that find nothing to receive and return immediately; these are counted as
//! left out. All connections are recorded, because they show which processes communicate.

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

/// Returns the socket of a descriptor, or no file if the descriptor is not a socket, in which case the call failed.
fn socket(fd: i32, outcome: i64) -> u32 {
    const NO_SOCKET: [i64; 2] = [-libc::EBADF as i64, -libc::ENOTSOCK as i64];
    let file = if NO_SOCKET.contains(&outcome) { number::NONE } else { descriptor_files::file(fd) };
    if file == number::NONE { object_names::some_socket() } else { file }
}

/// Records a sent or received message, or the failure.
#[inline(always)]
pub fn messaged(done: Done, op: Op, fd: i32, requested: i64, ret: i64) {
    moved(done, op, fd, POS_UNKNOWN, requested, outcome(ret));
}

/// Records a call that sent or received `messages` messages with `bytes` bytes.
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

/// Records that a socket was connected, is being connected, or failed to connect.
///
/// # Safety
/// `length` bytes can be read at `address`, unless an invalid address made the call fail.
pub unsafe fn connected(done: Done, fd: i32, address: *const libc::c_void, length: u32, ret: i64) {
    const UNREAD: [i32; 4] = [libc::EBADF, libc::ENOTSOCK, libc::EFAULT, libc::EINVAL];
    let outcome = outcome(ret);
    let is_read = !UNREAD.iter().any(|error| -*error as i64 == outcome);
    // SAFETY: by the contract above.
    let peer = if is_read { unsafe { sockets::read_address(address, length) } } else { None };
    let goes_on = [0, -libc::EINPROGRESS as i64, -libc::EINTR as i64].contains(&outcome);
    let to_peer = || stack::with_stack_space(|| object_names::connecting(fd, peer?));
    let (file, other) = match to_peer() {
        Some(file) => {
            descriptors::renamed(fd, if goes_on { file } else { number::NONE });
            (file, 0)
        }
        None if ret == 0 => {
            // The socket may have been named earlier by its peer.
            descriptors::renamed(fd, number::NONE);
            (socket(fd, outcome), sockets::peer_process(fd))
        }
        None => (socket(fd, outcome), 0),
    };
    done.record(Op::CONNECT, file, fd, (other as i64, true), 0, outcome);
}

/// Records an accepted connection, or that none was pending. `fd` is the listening socket.
pub fn accepted(done: Done, op: Op, fd: i32, flags: i64, ret: i32) {
    if ret < 0 && is_short(done.duration) {
        return header_page::count_filtered();
    }
    let outcome = outcome(ret as i64);
    let (file, other) = match ret {
        ..0 => (socket(fd, outcome), 0),
        _ => {
            // The previous file with this number may have been closed unseen.
            descriptors::closed(ret);
            (descriptor_files::file(ret), sockets::peer_process(ret))
        }
    };
    done.record(op, file, fd, (other as i64, true), flags, outcome);
}

/// Records the creation of a pair of connected sockets.
pub fn paired(done: Done, (first, second): (i32, i32), ret: i64) {
    let outcome = outcome(ret);
    if ret != 0 {
        return done.record(Op::SOCKETPAIR, object_names::some_socket(), -1, (0, true), 0, outcome);
    }
    let [own, other] = stack::with_stack_space(|| {
        [first, second].map(|fd| {
            let inode = crate::kernel::sys::type_device_and_inode(fd).2;
            descriptors::closed(fd);
            descriptors::note_unless_seen(fd, object_names::local_socket(inode));
            inode
        })
    });
    done.record(Op::SOCKETPAIR, descriptors::seen(first), first, (own as i64, true), other as i64, outcome);
}

/// Records a call on a socket that transfers no data.
pub fn on_socket(done: Done, op: Op, fd: i32, a: i64, ret: i64) {
    let outcome = outcome(ret);
    done.record(op, socket(fd, outcome), fd, (a, true), 0, outcome);
}

/// Records the creation of an eventfd.
pub fn eventfd_made(done: Done, count: i64, flags: i64, fd: i32) {
    if fd < 0 {
        let outcome = outcome(fd as i64);
        return done.record(Op::EVENTFD, object_names::some_eventfd(), -1, (count, true), flags, outcome);
    }
    let (file, identity) = stack::with_stack_space(object_names::new_eventfd);
    descriptors::opened(fd, file, 0);
    descriptors::set_eventfd(fd, identity);
    done.record(Op::EVENTFD, file, fd, (count, true), flags, fd as i64);
}

/// Records the lookup of a host name, empty for the local host; `error` is the result of `getaddrinfo`.
pub fn looked_up(done: Done, host: &[u8], error: i32) {
    let file = stack::with_stack_space(|| object_names::host(host));
    done.record(Op::GETADDRINFO, file, -1, (0, true), 0, errno_of(error));
}

/// Returns the kernel error closest to an error of `getaddrinfo`.
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
    fn lookup_errors_map_to_errno() {
        assert_eq!(errno_of(0), 0);
        assert_eq!(errno_of(libc::EAI_NONAME), -libc::ENOENT as i64);
        assert_eq!(errno_of(libc::EAI_SERVICE), -libc::EINVAL as i64);
    }
}
