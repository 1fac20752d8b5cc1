//! The store of the current run, and its client in each thread.

use super::client::Client;
use super::counts::{self, Figure};
use super::http;
use super::request::Request;
use super::settings::{self, Settings};
use crate::failure::{Failure, Kind, Outcome};
use std::cell::RefCell;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// The store of the current run. A process has one run at a time, which its forks share.
static STORE: Mutex<Option<Arc<Settings>>> = Mutex::new(None);
/// The rank this process belongs to, and the number of ranks.
static RANK: AtomicU64 = AtomicU64::new(0);
static RANKS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// The client, with the process that created it: a connection belongs to one process.
    static CLIENT: RefCell<Option<(u32, Client)>> = const { RefCell::new(None) };
}

/// Makes this the store of all objects from now on.
pub fn enter(settings: Option<&Settings>) {
    *STORE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = settings.cloned().map(Arc::new);
    CLIENT.with_borrow_mut(|client| *client = None);
}

/// Sets the rank of this process: each rank uses one of the endpoints and has separate counters.
pub fn take_rank(rank: u64, ranks: u64) -> Outcome<()> {
    RANK.store(rank, Relaxed);
    RANKS.store(ranks.max(1), Relaxed);
    CLIENT.with_borrow_mut(|client| *client = None);
    counts::share()
}

/// Returns the number of parts of an object in flight.
pub(super) fn parts_at_once(settings: &Settings) -> u64 {
    match settings.parts_at_once {
        0 => 16u64.div_ceil(RANKS.load(Relaxed)).max(2),
        asked => asked,
    }
}

pub fn is_object(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().starts_with(settings::SCHEME.as_bytes())
}

/// Returns the key of an object's path, without its bucket.
pub(super) fn key_of(path: &Path) -> String {
    let name = path.to_string_lossy();
    let behind = name.strip_prefix(settings::SCHEME).unwrap_or(&name);
    behind.split_once('/').map_or("", |(_, key)| key).to_string()
}

pub(super) fn settings_now() -> Outcome<Arc<Settings>> {
    let settings = STORE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
    settings.ok_or_else(|| Failure::refused("no object store is configured: workload.storage.storage_type is not s3"))
}

pub(super) fn with_client<T>(work: impl FnOnce(&mut Client) -> Outcome<T>) -> Outcome<T> {
    CLIENT.with_borrow_mut(|place| {
        let process = std::process::id();
        let client = match place.take() {
            Some((owner, client)) if owner == process => client,
            _ => Client::new(settings_now()?, RANK.load(Relaxed))?,
        };
        work(&mut place.insert((process, client)).1)
    })
}

/// Turns "not found" into `None`.
pub(super) fn if_there<T>(outcome: Outcome<T>) -> Outcome<Option<T>> {
    match outcome {
        Err(failure) if failure.kind == Kind::MissingData && !failure.what.starts_with("the bucket does not exist") => {
            Ok(None)
        }
        outcome => outcome.map(Some),
    }
}

/// Returns the size of an object; `None` if it does not exist.
pub fn length(path: &Path) -> Outcome<Option<u64>> {
    let key = key_of(path);
    let head = with_client(|client| client.ask(Request::new("HEAD", &key, Figure::Heads)));
    let length = |head: http::Head| {
        let missing =
            || Failure::new(Kind::System, format!("the store does not report the length of {}", path.display()));
        head.length().ok_or_else(missing)
    };
    if_there(head)?.map(|(head, _)| length(head)).transpose()
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
