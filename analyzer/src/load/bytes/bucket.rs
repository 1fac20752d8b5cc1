//! Traces in buckets: `s3://bucket/prefix`, listed once and read in ranges.
//!
//! Readers are threads that block on their reads; a separate runtime makes the requests, because a reader may already
//! be inside another runtime. An object keeps the bytes fetched last, in a few windows: sequential reads in either
//! direction fetch twice as much each time, a jump fetches only the requested range.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::Future;
use std::hash::BuildHasher;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, Weak, mpsc};
use std::time::Duration;

use bytes::Bytes;
use foldhash::fast::FixedState;
use futures::StreamExt;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path as Key;
use object_store::{
    Certificate, ClientOptions, Error, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, RetryConfig,
};
use tokio::runtime::{Builder, Runtime};

use super::file_identity::FileIdentity;

const SCHEME: &str = "s3://";

pub fn is_object(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().starts_with(SCHEME.as_bytes())
}

/// The read-ahead when a reader starts to read sequentially.
const AHEAD_MIN: u64 = 64 << 10;

/// The maximum read-ahead.
const AHEAD_MAX: u64 = 2 << 20;

/// A read within this many times its length of the window continues it: threads share the units of a file. Headers of
/// blocks, read one after another, are further apart.
const NEAR: u64 = 16;
const NEAR_MAX: u64 = 1 << 20;

/// Bytes in the windows of an object: bytes that one thread fetched ahead are used by another.
const HELD_MAX: usize = 8 << 20;

/// The number of objects that keep their windows.
const HOLDING_MAX: usize = 8;

/// The maximum size of an object that is fetched whole.
const WHOLE_MAX: u64 = 256 << 10;

/// The minimum size of the parts of an object that are searched in parallel.
const PART_MIN: u64 = 1 << 20;

/// Bytes searched for a header at a time.
const SEARCHED: u64 = 16 << 10;

/// The start of an object, which identifies its format: fetched for all objects when they are listed.
const HEAD: u64 = 4096;

/// The maximum number of requests in flight.
const REQUESTS_AT_ONCE: usize = 64;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
const RETRIES: usize = 4;
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);

/// A listed object.
pub struct Object {
    pub facts: FileIdentity,
    path: PathBuf,
    store: Arc<AmazonS3>,
    key: Key,
    e_tag: Option<String>,
    held: Mutex<CachedRanges>,
}

/// The cached bytes of an object.
#[derive(Default)]
struct CachedRanges {
    /// Latest last.
    windows: Vec<Window>,
    /// Headers of its blocks, by offset.
    headers: BTreeMap<u64, Bytes>,
}

/// A cached range of an object, which later reads may continue.
#[derive(Default)]
struct Window {
    at: u64,
    bytes: Bytes,
    /// The read-ahead of the last fetch.
    ahead: u64,
}

impl Window {
    fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }

    fn of(&self, at: u64, length: usize) -> Option<&[u8]> {
        let from = usize::try_from(at.checked_sub(self.at)?).ok()?;
        self.bytes.get(from..from.checked_add(length)?)
    }

    /// Returns the range to fetch for a read that continues this window, forwards or backwards.
    fn next(&self, at: u64, length: u64, size: u64) -> Option<(u64, u64)> {
        let (end, near) = (at + length, (length * NEAR).min(NEAR_MAX));
        let ahead = (self.ahead * 2).clamp(AHEAD_MIN, AHEAD_MAX);
        if at <= self.end() + near && end >= self.end() {
            Some((at, (end + ahead).min(size)))
        } else if end <= self.at + length && end + near >= self.at {
            Some((at.saturating_sub(ahead), end))
        } else {
            None
        }
    }
}

impl CachedRanges {
    /// Drops the least recently used windows.
    fn shrink(&mut self) {
        let mut bytes: usize = self.windows.iter().map(|window| window.bytes.len()).sum();
        while bytes > HELD_MAX && self.windows.len() > 1 {
            bytes -= self.windows.remove(0).bytes.len();
        }
    }

    /// Returns the range to fetch for a read, without the parts in other windows.
    fn range(&self, at: u64, length: u64, size: u64) -> (u64, u64) {
        let end = at + length;
        let Some((from, to)) = self.windows.iter().rev().find_map(|window| window.next(at, length, size)) else {
            return (at, end);
        };
        let below = self.windows.iter().map(Window::end).filter(|below| (from..=at).contains(below)).max();
        let above = self.windows.iter().map(|window| window.at).filter(|above| (end..=to).contains(above)).min();
        (below.unwrap_or(from), above.unwrap_or(to))
    }
}

