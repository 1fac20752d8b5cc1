//! An S3 store in the test's own process: objects in memory, signatures checked, multipart uploads, and faults on
//! request. It counts its requests and bytes, to be compared with the benchmark's own numbers.

// Each test program uses a part of this.
#![allow(dead_code)]

use ring::{digest, hmac};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub const KEY_ID: &str = "AKIDTESTSTORE";
pub const SECRET: &str = "not-to-be-seen-anywhere";
pub const BUCKET: &str = "bucket";
/// How long to wait for an expected request, even on a busy host.
const PATIENCE: Duration = Duration::from_secs(120);

/// A fault instead of a normal answer.
#[derive(Debug, Clone)]
pub enum Fault {
    /// An error with a status, a code and more headers.
    Answer(u16, &'static str, Vec<(&'static str, String)>),
    /// The connection is closed before the answer.
    Reset,
    /// This many bytes of the body are sent, then the connection is closed.
    CutAt(usize),
    /// Like `CutAt`, and the object is a different one afterwards.
    ChangedAt(usize),
    /// The head announces this many bytes fewer than there are, and so does the body.
    Short(usize),
    /// Nothing more is sent, and the connection stays open until the client closes it.
    Silent,
    /// The body is sent in six pieces, with this delay before each.
    Slowly(Duration),
    /// A range is answered with the whole object.
    Whole,
    /// An upload is confirmed but lacks its last part.
    LostPart,
    /// 200 with an error in it.
    ErrorInside,
    /// The request is redirected to the store itself, repeatedly if repeated.
    SentOn,
    /// The request is redirected to another server.
    SentTo(String),
}

/// A fault for a number of requests of a method whose target contains these words.
struct Planned {
    method: &'static str,
    words: &'static str,
    times: usize,
    fault: Fault,
}

/// A request, as the store saw it.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: String,
    pub key: String,
    pub query: String,
    pub range: String,
    pub received: usize,
    pub sent: usize,
    /// Unix time in nanoseconds at which the whole request had arrived.
    pub at: i64,
    pub status: u16,
}

type Objects = BTreeMap<String, (Arc<Vec<u8>>, u64)>;
type Uploads = HashMap<String, (String, BTreeMap<u64, Vec<u8>>)>;

#[derive(Default)]
struct Shared {
    objects: Mutex<Objects>,
    uploads: Mutex<Uploads>,
    seen: Mutex<Vec<Seen>>,
    arrived: Condvar,
    planned: Mutex<Vec<Planned>>,
    versions: Mutex<u64>,
    /// Requests with these words in their target wait.
    held: Mutex<Option<&'static str>>,
    freed: Condvar,
    /// Before each answer, in microseconds.
    latency: AtomicU64,
}

pub struct Store {
    pub port: u16,
    shared: Arc<Shared>,
    tls: bool,
}

/// A connection, encrypted or not.
trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

