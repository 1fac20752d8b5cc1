//! Requests to the store until they are answered: signed, retried if that helps, redirected as the store directs, and
//! explained in one sentence if they fail.
//!
//! [`Client::answer`] contains everything that a request goes through: attempts, redirects and retries. A client
//! belongs to one thread of one process; a forked child creates its own.

use super::certificates;
use super::counts::{self, Figure, Timed};
use super::http::{self, Connection, Head, Server};
use super::request::Request;
use super::request_span::{self, RequestSpan};
use super::settings::Settings;
use super::sign::{self, Signed, Utc};
use super::xml;
use crate::failure::{Failure, Kind, Outcome};
use crate::system::processes;
use crate::system::random::mixed;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An answer whose body has not been received yet.
pub struct Answer {
    pub head: Head,
    pub connection: Connection,
    pub told: RequestSpan,
    /// When it was first requested.
    pub asked: Instant,
}

/// The server, path and query that a request goes to.
#[derive(Clone)]
struct Target {
    server: Server,
    path: String,
    query: String,
}

/// A request that was sent and whose answer has not been read.
struct SentRequest {
    key: String,
    connection: Connection,
    told: RequestSpan,
    at: Instant,
    written: io::Result<()>,
}

/// An attempt that failed and may be retried.
struct Retry {
    figure: Figure,
    /// The wait that the store requested.
    after: Option<Duration>,
    reason: String,
}

/// A request sent ahead of its use, and its range.
struct Prefetch {
    range: Option<String>,
    sent: SentRequest,
}

enum RequestError {
    Final(Failure),
    Retry(Retry),
}

/// The bodies of errors are never longer.
const WORDS_MAX: usize = 64 << 10;
const HOPS_MAX: usize = 5;
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(15);
/// The longest wait that a store may request.
const LONGEST_ASKED: Duration = Duration::from_secs(60);
/// Connections kept for the next request, unless a window needs more.
const IDLE_MAX: usize = 4;

pub struct Client {
    pub settings: Arc<Settings>,
    known: Arc<rustls::ClientConfig>,
    endpoint: (Server, String),
    idle: Vec<Connection>,
    /// Objects requested ahead of their use. Their answers remain in the sockets until they are read.
    ahead: VecDeque<Prefetch>,
    /// Makes the waits of two clients different.
    draws: u64,
}

impl Client {
    /// `number` selects one of several endpoints.
    pub fn new(settings: Arc<Settings>, number: u64) -> Outcome<Client> {
        let endpoint = settings.endpoints[number as usize % settings.endpoints.len()].clone();
        let known = certificates::known_servers(settings.ca_bundle.as_deref(), endpoint.0.tls).map_err(|what| {
            Failure::refused(format!("cannot read the certificates of the store: {what}"))
                .remedy("correct ++workload.storage.storage_options.ca_bundle=FILE (or AWS_CA_BUNDLE)")
        })?;
        let draws = mixed(&[u64::from(std::process::id()), number]);
        Ok(Client { settings, known, endpoint, idle: Vec::new(), ahead: VecDeque::new(), draws })
    }

    /// Returns `s3://bucket/key`.
    pub fn name_of(&self, key: &str) -> String {
        let slash = if key.is_empty() { "" } else { "/" };
        format!("{}{}{slash}{key}", super::settings::SCHEME, self.settings.bucket)
    }

    /// Requests an object, or a range of it, ahead of its use. Returns `false` if the request cannot be sent now. In that case,
    /// it is sent later, and an error is reported at that time.
    pub fn ask_ahead(&mut self, key: &str, range: Option<String>) -> bool {
        let headers: Vec<(&str, String)> = range.iter().map(|range| ("range", range.clone())).collect();
        let request = Request { headers: &headers, ..Request::new("GET", key, Figure::Gets) };
        let sent = self.send(request, 1, &self.place_of(request));
        let is_sent = sent.is_ok();
        self.ahead.extend(sent.ok().map(|sent| Prefetch { range, sent }));
        is_sent
    }

    pub fn has_asked_ahead(&self, key: &str) -> bool {
        self.ahead.iter().any(|ahead| ahead.sent.key == key)
    }

    /// Drops the requests in flight that are no longer needed.
    pub fn forget_ahead(&mut self) {
        self.ahead.clear();
    }

    /// Returns the matching request sent ahead. Earlier ones are no longer needed.
    fn take_prefetched(&mut self, request: Request) -> Option<SentRequest> {
        let range = match request.headers {
            [] => None,
            [("range", range)] => Some(range.as_str()),
            _ => return None,
        };
        let is_plain = request.method == "GET" && request.query.is_empty();
        let is_same = |ahead: &Prefetch| is_plain && ahead.sent.key == request.key && ahead.range.as_deref() == range;
        let place = self.ahead.iter().position(is_same)?;
        self.ahead.drain(..=place).next_back().map(|ahead| ahead.sent)
    }

