//! Serves a trace to a browser: a server on the loopback interface that provides one file, and the viewer's own files
//! if an offline copy is used.
//!
//! ```text
//! browser ── https://ui.perfetto.dev/#!/?url=http://127.0.0.1:9001/TOKEN/NAME ──> the viewer, which requests /TOKEN/NAME
//! browser ── http://127.0.0.1:PORT/#!/?url=http://127.0.0.1:PORT/TOKEN/NAME ────> this server, for its files and /TOKEN/NAME
//! ```
//!
//! The viewer's content security policy permits no port except 9001. Nothing leaves this host, and other users on it
//! get nothing: their connections are closed, the address of the trace cannot be guessed, and requests with another
//! host name than this host's are refused, so that no foreign page can request traces.
//!
//! Reading order: [`Server`], [`SharedState`] (the content), [`super::request`] (reading requests, with timeouts).

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Once};

use super::request::{Method, PATIENCE, Request, read_request, stranger};
use crate::unfinished::with_signals;

/// The only port that the viewer's policy permits.
pub const PORT: u16 = 9001;

/// The default viewer.
pub const SITE: &str = "https://ui.perfetto.dev";

/// Connections served at the same time, one thread each; further ones wait. A browser opens six.
const CONNECTIONS: usize = 16;

/// The origin of the viewer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ui {
    Site(String),
    /// A directory with a built viewer, which this server provides too.
    Folder(PathBuf),
}

impl Ui {
    /// Parses an address, or a directory that contains the viewer's `index.html`.
    pub fn parse(text: &str) -> Result<Ui, String> {
        if text.starts_with("http://") || text.starts_with("https://") {
            return Ok(Ui::Site(text.trim_end_matches('/').into()));
        }
        let folder = Path::new(text);
        match folder.join("index.html").is_file() {
            true => folder.canonicalize().map(Ui::Folder).map_err(|error| error.to_string()),
            false => {
                Err("no index.html there; pass the directory of a built Perfetto UI, or an address (https://...)"
                    .into())
            }
        }
    }
}

/// A bound port, and the content served there.
pub struct Server {
    listener: TcpListener,
    ui: Ui,
    /// The trace's address without its first slash: the token, and the name of the trace in the viewer.
    place: String,
}

/// The state that all connections share.
struct SharedState {
    ui: Ui,
    place: String,
    trace: File,
    port: u16,
    fetched: Sender<()>,
    turned_away: Once,
}

impl Server {
    /// Binds the port; `name` is the name of the trace in the viewer.
    pub fn bind(ui: Ui, name: &str) -> io::Result<Server> {
        let port = if matches!(ui, Ui::Site(_)) { PORT } else { 0 };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
        let name: String = name.chars().map(plain).collect();
        Ok(Server { listener, ui, place: format!("{}/{name}", token()?) })
    }

    pub fn port(&self) -> u16 {
        self.listener.local_addr().map_or(PORT, |address| address.port())
    }

    /// Returns the address to open in a browser.
    pub fn url(&self) -> String {
        let own = format!("http://127.0.0.1:{}", self.port());
        let site = match &self.ui {
            Ui::Site(site) => site,
            Ui::Folder(_) => &own,
        };
        let trace = format!("{own}/{}", self.place).replace(':', "%3A").replace('/', "%2F");
        format!("{site}/#!/?url={trace}&referrer=dlio")
    }

    /// Serves the trace until a browser has received all of it; forever if the viewer itself comes from here.
    pub fn serve(self, trace: File) -> io::Result<()> {
        let (fetched, done) = mpsc::channel();
        let stays = matches!(self.ui, Ui::Folder(_));
        let port = self.port();
        let shelf =
            Arc::new(SharedState { ui: self.ui, place: self.place, trace, port, fetched, turned_away: Once::new() });
        for _ in 0..CONNECTIONS {
            let (shelf, listener) = (shelf.clone(), self.listener.try_clone()?);
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    match stranger(&stream) {
                        Some(user) => shelf.turn_away(user),
                        // If a connection breaks, the browser retries.
                        None => drop(shelf.answer(stream)),
                    }
                }
            });
        }
        while done.recv().is_ok() && stays {}
        Ok(())
    }
}