fn of<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Store {
    pub fn start() -> Store {
        Store::start_as(|stream| Box::new(stream), false)
    }

    /// Starts a store whose certificate is signed by the authority in `tls/authority.pem`.
    pub fn start_with_tls() -> Store {
        Store::start_with(include_bytes!("tls/server.pem"), include_bytes!("tls/server.key"))
    }

    /// Starts a store that shows this certificate.
    pub fn start_with(certificate: &[u8], key: &[u8]) -> Store {
        use rustls::pki_types::pem::PemObject;
        use rustls::pki_types::{CertificateDer, PrivateKeyDer};
        let certificate = CertificateDer::from_pem_slice(certificate).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = Arc::new(config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap());
        let wrap = move |stream| -> Box<dyn Stream> {
            let session = rustls::ServerConnection::new(config.clone()).unwrap();
            Box::new(rustls::StreamOwned::new(session, stream))
        };
        Store::start_as(wrap, true)
    }

    fn start_as(wrap: impl Fn(TcpStream) -> Box<dyn Stream> + Send + 'static, tls: bool) -> Store {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared::default());
        let served = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let socket = stream.try_clone().unwrap();
                let conversation = Conversation { stream: wrap(stream), socket, shared: served.clone(), port };
                std::thread::spawn(move || conversation.run());
            }
        });
        Store { port, shared, tls }
    }

    pub fn endpoint(&self) -> String {
        format!("{}://127.0.0.1:{}", if self.tls { "https" } else { "http" }, self.port)
    }

    /// Returns the variables for a client with access.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let endpoint = ("AWS_ENDPOINT_URL", self.endpoint());
        vec![("AWS_ACCESS_KEY_ID", KEY_ID.into()), ("AWS_SECRET_ACCESS_KEY", SECRET.into()), endpoint]
    }

    pub fn plan(&self, method: &'static str, words: &'static str, times: usize, fault: Fault) {
        of(&self.shared.planned).push(Planned { method, words, times, fault });
    }

    /// Returns the number of faults that no request triggered.
    pub fn unmet(&self) -> usize {
        of(&self.shared.planned).iter().map(|planned| planned.times).sum()
    }

    pub fn keys(&self) -> Vec<String> {
        of(&self.shared.objects).keys().cloned().collect()
    }

    pub fn object(&self, key: &str) -> Option<Arc<Vec<u8>>> {
        of(&self.shared.objects).get(key).map(|(bytes, _)| bytes.clone())
    }

    pub fn put(&self, key: &str, bytes: Vec<u8>) {
        self.shared.put(key, bytes);
    }

    pub fn uploads(&self) -> usize {
        of(&self.shared.uploads).len()
    }

    pub fn seen(&self) -> Vec<Seen> {
        of(&self.shared.seen).clone()
    }

    pub fn forget(&self) {
        of(&self.shared.seen).clear();
    }

    /// Returns the number of requests of a method, whatever their outcome.
    pub fn count(&self, method: &str) -> usize {
        self.seen().iter().filter(|seen| seen.method == method).count()
    }

    /// Returns the bytes sent in the bodies of answers to GETs of objects.
    pub fn sent(&self) -> usize {
        self.seen().iter().filter(|seen| seen.method == "GET" && !seen.key.is_empty()).map(|seen| seen.sent).sum()
    }

    /// Returns when a request matching `is` has arrived.
    pub fn until(&self, is: impl Fn(&Seen) -> bool) {
        self.until_so_many(1, is);
    }

    pub fn until_so_many(&self, count: usize, is: impl Fn(&Seen) -> bool) {
        let waits = |seen: &mut Vec<Seen>| seen.iter().filter(|seen| is(seen)).count() < count;
        let waited = self.shared.arrived.wait_timeout_while(of(&self.shared.seen), PATIENCE, waits);
        let waited = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        assert!(!waited.1.timed_out(), "the request came");
    }

    /// Delays the first byte of each answer from now on, like a distant store.
    pub fn answer_after(&self, latency: Duration) {
        self.shared.latency.store(latency.as_micros() as u64, Ordering::Relaxed);
    }

    /// Receives requests with these words in `METHOD TARGET` from now on without answering them, until the next call.
    pub fn hold(&self, words: Option<&'static str>) {
        *of(&self.shared.held) = words;
        self.shared.freed.notify_all();
    }
}

impl Shared {
    fn put(&self, key: &str, bytes: Vec<u8>) -> u64 {
        let mut version = of(&self.versions);
        *version += 1;
        of(&self.objects).insert(key.to_string(), (Arc::new(bytes), *version));
        *version
    }

    fn fault(&self, method: &str, target: &str) -> Option<Fault> {
        let mut planned = of(&self.planned);
        let place = planned.iter().position(|planned| planned.method == method && target.contains(planned.words))?;
        planned[place].times -= 1;
        let fault = planned[place].fault.clone();
        if planned[place].times == 0 {
            planned.remove(place);
        }
        Some(fault)
    }
}

