//! Objects of an S3 store in the place of files: a path that begins with `s3://` is one, wherever paths are taken.
//!
//! ```text
//! settings    which store, who asks; from keys and environment
//! client      a request until it is answered: attempts, redirects, what a refusal means; the only place that sends
//! request     what is asked
//! http, sign  a connection to a server; who asks, proved
//! body        an object read, from the byte reached where it broke
//! upload      an object written, whole or in parts; visible when it is complete
//! counts      what all of it came to, over the processes of a rank
//! tier        pieces of objects kept on this machine, where a workload asks for that
//! told        each request as a trace has it
//! ```
//!
//! No thread and no runtime is behind it: a request is made in the thread that wants it, so that ranks, workers and writers
//! fork as they do for files. Names of objects are computed, never listed.

pub mod body;
pub mod cache;
mod client;
pub mod counts;
mod http;
mod request;
mod request_span;
pub mod settings;
mod sign;
mod upload;
pub mod xml;

pub use body::{Body, Ranges};
pub use settings::Settings;
pub use upload::Upload;

use crate::failure::{Failure, Kind, Outcome};
use cache::Tiered;
use client::Client;
use counts::Figure;
use request::Request;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// The store of the present run. A process has one run at a time; what it forks has the same.
static STORE: Mutex<Option<Arc<Settings>>> = Mutex::new(None);
/// The rank this process belongs to, and the number of ranks.
static RANK: AtomicU64 = AtomicU64::new(0);
static RANKS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// With the process that it was made in: a connection belongs to one.
    static CLIENT: RefCell<Option<(u32, Client)>> = const { RefCell::new(None) };
}

/// From now on objects are those of this store.
pub fn enter(settings: Option<&Settings>) {
    *STORE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = settings.cloned().map(Arc::new);
    CLIENT.with_borrow_mut(|client| *client = None);
}

/// Says which rank this process is: each asks an endpoint of its own, where there are several, and counts for itself.
pub fn take_rank(rank: u64, ranks: u64) -> Outcome<()> {
    RANK.store(rank, Relaxed);
    RANKS.store(ranks.max(1), Relaxed);
    CLIENT.with_borrow_mut(|client| *client = None);
    counts::share()
}

/// Parts of an object on their way at once.
fn parts_at_once(settings: &Settings) -> u64 {
    match settings.parts_at_once {
        0 => 16u64.div_ceil(RANKS.load(Relaxed)).max(2),
        asked => asked,
    }
}

pub fn is_object(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().starts_with(settings::SCHEME.as_bytes())
}

/// The key of an object's path, behind its bucket.
fn key_of(path: &Path) -> String {
    let name = path.to_string_lossy();
    let behind = name.strip_prefix(settings::SCHEME).unwrap_or(&name);
    behind.split_once('/').map_or("", |(_, key)| key).to_string()
}

fn settings_now() -> Outcome<Arc<Settings>> {
    let settings = STORE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
    settings.ok_or_else(|| Failure::refused("no object store is set: workload.storage.storage_type is not s3"))
}

fn with_client<T>(work: impl FnOnce(&mut Client) -> Outcome<T>) -> Outcome<T> {
    CLIENT.with_borrow_mut(|place| {
        let process = std::process::id();
        let client = match place.take() {
            Some((owner, client)) if owner == process => client,
            _ => Client::new(settings_now()?, RANK.load(Relaxed))?,
        };
        work(&mut place.insert((process, client)).1)
    })
}

/// None in the place of "it is not there".
fn if_there<T>(outcome: Outcome<T>) -> Outcome<Option<T>> {
    match outcome {
        Err(failure) if failure.kind == Kind::MissingData && !failure.what.starts_with("there is no bucket") => {
            Ok(None)
        }
        outcome => outcome.map(Some),
    }
}

/// The objects that this thread will come to, in their order, some of which are asked for before their turn.
pub struct Upcoming {
    objects: Box<dyn Iterator<Item = PathBuf>>,
    window: u64,
    looked_at: u64,
    come_to: u64,
}

impl Upcoming {
    /// As many as `window` are asked for before their turn.
    pub fn new(objects: impl Iterator<Item = PathBuf> + 'static, window: u64) -> Upcoming {
        Upcoming { objects: Box::new(objects), window, looked_at: 0, come_to: 0 }
    }

