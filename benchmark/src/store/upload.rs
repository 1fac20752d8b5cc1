//! An object written front to back: a small one in one request, a large one in parts, several in flight. It becomes
//! visible when it is complete; after an error or an interrupt the upload is aborted and leaves nothing.

use super::counts::{self, Figure, Timed};
use super::request::Request;
use super::session::{self, key_of, parts_at_once, settings_now, with_client};
use super::settings::Settings;
use super::xml;
use crate::failure::{Failure, Kind, Outcome};
use crate::system::processes;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// An object cannot have more parts.
const PARTS_MAX: u64 = 10_000;

pub struct Upload {
    path: PathBuf,
    key: String,
    settings: Arc<Settings>,
    /// Bytes not sent yet: a part, or the whole object.
    pending: Vec<u8>,
    part_bytes: usize,
    written: u64,
    parts: Option<Parts>,
}

impl Upload {
    /// Starts an object of about `bytes` bytes.
    pub fn new(path: &Path, bytes: u64) -> Outcome<Upload> {
        let settings = settings_now()?;
        let in_parts = bytes > settings.whole_bytes;
        let part_bytes = settings.part_bytes.max(bytes.div_ceil(PARTS_MAX)) as usize;
        let key = key_of(path);
        let parts = if in_parts { Some(Parts::begin(&key, parts_at_once(&settings))?) } else { None };
        let room = if in_parts { part_bytes } else { bytes as usize };
        Ok(Upload {
            path: path.to_path_buf(),
            key,
            settings,
            pending: Vec::with_capacity(room),
            part_bytes,
            written: 0,
            parts,
        })
    }