/// One request.
struct Request {
    method: String,
    target: String,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

impl Request {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    fn query(&self) -> &str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }

    fn parameter(&self, name: &str) -> Option<String> {
        let parts = self.query().split('&').filter_map(|part| part.split_once('='));
        parts.into_iter().find(|(known, _)| *known == name).map(|(_, value)| decoded(value))
    }

    /// The object's key, without its bucket; empty for the bucket itself.
    fn key(&self) -> String {
        decoded(self.path()).trim_start_matches('/').split_once('/').map_or(String::new(), |(_, key)| key.to_string())
    }

    /// Returns the error code for a wrong signature.
    fn refusal(&self) -> Option<&'static str> {
        let mut fields = self.header("authorization").strip_prefix("AWS4-HMAC-SHA256 ").unwrap_or("").split(", ");
        let mut field = |name: &str| fields.next().and_then(|field| field.strip_prefix(name)).unwrap_or_default();
        let (credential, names, signature) = (field("Credential="), field("SignedHeaders="), field("Signature="));
        let Some((key_id, scope)) = credential.split_once('/') else { return Some("AccessDenied") };
        if key_id != KEY_ID {
            return Some("InvalidAccessKeyId");
        }
        let hash = self.header("x-amz-content-sha256");
        if hash != "UNSIGNED-PAYLOAD" && hash != hex(digest::digest(&digest::SHA256, &self.body).as_ref()) {
            return Some("XAmzContentSHA256Mismatch");
        }
        let lines: String = names.split(';').map(|name| format!("{name}:{}\n", self.header(name))).collect();
        let whole = |part: &str| if part.contains('=') { part.to_string() } else { format!("{part}=") };
        let mut query: Vec<String> = self.query().split('&').filter(|part| !part.is_empty()).map(whole).collect();
        query.sort_unstable();
        let canonical = [&self.method, self.path(), &query.join("&"), &lines, names, hash].join("\n");
        let text = [
            "AWS4-HMAC-SHA256",
            self.header("x-amz-date"),
            scope,
            &hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref()),
        ]
        .join("\n");
        let mut key = format!("AWS4{SECRET}").into_bytes();
        for part in scope.split('/') {
            key = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), part.as_bytes()).as_ref().to_vec();
        }
        let own = hex(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), text.as_bytes()).as_ref());
        (own != signature).then_some("SignatureDoesNotMatch")
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, behind)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| std::str::from_utf8(behind.get(..2)?).ok()).flatten();
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[derive(Default)]
struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

fn error(status: u16, code: &str) -> Answer {
    let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>so it is</Message></Error>");
    Answer { status, body: body.into_bytes(), ..Answer::default() }
}

struct Conversation {
    stream: Box<dyn Stream>,
    socket: TcpStream,
    shared: Arc<Shared>,
    port: u16,
}

