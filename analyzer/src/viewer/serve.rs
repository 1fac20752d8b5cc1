//! How a browser comes to a trace: a server on this machine's loopback that hands out one file, and the viewer's own files
//! where an offline copy of it is used.
//!
//! ```text
//! browser ── https://ui.perfetto.dev/#!/?url=http://127.0.0.1:9001/NAME ──> the viewer, which then asks us for NAME
//! browser ── http://127.0.0.1:PORT/#!/?url=http://127.0.0.1:PORT/NAME ────> us, for its files and for NAME
//! ```
//!
//! The viewer may fetch from no other port than 9001: its content security policy says so. Nothing leaves this machine, and
//! requests that were meant for another name than this machine's are refused, so that no foreign page can ask for traces.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

/// The only port the viewer's policy lets it fetch from.
pub const PORT: u16 = 9001;

/// The viewer that is opened where no other is named.
pub const SITE: &str = "https://ui.perfetto.dev";

/// Longer heads of requests come from no browser.
const HEAD_MAX: usize = 16 << 10;

/// A browser opens connections before it needs them; one that says nothing for this long is given up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where the viewer comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ui {
    Site(String),
    /// A folder with a built viewer, which we serve too.
    Folder(PathBuf),
}

impl Ui {
    /// An address, or a folder that holds the viewer's `index.html`.
    pub fn parse(text: &str) -> Result<Ui, String> {
        if text.starts_with("http://") || text.starts_with("https://") {
            return Ok(Ui::Site(text.trim_end_matches('/').into()));
        }
        let folder = Path::new(text);
        match folder.join("index.html").is_file() {
            true => folder.canonicalize().map(Ui::Folder).map_err(|error| error.to_string()),
            false => {
                Err("no index.html there; give the folder of a built Perfetto UI, or an address (https://...)".into())
            }
        }
    }
}

/// A port that was taken, and what will be handed out there.
pub struct Server {
    listener: TcpListener,
    ui: Ui,
    name: String,
}

/// What all connections share.
struct Shelf {
    ui: Ui,
    name: String,
    trace: File,
    port: u16,
    fetched: Sender<()>,
}

struct Request {
    method: String,
    path: String,
    host: String,
}

impl Server {
    /// Takes the port; `name` is what the trace is called in the viewer.
    pub fn bind(ui: Ui, name: &str) -> io::Result<Server> {
        let port = if matches!(ui, Ui::Site(_)) { PORT } else { 0 };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
        Ok(Server { listener, ui, name: name.chars().map(plain).collect() })
    }

    pub fn port(&self) -> u16 {
        self.listener.local_addr().map_or(PORT, |address| address.port())
    }

    /// What to open in a browser.
    pub fn url(&self) -> String {
        let own = format!("http://127.0.0.1:{}", self.port());
        let site = match &self.ui {
            Ui::Site(site) => site,
            Ui::Folder(_) => &own,
        };
        let trace = format!("{own}/{}", self.name).replace(':', "%3A").replace('/', "%2F");
        format!("{site}/#!/?url={trace}&referrer=dlio")
    }

    /// Hands the trace out until a browser has all of it; forever where the viewer itself comes from here.
    pub fn serve(self, trace: File) -> io::Result<()> {
        let (fetched, done) = mpsc::channel();
        let stays = matches!(self.ui, Ui::Folder(_));
        let port = self.port();
        let shelf = Arc::new(Shelf { ui: self.ui, name: self.name, trace, port, fetched });
        let listener = self.listener;
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shelf = shelf.clone();
                // A connection that breaks is the browser's affair; it asks again.
                std::thread::spawn(move || shelf.answer(stream));
            }
        });
        while done.recv().is_ok() && stays {}
        Ok(())
    }
}

impl Shelf {
    fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        let Some(request) = read_request(&mut stream)? else { return refuse(&mut stream, "400 Bad Request") };
        if ![format!("127.0.0.1:{}", self.port), format!("localhost:{}", self.port)].contains(&request.host) {
            return refuse(&mut stream, "421 Misdirected Request");
        }
        match request.method.as_str() {
            "OPTIONS" => self.head(&mut stream, "204 No Content", "", 0),
            "GET" | "HEAD" => self.hand_out(&mut stream, &request),
            _ => refuse(&mut stream, "405 Method Not Allowed"),
        }
    }

    fn hand_out(&self, stream: &mut TcpStream, request: &Request) -> io::Result<()> {
        let is_trace = request.path == format!("/{}", self.name);
        let file = match &self.ui {
            _ if is_trace => Some((self.trace.try_clone()?, "application/octet-stream")),
            Ui::Folder(folder) => below(folder, &request.path).and_then(|path| opened(&path)),
            Ui::Site(_) => None,
        };
        let Some((file, kind)) = file else { return refuse(stream, "404 Not Found") };
        let size = file.metadata()?.len();
        self.head(stream, "200 OK", kind, size)?;
        if request.method == "HEAD" {
            return Ok(());
        }
        send(&file, size, stream)?;
        stream.shutdown(Shutdown::Write)?;
        // The other side closes once it has everything; one that does not close has it too.
        while is_trace && stream.read(&mut [0; 512]).is_ok_and(|more| more > 0) {}
        if is_trace {
            // Nobody waits any more where another connection was first.
            let _ = self.fetched.send(());
        }
        Ok(())
    }

    /// The viewer's origin may read what we answer, from a public page on this machine's own network too.
    fn head(&self, stream: &mut TcpStream, status: &str, kind: &str, size: u64) -> io::Result<()> {
        let origin = match &self.ui {
            Ui::Site(site) => origin(site).to_string(),
            Ui::Folder(_) => format!("http://127.0.0.1:{}", self.port),
        };
        let kind = if kind.is_empty() { String::new() } else { format!("Content-Type: {kind}\r\n") };
        let head = format!(
            "HTTP/1.1 {status}\r\n{kind}Content-Length: {size}\r\nAccess-Control-Allow-Origin: {origin}\r\n\
             Access-Control-Allow-Methods: GET, HEAD\r\nAccess-Control-Allow-Headers: *\r\n\
             Access-Control-Allow-Private-Network: true\r\nCache-Control: no-cache\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes())
    }
}