    /// Returns the answer to a request, after as many attempts as it takes.
    pub fn answer(&mut self, request: Request) -> Outcome<Answer> {
        let mut ahead = self.take_prefetched(request);
        let asked = ahead.as_ref().map_or_else(Instant::now, |sent| sent.at);
        let mut wait = FIRST_WAIT;
        for attempt in 1.. {
            let again = match self.attempt(request, attempt, ahead.take()) {
                Ok(answer) => return Ok(Answer { asked, ..answer }),
                Err(RequestError::Final(failure)) => return Err(failure),
                Err(RequestError::Retry(again)) => again,
            };
            if processes::interrupted() {
                return Err(Failure::interrupted());
            }
            if attempt >= self.settings.attempts {
                return Err(self.attempts_failed(request, attempt, &again.reason));
            }
            counts::add(again.figure, 1);
            self.draws = mixed(&[self.draws, attempt]);
            // Half of the wait is random, so that clients that failed together do not retry together.
            let own = wait.mul_f64(0.5 + 0.5 * (self.draws >> 11) as f64 / (1u64 << 53) as f64);
            processes::sleep(again.after.map_or(own, |asked| asked.max(own)));
            wait = (wait * 2).min(LONGEST_WAIT);
        }
        unreachable!("attempts are counted without end")
    }

    fn attempts_failed(&self, request: Request, attempts: u64, reason: &str) -> Failure {
        let times = if attempts == 1 { String::new() } else { format!(" ({attempts} attempts)") };
        let what =
            format!("{} {} at {}: {reason}{times}", request.method, self.name_of(request.key), self.endpoint.0.url());
        // A server without TLS may also hang up on a TLS handshake.
        let plain = if self.endpoint.0.tls { ", and does its port use TLS (https://)" } else { "" };
        Failure::new(Kind::System, what).remedy(format!(
            "is the endpoint correct, and is the store running{plain}? for more attempts set \
             ++workload.storage.storage_options.s3_max_attempts=N"
        ))
    }

    /// Returns the target of a request before any redirect.
    fn place_of(&self, request: Request) -> Target {
        let (mut server, base) = self.endpoint.clone();
        let key = sign::encoded(request.key, "/");
        let slash = if key.is_empty() { "" } else { "/" };
        let path = match self.settings.virtual_hosts {
            true => {
                server.host = format!("{}.{}", self.settings.bucket, server.host);
                format!("{base}/{key}")
            }
            false => format!("{base}/{}{slash}{key}", self.settings.bucket),
        };
        let query: Vec<String> =
            request.query.iter().map(|(name, value)| format!("{name}={}", sign::encoded(value, ""))).collect();
        Target { server, path, query: query.join("&") }
    }

    /// Makes one attempt and follows redirects. The first request of the attempt may already have been sent.
    fn attempt(
        &mut self,
        request: Request,
        attempt: u64,
        mut sent: Option<SentRequest>,
    ) -> Result<Answer, RequestError> {
        let mut target = self.place_of(request);
        for _ in 0..=HOPS_MAX {
            let now = match sent.take() {
                Some(sent) => sent,
                None => self.send(request, attempt, &target)?,
            };
            let answer = self.received(request, now)?;
            if !matches!(answer.head.status, 301 | 302 | 307 | 308) {
                return self.judged(request, answer);
            }
            let Some(location) = answer.head.header("location").map(str::to_string) else {
                return self.judged(request, answer);
            };
            counts::add(Figure::Redirects, 1);
            self.drained(answer);
            target = self.sent_on(request, &target.server, &location).map_err(RequestError::Final)?;
        }
        let what = format!("{} is redirected endlessly", self.name_of(request.key));
        Err(RequestError::Final(Failure::new(Kind::System, what)))
    }

    /// Returns the target of a redirect.
    fn sent_on(&self, request: Request, from: &Server, location: &str) -> Outcome<Target> {
        let refused = |why: &str| {
            Failure::new(
                Kind::System,
                format!("{}: {} redirects it to {location}, {why}", self.name_of(request.key), from.url()),
            )
        };
        let (server, rest) = match location.starts_with('/') {
            true => (from.clone(), location),
            false => Server::of_url(location).ok_or_else(|| refused("which is not the URL of a server"))?,
        };
        if from.tls && !server.tls {
            return Err(refused("which is not encrypted"));
        }
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut parts: Vec<&str> = query.split('&').filter(|part| !part.is_empty()).collect();
        parts.sort_unstable();
        let parts: Vec<String> =
            parts.iter().map(|part| if part.contains('=') { part.to_string() } else { format!("{part}=") }).collect();
        let path = if path.is_empty() { "/".into() } else { path.to_string() };
        Ok(Target { server, path, query: parts.join("&") })
    }

