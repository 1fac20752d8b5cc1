//! A request to the store.

use super::counts::Figure;

/// A request about one object, or about the bucket if the key is empty.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub method: &'static str,
    pub key: &'a str,
    /// Sorted by name.
    pub query: &'a [(&'a str, String)],
    pub headers: &'a [(&'a str, String)],
    pub body: Option<&'a [u8]>,
    /// The first byte of the object that the request covers.
    pub at: u64,
    /// The counter of this kind of request.
    pub figure: Figure,
}

impl<'a> Request<'a> {
    pub fn new(method: &'static str, key: &'a str, figure: Figure) -> Request<'a> {
        Request { method, key, query: &[], headers: &[], body: None, at: 0, figure }
    }
}
