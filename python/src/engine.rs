//! The engine's table, with safe arguments.

use std::sync::atomic::Ordering::Relaxed;

use dlio_schemas::native::names::NameKind;
use dlio_tracer::app::{Meta, OpenSpan};
use dlio_tracer::spans::device::NO_STREAM;
use dlio_tracer::spans::engine_lookup;
use dlio_tracer::table::Table;

/// The engine of this process.
#[derive(Clone, Copy)]
pub struct Engine(&'static Table);

/// Returns the engine if it records spans now.
#[inline(always)]
pub fn recording() -> Option<Engine> {
    let engine = get();
    // SAFETY: the table's pointers refer to statics.
    (unsafe { (*engine.0.on).load(Relaxed) } != 0).then_some(engine)
}

/// Returns the engine, whether or not it records: to end open spans.
#[inline(always)]
pub fn get() -> Engine {
    Engine(engine_lookup::get())
}

impl Engine {
    /// Returns a number that changes when the numbers of names become invalid.
    #[inline(always)]
    pub fn generation(self) -> u32 {
        // SAFETY: the table's pointers refer to statics.
        unsafe { (*self.0.generation).load(Relaxed) }
    }

    pub fn number(self, kind: NameKind, text: &str) -> u32 {
        // SAFETY: a string and its length.
        unsafe { (self.0.intern)(kind as u32, text.as_ptr(), text.len()) }
    }

    #[inline(always)]
    pub fn begin(self, name: u32, category: u32, steps: i64) -> OpenSpan {
        let mut span = OpenSpan::NONE;
        // SAFETY: memory for a span.
        unsafe { (self.0.begin)(&mut span, name, category, steps) };
        span
    }

    pub fn update(self, span: &OpenSpan) {
        // SAFETY: a span that this engine started; there is one engine per process.
        unsafe { (self.0.update)(span) };
    }

    #[inline(always)]
    pub fn end(self, span: &mut OpenSpan, meta: &[Meta]) {
        // SAFETY: a span that this engine started, and a list with its length.
        unsafe { (self.0.end)(span, meta.as_ptr(), meta.len()) };
    }

    pub fn instant(self, name: u32, category: u32, steps: i64, meta: &[Meta]) {
        // SAFETY: a list and its length.
        unsafe { (self.0.instant)(name, category, steps, meta.as_ptr(), meta.len()) };
    }

    pub fn counter(self, name: u32, category: u32, value: f64) {
        // SAFETY: plain numbers.
        unsafe { (self.0.counter)(name, category, value) };
    }

    /// Notes that a loader's `next()` is called while `stream` runs the model.
    pub fn next_entered(self, stream: usize, steps: i64) {
        if let Some(table) = self.0.device() {
            (table.next_entered)(stream, steps);
        }
    }

    /// Notes that a loader's `next()` has returned. Without a stream, the time of the device is unknown.
    pub fn next_returned(self, stream: Option<usize>, has_batch: bool) {
        if let Some(table) = self.0.device() {
            (table.next_returned)(stream.unwrap_or(NO_STREAM), has_batch as u32);
        }
    }

    pub fn describe(self, key: &str, text: &str) {
        // SAFETY: strings with their lengths.
        unsafe { (self.0.describe)(key.as_ptr(), key.len(), text.as_ptr(), text.len()) };
    }
}

/// Returns a number of this thread, with one call of the C library.
#[inline(always)]
pub fn thread() -> u64 {
    // SAFETY: has no arguments and cannot fail.
    (unsafe { libc::pthread_self() }) as u64
}
