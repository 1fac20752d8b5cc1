//! HTTP/1.1 to one server: a connection that sends a request and receives its answer. The body of the answer goes straight to its
//! destination. `httparse` parses headers, and `rustls` encrypts.
//!
//! Not here: attempts, redirects and the meaning of an answer (`client`).

use rustls::pki_types::ServerName;
use std::fmt::Write as _;
use std::io::{self, IoSlice, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    pub tls: bool,
    pub host: String,
    pub port: u16,
}

impl Server {
    /// Returns the server of a URL, and the path after it.
    pub fn of_url(url: &str) -> Option<(Server, &str)> {
        let (scheme, rest) = url.split_once("://")?;
        let tls = match scheme {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let (authority, path) = rest.find(['/', '?']).map_or((rest, ""), |at| rest.split_at(at));
        let port_at = authority.rfind(':').filter(|at| !authority[*at..].contains(']'));
        let (host, port) = match port_at {
            Some(at) => (&authority[..at], authority[at + 1..].parse().ok()?),
            None => (authority, if tls { 443 } else { 80 }),
        };
        let valid = !host.is_empty() && !host.contains(['@', ' ', '\r', '\n']);
        valid.then(|| (Server { tls, host: host.to_string(), port }, path))
    }

    /// Returns the value of the `Host` header.
    pub fn authority(&self) -> String {
        let own = if self.tls { 443 } else { 80 };
        if self.port == own { self.host.clone() } else { format!("{}:{}", self.host, self.port) }
    }

    /// Returns the URL as a user types it.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.tls { "https" } else { "http" }, self.authority())
    }
}

/// How long to wait for a server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timeouts {
    pub connect: Duration,
    /// Maximum time without a byte in either direction.
    pub stall: Duration,
}

/// An answer that is not HTTP.
#[derive(Debug)]
struct NoHttp(String);

impl std::fmt::Display for NoHttp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "not an HTTP response: {}", self.0)
    }
}

impl std::error::Error for NoHttp {}

/// Returns the remedy for a server that does not speak HTTP, which a retry does not change.
pub fn remedy(error: &io::Error) -> Option<&'static str> {
    let is_no_http = error.get_ref().is_some_and(|inner| inner.is::<NoHttp>());
    is_no_http.then_some("is this the port of the store? write https:// for a port with TLS")
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<rustls::StreamOwned<rustls::ClientConnection, TcpStream>>),
}

/// The head of an answer.
#[derive(Debug, Clone)]
pub struct Head {
    pub status: u16,
    headers: Vec<(String, String)>,
}

impl Head {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub fn length(&self) -> Option<u64> {
        self.header("content-length")?.trim().parse().ok()
    }

    fn is_chunked(&self) -> bool {
        self.header("transfer-encoding").is_some_and(|how| how.to_ascii_lowercase().contains("chunked"))
    }

    fn closes(&self) -> bool {
        self.header("connection").is_some_and(|how| how.eq_ignore_ascii_case("close"))
    }
}

/// How the end of the body being received is recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    After(u64),
    /// Bytes left of a chunk; `None` before its size is known.
    Chunk(Option<u64>),
    WithConnection,
}

/// Size of the buffer that receives heads and the sizes of chunks.
const RECEIVED: usize = 16 << 10;
/// The maximum number of headers in an answer.
const HEADERS_MAX: usize = 64;

pub struct Connection {
    pub server: Server,
    stream: Stream,
    /// Received and not consumed: `taken..received` of the buffer.
    buffer: Box<[u8]>,
    taken: usize,
    received: usize,
    ending: Ending,
    keeps: bool,
}