    /// Sends one request.
    fn send(&mut self, request: Request, attempt: u64, target: &Target) -> Result<SentRequest, RequestError> {
        let Target { server, path, query } = target;
        let body_hash = match request.body {
            _ if server.tls || self.settings.unsigned_payload => sign::UNSIGNED.to_string(),
            body => sign::sha256(body.unwrap_or_default()),
        };
        let authority = server.authority();
        let Settings { region, credentials, .. } = &*self.settings;
        let signed =
            Signed { method: request.method, authority: &authority, path, query, region, body_hash: &body_hash };
        let mut headers: Vec<(&str, String)> = request.headers.to_vec();
        if let Some(credentials) = credentials {
            headers.extend(signed.headers(credentials, Utc::now()));
        }
        let line = if query.is_empty() { path.clone() } else { format!("{path}?{query}") };
        let mut connection = self.connection(request, attempt, server)?;
        let told = RequestSpan::begin(&request, || self.name_of(request.key), &authority, attempt);
        let at = Instant::now();
        counts::add(request.figure, 1);
        let written = connection.send(request.method, &line, &headers, request.body);
        Ok(SentRequest { key: request.key.to_string(), connection, told, at, written })
    }

    /// Receives the head of the answer, with any status.
    fn received(&mut self, request: Request, sent: SentRequest) -> Result<Answer, RequestError> {
        let SentRequest { mut connection, mut told, at, written, .. } = sent;
        // A store that refuses a body may answer before it has received all of it, and hang up.
        match (connection.receive(request.method), written) {
            (Ok(head), written) => {
                let after = at.elapsed();
                if request.method == "GET" {
                    counts::time(Timed::FirstByte, after);
                }
                told.answered(head.status, after, head.length());
                match (head.status, written) {
                    (200..300, Err(error)) => Err(self.broken(error, told)),
                    (status, _) => {
                        if (200..300).contains(&status) {
                            told.moved = request.body.map_or(0, <[u8]>::len) as u64;
                        }
                        Ok(Answer { head, connection, told, asked: at })
                    }
                }
            }
            (Err(_), Err(error)) | (Err(error), Ok(())) => Err(self.broken(error, told)),
        }
    }

    fn connection(&mut self, request: Request, attempt: u64, server: &Server) -> Result<Connection, RequestError> {
        if let Some(place) = self.idle.iter().rposition(|connection| connection.server == *server) {
            return Ok(self.idle.swap_remove(place));
        }
        let mut told = RequestSpan::connect(&request, || self.name_of(request.key), &server.authority(), attempt);
        let opened = Connection::open(server, &self.known, self.settings.patience);
        let connection = opened.map_err(|error| {
            told.end(request_span::errno_of(&error));
            let reason = format!("cannot connect to {}: {error}", server.url());
            RequestError::Retry(Retry { figure: Figure::Broken, after: None, reason })
        })?;
        counts::add(Figure::Connections, 1);
        Ok(connection)
    }

    fn broken(&mut self, error: io::Error, mut told: RequestSpan) -> RequestError {
        told.end(request_span::errno_of(&error));
        if processes::interrupted() {
            return RequestError::Final(Failure::interrupted());
        }
        if let Some(remedy) = certificates::remedy(&error).or_else(|| http::remedy(&error).map(str::to_string)) {
            let what = format!("cannot communicate with the store at {}: {error}", self.endpoint.0.url());
            return RequestError::Final(Failure::new(Kind::System, what).remedy(remedy));
        }
        // The other connections were idle as long, or longer.
        self.idle.clear();
        let figure = if error.kind() == io::ErrorKind::TimedOut { Figure::Stalled } else { Figure::Broken };
        let reason = match error.kind() {
            io::ErrorKind::TimedOut => format!("no data for {} s", self.settings.patience.stall.as_secs()),
            _ => error.to_string(),
        };
        RequestError::Retry(Retry { figure, after: None, reason })
    }

