//! An object, or a part of it, read front to back. After a broken connection the read resumes at the byte reached, if
//! the object is still the same.

use super::client::Answer;
use super::counts::{self, Figure, Timed};
use super::http::Connection;
use super::request::Request;
use super::request_span::{self, RequestSpan};
use super::session::{key_of, settings_now, with_client};
use crate::failure::{Failure, Kind, Outcome};
use crate::system::processes;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub struct Body {
    path: PathBuf,
    key: String,
    /// `None` once the whole body has been received.
    connection: Option<(Connection, RequestSpan)>,
    /// The next byte of the object, and the end of the requested range.
    at: u64,
    end: u64,
    total: u64,
    etag: Option<String>,
    asked: Instant,
    broken: u64,
}

/// The pause before a broken body is requested again, multiplied by the number of breaks.
const PAUSE: Duration = Duration::from_millis(100);

impl Body {
    /// Opens an object from byte `from` to its end, or for `length` bytes.
    pub fn open(path: &Path, from: u64, length: Option<u64>) -> Outcome<Body> {
        let key = key_of(path);
        let part = Part { from, length, etag: None };
        let (answer, total) = part.answer(path, &key)?;
        let end = length.map_or(total, |length| (from + length).min(total));
        let etag = answer.head.header("etag").map(str::to_string);
        let (path, asked) = (path.to_path_buf(), answer.asked);
        let mut body = Body {
            path,
            key,
            connection: Some((answer.connection, answer.told)),
            at: from,
            end,
            total,
            etag,
            asked,
            broken: 0,
        };
        if end <= from {
            body.finish();
        }
        Ok(body)
    }

    /// Returns the size of the whole object.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the offset of the next byte.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Reads the next bytes; returns 0 at the end of the requested range.
    pub fn next(&mut self, into: &mut [u8]) -> Outcome<usize> {
        loop {
            let most = (self.end - self.at).min(into.len() as u64) as usize;
            let Some((connection, told)) = self.connection.as_mut().filter(|_| most > 0) else { return Ok(0) };
            match connection.body(&mut into[..most]) {
                Ok(0) => self.go_on(&io::ErrorKind::UnexpectedEof.into())?,
                Ok(count) => {
                    counts::add(Figure::BytesIn, count as u64);
                    told.moved += count as u64;
                    self.at += count as u64;
                    if self.at == self.end {
                        self.finish();
                    }
                    return Ok(count);
                }
                Err(error) => self.go_on(&error)?,
            }
        }
    }

    /// Fills `into` completely.
    pub fn fill(&mut self, into: &mut [u8]) -> Outcome<()> {
        let mut done = 0;
        while done < into.len() {
            match self.next(&mut into[done..])? {
                0 => {
                    let what = format!("ends at byte {} of {}", self.at, self.at + (into.len() - done) as u64);
                    return Err(Failure::damaged(&self.path, what));
                }
                count => done += count,
            }
        }
        Ok(())
    }

    fn finish(&mut self) {
        let took = self.asked.elapsed();
        counts::time(Timed::Get, took);
        counts::add(Figure::GetNanos, took.as_nanos() as u64);
        if let Some((connection, _)) = self.connection.take() {
            // Without a client the connection is dropped.
            let _ = with_client(|client| {
                client.return_connection(connection);
                Ok(())
            });
        }
    }

