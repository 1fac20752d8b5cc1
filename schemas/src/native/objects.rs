//! Names of what lies between processes: pipes, sockets, connections, counters of events.
//!
//! The tracer writes such a name in the place of a path, and it carries the identity of the object, so that both ends and every
//! process that holds one bear the same. Writer and reader:
//!
//! | name | object | identity |
//! |---|---|---|
//! | `<pipe 12345>` | pipe | inode, the same at both ends |
//! | `<socket 12345>` | socket of the machine (AF_UNIX and others), or one not connected yet | inode of this end |
//! | `<eventfd 77-3>` | the third `eventfd()` of process 77 | both numbers |
//! | `<tcp 10.0.0.1:51234 10.0.0.2:80>` | connection: this end, the other end | both ends, in order |
//! | `<udp 10.0.0.1:51234 10.0.0.2:53>` | the same | the same |
//! | `<udp 10.0.0.1:51234>` | socket for datagrams of many | this end |
//! | `<tcp listening 10.0.0.2:80>` | socket that accepts connections | this end |
//! | `<host example.org>` | name that was looked up | the name |
//!
//! `<pipe>` and `<socket>` stand for objects that nobody could ask about. All begin with `<`, as everything does that is no stored
//! file.

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
    /// The name of all objects of this kind together; of listening sockets that of their connections.
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

    /// True if messages go through it by a socket.
    pub const fn is_socket(self) -> bool {
        matches!(self, Kind::Socket | Kind::Tcp | Kind::TcpListening | Kind::Udp)
    }
}

/// An object and what tells it from all others of its kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Object {
    pub kind: Kind,
    /// An inode, or a hash. Both ends of a pipe have the same, and both ends of a connection by TCP or UDP.
    pub id: u64,
    /// Addresses of this end and of the other end, where the name has them.
    pub local: Option<SocketAddr>,
    pub peer: Option<SocketAddr>,
}

impl Object {
    /// The object of a name; `None` for names of files, and for those that tell a kind alone.
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

/// The name of all objects of the kind that a name is of, where it tells more than that.
pub fn shared_name(name: &str) -> Option<&'static str> {
    // Most names are paths.
    if !name.starts_with('<') { None } else { Object::parse(name).map(|object| object.kind.name()) }
}

/// The kind of a name, whether or not it tells more.
pub fn kind_of(name: &str) -> Option<Kind> {
    if !name.starts_with('<') {
        return None;
    }
    const KINDS: [Kind; 6] = [Kind::Pipe, Kind::Socket, Kind::Eventfd, Kind::Tcp, Kind::Udp, Kind::Host];
    let of_kind = || KINDS.into_iter().find(|kind| kind.name() == name);
    Object::parse(name).map(|object| object.kind).or_else(of_kind)
}

/// The identity of an eventfd by the process that made it and how many it had made.
const fn eventfd_id(process: u32, number: u32) -> u64 {
    (process as u64) << 32 | number as u64
}

const FIRST: u64 = 0xcbf2_9ce4_8422_2325;

/// Mixes bytes into a hash (FNV-1a): few bytes, and a value that stays the same.
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
    /// Names of hosts have up to 255 bytes; what is longer is cut.
    const MAX: usize = 272;

    fn written(write: impl FnOnce(&mut Name) -> std::fmt::Result) -> Name {
        let mut name = Name { bytes: [0; Name::MAX], length: 0 };
        // A name without room for all is cut, which is no reason to have none.
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

    /// Of a host that was looked up by its name.
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

/// A socket of IPv6 may be connected by IPv4: the other end does not know.
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
    fn what_is_written_is_read() {
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
        // A server that listens for both families sees a client of the older one so.
        let mapped = read(&Name::tcp(end("[::ffff:127.0.0.1]:80"), end("[::ffff:127.0.0.1]:51234")));
        assert_eq!(mapped.id, ours.id);
    }

    #[test]
    fn names_of_kinds_alone_and_of_files_are_no_objects() {
        for name in ["<pipe>", "<socket>", "<terminal>", "<pipe x>", "<tcp 1:2>", "/data/<pipe 7>", "pipe 7", ""] {
            assert_eq!(Object::parse(name), None, "{name}");
        }
        assert_eq!(shared_name("<pipe 7>"), Some("<pipe>"));
        assert_eq!(shared_name("<pipe>"), None);
        assert_eq!((kind_of("<pipe>"), kind_of("<pipe 7>")), (Some(Kind::Pipe), Some(Kind::Pipe)));
        assert_eq!(kind_of("<terminal>"), None);
    }

    #[test]
    fn the_longest_names_are_cut_and_stay_closed() {
        let name = Name::host(&[b'x'; 400]);
        assert!(name.as_bytes().ends_with(b"x>") && name.as_bytes().len() < Name::MAX);
        assert_eq!(
            Name::udp(end("[ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe]:65535"), None).as_bytes().last(),
            Some(&b'>')
        );
    }
}