impl Object {
    pub fn read_exact_at(self: &Arc<Self>, into: &mut [u8], at: u64) -> io::Result<()> {
        if at.checked_add(into.len() as u64).is_none_or(|end| end > self.facts.size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut held = self.held.lock().expect("cached object ranges");
        if let Some(header) = held.headers.get(&at).filter(|header| header.len() == into.len()) {
            into.copy_from_slice(header);
            return Ok(());
        }
        if let Some(place) = held.windows.iter().rposition(|window| window.of(at, into.len()).is_some()) {
            let window = held.windows.remove(place);
            into.copy_from_slice(window.of(at, into.len()).unwrap_or_default());
            held.windows.push(window);
            return Ok(());
        }
        let (from, to) = held.range(at, into.len() as u64, self.facts.size);
        let length = into.len() as u64;
        let window = Window { at: from, bytes: self.fetch(from, to)?, ahead: to - from - length };
        into.copy_from_slice(window.of(at, into.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
        held.windows.push(window);
        held.shrink();
        drop(held);
        remember(self);
        Ok(())
    }

    /// Fetches the headers of all blocks, each of which gives the position of the next one, from several parts of the
    /// object in parallel; a small object is fetched whole. `first` finds the first header in some bytes: its position,
    /// and the length of its block.
    pub fn gather_headers(self: &Arc<Self>, length: u64, first: FindHeader) -> io::Result<()> {
        let size = self.facts.size;
        if size <= WHOLE_MAX {
            let whole = Window { at: 0, bytes: self.fetch(0, size)?, ahead: 0 };
            self.held.lock().expect("cached object ranges").windows = vec![whole];
            remember(self);
            return Ok(());
        }
        let parts = (size / PART_MIN).clamp(1, REQUESTS_AT_ONCE as u64);
        let this = self.clone();
        let walks = async move {
            let part = |part: u64| walk(this.clone(), size * part / parts..size * (part + 1) / parts, length, first);
            let walks = futures::stream::iter((0..parts).map(part).collect::<Vec<_>>());
            walks.buffer_unordered(REQUESTS_AT_ONCE).collect::<Vec<_>>().await
        };
        for found in wait(walks) {
            self.held.lock().expect("cached object ranges").headers.extend(found.map_err(explained)?);
        }
        Ok(())
    }

    fn fetch(self: &Arc<Self>, from: u64, to: u64) -> io::Result<Bytes> {
        let this = self.clone();
        wait(async move { this.range(from, to).await }).map_err(explained)
    }

    async fn range(&self, from: u64, to: u64) -> Result<Bytes, Error> {
        if from == to {
            return Ok(Bytes::new());
        }
        let options = GetOptions {
            if_match: self.e_tag.clone(),
            range: Some(GetRange::Bounded(from..to)),
            ..GetOptions::default()
        };
        self.store.get_opts(&self.key, options).await?.bytes().await
    }

    fn forget(&self) {
        if let Ok(mut held) = self.held.try_lock() {
            held.windows.clear();
        }
    }
}

/// Finds the first header in some bytes: its position, and the length of its block.
pub type FindHeader = fn(&[u8]) -> Option<(usize, u64)>;

/// Returns the headers that start in a part of an object.
async fn walk(
    object: Arc<Object>,
    part: Range<u64>,
    length: u64,
    first: FindHeader,
) -> Result<Vec<(u64, Bytes)>, Error> {
    let (mut found, mut at) = (Vec::new(), part.start);
    let size = object.facts.size;
    // A walk that starts in the middle of a block searches for the next one.
    while found.is_empty() && at < part.end {
        let to = (at + SEARCHED + length).min(size);
        let bytes = object.range(at, to).await?;
        match first(&bytes) {
            Some((place, block)) => {
                found.push((at + place as u64, bytes.slice(place..place + length as usize)));
                at += place as u64 + block;
            }
            None => at += SEARCHED,
        }
    }
    while at < part.end && at + length <= size {
        let bytes = object.range(at, at + length).await?;
        // A reader of damaged bytes will report them.
        let Some((0, block)) = first(&bytes) else { break };
        found.push((at, bytes));
        at += block;
    }
    Ok(found)
}

/// The listed objects, and those whose windows contain bytes, latest last.
#[derive(Default)]
struct ObjectCache {
    objects: HashMap<PathBuf, Arc<Object>>,
    stores: HashMap<String, Arc<AmazonS3>>,
    windows: VecDeque<Weak<Object>>,
}

static KNOWN: LazyLock<Mutex<ObjectCache>> = LazyLock::new(Mutex::default);

/// Keeps the windows of a few objects only.
fn remember(object: &Arc<Object>) {
    let mut known = KNOWN.lock().expect("objects");
    let this = Arc::downgrade(object);
    known.windows.retain(|other| !other.ptr_eq(&this));
    known.windows.push_back(this);
    if known.windows.len() > HOLDING_MAX
        && let Some(oldest) = known.windows.pop_front().and_then(|oldest| oldest.upgrade())
    {
        oldest.forget();
    }
}

/// Returns the object of a listed path.
pub fn object(path: &Path) -> io::Result<Arc<Object>> {
    KNOWN.lock().expect("objects").objects.get(path).cloned().ok_or(io::ErrorKind::NotFound.into())
}

/// Returns the objects that `s3://bucket/key`, `s3://bucket/prefix` or a pattern selects, and whether each was given by
/// name.
pub fn list(given: &str) -> io::Result<Vec<(PathBuf, bool)>> {
    let (bucket, rest) = given[SCHEME.len()..].split_once('/').unwrap_or((&given[SCHEME.len()..], ""));
    if bucket.is_empty() {
        return Err(io::Error::other("the address names no bucket; expected s3://BUCKET/PREFIX"));
    }
    let store = store(bucket)?;
    let fixed = match rest.find(['*', '?', '[']) {
        Some(wild) => &rest[..rest[..wild].rfind('/').map_or(0, |slash| slash + 1)],
        None => rest,
    };
    let pattern = match fixed == rest {
        true => None,
        false => Some(glob::Pattern::new(rest).map_err(|error| io::Error::other(error.to_string()))?),
    };
    let prefix = Key::parse(fixed.trim_end_matches('/')).map_err(|error| io::Error::other(error.to_string()))?;
    let (asked, named) = (store.clone(), pattern.is_none() && !fixed.ends_with('/') && !fixed.is_empty());
    let found = wait(async move {
        if named {
            match asked.head(&prefix).await {
                Ok(meta) => return Ok((vec![meta], true)),
                Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let mut listed = asked.list((!prefix.as_ref().is_empty()).then_some(&prefix));
        let mut metas = Vec::new();
        while let Some(meta) = listed.next().await {
            metas.push(meta?);
        }
        Ok((metas, false))
    });
    let (metas, is_one): (Vec<ObjectMeta>, bool) = found.map_err(explained)?;
    let is_meant = |meta: &ObjectMeta| pattern.as_ref().is_none_or(|pattern| pattern.matches(meta.location.as_ref()));
    let objects: Vec<Arc<Object>> =
        metas.into_iter().filter(is_meant).map(|meta| Arc::new(listed_object(bucket, &store, meta))).collect();
    fetch_heads(&objects).map_err(explained)?;
    let mut known = KNOWN.lock().expect("objects");
    Ok(objects
        .into_iter()
        .map(|object| {
            let path = object.path.clone();
            known.objects.insert(path.clone(), object);
            (path, is_one)
        })
        .collect())
}

/// Returns the fixed part of an argument, which precedes all selected objects: a bucket, a prefix or an object.
pub fn fixed(given: &str) -> &str {
    match given.find(['*', '?', '[']) {
        Some(wild) => given[..wild].rfind('/').map_or(given, |slash| &given[..slash]),
        None => given.trim_end_matches('/'),
    }
}

fn listed_object(bucket: &str, store: &Arc<AmazonS3>, meta: ObjectMeta) -> Object {
    let ObjectMeta { location, last_modified, size, e_tag, .. } = meta;
    let modified = (last_modified.timestamp(), i64::from(last_modified.timestamp_subsec_nanos()));
    let path = PathBuf::from(format!("{SCHEME}{bucket}/{location}"));
    // An object has no inode; its entity tag differs after each change.
    let inode = FixedState::default().hash_one((&path, &e_tag));
    Object {
        facts: FileIdentity { size, modified, changed: modified, inode, device: 0 },
        path,
        store: store.clone(),
        key: location,
        e_tag,
        held: Mutex::default(),
    }
}

/// Fetches the start of each object, many in parallel.
fn fetch_heads(objects: &[Arc<Object>]) -> Result<(), Error> {
    let wanted: Vec<Arc<Object>> = objects.iter().filter(|object| object.facts.size > 0).cloned().collect();
    wait(async move {
        let heads = futures::stream::iter(wanted.into_iter().map(|object| async move {
            let bytes = object.range(0, HEAD.min(object.facts.size)).await?;
            let head = Window { at: 0, bytes, ahead: 0 };
            object.held.lock().expect("cached object ranges").windows.push(head);
            Ok::<(), Error>(())
        }));
        let mut heads = heads.buffer_unordered(REQUESTS_AT_ONCE);
        while let Some(head) = heads.next().await {
            head?;
        }
        Ok(())
    })
}

/// Returns the store of a bucket, with credentials, region and endpoint from the environment.
fn store(bucket: &str) -> io::Result<Arc<AmazonS3>> {
    let mut known = KNOWN.lock().expect("objects");
    if let Some(store) = known.stores.get(bucket) {
        return Ok(store.clone());
    }
    let retry = RetryConfig { max_retries: RETRIES, retry_timeout: RETRY_TIMEOUT, ..RetryConfig::default() };
    let mut options = ClientOptions::new().with_connect_timeout(CONNECT_TIMEOUT).with_timeout(REQUEST_TIMEOUT);
    for certificate in trusted_certificates()? {
        options = options.with_root_certificate(certificate);
    }
    let mut builder = AmazonS3Builder::new().with_client_options(options).with_retry(retry);
    // After the options, which variables such as AWS_ALLOW_INVALID_CERTIFICATES add to.
    let variables =
        std::env::vars_os().filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)));
    for (key, value) in variables.filter(|(key, _)| key.starts_with("AWS_")) {
        if let Ok(key) = key.to_ascii_lowercase().parse() {
            builder = builder.with_config(key, value);
        }
    }
    builder = builder.with_bucket_name(bucket);
    let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
    if endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")) {
        builder = builder.with_allow_http(true);
    }
    let store = Arc::new(builder.build().map_err(|error| io::Error::other(error.to_string()))?);
    known.stores.insert(bucket.into(), store.clone());
    Ok(store)
}

/// The variable with a file of certificates to trust, as in other clients of S3.
const BUNDLE: &str = "AWS_CA_BUNDLE";

/// Returns the certificates of [`BUNDLE`], which are trusted in addition to those of the system.
fn trusted_certificates() -> io::Result<Vec<Certificate>> {
    let Some(path) = std::env::var_os(BUNDLE).filter(|path| !path.is_empty()) else { return Ok(Vec::new()) };
    let unreadable = |why: String| {
        io::Error::other(format!("cannot read {} ({BUNDLE}): {why}; set it to a PEM file", path.to_string_lossy()))
    };
    let pem = std::fs::read(&path).map_err(|error| unreadable(error.to_string()))?;
    let certificates = Certificate::from_pem_bundle(&pem).map_err(|error| unreadable(error.to_string()))?;
    if certificates.is_empty() { Err(unreadable("it contains no certificate".into())) } else { Ok(certificates) }
}

/// Returns the remedy for a certificate that is not trusted, by the text of the error.
fn certificate_remedy(cause: &str) -> Option<&'static str> {
    let is_certificate = cause.contains("certificate") || cause.contains("UnknownIssuer");
    Some(match cause {
        _ if !is_certificate => return None,
        _ if cause.contains("CaUsedAsEndEntity") => {
            "the store uses the certificate of an authority as its own: create one with `openssl req -x509 -addext \
             basicConstraints=CA:FALSE` and set AWS_CA_BUNDLE to it, or trust any certificate with \
             AWS_ALLOW_INVALID_CERTIFICATES=true"
        }
        _ if cause.contains("NotValidForName") || cause.contains("not valid for name") => {
            "use a name of the certificate in AWS_ENDPOINT_URL"
        }
        _ if cause.to_lowercase().contains("expired") => "renew the certificate of the store",
        _ => {
            "set AWS_CA_BUNDLE to a PEM file with the authority of the store's certificate, or trust any certificate \
             with AWS_ALLOW_INVALID_CERTIFICATES=true"
        }
    })
}