impl Conversation {
    fn run(mut self) {
        self.socket.set_nodelay(true).unwrap();
        let mut received = Vec::new();
        while let Some(request) = self.request(&mut received) {
            if self.answer(&request).is_none() {
                break;
            }
        }
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    fn more(&mut self, received: &mut Vec<u8>) -> Option<()> {
        let mut piece = [0; 64 << 10];
        match self.stream.read(&mut piece) {
            Ok(count) if count > 0 => {
                received.extend_from_slice(&piece[..count]);
                Some(())
            }
            _ => None,
        }
    }

    fn request(&mut self, received: &mut Vec<u8>) -> Option<Request> {
        let mut request = loop {
            let mut headers = [httparse::EMPTY_HEADER; 64];
            let mut head = httparse::Request::new(&mut headers);
            if let httparse::Status::Complete(length) = head.parse(received).ok()? {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
                let headers = head.headers.iter().map(|header| (header.name.to_lowercase(), text(header.value)));
                let request = Request {
                    method: head.method?.to_string(),
                    target: head.path?.to_string(),
                    headers: headers.collect(),
                    body: Vec::new(),
                };
                received.drain(..length);
                break request;
            }
            self.more(received)?;
        };
        let length = request.header("content-length").parse().unwrap_or(0);
        if request.header("expect").eq_ignore_ascii_case("100-continue") {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
        }
        while received.len() < length {
            self.more(received)?;
        }
        request.body = received.drain(..length).collect();
        Some(request)
    }

    /// Returns `None` if the connection ends with it.
    fn answer(&mut self, request: &Request) -> Option<()> {
        let seen = Seen {
            method: request.method.clone(),
            key: request.key(),
            query: request.query().to_string(),
            range: request.header("range").to_string(),
            received: request.body.len(),
            sent: 0,
            at: SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64,
            status: 0,
        };
        let number = {
            let mut all = of(&self.shared.seen);
            all.push(seen);
            self.shared.arrived.notify_all();
            all.len() - 1
        };
        let mut held = of(&self.shared.held);
        let line = format!("{} {}", request.method, request.target);
        while held.is_some_and(|words| line.contains(words)) {
            held = self.shared.freed.wait(held).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        drop(held);
        std::thread::sleep(Duration::from_micros(self.shared.latency.load(Ordering::Relaxed)));
        let fault = self.shared.fault(&request.method, &request.target);
        let mut answer = match (&fault, request.refusal()) {
            (Some(Fault::Answer(status, code, headers)), _) => {
                Answer { headers: headers.clone(), ..error(*status, code) }
            }
            (Some(Fault::SentOn), _) => {
                let and = if request.query().is_empty() { "?" } else { "&" };
                let place = format!("http://127.0.0.1:{}{}{and}ais_pid=p1&ais_ts=1", self.port, request.target);
                Answer { headers: vec![("Location", place)], ..error(307, "TemporaryRedirect") }
            }
            (Some(Fault::SentTo(other)), _) => {
                let headers = vec![("Location", format!("{other}{}", request.target))];
                Answer { headers, ..error(307, "TemporaryRedirect") }
            }
            (_, Some(code)) => error(403, code),
            _ => self.served(request, fault.as_ref()),
        };
        let whole = answer.body.len();
        let mut cut = whole;
        match fault {
            Some(Fault::Reset) => return None,
            Some(Fault::Silent) => {
                // Until the client has disconnected.
                while self.stream.read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
                return None;
            }
            Some(Fault::CutAt(at)) => cut = at.min(whole),
            Some(Fault::ChangedAt(at)) => {
                cut = at.min(whole);
                self.shared.put(&request.key(), vec![7; whole]);
            }
            Some(Fault::Short(bytes)) => answer.body.truncate(whole - bytes),
            _ => {}
        }
        let cut = cut.min(answer.body.len());
        let pause = if let Some(Fault::Slowly(pause)) = fault { pause } else { Duration::ZERO };
        let sent = self.send(request, &answer, cut, pause);
        let counted = if answer.status < 300 { sent } else { 0 };
        if let Some(seen) = of(&self.shared.seen).get_mut(number) {
            seen.sent = counted;
            seen.status = answer.status;
        }
        (sent == answer.body.len()).then_some(())
    }

    /// Returns the bytes of the body that were sent.
    fn send(&mut self, request: &Request, answer: &Answer, cut: usize, pause: Duration) -> usize {
        let mut head = format!("HTTP/1.1 {} Said\r\n", answer.status);
        let dated = answer.headers.iter().any(|(name, _)| *name == "Date");
        if !dated {
            head.push_str("Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n");
        }
        let length = answer.headers.iter().find(|(name, _)| *name == "Content-Length");
        if length.is_none() {
            head.push_str(&format!("Content-Length: {}\r\n", answer.body.len()));
        }
        answer.headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        head.push_str("\r\n");
        let body = if request.method == "HEAD" { &[] } else { &answer.body[..cut] };
        let pieces = if pause.is_zero() { 1 } else { 6 };
        let mut written = self.stream.write_all(head.as_bytes());
        for piece in body.chunks(body.len().div_ceil(pieces).max(1)) {
            std::thread::sleep(pause);
            written = written.and_then(|()| self.stream.write_all(piece));
        }
        let written = written.and_then(|()| self.stream.flush());
        if request.method == "HEAD" {
            return answer.body.len();
        }
        if written.is_ok() { body.len() } else { 0 }
    }

    fn served(&self, request: &Request, fault: Option<&Fault>) -> Answer {
        let path = decoded(request.path());
        let bucket = path.trim_start_matches('/').split('/').next().unwrap_or_default().to_string();
        if bucket != BUCKET {
            return error(404, "NoSuchBucket");
        }
        let (key, upload) = (request.key(), request.parameter("uploadId"));
        match (request.method.as_str(), upload) {
            ("GET", _) if key.is_empty() && request.query().contains("uploads") => self.uploads(request),
            ("GET", _) if key.is_empty() && request.query().contains("list-type=2") => self.list(request),
            ("GET" | "HEAD", _) => self.object(request, &key, fault),
            ("PUT", Some(id)) => self.part(request, &id),
            ("PUT", None) if key.is_empty() => error(409, "BucketAlreadyOwnedByYou"),
            ("PUT", None) => {
                let version = self.shared.put(&key, request.body.clone());
                Answer { status: 200, headers: vec![("ETag", format!("\"{version}\""))], body: Vec::new() }
            }
            ("POST", Some(id)) => self.complete(request, &id, fault),
            ("POST", None) => {
                let id = format!("upload-{}", self.shared.put("", Vec::new()));
                of(&self.shared.objects).remove("");
                of(&self.shared.uploads).insert(id.clone(), (key, BTreeMap::new()));
                let body =
                    format!("<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>");
                Answer { status: 200, body: body.into_bytes(), ..Answer::default() }
            }
            ("DELETE", Some(id)) => match of(&self.shared.uploads).remove(&id) {
                Some(_) => Answer { status: 204, ..Answer::default() },
                None => error(404, "NoSuchUpload"),
            },
            ("DELETE", None) => {
                of(&self.shared.objects).remove(&key);
                Answer { status: 204, ..Answer::default() }
            }
            _ => error(405, "MethodNotAllowed"),
        }
    }

    fn list(&self, request: &Request) -> Answer {
        let (prefix, delimiter) = (request.parameter("prefix").unwrap_or_default(), request.parameter("delimiter"));
        let objects = of(&self.shared.objects);
        let mut folders = BTreeSet::new();
        let mut list = String::new();
        for (key, (bytes, version)) in objects.iter().filter(|(key, _)| key.starts_with(&prefix)) {
            let behind = &key[prefix.len()..];
            match delimiter.as_ref().and_then(|delimiter| behind.find(delimiter.as_str())) {
                Some(end) => {
                    folders.insert(format!("{prefix}{}", &behind[..=end]));
                }
                None => list.push_str(&format!(
                    "<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>\
                     <ETag>&quot;{version}&quot;</ETag><Size>{}</Size><StorageClass>STANDARD</StorageClass></Contents>",
                    bytes.len()
                )),
            }
        }
        for folder in folders {
            list.push_str(&format!("<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>"));
        }
        let body = format!(
            "<ListBucketResult><Name>{BUCKET}</Name><Prefix>{prefix}</Prefix><IsTruncated>false</IsTruncated>{list}\
             </ListBucketResult>"
        );
        Answer { status: 200, body: body.into_bytes(), ..Answer::default() }
    }

    fn uploads(&self, request: &Request) -> Answer {
        let prefix = request.parameter("prefix").unwrap_or_default();
        let uploads = of(&self.shared.uploads);
        let one = |(id, (key, _)): (&String, &(String, _))| {
            format!("<Upload><Key>{key}</Key><UploadId>{id}</UploadId></Upload>")
        };
        let list: String = uploads.iter().filter(|(_, (key, _))| key.starts_with(&prefix)).map(one).collect();
        let body = format!("<ListMultipartUploadsResult>{list}</ListMultipartUploadsResult>");
        Answer { status: 200, body: body.into_bytes(), ..Answer::default() }
    }

    fn object(&self, request: &Request, key: &str, fault: Option<&Fault>) -> Answer {
        let found = of(&self.shared.objects).get(key).cloned();
        let Some((bytes, version)) = found else { return error(404, "NoSuchKey") };
        let etag = format!("\"{version}\"");
        let wanted = request.header("if-match");
        if !wanted.is_empty() && wanted != etag {
            return error(412, "PreconditionFailed");
        }
        let headers = vec![("ETag", etag), ("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT".into())];
        let range = request.header("range").strip_prefix("bytes=").and_then(|range| range.split_once('-'));
        let Some((from, to)) = range.filter(|_| !matches!(fault, Some(Fault::Whole))) else {
            return Answer { status: 200, headers, body: bytes.to_vec() };
        };
        let from: usize = from.parse().unwrap();
        let end = to.parse().map_or(bytes.len(), |last: usize| (last + 1).min(bytes.len()));
        if from >= end {
            return error(416, "InvalidRange");
        }
        let place = format!("bytes {from}-{}/{}", end - 1, bytes.len());
        let headers = [headers, vec![("Content-Range", place)]].concat();
        Answer { status: 206, headers, body: bytes[from..end].to_vec() }
    }

    fn part(&self, request: &Request, id: &str) -> Answer {
        let number = request.parameter("partNumber").and_then(|number| number.parse().ok()).unwrap_or(0);
        let mut uploads = of(&self.shared.uploads);
        let Some((_, parts)) = uploads.get_mut(id) else { return error(404, "NoSuchUpload") };
        parts.insert(number, request.body.clone());
        Answer { status: 200, headers: vec![("ETag", format!("\"part-{number}\""))], body: Vec::new() }
    }

    fn complete(&self, request: &Request, id: &str, fault: Option<&Fault>) -> Answer {
        if matches!(fault, Some(Fault::ErrorInside)) {
            return Answer { status: 200, ..error(200, "InternalError") };
        }
        let Some((key, mut parts)) = of(&self.shared.uploads).remove(id) else { return error(404, "NoSuchUpload") };
        let list = String::from_utf8_lossy(&request.body).into_owned();
        // Clients put the two in either order, and entity tags with quotes, with XML entities instead, or with neither.
        let listed: Vec<String> =
            list.split("</Part>").map(|part| part.replace("&quot;", "").replace('"', "")).collect();
        let is_of = |part: &&String, number: &u64| {
            part.contains(&format!("<PartNumber>{number}</PartNumber>"))
                && part.contains(&format!("<ETag>part-{number}</ETag>"))
        };
        let named = |number: &u64| listed.iter().any(|part| is_of(&part, number));
        if !parts.keys().all(named) || list.matches("<Part>").count() != parts.len() {
            return error(400, "InvalidPart");
        }
        if matches!(fault, Some(Fault::LostPart)) {
            parts.pop_last();
        }
        let version = self.shared.put(&key, parts.into_values().flatten().collect());
        let body = format!(
            "<CompleteMultipartUploadResult><Key>{key}</Key><ETag>&quot;{version}&quot;</ETag></CompleteMultipartUploadResult>"
        );
        Answer { status: 200, body: body.into_bytes(), ..Answer::default() }
    }
}

/// Returns the time `when` ago, in the format of a `Date` header.
pub fn date(when: &str) -> String {
    let mut command = Command::new("date");
    let output = command.env("LC_ALL", "C").args(["-u", "-d", when, "+%a, %d %b %Y %H:%M:%S GMT"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_string()
}
