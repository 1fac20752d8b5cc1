//! Calls of libraries above the file system, recorded as spans. The file calls that such a library makes are inside these spans.

use std::sync::atomic::{AtomicU64, Ordering::*};

use dlio_schemas::native::names::NameKind;
use dlio_schemas::ops::{Layer, Op};
use dlio_schemas::record::MetaKind;

use crate::calls::call::Done;
use crate::kernel::clock;
use crate::kernel::hash;
use crate::kernel::switches::SWITCHES;
use crate::known::number;
use crate::life::lifecycle;
use crate::naming::names;
use crate::recording::{phase, wiped_page};
use crate::spans::app::{self, Meta, NO_STEPS, OpenSpan};
use crate::thread::local::local;
use crate::trace::header_page;

/// The number of a string that does not change, kept for the image in which it was assigned.
pub struct Number(AtomicU64);

impl Default for Number {
    fn default() -> Number {
        Number::new()
    }
}

impl Number {
    pub const fn new() -> Number {
        Number(AtomicU64::new(0))
    }

    #[inline]
    pub fn get(&self, kind: NameKind, text: impl AsRef<[u8]>) -> u32 {
        let (known, generation) = (self.0.load(Relaxed), wiped_page::generation());
        if known as u32 != number::NONE && (known >> 32) as u32 == generation {
            return known as u32;
        }
        let id = intern(kind, text.as_ref());
        self.0.store((generation as u64) << 32 | id as u64, Relaxed);
        id
    }
}

/// Returns the number of a string.
pub fn intern(kind: NameKind, text: &[u8]) -> u32 {
    names::intern(kind, text, hash::of(text, (8 + kind as u64) << 32))
}

/// Returns the number of a text.
pub fn text(text: &[u8]) -> u32 {
    intern(NameKind::Text, text)
}

/// Returns a pair of metadata whose value is a number.
pub fn counted(key: &Number, name: &str, value: i64) -> Meta {
    Meta::new(key.get(NameKind::Text, name), MetaKind::Int, value)
}

/// Returns `true` if calls of a layer are recorded on this thread.
#[inline]
pub fn records(layer: Layer) -> bool {
    lifecycle::records(layer) && !phase::is_passing()
}

/// A call that has started.
#[derive(Clone, Copy)]
pub struct OpenCall {
    start: u64,
    name: u32,
    category: u32,
    depth: u32,
    generation: u32,
}

impl OpenCall {
    /// Starts a call. Calls of this thread are inside it until [`OpenCall::end`].
    #[inline]
    pub fn start(name: u32, category: u32) -> OpenCall {
        let line = local();
        // SAFETY: the line is this thread's own.
        let depth = unsafe { (*line).depth };
        // SAFETY: as above.
        unsafe { (*line).depth = depth + 1 };
        let start = clock::ticks();
        app::with_page(|page| app::note_open(page, &OpenSpan::starting(start, name, category, depth)));
        OpenCall { start, name, category, depth, generation: wiped_page::generation() }
    }

    /// Ends a call. Spans that started within it and are still open end with it.
    #[inline]
    pub fn end(self) -> Done {
        let duration = clock::ticks().wrapping_sub(self.start);
        let line = local();
        // SAFETY: the line is this thread's own.
        let depth = unsafe { (*line).depth }.min(self.depth);
        // SAFETY: as above.
        unsafe { (*line).depth = depth };
        if self.generation == wiped_page::generation() {
            app::with_page(|page| app::note_closed(page, depth));
        }
        Done { start: self.start, duration }
    }

    /// Records a call that has ended as a span.
    pub fn record_span(self, done: Done, meta: &[Meta]) {
        if self.generation == wiped_page::generation() {
            app::put_meta(meta, done.start);
            done.record(Op::SPAN, self.name, self.category as i32, (NO_STEPS, false), 0, 0);
        }
    }
}

/// A call that has returned. A negative `ret` means failure; `b` is the number of requested bytes or another argument.
#[derive(Clone, Copy)]
pub struct Returned {
    pub op: Op,
    pub file: u32,
    pub a: i64,
    pub b: i64,
    pub ret: i64,
}

/// Records a call that has returned, and its metadata.
#[inline]
pub fn record(done: Done, call: Returned, meta: &[Meta]) {
    let Returned { op, file, a, b, ret } = call;
    if file == number::FILTERED || done.duration < SWITCHES.min_ticks.load(Relaxed) {
        return header_page::count_filtered();
    }
    app::put_meta(meta, done.start);
    done.record(op, file, -1, (a, true), b, if ret < 0 { -libc::EIO as i64 } else { ret });
}