impl Connection {
    /// Opens a connection. Names are resolved in this thread, so that no other thread exists when a process forks.
    pub fn open(server: &Server, known: &Arc<rustls::ClientConfig>, patience: Timeouts) -> io::Result<Connection> {
        let host = server.host.trim_start_matches('[').trim_end_matches(']');
        let mut refused = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in (host, server.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, patience.connect) {
                Ok(stream) => return Connection::on(stream, server, known, patience),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    fn on(
        stream: TcpStream,
        server: &Server,
        known: &Arc<rustls::ClientConfig>,
        patience: Timeouts,
    ) -> io::Result<Connection> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience.stall))?;
        stream.set_write_timeout(Some(patience.stall))?;
        let stream = match server.tls {
            false => Stream::Plain(stream),
            true => {
                let host = server.host.trim_start_matches('[').trim_end_matches(']').to_string();
                let name = ServerName::try_from(host).map_err(io::Error::other)?;
                let session = rustls::ClientConnection::new(known.clone(), name).map_err(io::Error::other)?;
                Stream::Tls(Box::new(rustls::StreamOwned::new(session, stream)))
            }
        };
        let buffer = vec![0; RECEIVED].into_boxed_slice();
        let server = server.clone();
        Ok(Connection { server, stream, buffer, taken: 0, received: 0, ending: Ending::After(0), keeps: true })
    }

    /// Sends a request. `target` is its path and query, `headers` are all except `Host` and `Content-Length`.
    pub fn send(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, String)],
        body: Option<&[u8]>,
    ) -> io::Result<()> {
        let mut head = format!("{method} {target} HTTP/1.1\r\nhost: {}\r\n", self.server.authority());
        for (name, value) in headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if let Some(body) = body {
            let _ = write!(head, "content-length: {}\r\n", body.len());
        }
        head.push_str("\r\n");
        self.write_both(head.as_bytes(), body.unwrap_or_default())
    }

    /// Writes head and body in one call if they fit: a head on its own costs one packet more.
    fn write_both(&mut self, head: &[u8], body: &[u8]) -> io::Result<()> {
        let mut slices = [IoSlice::new(head), IoSlice::new(body)];
        let mut left = &mut slices[..];
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            let written = match &mut self.stream {
                Stream::Plain(stream) => stream.write_vectored(left),
                Stream::Tls(stream) => stream.write_vectored(left),
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => IoSlice::advance_slices(&mut left, count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(stalled(error)),
            }
        }
        match &mut self.stream {
            Stream::Plain(_) => Ok(()),
            Stream::Tls(stream) => stream.flush().map_err(stalled),
        }
    }

    /// Receives the head of the answer; its body is next.
    pub fn receive(&mut self, method: &str) -> io::Result<Head> {
        loop {
            let head = self.head()?;
            // 100 and other interim answers precede the final one.
            if head.status >= 200 {
                self.keeps = !head.closes();
                self.ending = ending_of(&head, method);
                return Ok(head);
            }
        }
    }

    fn head(&mut self) -> io::Result<Head> {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
            let mut answer = httparse::Response::new(&mut headers);
            let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, NoHttp(what.to_string()));
            match answer.parse(&self.buffer[self.taken..self.received]) {
                Ok(httparse::Status::Complete(length)) => {
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    let headers = answer.headers.iter().map(|header| (header.name.to_string(), text(header.value)));
                    let head = Head { status: answer.code.unwrap_or_default(), headers: headers.collect() };
                    self.taken += length;
                    return Ok(head);
                }
                Ok(httparse::Status::Partial) if self.received - self.taken == self.buffer.len() => {
                    return Err(bad("the response header is too long"));
                }
                Ok(httparse::Status::Partial) => {}
                Err(error) => return Err(bad(&error.to_string())),
            }
            self.fill()?;
        }
    }

    /// Receives more bytes after those not yet consumed.
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.taken..self.received, 0);
        (self.taken, self.received) = (0, self.received - self.taken);
        let mut space = std::mem::take(&mut self.buffer);
        let read = self.read_stream(&mut space[self.received..]);
        self.buffer = space;
        match read? {
            0 => Err(io::Error::new(io::ErrorKind::ConnectionReset, "the server closed the connection")),
            count => {
                self.received += count;
                Ok(())
            }
        }
    }

    fn read_stream(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match &mut self.stream {
                Stream::Plain(stream) => stream.read(into),
                Stream::Tls(stream) => stream.read(into),
            };
            match read {
                Err(error)
                    if error.kind() == io::ErrorKind::Interrupted && !crate::system::processes::interrupted() => {}
                read => return read.map_err(stalled),
            }
        }
    }

    /// Reads the next bytes of the body; returns 0 at its end.
    pub fn body(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = match self.ending {
            Ending::WithConnection => into.len() as u64,
            Ending::After(left) => left.min(into.len() as u64),
            Ending::Chunk(_) => self.chunk()?.min(into.len() as u64),
        };
        if most == 0 {
            return Ok(0);
        }
        let into = &mut into[..most as usize];
        let here = (self.received - self.taken).min(into.len());
        let count = if here > 0 {
            into[..here].copy_from_slice(&self.buffer[self.taken..self.taken + here]);
            self.taken += here;
            here
        } else {
            self.read_stream(into)?
        };
        match &mut self.ending {
            Ending::WithConnection => self.keeps = false,
            Ending::After(_) | Ending::Chunk(_) if count == 0 => {
                let early = "the connection was closed within the body";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, early));
            }
            Ending::After(left) | Ending::Chunk(Some(left)) => *left -= count as u64,
            Ending::Chunk(None) => {}
        }
        Ok(count)
    }

    /// Returns the bytes left of the current chunk, or of the next one; 0 at the end of the body.
    fn chunk(&mut self) -> io::Result<u64> {
        if let Ending::Chunk(Some(left)) = self.ending
            && left > 0
        {
            return Ok(left);
        }
        if self.ending == Ending::Chunk(Some(0)) {
            self.line()?;
        }
        let line = self.line()?;
        let size = line.split(';').next().and_then(|size| u64::from_str_radix(size.trim(), 16).ok());
        let size = size.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a chunk has no size"))?;
        self.ending = Ending::Chunk(Some(size));
        if size == 0 {
            while !self.line()?.is_empty() {}
            self.ending = Ending::After(0);
        }
        Ok(size)
    }

    fn line(&mut self) -> io::Result<String> {
        loop {
            let here = &self.buffer[self.taken..self.received];
            if let Some(end) = here.iter().position(|byte| *byte == b'\n') {
                let line = String::from_utf8_lossy(&here[..end]).trim_end().to_string();
                self.taken += end + 1;
                return Ok(line);
            }
            if here.len() == self.buffer.len() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the line of a chunk is too long"));
            }
            self.fill()?;
        }
    }

    /// Returns `true` if the whole answer was received and the server keeps the connection open.
    pub fn is_reusable(&self) -> bool {
        self.keeps && self.ending == Ending::After(0) && self.taken == self.received
    }
}

