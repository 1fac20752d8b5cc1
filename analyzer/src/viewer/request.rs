//! Reads the request of a connection, one per connection, with a timeout that a trickle of bytes does not extend.

use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// No browser sends longer request heads.
const HEAD_MAX: usize = 16 << 10;

/// No browser sends more fields.
const FIELDS_MAX: usize = 64;

/// How long a request may take to arrive, and how long the client may take to receive more of a response. A browser
/// opens connections before it needs them; silent ones are closed.
pub const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    Get,
    Head,
    Options,
    Other,
}

#[derive(PartialEq, Eq, Debug)]
pub struct Request {
    pub method: Method,
    /// Without the query string.
    pub path: String,
    pub host: String,
}

/// Returns `None` for invalid requests.
pub fn read_request(stream: &mut TcpStream) -> io::Result<Option<Request>> {
    let end = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut piece = [0; 2048];
    loop {
        let left = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
        stream.set_read_timeout(Some(left.ok_or(ErrorKind::TimedOut)?))?;
        let used = stream.read(&mut piece)?;
        head.extend_from_slice(&piece[..used]);
        match parsed(&head) {
            Parsed::Request(request) => return Ok(Some(request)),
            Parsed::Partial if used > 0 && head.len() <= HEAD_MAX => {}
            _ => return Ok(None),
        }
    }
}

enum Parsed {
    Request(Request),
    Partial,
    Nonsense,
}

fn parsed(head: &[u8]) -> Parsed {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Parsed::Partial,
        Err(_) => return Parsed::Nonsense,
    }
    let Some(path) = request.path.and_then(|target| target.split(['?', '#']).next()) else { return Parsed::Nonsense };
    let host = request.headers.iter().find(|field| field.name.eq_ignore_ascii_case("host"));
    let host = host.map_or_else(String::new, |field| String::from_utf8_lossy(field.value).into_owned());
    let method = match request.method {
        Some("GET") => Method::Get,
        Some("HEAD") => Method::Head,
        Some("OPTIONS") => Method::Options,
        _ => Method::Other,
    };
    Parsed::Request(Request { method, path: path.into(), host })
}

/// Returns the other user of this host who made the connection: a browser's command line shows the whole address, which
/// others can read. If the system does not provide the user, the address alone protects.
pub fn stranger(stream: &TcpStream) -> Option<u32> {
    let owner = |table: &str| {
        let table = std::fs::read_to_string(table).ok()?;
        owner(&table, stream.peer_addr().ok()?, stream.local_addr().ok()?)
    };
    let theirs = owner("/proc/net/tcp").or_else(|| owner("/proc/net/tcp6"))?;
    let own = std::fs::metadata("/proc/self").ok()?.uid();
    // With sudo, the calling user runs the browser.
    let caller = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok()).filter(|_| own == 0);
    (theirs != own && Some(theirs) != caller).then_some(theirs)
}

/// Finds the user number in the kernel's table of connections, one per line: number, own address, other address, six
/// columns, user.
fn owner(table: &str, own: SocketAddr, other: SocketAddr) -> Option<u32> {
    // An address is the hexadecimal number of its bytes in host order. In the IPv6 table it is the last part of a
    // longer number.
    let shown = |address: SocketAddr| match address.ip() {
        IpAddr::V4(ip) => Some(format!("{:08X}:{:04X}", u32::from_ne_bytes(ip.octets()), address.port())),
        IpAddr::V6(_) => None,
    };
    let (own, other) = (shown(own)?, shown(other)?);
    let mut lines = table.lines().map(|line| line.split_whitespace());
    lines.find_map(|mut columns| {
        let is_it = columns.nth(1)?.ends_with(&own) && columns.next()?.ends_with(&other);
        is_it.then(|| columns.nth(4)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn requests_are_read_as_browsers_write_them() {
        let text = b"GET /a/b?c#d HTTP/1.1\r\nhOST: 127.0.0.1:9001 \r\nAccept: */*\r\n\r\n";
        let Parsed::Request(read) = parsed(text) else { panic!("not read") };
        assert_eq!(read, Request { method: Method::Get, path: "/a/b".into(), host: "127.0.0.1:9001".into() });
        assert!((0..text.len()).all(|end| matches!(parsed(&text[..end]), Parsed::Partial)));
        assert!(matches!(parsed(b"\x16\x03\x01\x02\x00"), Parsed::Nonsense));
    }

    #[test]
    fn timeout_covers_the_whole_request() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut slow = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut served, _) = listener.accept().unwrap();
        // Three times the timeout, after which the connection is closed, which would not be an error.
        let trickle = std::thread::spawn(move || {
            (0..60).take_while(|_| std::io::Write::write_all(&mut slow, b"G").is_ok()).for_each(|_| {
                std::thread::sleep(PATIENCE / 20);
            });
        });
        let read = read_request(&mut served);
        assert!(read.is_err(), "{read:?}");
        drop(served);
        trickle.join().unwrap();
    }

    #[test]
    fn owner_of_connection_is_found_in_proc() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (served, _) = listener.accept().unwrap();
        assert_eq!(stranger(&served), None);
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let (own, other) = (peer.local_addr().unwrap(), peer.peer_addr().unwrap());
        assert_eq!(owner(&table, own, other), Some(std::fs::metadata("/proc/self").unwrap().uid()));
        let table = "  1: 0100007F:2329 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 12 1\n\
                     2: 0000000000000000FFFF00000100007F:C350 0000000000000000FFFF00000100007F:2329 01 0:0 0:0 0 1001 0 13";
        let at = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        assert_eq!((owner(table, at(50000), at(9001)), owner(table, at(9001), at(50000))), (Some(1001), Some(1000)));
        assert_eq!(owner(table, at(50001), at(9001)), None);
    }
}