fn refuse(stream: &mut TcpStream, status: &str) -> io::Result<()> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())
}

/// Sends a file from its beginning, whatever others read of it.
fn send(file: &File, size: u64, stream: &mut TcpStream) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
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

/// `None` for what is no request.
fn read_request(stream: &mut TcpStream) -> io::Result<Option<Request>> {
    let mut head = Vec::new();
    let mut piece = [0; 2048];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let used = stream.read(&mut piece)?;
        head.extend_from_slice(&piece[..used]);
        if used == 0 || head.len() > HEAD_MAX {
            return Ok(None);
        }
    }
    Ok(parse(&String::from_utf8_lossy(&head)))
}

fn parse(head: &str) -> Option<Request> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let named = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim().to_string())
    };
    let host = lines.find_map(named).unwrap_or_default();
    let path = target.split(['?', '#']).next()?.to_string();
    path.starts_with('/').then(|| Request { method: method.into(), path, host })
}

/// The file a path names, if it lies in the folder, links followed.
fn below(folder: &Path, path: &str) -> Option<PathBuf> {
    let asked = decoded(path.trim_start_matches('/'))?;
    let asked = Path::new(if asked.is_empty() { "index.html" } else { &asked });
    let plain = asked.components().all(|part| matches!(part, Component::Normal(_)));
    let found = folder.join(asked).canonicalize().ok().filter(|_| plain)?;
    (found.starts_with(folder) && found.is_file()).then_some(found)
}

/// Text of an address with its `%41`s resolved.
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

/// Scheme, name and port of an address.
fn origin(site: &str) -> &str {
    let name_at = site.find("://").map_or(0, |at| at + 3);
    site[name_at..].find('/').map_or(site, |end| &site[..name_at + end])
}

/// Opens an address in the user's browser; says whether there is one to open it in.
pub fn open(url: &str) -> bool {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let on_screen = set("DISPLAY").or(set("WAYLAND_DISPLAY")).map(|_| "xdg-open".into());
    let Some(browser) = set("BROWSER").or(on_screen) else { return false };
    let mut command = Command::new(browser);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status and body of an answer.
    fn ask(port: u16, request: &str) -> (String, String) {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        stream.write_all(format!("{request}\r\nHost: 127.0.0.1:{port}\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_string(), body.to_string())
    }

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("dlio-serve-{name}-{}", std::process::id()));
            std::fs::create_dir_all(path.join("ui/assets")).unwrap();
            for (file, text) in
                [("ui/index.html", "page"), ("ui/assets/a b.js", "code"), ("secret", "no"), ("trace", "bytes")]
            {
                std::fs::write(path.join(file), text).unwrap();
            }
            std::os::unix::fs::symlink("../secret", path.join("ui/link")).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_folder_is_served_and_nothing_above_it() {
        let folder = Folder::new("folder");
        let ui = Ui::parse(folder.0.join("ui").to_str().unwrap()).unwrap();
        let server = Server::bind(ui, "my trace.pftrace").unwrap();
        let port = server.port();
        assert_eq!(
            server.url(),
            format!("http://127.0.0.1:{port}/#!/?url=http%3A%2F%2F127.0.0.1%3A{port}%2Fmy_trace.pftrace&referrer=dlio")
        );
        let trace = File::open(folder.0.join("trace")).unwrap();
        std::thread::spawn(move || server.serve(trace));
        let get = |path: &str| ask(port, &format!("GET {path} HTTP/1.1"));
        assert_eq!(get("/").1, "page");
        let (head, body) = get("/assets/a%20b.js?v=1");
        assert!(head.contains("text/javascript") && body == "code", "{head}");
        assert_eq!(get("/my_trace.pftrace").1, "bytes");
        assert_eq!(get("/my_trace.pftrace").1, "bytes");
        for path in [
            "/../secret",
            "/%2e%2e/secret",
            "/assets/../../secret",
            "//etc/passwd",
            "/link",
            "/none",
            "/%zz",
            "/assets",
        ] {
            assert!(get(path).0.starts_with("HTTP/1.1 404"), "{path}");
        }
        assert!(ask(port, "POST /status HTTP/1.1").0.starts_with("HTTP/1.1 405"));
        assert!(ask(port, "nonsense").0.starts_with("HTTP/1.1 400"));
        assert!(ask(port, "GET / HTTP/1.1\r\nHost: elsewhere.org").0.starts_with("HTTP/1.1 421"));
    }

    #[test]
    fn addresses_and_folders_are_told_apart() {
        assert_eq!(Ui::parse("https://ui.perfetto.dev/"), Ok(Ui::Site(SITE.into())));
        assert!(Ui::parse("/nowhere").unwrap_err().contains("index.html"));
        assert_eq!(origin("http://127.0.0.1:10000/v52/"), "http://127.0.0.1:10000");
        assert_eq!(origin(SITE), SITE);
    }
}