/// Returns 128 unpredictable bits.
fn token() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl SharedState {
    /// Warns once, so that another user cannot fill the terminal.
    fn turn_away(&self, user: u32) {
        self.turned_away.call_once(|| {
            notice!("dlio-analyze: refused a request for the trace from user {user}; only its own user may fetch it");
        });
    }

    fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_write_timeout(Some(PATIENCE))?;
        let Some(request) = read_request(&mut stream)? else { return refuse(&mut stream, "400 Bad Request") };
        if ![format!("127.0.0.1:{}", self.port), format!("localhost:{}", self.port)].contains(&request.host) {
            return refuse(&mut stream, "421 Misdirected Request");
        }
        match request.method {
            Method::Options => self.head(&mut stream, "204 No Content", "", 0),
            Method::Get | Method::Head => self.hand_out(&mut stream, &request),
            Method::Other => refuse(&mut stream, "405 Method Not Allowed"),
        }
    }

    fn hand_out(&self, stream: &mut TcpStream, request: &Request) -> io::Result<()> {
        let is_trace = request.path.strip_prefix('/') == Some(&self.place);
        let file = match &self.ui {
            _ if is_trace => Some((self.trace.try_clone()?, "application/octet-stream")),
            Ui::Folder(folder) => below(folder, &request.path).and_then(|path| opened(&path)),
            Ui::Site(_) => None,
        };
        let Some((file, kind)) = file else { return refuse(stream, "404 Not Found") };
        let size = file.metadata()?.len();
        self.head(stream, "200 OK", kind, size)?;
        if request.method == Method::Head {
            return Ok(());
        }
        send(&file, size, stream)?;
        stream.shutdown(Shutdown::Write)?;
        // The client closes the connection once it has everything; one that does not close has everything too.
        while is_trace && stream.read(&mut [0; 512]).is_ok_and(|more| more > 0) {}
        if is_trace {
            // The receiver is gone if another connection was first.
            let _ = self.fetched.send(());
        }
        Ok(())
    }

    /// Allows the viewer's origin to read responses, even from a public page into this private network.
    fn head(&self, stream: &mut TcpStream, status: &str, kind: &str, size: u64) -> io::Result<()> {
        let origin = match &self.ui {
            Ui::Site(site) => origin(site).to_string(),
            Ui::Folder(_) => format!("http://127.0.0.1:{}", self.port),
        };
        let kind = if kind.is_empty() { String::new() } else { format!("Content-Type: {kind}\r\n") };
        let head = format!(
            "HTTP/1.1 {status}\r\n{kind}Content-Length: {size}\r\nAccess-Control-Allow-Origin: {origin}\r\n\
             Access-Control-Allow-Methods: GET, HEAD\r\nAccess-Control-Allow-Headers: *\r\n\
             Access-Control-Allow-Private-Network: true\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes())
    }
}

fn refuse(stream: &mut TcpStream, status: &str) -> io::Result<()> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())
}

/// Sends a file from its start, independent of other readers.
fn send(file: &File, size: u64, stream: &mut TcpStream) -> io::Result<()> {
    let mut piece = vec![0; 256 << 10];
    let mut at = 0;
    while at < size {
        let used = file.read_at(&mut piece, at)?;
        if used == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        stream.write_all(&piece[..used])?;
        at += used as u64;
    }
    Ok(())
}

/// Returns the file of a path, if it is in the directory after resolving links.
fn below(folder: &Path, path: &str) -> Option<PathBuf> {
    let asked = decoded(path.trim_start_matches('/'))?;
    let asked = Path::new(if asked.is_empty() { "index.html" } else { &asked });
    let plain = asked.components().all(|part| matches!(part, Component::Normal(_)));
    let found = folder.join(asked).canonicalize().ok().filter(|_| plain)?;
    (found.starts_with(folder) && found.is_file()).then_some(found)
}