    /// The thread comes to the next object: asks for those that its window shows now.
    pub fn come_to_next(&mut self) -> Outcome<()> {
        if self.come_to == 0 {
            with_client(|client| {
                client.forget_ahead();
                Ok(())
            })?;
        }
        self.come_to += 1;
        while self.looked_at < self.come_to + self.window {
            let Some(path) = self.objects.next() else { break };
            self.looked_at += 1;
            if !ask_ahead(&path)? {
                break;
            }
        }
        Ok(())
    }
}

/// Asks for what will be read first of an object. False where that cannot be sent now.
fn ask_ahead(path: &Path) -> Outcome<bool> {
    let (tiered, key) = (Tiered::of(path), key_of(path));
    if tiered.as_ref().is_some_and(Tiered::is_begun) {
        return Ok(true);
    }
    let range = tiered.as_ref().and_then(Tiered::block).map(|block| body::range(0, Some(block)));
    with_client(|client| {
        // What the tier keeps is asked for once, however often it is come back to.
        let is_asked = tiered.is_some() && client.has_asked_ahead(&key);
        Ok(is_asked || client.ask_ahead(&key, range))
    })
}

/// The bytes of an object; None where there is none.
pub fn length(path: &Path) -> Outcome<Option<u64>> {
    let key = key_of(path);
    let head = with_client(|client| client.ask(Request::new("HEAD", &key, Figure::Heads)));
    let length = |head: http::Head| {
        let missing = || Failure::new(Kind::System, format!("the store does not say how long {} is", path.display()));
        head.length().ok_or_else(missing)
    };
    if_there(head)?.map(|(head, _)| length(head)).transpose()
}

/// A small object whole; None where there is none.
pub fn get(path: &Path) -> Outcome<Option<Vec<u8>>> {
    let Some(mut body) = if_there(Body::open(path, 0, None))? else { return Ok(None) };
    let mut bytes = vec![0; body.total() as usize];
    body.fill(&mut bytes)?;
    Ok(Some(bytes))
}

pub fn put(path: &Path, bytes: &[u8]) -> Outcome<()> {
    let mut upload = Upload::new(path, bytes.len() as u64)?;
    upload.take(bytes)?;
    upload.finish().map(drop)
}

/// Gone afterwards, whether or not it was there.
pub fn delete(path: &Path) -> Outcome<()> {
    let key = key_of(path);
    let asked = with_client(|client| client.ask(Request::new("DELETE", &key, Figure::Deletes)));
    if_there(asked).map(drop)
}

/// Fails unless the store answers and lets us in: one request for an object that is there or not. Makes the bucket where that
/// was asked for.
pub fn preflight(probe: &Path) -> Outcome<()> {
    if settings_now()?.create_bucket {
        let request = Request { body: Some(b""), ..Request::new("PUT", "", Figure::Others) };
        match with_client(|client| client.ask(request)) {
            Err(failure) if !failure.what.contains("BucketAlready") => return Err(failure),
            _ => {}
        }
    }
    get(probe).map(drop)
}

/// Fails unless objects can be written below a path: one is, and removed again.
pub fn check_writable(below: &Path) -> Outcome<()> {
    let probe = below.join(format!(".dlio-{}", std::process::id()));
    put(&probe, b"").and_then(|()| delete(&probe))
}

/// Gives up uploads below a path that nobody will complete: what a killed writer left.
pub fn sweep(below: &Path) -> Outcome<()> {
    let key = key_of(below);
    let prefix = if key.is_empty() { key } else { format!("{key}/") };
    let query = [("prefix", prefix), ("uploads", String::new())];
    let asked = with_client(|client| client.ask(Request { query: &query, ..Request::new("GET", "", Figure::Others) }));
    // A store without uploads in parts has none to give up.
    let Ok((_, words)) = asked else { return Ok(()) };
    for upload in xml::elements(&words, "Upload") {
        if let (Some(key), Some(id)) = (xml::text(upload, "Key"), xml::text(upload, "UploadId")) {
            upload::abort(&key, &id)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_begins_with_the_scheme_is_an_object() {
        let path = Path::new("s3://bucket").join("data").join("train/img_0_of_8.npz");
        assert!(is_object(&path) && !is_object(Path::new("data/s3:/x")) && !is_object(Path::new("/s3://b/x")));
        assert_eq!(key_of(&path), "data/train/img_0_of_8.npz");
        assert_eq!(key_of(&path.with_file_name("x.idx")), "data/train/x.idx");
        assert_eq!(key_of(Path::new("s3://bucket/s3://bucket/train/x")), "s3://bucket/train/x");
        assert_eq!(key_of(Path::new("s3://bucket")), "");
    }
}
