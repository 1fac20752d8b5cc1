//! Reads, writes and removes whole objects; checks access to the store.

use super::body::Body;
use super::counts::Figure;
use super::request::Request;
use super::session::{if_there, key_of, settings_now, with_client};
use super::upload::{self, Upload};
use super::xml;
use crate::failure::Outcome;
use std::path::Path;

/// Returns a small object; `None` if it does not exist.
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

/// Deletes an object, which need not exist.
pub fn delete(path: &Path) -> Outcome<()> {
    let key = key_of(path);
    let asked = with_client(|client| client.ask(Request::new("DELETE", &key, Figure::Deletes)));
    if_there(asked).map(drop)
}

/// Fails unless the store answers and grants access, with one request for an object that may or may not exist. Creates
/// the bucket if requested.
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

/// Fails unless objects can be written below a path: writes one and deletes it again.
pub fn check_writable(below: &Path) -> Outcome<()> {
    let probe = below.join(format!(".dlio-{}", std::process::id()));
    put(&probe, b"").and_then(|()| delete(&probe))
}

/// Aborts uploads below a path that a killed writer left incomplete.
pub fn sweep(below: &Path) -> Outcome<()> {
    let key = key_of(below);
    let prefix = if key.is_empty() { key } else { format!("{key}/") };
    let query = [("prefix", prefix), ("uploads", String::new())];
    let asked = with_client(|client| client.ask(Request { query: &query, ..Request::new("GET", "", Figure::Others) }));
    // A store without multipart uploads has none to abort.
    let Ok((_, words)) = asked else { return Ok(()) };
    for upload in xml::elements(&words, "Upload") {
        if let (Some(key), Some(id)) = (xml::text(upload, "Key"), xml::text(upload, "UploadId")) {
            upload::abort(&key, &id)?;
        }
    }
    Ok(())
}
