//! I/O that libraries perform without file calls, such as requests to object stores. It is recorded when it has ended.
//!
//! ```
//! use dlio_tracer::io::{self, Io};
//! use dlio_tracer::ops::Op;
//!
//! let start = io::now();
//! // ... the request ...
//! let get = Io { pos: Some(0), requested: 4096, moved: 4096, ..Io::new(Op::OBJECT_GET, "s3://bucket/key", start) };
//! get.done(&[("attempt", 1.into()), ("status", 206.into())]);
//! ```
//!
//! Such an event is a call like a `pread`, with a URL instead of a path. It may start on one thread and be recorded on another.
//! Any number of these events may be in flight at the same time, and viewers draw them side by side.

use dlio_schemas::ops::Op;

use crate::spans::app::LibraryIo;
use crate::spans::engine_lookup;
use crate::spans::span::{Value, pairs};

/// Returns a timestamp on the clock of [`Io`]; zero while nothing is recorded, and I/O with a start of zero is not
/// recorded.
pub fn now() -> u64 {
    engine_lookup::get().io().map_or(0, |table| (table.now)())
}

/// A completed operation.
#[derive(Clone, Copy, Debug)]
pub struct Io<'a> {
    /// An operation of the layer `object`.
    pub op: Op,
    /// `s3://bucket/key`.
    pub name: &'a str,
    pub pos: Option<u64>,
    /// Number of requested bytes.
    pub requested: u64,
    /// Number of transferred bytes.
    pub moved: u64,
    /// Zero, or the error.
    pub errno: i32,
    pub start: u64,
    pub end: u64,
}

impl<'a> Io<'a> {
    /// Returns an operation that ends now and moved nothing.
    pub fn new(op: Op, name: &'a str, start: u64) -> Io<'a> {
        Io { op, name, pos: None, requested: 0, moved: 0, errno: 0, start, end: now() }
    }

    /// Records the operation.
    pub fn done(&self, meta: &[(&str, Value)]) {
        let Some(table) = engine_lookup::get().io().filter(|_| self.start != 0) else { return };
        let number = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let io = LibraryIo {
            op: self.op.0 as u32,
            errno: self.errno,
            start: self.start,
            end: self.end,
            pos: self.pos.map_or(-1, number),
            requested: number(self.requested),
            moved: number(self.moved),
        };
        let (_, meta) = pairs(meta);
        // SAFETY: a string and a list with their lengths.
        unsafe { (table.io_done)(&io, self.name.as_ptr(), self.name.len(), meta.as_ptr(), meta.len()) };
    }
}
