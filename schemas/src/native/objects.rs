//! Names of objects between processes: pipes, sockets, connections, eventfds.
//!
//! The tracer writes such a name instead of a path. It contains the identity of the object, so both ends and every
//! process that has it open use the same name. Writer and reader:
//!
//! | name | object | identity |
//! |---|---|---|
//! | `<pipe 12345>` | pipe | inode, equal at both ends |
//! | `<socket 12345>` | local socket (AF_UNIX and others), or one not connected yet | inode of this end |
//! | `<eventfd 77-3>` | the third `eventfd()` of process 77 | both numbers |
//! | `<tcp 10.0.0.1:51234 10.0.0.2:80>` | connection: this end, the other end | both ends, in order |
//! | `<udp 10.0.0.1:51234 10.0.0.2:53>` | connected UDP socket | both ends, in order |
//! | `<udp 10.0.0.1:51234>` | socket for datagrams of several peers | this end |
//! | `<tcp listening 10.0.0.2:80>` | socket that accepts connections | this end |
//! | `<host example.org>` | name that was looked up | the name |
//!
//! `<pipe>` and `<socket>` represent objects that could not be queried. All begin with `<`, like every name of an
//! object that is not a stored file.

use std::fmt::Write;
use std::net::SocketAddr;

/// The kind of an object between processes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    Pipe,
    Socket,
    Eventfd,
    Tcp,
    TcpListening,
    Udp,
    Host,
}

impl Kind {
    /// Returns the common name of all objects of this kind; for listening sockets that of their connections.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Pipe => "<pipe>",
            Kind::Socket => "<socket>",
            Kind::Eventfd => "<eventfd>",
            Kind::Tcp | Kind::TcpListening => "<tcp>",
            Kind::Udp => "<udp>",
            Kind::Host => "<host>",
        }
    }

    /// Returns `true` if messages pass through it by a socket.
    pub const fn is_socket(self) -> bool {
        matches!(self, Kind::Socket | Kind::Tcp | Kind::TcpListening | Kind::Udp)
    }
}

/// An object and its identity among all objects of its kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Object {
    pub kind: Kind,
    /// An inode, or a hash. It is equal at both ends of a pipe and at both ends of a TCP or UDP connection.
    pub id: u64,
    /// Addresses of this end and of the other end, if the name contains them.
    pub local: Option<SocketAddr>,
    pub peer: Option<SocketAddr>,
}

impl Object {
    /// Returns the object of a name; `None` for names of files, and for names with only a kind.
    pub fn parse(name: &str) -> Option<Object> {
        let (kind, which) = name.strip_prefix('<')?.strip_suffix('>')?.split_once(' ')?;
        let of = |kind, id| Object { kind, id, local: None, peer: None };
        match kind {
            "pipe" => Some(of(Kind::Pipe, which.parse().ok()?)),
            "socket" => Some(of(Kind::Socket, which.parse().ok()?)),
            "eventfd" => {
                let (process, number) = which.split_once('-')?;
                Some(of(Kind::Eventfd, eventfd_id(process.parse().ok()?, number.parse().ok()?)))
            }
            "host" => Some(of(Kind::Host, hash(FIRST, which.as_bytes()))),
            "tcp" => match which.strip_prefix("listening ") {
                Some(local) => Object::of_ends(Kind::TcpListening, local.parse().ok()?, None),
                None => Object::of_pair(Kind::Tcp, which),
            },
            "udp" => match which.contains(' ') {
                true => Object::of_pair(Kind::Udp, which),
                false => Object::of_ends(Kind::Udp, which.parse().ok()?, None),
            },
            _ => None,
        }
    }

    fn of_pair(kind: Kind, ends: &str) -> Option<Object> {
        let (local, peer) = ends.split_once(' ')?;
        Object::of_ends(kind, local.parse().ok()?, Some(peer.parse().ok()?))
    }

    fn of_ends(kind: Kind, local: SocketAddr, peer: Option<SocketAddr>) -> Option<Object> {
        let mut ends = [Some(local), peer];
        ends.sort_unstable();
        let id = ends.into_iter().flatten().fold(FIRST, |id, end| match end {
            SocketAddr::V4(end) => hash(hash(id, &end.ip().octets()), &end.port().to_be_bytes()),
            SocketAddr::V6(end) => hash(hash(id, &end.ip().octets()), &end.port().to_be_bytes()),
        });
        Some(Object { kind, id, local: Some(local), peer })
    }
}

/// Returns the common name of all objects of a name's kind, if the name contains an identity.
pub fn shared_name(name: &str) -> Option<&'static str> {
    // Most names are paths.
    if !name.starts_with('<') { None } else { Object::parse(name).map(|object| object.kind.name()) }
}

/// Returns the kind of a name, with or without an identity.
pub fn kind_of(name: &str) -> Option<Kind> {
    if !name.starts_with('<') {
        return None;
    }
    const KINDS: [Kind; 6] = [Kind::Pipe, Kind::Socket, Kind::Eventfd, Kind::Tcp, Kind::Udp, Kind::Host];
    let of_kind = || KINDS.into_iter().find(|kind| kind.name() == name);
    Object::parse(name).map(|object| object.kind).or_else(of_kind)
}

/// Returns the identity of an eventfd, from the process that created it and its number there.
const fn eventfd_id(process: u32, number: u32) -> u64 {
    (process as u64) << 32 | number as u64
}

const FIRST: u64 = 0xcbf2_9ce4_8422_2325;

