//! What the kernel knows of a socket: both of its ends, its kind, the process at the other end.
//!
//! Straight to the kernel, as all of [`super::sys`].

use std::net::{IpAddr, SocketAddr};

use libc::{c_int, c_long};

use crate::kernel::sys;

/// An address as the kernel writes it.
type Address = libc::sockaddr_storage;

/// The family of a socket, and its own address where it is one of the internet's.
#[derive(Clone, Copy, Debug)]
pub struct Local {
    pub is_internet: bool,
    /// `None` where the socket has no port yet.
    pub address: Option<SocketAddr>,
}

/// This end of a socket; `None` where a descriptor is none.
pub fn local(fd: c_int) -> Option<Local> {
    let address = asked(libc::SYS_getsockname, fd)?;
    let is_internet = matches!(address.ss_family as c_int, libc::AF_INET | libc::AF_INET6);
    Some(Local { is_internet, address: internet(&address).filter(|address| address.port() != 0) })
}

/// The other end of a connection by the internet's protocols.
pub fn peer(fd: c_int) -> Option<SocketAddr> {
    internet(&asked(libc::SYS_getpeername, fd)?)
}

/// One of a socket's options: its kind (`SO_TYPE`), whether it accepts connections (`SO_ACCEPTCONN`).
pub fn option(fd: c_int, option: c_int) -> c_int {
    let (mut value, mut length) = (0 as c_int, size_of::<c_int>() as u32);
    let place = [fd as usize, libc::SOL_SOCKET as usize, option as usize, (&raw mut value).addr()];
    // SAFETY: the kernel fills a number and its length, which both live here.
    unsafe { sys::call(libc::SYS_getsockopt, [place[0], place[1], place[2], place[3], (&raw mut length).addr(), 0]) };
    value
}

/// The process at the other end of a socket of this machine, when it connected or began to listen; 0 where nobody knows.
pub fn peer_process(fd: c_int) -> i32 {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as u32;
    let place = [fd as usize, libc::SOL_SOCKET as usize, libc::SO_PEERCRED as usize, (&raw mut found).addr()];
    // SAFETY: the kernel fills a structure and its length, which both live here.
    unsafe { sys::call(libc::SYS_getsockopt, [place[0], place[1], place[2], place[3], (&raw mut length).addr(), 0]) };
    found.pid
}

/// An address of the internet's that a program handed to the kernel.
///
/// # Safety
/// `length` bytes can be read at `address`.
pub unsafe fn given(address: *const libc::c_void, length: u32) -> Option<SocketAddr> {
    // SAFETY: an address is a structure of numbers, for which zero is a value.
    let mut copy: Address = unsafe { std::mem::zeroed() };
    let length = (length as usize).min(size_of::<Address>());
    // SAFETY: by the contract above; both have that many bytes, and the copy is this function's own.
    unsafe { std::ptr::copy_nonoverlapping(address.cast::<u8>(), (&raw mut copy).cast::<u8>(), length) };
    internet(&copy)
}

/// An address that the kernel tells by `getsockname` or `getpeername`.
fn asked(call: c_long, fd: c_int) -> Option<Address> {
    // SAFETY: as above.
    let mut address: Address = unsafe { std::mem::zeroed() };
    let mut length = size_of::<Address>() as u32;
    let (into, its_length) = ((&raw mut address).addr(), (&raw mut length).addr());
    // SAFETY: the kernel fills an address and its length, which both live here.
    let result = unsafe { sys::call(call, [fd as isize as usize, into, its_length, 0, 0, 0]) };
    (result == 0).then_some(address)
}

/// The address in the form that is written, for the families that have ports.
fn internet(address: &Address) -> Option<SocketAddr> {
    let address: *const Address = address;
    // SAFETY: an address has room for those of every family.
    let family = unsafe { (*address).ss_family } as c_int;
    match family {
        libc::AF_INET => {
            // SAFETY: as above, and its family says which it is.
            let address = unsafe { &*address.cast::<libc::sockaddr_in>() };
            let ip = IpAddr::from(address.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::new(ip, u16::from_be(address.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let address = unsafe { &*address.cast::<libc::sockaddr_in6>() };
            Some(SocketAddr::new(IpAddr::from(address.sin6_addr.s6_addr), u16::from_be(address.sin6_port)))
        }
        _ => None,
    }
}
