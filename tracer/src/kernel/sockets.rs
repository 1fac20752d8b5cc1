//! The kernel's information on a socket: both ends, its kind, the process at the other end.
//!
//! Calls the kernel directly, like all of [`super::sys`].

use std::net::{IpAddr, SocketAddr};

use libc::{c_int, c_long};

use crate::kernel::sys;

/// An address in the kernel's layout.
type Address = libc::sockaddr_storage;

/// The address family of a socket, and its local address if it is an internet socket.
#[derive(Clone, Copy, Debug)]
pub struct Local {
    pub is_internet: bool,
    /// `None` if the socket has no port yet.
    pub address: Option<SocketAddr>,
}

/// Returns the local end of a socket; `None` if the descriptor is not a socket.
pub fn local(fd: c_int) -> Option<Local> {
    let address = socket_address(libc::SYS_getsockname, fd)?;
    let is_internet = matches!(address.ss_family as c_int, libc::AF_INET | libc::AF_INET6);
    Some(Local { is_internet, address: internet(&address).filter(|address| address.port() != 0) })
}

/// Returns the remote end of an internet connection.
pub fn peer(fd: c_int) -> Option<SocketAddr> {
    internet(&socket_address(libc::SYS_getpeername, fd)?)
}

/// Returns an option of a socket, such as its kind (`SO_TYPE`) or whether it accepts connections (`SO_ACCEPTCONN`).
pub fn option(fd: c_int, option: c_int) -> c_int {
    let (mut value, mut length) = (0 as c_int, size_of::<c_int>() as u32);
    let place = [fd as usize, libc::SOL_SOCKET as usize, option as usize, (&raw mut value).addr()];
    // SAFETY: the kernel fills a number and its length, which both live here.
    unsafe { sys::call(libc::SYS_getsockopt, [place[0], place[1], place[2], place[3], (&raw mut length).addr(), 0]) };
    value
}

/// Returns the process at the other end of a local socket, as of the time it connected or began to listen; 0 if
/// unknown.
pub fn peer_process(fd: c_int) -> i32 {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as u32;
    let place = [fd as usize, libc::SOL_SOCKET as usize, libc::SO_PEERCRED as usize, (&raw mut found).addr()];
    // SAFETY: the kernel fills a structure and its length, which both live here.
    unsafe { sys::call(libc::SYS_getsockopt, [place[0], place[1], place[2], place[3], (&raw mut length).addr(), 0]) };
    found.pid
}

/// Connects to the local socket with this abstract name; a negative number on failure. Sending and receiving end after
/// `seconds`.
pub fn connect_abstract(name: &[u8], seconds: i64) -> c_int {
    // SAFETY: an address is a structure of numbers, for which zero is a value.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    if name.len() >= address.sun_path.len() {
        return -libc::ENAMETOOLONG;
    }
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    // The first byte remains zero: the name is not a path.
    address.sun_path[1..].iter_mut().zip(name).for_each(|(to, from)| *to = *from as libc::c_char);
    let length = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    let patience = libc::timeval { tv_sec: seconds, tv_usec: 0 };
    // SAFETY: the kernel reads an address and a time, which live here.
    unsafe {
        let fd = sys::call(libc::SYS_socket, [libc::AF_UNIX as usize, kind as usize, 0, 0, 0, 0]) as c_int;
        if fd < 0 {
            return fd;
        }
        for option in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
            let value = [libc::SOL_SOCKET as usize, option as usize, (&raw const patience).addr()];
            let size = size_of::<libc::timeval>();
            sys::call(libc::SYS_setsockopt, [fd as usize, value[0], value[1], value[2], size, 0]);
        }
        let result = sys::call(libc::SYS_connect, [fd as usize, (&raw const address).addr(), length, 0, 0, 0]);
        if result < 0 {
            sys::close(fd);
            return result as c_int;
        }
        fd
    }
}

/// Receives up to the buffer's size; returns the kernel's result.
pub fn receive(fd: c_int, into: &mut [u8]) -> isize {
    // SAFETY: the kernel fills the buffer.
    unsafe { sys::call(libc::SYS_recvfrom, [fd as usize, into.as_mut_ptr().addr(), into.len(), 0, 0, 0]) }
}

/// Returns an internet address that a program passed to the kernel.
///
/// # Safety
/// `length` bytes can be read at `address`.
pub unsafe fn read_address(address: *const libc::c_void, length: u32) -> Option<SocketAddr> {
    // SAFETY: an address is a structure of numbers, for which zero is a value.
    let mut copy: Address = unsafe { std::mem::zeroed() };
    let length = (length as usize).min(size_of::<Address>());
    // SAFETY: by the contract above; both have that many bytes, and the copy is this function's own.
    unsafe { std::ptr::copy_nonoverlapping(address.cast::<u8>(), (&raw mut copy).cast::<u8>(), length) };
    internet(&copy)
}

/// Returns an address from `getsockname` or `getpeername`.
fn socket_address(call: c_long, fd: c_int) -> Option<Address> {
    // SAFETY: as above.
    let mut address: Address = unsafe { std::mem::zeroed() };
    let mut length = size_of::<Address>() as u32;
    let (into, its_length) = ((&raw mut address).addr(), (&raw mut length).addr());
    // SAFETY: the kernel fills an address and its length, which both live here.
    let result = unsafe { sys::call(call, [fd as isize as usize, into, its_length, 0, 0, 0]) };
    (result == 0).then_some(address)
}

/// Converts an address, if its family has ports.
fn internet(address: &Address) -> Option<SocketAddr> {
    let address: *const Address = address;
    // SAFETY: the structure is large enough for addresses of every family.
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