/// Decodes `%41` and similar escapes of an address.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        rest = more;
        if *first == b'%' {
            let digits = std::str::from_utf8(more.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &more[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

fn opened(path: &Path) -> Option<(File, &'static str)> {
    let kind = match path.extension().and_then(|ending| ending.to_str()).unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "wasm" => "application/wasm",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    };
    Some((File::open(path).ok()?, kind))
}

/// Returns scheme, name and port of an address.
fn origin(site: &str) -> &str {
    let name_at = site.find("://").map_or(0, |at| at + 3);
    site[name_at..].find('/').map_or(site, |end| &site[..name_at + end])
}

/// Opens an address in the user's browser; returns `false` if there is none.
pub fn open(url: &str) -> bool {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let on_screen = set("DISPLAY").or(set("WAYLAND_DISPLAY")).map(|_| "xdg-open".into());
    let Some(browser) = set("BROWSER").or(on_screen) else { return false };
    let mut command = Command::new(browser);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    with_signals(|| command.spawn()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the status and body of a response.
    fn ask(port: u16, request: &str) -> (String, String) {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        stream.write_all(format!("{request}\r\nHost: 127.0.0.1:{port}\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_string(), body.to_string())
    }

    /// Creates a directory with a viewer, a trace, and files that must not be served.
    fn made() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("ui/assets")).unwrap();
        for (file, text) in
            [("ui/index.html", "page"), ("ui/assets/a b.js", "code"), ("secret", "no"), ("trace", "bytes")]
        {
            std::fs::write(folder.path().join(file), text).unwrap();
        }
        std::os::unix::fs::symlink("../secret", folder.path().join("ui/link")).unwrap();
        folder
    }

    /// Starts a server of the directory's viewer, and of the trace; returns the port and the trace's address.
    fn served(folder: &Path) -> (u16, String) {
        let ui = Ui::parse(folder.join("ui").to_str().unwrap()).unwrap();
        let server = Server::bind(ui, "my trace.pftrace").unwrap();
        let (port, place) = (server.port(), server.place.clone());
        let escaped = place.replace('/', "%2F");
        let url = format!("http://127.0.0.1:{port}/#!/?url=http%3A%2F%2F127.0.0.1%3A{port}%2F{escaped}&referrer=dlio");
        assert_eq!(server.url(), url);
        let trace = File::open(folder.join("trace")).unwrap();
        std::thread::spawn(move || server.serve(trace));
        (port, place)
    }

    #[test]
    fn a_folder_is_served_and_nothing_above_it() {
        let folder = made();
        let (port, place) = served(folder.path());
        assert!(place.ends_with("/my_trace.pftrace") && place.len() == 32 + 17, "{place}");
        let get = |path: &str| ask(port, &format!("GET {path} HTTP/1.1"));
        assert_eq!(get("/").1, "page");
        let (head, body) = get("/assets/a%20b.js?v=1");
        assert!(head.contains("text/javascript") && body == "code", "{head}");
        assert_eq!(get(&format!("/{place}")).1, "bytes");
        assert_eq!(get(&format!("/{place}")).1, "bytes");
        for path in [
            "/../secret",
            "/%2e%2e/secret",
            "/assets/../../secret",
            "//etc/passwd",
            "/link",
            "/none",
            "/%zz",
            "/assets",
            "/my_trace.pftrace",
            "/00000000000000000000000000000000/my_trace.pftrace",
        ] {
            assert!(get(path).0.starts_with("HTTP/1.1 404"), "{path}");
        }
        assert!(ask(port, "POST /status HTTP/1.1").0.starts_with("HTTP/1.1 405"));
        assert!(ask(port, "nonsense").0.starts_with("HTTP/1.1 400"));
        assert!(ask(port, "GET / HTTP/1.1\r\nHost: elsewhere.org").0.starts_with("HTTP/1.1 421"));
    }

    #[test]
    fn silent_connections_do_not_block_a_browser() {
        let folder = made();
        let (port, place) = served(folder.path());
        let crowd: Vec<_> =
            (0..CONNECTIONS).map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap()).collect();
        assert_eq!(ask(port, &format!("GET /{place} HTTP/1.1")).1, "bytes");
        drop(crowd);
    }

    #[test]
    fn every_server_has_its_own_address() {
        assert_ne!(token().unwrap(), token().unwrap());
    }

    #[test]
    fn addresses_and_directories_are_distinguished() {
        assert_eq!(Ui::parse("https://ui.perfetto.dev/"), Ok(Ui::Site(SITE.into())));
        assert!(Ui::parse("/nowhere").unwrap_err().contains("index.html"));
        assert_eq!(origin("http://127.0.0.1:10000/v52/"), "http://127.0.0.1:10000");
        assert_eq!(origin(SITE), SITE);
    }
}
