//! The table through which span APIs of any language call the engine of their process.
//!
//! The preloaded library exports [`Table`] under the name [`SYMBOL`]. Whoever wants to record a span looks for that name
//! once. Where nothing is preloaded, programs and libraries that link this crate share one of the engines they bring (see
//! [`super::engine_lookup`]), if the environment asks for a trace; C without any engine records nothing.

use std::mem::offset_of;
use std::sync::atomic::AtomicU32;

use crate::spans::app::{LibraryIo, Meta, OpenSpan};

/// Raise this when a field changes its meaning; new ones go at the end, and `size` tells whether they are there.
pub const VERSION: u32 = 1;

/// The exported name carries the version, so that two versions never meet.
pub const SYMBOL: &std::ffi::CStr = c"dlio_engine_v1";

/// The engine's offer to span APIs. `dliotrace.h` declares the same for C.
#[repr(C)]
pub struct Table {
    pub version: u32,
    pub size: u32,
    /// Not zero while spans are recorded.
    pub on: *const AtomicU32,
    /// Changes when numbers of names lose their meaning: after a fork, or when a trace was closed.
    pub generation: *const AtomicU32,
    /// Number of a string: kind 3 a span's name, 4 a category, 5 a key or a text.
    pub intern: unsafe extern "C" fn(kind: u32, text: *const u8, length: usize) -> u32,
    pub begin: unsafe extern "C" fn(span: *mut OpenSpan, name: u32, category: u32, steps: i64),
    pub update: unsafe extern "C" fn(span: *const OpenSpan),
    pub end: unsafe extern "C" fn(span: *mut OpenSpan, meta: *const Meta, count: usize),
    pub instant: unsafe extern "C" fn(name: u32, category: u32, steps: i64, meta: *const Meta, count: usize),
    pub counter: unsafe extern "C" fn(name: u32, category: u32, value: f64),
    /// Notes a fact about the process: `rank`, `job`, `label` and others of `dlio_schemas::native::fields::key`.
    pub describe: unsafe extern "C" fn(key: *const u8, key_length: usize, text: *const u8, length: usize),
    /// Starts an engine that is not preloaded, if the environment asks for a trace. Later calls do nothing.
    pub start: extern "C" fn(),
    // What follows came later: ask `size` for it, as [`Table::io`] does.
    /// A moment for the beginning or the end of I/O; zero while that is not recorded.
    pub now: extern "C" fn() -> u64,
    /// Notes I/O that a library did on the thing of a name.
    pub io_done:
        unsafe extern "C" fn(io: *const LibraryIo, name: *const u8, length: usize, meta: *const Meta, count: usize),
}

impl Table {
    /// The functions for the I/O of libraries, where the engine is not too old for them.
    pub fn io(&self) -> Option<&Table> {
        (self.size as usize >= offset_of!(Table, io_done) + size_of::<usize>()).then_some(self)
    }
}

// SAFETY: the pointers lead to statics of the engine.
unsafe impl Sync for Table {}