    /// Returns a successful answer, or how to proceed after an error.
    fn judged(&mut self, request: Request, mut answer: Answer) -> Result<Answer, RequestError> {
        let status = answer.head.status;
        if (200..300).contains(&status) {
            return Ok(answer);
        }
        let head = answer.head.clone();
        answer.told.end(request_span::errno_of_status(status));
        let words = self.drained(answer);
        let code = xml::text(&words, "Code").unwrap_or_default();
        let message: String = xml::text(&words, "Message").unwrap_or_default().chars().take(200).collect();
        let throttled = matches!(status, 429 | 503) || code == "SlowDown" || code.starts_with("Throttl");
        if throttled
            || matches!(status, 408 | 500 | 502 | 504)
            || matches!(code.as_str(), "RequestTimeout" | "InternalError")
        {
            let after = head.header("retry-after").and_then(|seconds| seconds.trim().parse().ok());
            let after = after.map(|seconds| Duration::from_secs(seconds).min(LONGEST_ASKED));
            let figure = if throttled { Figure::Throttled } else { Figure::Failed };
            return Err(RequestError::Retry(Retry { figure, after, reason: worded(status, &code, &message) }));
        }
        Err(RequestError::Final(self.refusal(request, &head, &code, &message)))
    }

    /// Returns the meaning of a permanent error.
    fn refusal(&self, request: Request, head: &Head, code: &str, message: &str) -> Failure {
        let (name, at, status) = (self.name_of(request.key), self.endpoint.0.url(), head.status);
        let words = worded(status, code, message);
        let Settings { credentials, region, bucket, .. } = &*self.settings;
        let who =
            credentials.as_ref().map_or("a request without credentials".into(), |who| format!("key {}", who.short()));
        match (code, status) {
            ("NoSuchBucket", _) => Failure::new(Kind::MissingData, format!("bucket {bucket} does not exist at {at}"))
                .remedy("create it, or set ++workload.storage.storage_options.create_bucket=true"),
            ("RequestTimeTooSkewed", _) => Failure::new(
                Kind::System,
                format!("{at} rejects requests because of this host's clock: {}", skew(head)),
            )
            .remedy("correct this host's clock"),
            ("ExpiredToken", _) => {
                Failure::new(Kind::System, format!("{at}: the session token of {who} has expired ({words})"))
                    .remedy("get new credentials and start again")
            }
            (
                "InvalidAccessKeyId"
                | "SignatureDoesNotMatch"
                | "AccessDenied"
                | "InvalidToken"
                | "AuthorizationHeaderMalformed",
                _,
            )
            | (_, 401 | 403) => {
                Failure::new(Kind::System, format!("{at} denies {who} access to {name} in region {region}: {words}"))
                    .remedy("check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, the region and the permissions of the key")
            }
            (_, 404) if request.method != "POST" => {
                Failure::new(Kind::MissingData, format!("{name} does not exist at {at}"))
            }
            (_, 412) => Failure::damaged(std::path::Path::new(&name), "it was modified while it was read"),
            (_, 416) => Failure::damaged(std::path::Path::new(&name), "it ends before the requested range"),
            _ => {
                let failure = Failure::new(Kind::System, format!("{} {name} at {at}: {words}", request.method));
                let is_unsupported = matches!(status, 400 | 405 | 501) && code.is_empty();
                failure.remedy(if is_unsupported { "is the endpoint that of an S3 store?" } else { "" })
            }
        }
    }

    /// Returns the text of an answer, after which its connection may be used again.
    pub fn drained(&mut self, mut answer: Answer) -> String {
        let mut words = vec![0; WORDS_MAX];
        let mut length = 0;
        while length < WORDS_MAX {
            match answer.connection.body(&mut words[length..]) {
                Ok(0) => break,
                Ok(count) => length += count,
                // The bytes that did arrive are worth reading.
                Err(_) => break,
            }
        }
        self.return_connection(answer.connection);
        String::from_utf8_lossy(&words[..length]).into_owned()
    }

    /// Keeps a connection for the next request, if possible.
    pub fn return_connection(&mut self, connection: Connection) {
        let most = IDLE_MAX.max(self.settings.prefetch_window as usize + 1);
        if connection.is_reusable() && self.idle.len() < most {
            self.idle.push(connection);
        }
    }

    /// Sends a request and returns its whole answer.
    pub fn ask(&mut self, request: Request) -> Outcome<(Head, String)> {
        let answer = self.answer(request)?;
        let head = answer.head.clone();
        Ok((head, self.drained(answer)))
    }
}

fn worded(status: u16, code: &str, message: &str) -> String {
    let words: Vec<String> = [status.to_string(), code.to_string(), message.trim().to_string()].into();
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Returns the difference between this clock and the server's.
fn skew(head: &Head) -> String {
    let Some(theirs) = head.header("date").and_then(Utc::of_header) else { return "it is wrong".into() };
    let ahead = Utc::now().0 - theirs.0;
    let minutes = (ahead.abs() + 59) / 60;
    format!("it is {minutes} min {} the store's clock", if ahead < 0 { "behind" } else { "ahead of" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_worded_without_its_empty_parts() {
        assert_eq!(worded(503, "SlowDown", ""), "503 SlowDown");
        assert_eq!(worded(403, "", " no "), "403 no");
    }
}