fn ending_of(head: &Head, method: &str) -> Ending {
    match head.length() {
        _ if method == "HEAD" || matches!(head.status, 204 | 304) => Ending::After(0),
        _ if head.is_chunked() => Ending::Chunk(None),
        Some(length) => Ending::After(length),
        None => Ending::WithConnection,
    }
}

/// Reports a timeout: a socket that was silent for too long returns "would block".
fn stalled(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            io::Error::new(io::ErrorKind::TimedOut, "no data received")
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::certificates::known_servers;
    use std::net::TcpListener;

    /// Returns a connection to a server that always answers `words` and hangs up.
    fn to(words: &'static [u8]) -> Connection {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(words);
        });
        let server = Server { tls: false, host: "127.0.0.1".into(), port };
        let patience = Timeouts { connect: Duration::from_secs(30), stall: Duration::from_secs(30) };
        Connection::open(&server, &known_servers(None, false).unwrap(), patience).unwrap()
    }

    fn received(words: &'static [u8]) -> (io::Result<Vec<u8>>, bool) {
        let mut connection = to(words);
        connection.send("GET", "/x", &[], None).unwrap();
        connection.receive("GET").unwrap();
        let (mut all, mut piece) = (Vec::new(), [0; 3]);
        loop {
            match connection.body(&mut piece) {
                Ok(0) => return (Ok(all), connection.is_reusable()),
                Ok(count) => all.extend(&piece[..count]),
                Err(error) => return (Err(error), false),
            }
        }
    }

    #[test]
    fn bodies_end_as_the_head_announces() {
        let (body, reusable) =
            received(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\npayload");
        assert_eq!((body.unwrap(), reusable), (b"payload".to_vec(), true));
        let (body, reusable) = received(
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4;x=y\r\npayl\r\n3\r\noad\r\n0\r\nsum: 1\r\n\r\n",
        );
        assert_eq!((body.unwrap(), reusable), (b"payload".to_vec(), true));
        let (body, reusable) = received(b"HTTP/1.0 200 OK\r\n\r\npayload");
        assert_eq!((body.unwrap(), reusable), (b"payload".to_vec(), false));
        let (body, reusable) = received(b"HTTP/1.1 200 OK\r\nconnection: Close\r\ncontent-length: 1\r\n\r\np");
        assert_eq!((body.unwrap(), reusable), (b"p".to_vec(), false));
    }

    #[test]
    fn a_body_that_ends_early_is_an_error() {
        let (body, _) = received(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npayload");
        assert_eq!(body.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let (body, _) = received(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\npay");
        assert_eq!(body.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn response_that_is_not_http_is_an_error() {
        let mut connection = to(b"SSH-2.0-OpenSSH_9.2\r\n");
        connection.send("GET", "/", &[], None).unwrap();
        assert_eq!(connection.receive("GET").unwrap_err().kind(), io::ErrorKind::InvalidData);
        let mut connection = to(b"");
        connection.send("GET", "/", &[], None).unwrap();
        assert_eq!(connection.receive("GET").unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }

    #[test]
    fn urls_name_their_server() {
        let of = |url: &str| Server::of_url(url).map(|(server, path)| (server.url(), path.to_string()));
        assert_eq!(of("http://localhost:9000/s3"), Some(("http://localhost:9000".into(), "/s3".into())));
        assert_eq!(of("https://store.example"), Some(("https://store.example".into(), String::new())));
        assert_eq!(of("http://[::1]:80?x=1"), Some(("http://[::1]".into(), "?x=1".into())));
        assert_eq!((of("localhost:9000"), of("ftp://x"), of("http://"), of("http://x:y")), (None, None, None, None));
    }
}