/// Mixes bytes into a hash (FNV-1a): few bytes, and the result must never change.
fn hash(before: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(before, |hash, byte| (hash ^ *byte as u64).wrapping_mul(0x0100_0000_01b3))
}

/// A name being written, without an allocation.
#[derive(Clone)]
pub struct Name {
    bytes: [u8; Name::MAX],
    length: usize,
}

impl Name {
    /// Names of hosts have up to 255 bytes; a longer name is truncated.
    const MAX: usize = 272;

    fn written(write: impl FnOnce(&mut Name) -> std::fmt::Result) -> Name {
        let mut name = Name { bytes: [0; Name::MAX], length: 0 };
        // A name that does not fit is truncated rather than dropped.
        let _ = write(&mut name);
        name
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    pub fn pipe(inode: u64) -> Name {
        Name::written(|name| write!(name, "<pipe {inode}>"))
    }

    pub fn socket(inode: u64) -> Name {
        Name::written(|name| write!(name, "<socket {inode}>"))
    }

    pub fn eventfd(process: u32, number: u32) -> Name {
        Name::written(|name| write!(name, "<eventfd {process}-{number}>"))
    }

    pub fn tcp(local: SocketAddr, peer: SocketAddr) -> Name {
        let (local, peer) = (canonical(local), canonical(peer));
        Name::written(|name| write!(name, "<tcp {local} {peer}>"))
    }

    pub fn tcp_listening(local: SocketAddr) -> Name {
        let local = canonical(local);
        Name::written(|name| write!(name, "<tcp listening {local}>"))
    }

    pub fn udp(local: SocketAddr, peer: Option<SocketAddr>) -> Name {
        let local = canonical(local);
        Name::written(|name| match peer.map(canonical) {
            Some(peer) => write!(name, "<udp {local} {peer}>"),
            None => write!(name, "<udp {local}>"),
        })
    }

    /// Returns the name of a host that was looked up.
    pub fn host(host: &[u8]) -> Name {
        let mut name = Name { bytes: [0; Name::MAX], length: 0 };
        name.push(b"<host ");
        name.push(&host[..host.len().min(255)]);
        name.push(b">");
        name
    }

    fn push(&mut self, bytes: &[u8]) {
        let length = bytes.len().min(Name::MAX - self.length);
        self.bytes[self.length..self.length + length].copy_from_slice(&bytes[..length]);
        self.length += length;
    }
}

impl Write for Name {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

/// Returns the address that the other end sees: an IPv6 socket may be connected by IPv4.
fn canonical(end: SocketAddr) -> SocketAddr {
    SocketAddr::new(end.ip().to_canonical(), end.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn read(name: &Name) -> Object {
        Object::parse(std::str::from_utf8(name.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn object_names_round_trip() {
        assert_eq!((read(&Name::pipe(7)).kind, read(&Name::pipe(7)).id), (Kind::Pipe, 7));
        assert_eq!((read(&Name::socket(8)).kind, read(&Name::socket(8)).id), (Kind::Socket, 8));
        assert_eq!(read(&Name::eventfd(9, 2)).id, 9 << 32 | 2);
        assert_ne!(read(&Name::eventfd(9, 2)).id, read(&Name::eventfd(9, 3)).id);
        let listening = read(&Name::tcp_listening(end("[::1]:80")));
        assert_eq!((listening.kind, listening.local), (Kind::TcpListening, Some(end("[::1]:80"))));
        let datagrams = read(&Name::udp(end("127.0.0.1:53"), None));
        assert_eq!((datagrams.kind, datagrams.peer), (Kind::Udp, None));
        assert_eq!(read(&Name::host(b"example.org")).kind, Kind::Host);
    }

    #[test]
    fn both_ends_of_a_connection_have_one_identity() {
        let (here, there) = (end("127.0.0.1:51234"), end("127.0.0.1:80"));
        let (ours, theirs) = (read(&Name::tcp(here, there)), read(&Name::tcp(there, here)));
        assert_eq!(ours.id, theirs.id);
        assert_eq!((ours.local, ours.peer), (theirs.peer, theirs.local));
        assert_ne!(ours.id, read(&Name::tcp(here, end("127.0.0.1:81"))).id);
        // A server that listens for both families sees an IPv4 client this way.
        let mapped = read(&Name::tcp(end("[::ffff:127.0.0.1]:80"), end("[::ffff:127.0.0.1]:51234")));
        assert_eq!(mapped.id, ours.id);
    }

    #[test]
    fn names_without_identity_are_not_objects() {
        for name in ["<pipe>", "<socket>", "<terminal>", "<pipe x>", "<tcp 1:2>", "/data/<pipe 7>", "pipe 7", ""] {
            assert_eq!(Object::parse(name), None, "{name}");
        }
        assert_eq!(shared_name("<pipe 7>"), Some("<pipe>"));
        assert_eq!(shared_name("<pipe>"), None);
        assert_eq!((kind_of("<pipe>"), kind_of("<pipe 7>")), (Some(Kind::Pipe), Some(Kind::Pipe)));
        assert_eq!(kind_of("<terminal>"), None);
    }

    #[test]
    fn long_names_are_truncated_and_stay_closed() {
        let name = Name::host(&[b'x'; 400]);
        assert!(name.as_bytes().ends_with(b"x>") && name.as_bytes().len() < Name::MAX);
        assert_eq!(
            Name::udp(end("[ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe]:65535"), None).as_bytes().last(),
            Some(&b'>')
        );
    }
}