/// Returns the cause of an error, with the remedy.
fn explained(error: Error) -> io::Error {
    let cause = root_cause(&error);
    if let (Error::Generic { .. }, Some(remedy)) = (&error, certificate_remedy(&cause)) {
        return io::Error::other(format!("{cause}; {remedy}"));
    }
    let (kind, remedy) = match &error {
        Error::NotFound { .. } => (io::ErrorKind::NotFound, "check the bucket and AWS_ENDPOINT_URL"),
        Error::Precondition { .. } => (io::ErrorKind::Other, "it changed while it was read; run this again"),
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => (
            io::ErrorKind::PermissionDenied,
            "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or set AWS_SKIP_SIGNATURE=true for \
             a public bucket",
        ),
        _ => (io::ErrorKind::Other, "check AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
    };
    io::Error::new(kind, format!("{cause}; {remedy}"))
}

/// Returns the root cause of an error, in the words of the store or the system.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    let whole = last.to_string();
    let code = whole.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    match code {
        Some((code, _)) => format!("the store answered {code}"),
        None => whole.lines().next().unwrap_or_default().trim_end_matches('.').to_string(),
    }
}

/// Runs a request and blocks until it is done, in any kind of caller.
fn wait<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(2).thread_name("dlio-bucket").enable_all().build().expect("threads for requests")
    });
    let (done, result) = mpsc::sync_channel(1);
    RUNTIME.spawn(async move {
        let _ = done.send(work.await);
    });
    result.recv().expect("a request that ends")
}