    /// Requests the rest of a body that broke.
    fn go_on(&mut self, error: &io::Error) -> Outcome<()> {
        if let Some((_, mut told)) = self.connection.take() {
            told.end(request_span::errno_of(error));
        }
        if processes::interrupted() {
            return Err(Failure::interrupted());
        }
        self.broken += 1;
        if self.broken >= settings_now()?.attempts {
            let what =
                format!("cannot read {}: {error} at byte {}, {} times", self.path.display(), self.at, self.broken);
            return Err(Failure::new(Kind::System, what)
                .remedy("check the store and the network: connections are being closed"));
        }
        counts::add(if error.kind() == io::ErrorKind::TimedOut { Figure::Stalled } else { Figure::Broken }, 1);
        counts::add(Figure::Resumed, 1);
        processes::sleep(PAUSE * self.broken as u32);
        let part = Part { from: self.at, length: Some(self.end - self.at), etag: self.etag.as_deref() };
        let (answer, total) = part.answer(&self.path, &self.key)?;
        let etag = answer.head.header("etag");
        if total != self.total || (self.etag.is_some() && etag != self.etag.as_deref()) {
            return Err(Failure::damaged(&self.path, "it was modified while it was read"));
        }
        self.connection = Some((answer.connection, answer.told));
        Ok(())
    }
}

impl Read for Body {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.next(into).map_err(io::Error::other)
    }
}

/// A requested range of an object.
struct Part<'a> {
    from: u64,
    length: Option<u64>,
    /// The entity tag that the object must have.
    etag: Option<&'a str>,
}

impl Part<'_> {
    /// Returns the answer, and the size of the whole object.
    fn answer(&self, path: &Path, key: &str) -> Outcome<(Answer, u64)> {
        let mut headers = Vec::new();
        let ranged = self.from > 0 || self.length.is_some();
        if ranged {
            headers.push(("range", range(self.from, self.length)));
        }
        headers.extend(self.etag.map(|etag| ("if-match", etag.to_string())));
        let request = Request { headers: &headers, at: self.from, ..Request::new("GET", key, Figure::Gets) };
        let answer = with_client(|client| client.answer(request))?;
        let odd =
            |what: &str| Err(Failure::new(Kind::System, format!("cannot read {}: the store {what}", path.display())));
        let Some(length) = answer.head.length() else { return odd("does not report its length") };
        if !ranged {
            return Ok((answer, length));
        }
        if answer.head.status != 206 {
            return odd("sends the whole object instead of a range");
        }
        let total = answer.head.header("content-range").and_then(|range| range.rsplit_once('/')?.1.parse::<u64>().ok());
        let Some(total) = total else { return odd("does not report which range it sends") };
        let wanted = self.length.unwrap_or(u64::MAX).min(total.saturating_sub(self.from));
        if length != wanted {
            return odd(&format!("sends {length} of {wanted} bytes"));
        }
        Ok((answer, total))
    }
}

/// Returns a range in the syntax of requests.
pub(super) fn range(from: u64, length: Option<u64>) -> String {
    let last = length.map_or(String::new(), |length| (from + length.max(1) - 1).to_string());
    format!("bytes={from}-{last}")
}

/// Bytes at the front of an object that are read together: the head of a format, or all of a small object.
const HEAD: u64 = 64 << 10;

/// An object read in parts, in any order.
pub struct Ranges {
    path: PathBuf,
    head: Vec<u8>,
    total: u64,
    moved: Mutex<u64>,
}

impl Ranges {
    pub fn open(path: &Path) -> Outcome<Ranges> {
        let mut body = Body::open(path, 0, Some(HEAD))?;
        let mut head = vec![0; body.total().min(HEAD) as usize];
        body.fill(&mut head)?;
        Ok(Ranges { path: path.to_path_buf(), moved: Mutex::new(head.len() as u64), head, total: body.total() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the bytes read since the last call.
    pub fn take_moved(&self) -> u64 {
        std::mem::take(&mut *self.moved.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn fill(&self, offset: u64, into: &mut [u8]) -> Outcome<()> {
        let end = offset + into.len() as u64;
        if end <= self.head.len() as u64 {
            into.copy_from_slice(&self.head[offset as usize..end as usize]);
            return Ok(());
        }
        Body::open(&self.path, offset, Some(into.len() as u64))?.fill(into)?;
        *self.moved.lock().unwrap_or_else(PoisonError::into_inner) += into.len() as u64;
        Ok(())
    }
}