    pub fn take(&mut self, mut bytes: &[u8]) -> Outcome<()> {
        self.written += bytes.len() as u64;
        let Some(parts) = &mut self.parts else {
            self.pending.extend_from_slice(bytes);
            return Ok(());
        };
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(self.part_bytes - self.pending.len()));
            self.pending.extend_from_slice(now);
            bytes = rest;
            if self.pending.len() == self.part_bytes {
                parts.send(std::mem::replace(&mut self.pending, Vec::with_capacity(self.part_bytes)))?;
            }
        }
        Ok(())
    }

    /// Completes the upload, which makes the object visible; returns its size.
    pub fn finish(mut self) -> Outcome<u64> {
        let pending = std::mem::take(&mut self.pending);
        match self.parts.take() {
            None => self.put(&pending)?,
            Some(mut parts) => {
                let sent = if pending.is_empty() { Ok(()) } else { parts.send(pending) };
                sent.and_then(|()| parts.complete())?;
            }
        }
        if self.settings.verify_writes {
            let there = session::length(&self.path)?;
            if there != Some(self.written) {
                let found = there.map_or("nothing".into(), |bytes| format!("{bytes} bytes"));
                let what =
                    format!("{}: {} bytes were written, but the store has {found}", self.path.display(), self.written);
                return Err(Failure::new(Kind::System, what).remedy("the store lost part of a confirmed write"));
            }
        }
        Ok(self.written)
    }

    fn put(&self, bytes: &[u8]) -> Outcome<()> {
        let begun = Instant::now();
        let request = Request { body: Some(bytes), ..Request::new("PUT", &self.key, Figure::Puts) };
        with_client(|client| client.ask(request))?;
        counts::add(Figure::BytesOut, bytes.len() as u64);
        counts::time(Timed::Put, begun.elapsed());
        Ok(())
    }
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.take(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Number, offset in the object, bytes.
type Piece = (u64, u64, Vec<u8>);

/// The parts of one object and the threads that send them. Aborts the upload if dropped before it is complete.
struct Parts {
    key: String,
    id: String,
    next: u64,
    /// Bytes of the previous parts.
    at: u64,
    sender: Option<SyncSender<Piece>>,
    senders: Vec<JoinHandle<Vec<(u64, String)>>>,
    /// The first failure: nothing is sent after it.
    failed: Arc<Mutex<Option<Failure>>>,
    complete: bool,
}

impl Parts {
    fn begin(key: &str, at_once: u64) -> Outcome<Parts> {
        let query = [("uploads", String::new())];
        let request = Request { query: &query, body: Some(b""), ..Request::new("POST", key, Figure::Others) };
        let (_, words) = with_client(|client| client.ask(request))?;
        let id = xml::text(&words, "UploadId").ok_or_else(|| {
            Failure::new(Kind::System, format!("the store did not start a multipart upload of {key}"))
        })?;
        let (sender, receiver) = sync_channel::<Piece>(0);
        let receiver = Arc::new(Mutex::new(receiver));
        let failed = Arc::new(Mutex::new(None));
        let send = |_| {
            let (receiver, failed, key, id) = (receiver.clone(), failed.clone(), key.to_string(), id.clone());
            std::thread::spawn(move || send_parts(&key, &id, &receiver, &failed))
        };
        let senders = (0..at_once).map(send).collect();
        Ok(Parts { key: key.into(), id, next: 1, at: 0, sender: Some(sender), senders, failed, complete: false })
    }

    fn failure(&self) -> Option<Failure> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn send(&mut self, bytes: Vec<u8>) -> Outcome<()> {
        if processes::interrupted() {
            return Err(Failure::interrupted());
        }
        let gone = || Failure::new(Kind::System, "the threads that upload parts have exited");
        let (at, behind) = (self.at, self.at + bytes.len() as u64);
        let sent = self.sender.as_ref().ok_or_else(gone)?.send((self.next, at, bytes));
        (self.next, self.at) = (self.next + 1, behind);
        match self.failure() {
            Some(failure) => Err(failure),
            None => sent.map_err(|_| gone()),
        }
    }

    /// Waits for all parts; returns their numbers and entity tags.
    fn sent(&mut self) -> Vec<(u64, String)> {
        self.sender = None;
        let mut sent: Vec<_> = self.senders.drain(..).flat_map(|thread| thread.join().unwrap_or_default()).collect();
        sent.sort_unstable();
        sent
    }

    fn complete(mut self) -> Outcome<()> {
        let sent = self.sent();
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        let part = |(number, etag): &(u64, String)| {
            let etag = etag.replace('&', "&amp;").replace('<', "&lt;");
            format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>")
        };
        let list: String = sent.iter().map(part).collect();
        let body = format!(
            "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{list}</CompleteMultipartUpload>"
        );
        let query = [("uploadId", self.id.clone())];
        let request =
            Request { query: &query, body: Some(body.as_bytes()), ..Request::new("POST", &self.key, Figure::Others) };
        let (_, words) = with_client(|client| client.ask(request))?;
        // A response with status 200 may contain an error.
        if let Some(code) = xml::text(&words, "Code") {
            let message = xml::text(&words, "Message").unwrap_or_default();
            return Err(Failure::new(Kind::System, format!("cannot complete {}: {code} {message}", self.key)));
        }
        self.complete = true;
        Ok(())
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        if !self.complete {
            self.sent();
            // The next run with this path finds an upload that could not be aborted.
            let _ = abort(&self.key, &self.id);
        }
    }
}

/// Aborts a multipart upload.
pub fn abort(key: &str, id: &str) -> Outcome<()> {
    let query = [("uploadId", id.to_string())];
    let asked =
        with_client(|client| client.ask(Request { query: &query, ..Request::new("DELETE", key, Figure::Others) }));
    session::if_there(asked).map(drop)
}

/// Sends parts as they arrive until there are no more, or one has failed.
fn send_parts(
    key: &str,
    id: &str,
    pieces: &Mutex<Receiver<Piece>>,
    failed: &Mutex<Option<Failure>>,
) -> Vec<(u64, String)> {
    let mut sent = Vec::new();
    loop {
        let piece = pieces.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((number, at, bytes)) = piece else { return sent };
        // After a failure, parts are received and dropped, so that their sender does not block.
        if failed.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            continue;
        }
        match send_part((key, id), number, at, &bytes) {
            Ok(etag) => sent.push((number, etag)),
            Err(failure) => {
                failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
            }
        }
    }
}

/// Sends one part; returns its entity tag.
fn send_part((key, id): (&str, &str), number: u64, at: u64, bytes: &[u8]) -> Outcome<String> {
    let begun = Instant::now();
    let query = [("partNumber", number.to_string()), ("uploadId", id.to_string())];
    let request = Request { query: &query, body: Some(bytes), at, ..Request::new("PUT", key, Figure::Parts) };
    let (head, _) = with_client(|client| client.ask(request))?;
    counts::add(Figure::BytesOut, bytes.len() as u64);
    counts::time(Timed::Put, begun.elapsed());
    let missing = || Failure::new(Kind::System, format!("the store sent no ETag for part {number} of {key}"));
    head.header("etag").map(str::to_string).ok_or_else(missing)
}
