//! The table through which span APIs of any language call the engine of their process.
//!
//! The preloaded library exports [`Table`] under the name [`SYMBOL`]; an API looks up that name once. If nothing is
//! preloaded, programs and libraries that link this crate share one of their engines (see [`super::engine_lookup`]),
//! if the environment requests a trace. C code without an engine records nothing.

use std::mem::offset_of;
use std::sync::atomic::AtomicU32;

use crate::spans::app::{LibraryIo, Meta, OpenSpan};

/// Raise this when a field changes its meaning; new fields go at the end, and `size` shows whether they exist.
pub const VERSION: u32 = 1;

/// The exported name contains the version, so that two versions never meet.
pub const SYMBOL: &std::ffi::CStr = c"dlio_engine_v1";

/// The functions of an engine for span APIs. `dliotrace.h` declares them for C.
#[repr(C)]
pub struct Table {
    pub version: u32,
    pub size: u32,
    /// Not zero while spans are recorded.
    pub on: *const AtomicU32,
    /// Changes when the numbers of names become invalid: after a fork, or when a trace was closed.
    pub generation: *const AtomicU32,
    /// Returns the number of a string: kind 3 is a span's name, 4 a category, 5 a key or a text.
    pub intern: unsafe extern "C" fn(kind: u32, text: *const u8, length: usize) -> u32,
    pub begin: unsafe extern "C" fn(span: *mut OpenSpan, name: u32, category: u32, steps: i64),
    pub update: unsafe extern "C" fn(span: *const OpenSpan),
    pub end: unsafe extern "C" fn(span: *mut OpenSpan, meta: *const Meta, count: usize),
    pub instant: unsafe extern "C" fn(name: u32, category: u32, steps: i64, meta: *const Meta, count: usize),
    pub counter: unsafe extern "C" fn(name: u32, category: u32, value: f64),
    /// Notes a fact about the process: `rank`, `job`, `label` and others of `dlio_schemas::native::fields::key`.
    pub describe: unsafe extern "C" fn(key: *const u8, key_length: usize, text: *const u8, length: usize),
    /// Starts an engine that is not preloaded, if the environment requests a trace. Later calls do nothing.
    pub start: extern "C" fn(),
    // The fields below are newer: check `size` before using them, as [`Table::io`] does.
    /// Returns a timestamp for the start or end of I/O; zero while I/O is not recorded.
    pub now: extern "C" fn() -> u64,
    /// Records I/O of a library on a named object.
    pub io_done:
        unsafe extern "C" fn(io: *const LibraryIo, name: *const u8, length: usize, meta: *const Meta, count: usize),
    /// Notes the start and end of `next()` of a loader, with the stream that runs the model: see [`crate::spans::device`].
    pub next_entered: extern "C" fn(stream: usize, steps: i64),
    pub next_returned: extern "C" fn(stream: usize, has_batch: u32),
}

impl Table {
    /// Returns the functions for the I/O of libraries, unless the engine is too old.
    pub fn io(&self) -> Option<&Table> {
        (self.size as usize >= offset_of!(Table, io_done) + size_of::<usize>()).then_some(self)
    }

    /// Returns the functions that time a device, unless the engine is too old.
    pub fn device(&self) -> Option<&Table> {
        (self.size as usize >= offset_of!(Table, next_returned) + size_of::<usize>()).then_some(self)
    }
}

// SAFETY: the pointers refer to statics of the engine.
unsafe impl Sync for Table {}
