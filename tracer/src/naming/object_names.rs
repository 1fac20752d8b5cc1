//! Names of pipes, sockets, connections and eventfds, queried from the kernel once per descriptor.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use dlio_schemas::objects::{Kind, Name};

use crate::kernel::{sockets, sys};
use crate::known::{descriptors, number};
use crate::naming::path_numbers::{identified, object};

/// A name, and whether it is final. A socket without a port gets another name when it is connected.
#[derive(Clone, Copy)]
pub struct ObjectName {
    pub number: u32,
    pub stays: bool,
}

/// Returns the name of the pipe with this inode.
pub fn pipe(inode: u64) -> u32 {
    identified(Kind::Pipe, &Name::pipe(inode))
}

/// Returns the name of the pipe of a descriptor that a call has just created.
pub fn pipe_of(fd: i32) -> u32 {
    pipe(sys::type_device_and_inode(fd).2)
}

/// Returns the name of a socket by its inode, if it has no internet address.
pub fn local_socket(inode: u64) -> u32 {
    identified(Kind::Socket, &Name::socket(inode))
}

/// Returns the name of a socket that cannot be queried, or of an object that a program used like a socket.
pub fn some_socket() -> u32 {
    object(Kind::Socket.name().as_bytes())
}

/// Returns the name of an eventfd that could not be created.
pub fn some_eventfd() -> u32 {
    object(Kind::Eventfd.name().as_bytes())
}

/// Returns the name of the socket with this inode.
pub fn socket(fd: i32, inode: u64) -> ObjectName {
    let named = |kind, name: &Name| ObjectName { number: identified(kind, name), stays: true };
    let own = || ObjectName { number: local_socket(inode), stays: true };
    let Some(local) = sockets::local(fd).filter(|local| local.is_internet) else { return own() };
    let Some(address) = local.address else { return ObjectName { stays: false, ..own() } };
    match sockets::option(fd, libc::SO_TYPE) {
        libc::SOCK_STREAM => match sockets::peer(fd) {
            Some(peer) => named(Kind::Tcp, &Name::tcp(address, peer)),
            None if sockets::option(fd, libc::SO_ACCEPTCONN) != 0 => {
                named(Kind::TcpListening, &Name::tcp_listening(address))
            }
            None => ObjectName { stays: false, ..own() },
        },
        libc::SOCK_DGRAM => named(Kind::Udp, &Name::udp(address, sockets::peer(fd))),
        _ => own(),
    }
}

/// Returns the name of a socket that is being connected to an internet address; `None` if sockets of its kind are not
/// named by address.
pub fn connecting(fd: i32, peer: std::net::SocketAddr) -> Option<u32> {
    let local = sockets::local(fd)?.address.unwrap_or_else(|| match peer.is_ipv4() {
        true => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
        false => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
    });
    match sockets::option(fd, libc::SO_TYPE) {
        libc::SOCK_STREAM => Some(identified(Kind::Tcp, &Name::tcp(local, peer))),
        libc::SOCK_DGRAM => Some(identified(Kind::Udp, &Name::udp(local, Some(peer)))),
        _ => None,
    }
}

/// Returns the name of a new eventfd and its identity for [`descriptors::set_eventfd`].
pub fn new_eventfd() -> (u32, i64) {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let identity = (sys::process_id() as i64) << 32 | (MADE.fetch_add(1, Relaxed) as i64 + 1);
    (eventfd(identity), identity)
}

/// Returns the name of a descriptor's eventfd, if its creation was seen.
pub fn known_eventfd(fd: i32) -> Option<u32> {
    descriptors::eventfd(fd).map(eventfd)
}

fn eventfd(identity: i64) -> u32 {
    identified(Kind::Eventfd, &Name::eventfd((identity >> 32) as u32, identity as u32))
}

/// Returns the name of a host that is being looked up; no host if only a service is looked up.
pub fn host(name: &[u8]) -> u32 {
    if name.is_empty() { number::NONE } else { identified(Kind::Host, &Name::host(name)) }
}
