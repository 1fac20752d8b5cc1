//! Names of pipes, sockets, connections and eventfds, asked of the kernel once for each descriptor.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use dlio_schemas::objects::{Kind, Name};

use crate::kernel::{sockets, sys};
use crate::known::{descriptors, number};
use crate::naming::path_numbers::{identified, object};

/// A name, and whether the object keeps it. A socket without a port gets another one when it has found its other end.
#[derive(Clone, Copy)]
pub struct Named {
    pub number: u32,
    pub stays: bool,
}

/// A pipe of this inode.
pub fn pipe(inode: u64) -> u32 {
    identified(Kind::Pipe, &Name::pipe(inode))
}

/// The pipe of a descriptor that a call has just made.
pub fn pipe_of(fd: i32) -> u32 {
    pipe(sys::type_device_and_inode(fd).2)
}

/// A socket by its inode, where it has no address of the internet's.
pub fn local_socket(inode: u64) -> u32 {
    identified(Kind::Socket, &Name::socket(inode))
}

/// A socket that nobody can ask about, or something else that a program took for one.
pub fn some_socket() -> u32 {
    object(Kind::Socket.name().as_bytes())
}

/// An eventfd that could not be made.
pub fn some_eventfd() -> u32 {
    object(Kind::Eventfd.name().as_bytes())
}

/// A socket of this inode.
pub fn socket(fd: i32, inode: u64) -> Named {
    let named = |kind, name: &Name| Named { number: identified(kind, name), stays: true };
    let own = || Named { number: local_socket(inode), stays: true };
    let Some(local) = sockets::local(fd).filter(|local| local.is_internet) else { return own() };
    let Some(address) = local.address else { return Named { stays: false, ..own() } };
    match sockets::option(fd, libc::SO_TYPE) {
        libc::SOCK_STREAM => match sockets::peer(fd) {
            Some(peer) => named(Kind::Tcp, &Name::tcp(address, peer)),
            None if sockets::option(fd, libc::SO_ACCEPTCONN) != 0 => {
                named(Kind::TcpListening, &Name::tcp_listening(address))
            }
            None => Named { stays: false, ..own() },
        },
        libc::SOCK_DGRAM => named(Kind::Udp, &Name::udp(address, sockets::peer(fd))),
        _ => own(),
    }
}

/// A socket that is being connected to an address of the internet's; `None` where it is none of those that are named so.
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

/// An eventfd that was just made: its name, and its identity for [`descriptors::set_eventfd`].
pub fn new_eventfd() -> (u32, i64) {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let identity = (sys::process_id() as i64) << 32 | (MADE.fetch_add(1, Relaxed) as i64 + 1);
    (eventfd(identity), identity)
}

/// The eventfd that a descriptor is, if it was seen being made.
pub fn known_eventfd(fd: i32) -> Option<u32> {
    descriptors::eventfd(fd).map(eventfd)
}

fn eventfd(identity: i64) -> u32 {
    identified(Kind::Eventfd, &Name::eventfd((identity >> 32) as u32, identity as u32))
}

/// A host that is looked up by its name; no host where only a service is.
pub fn host(name: &[u8]) -> u32 {
    if name.is_empty() { number::NONE } else { identified(Kind::Host, &Name::host(name)) }
}
