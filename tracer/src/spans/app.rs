//! The engine's side of the span API: spans, instants, counters and I/O of libraries, recorded into the ring.
//!
//! An open span is listed in the thread's segment, so that a killed process shows its current activity; when it ends,
//! it becomes one event. Its metadata precedes it, one event per pair, and is joined again when the trace is read.

use dlio_schemas::native::ring::segment;
use dlio_schemas::ops::{Layer, Op};
use dlio_schemas::record::{MetaKind, POS_UNKNOWN, STEP_NONE, pack_steps};

use crate::calls::call::Done;
use crate::kernel::clock;
use crate::known::number;
use crate::life::lifecycle;
use crate::naming::path_numbers;
use crate::recording::{phase, ring, wiped_page};
use crate::spans::slow_steps;
use crate::thread::local::local;
use crate::thread::thread_state::Thread;
use crate::trace::header_page;

/// A pair of metadata: `key` is a name's number, and so is `value` if the kind is text.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Meta {
    pub key: u32,
    pub kind: i32,
    pub value: i64,
}

impl Meta {
    pub fn new(key: u32, kind: MetaKind, value: i64) -> Meta {
        Meta { key, kind: kind as i32, value }
    }

    /// Returns the pair with another value.
    pub(super) fn with(self, value: i64) -> Meta {
        Meta { value, ..self }
    }
}

/// An open span. All zeros means "not open": tracing was off, or the span has ended.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct OpenSpan {
    start: u64,
    name: u32,
    category: u32,
    /// Epoch and step, packed.
    pub steps: i64,
    /// The image in which it started: a forked child does not end its parent's spans.
    generation: u32,
    depth: u32,
    /// The thread on which it started, by the address of its line.
    line: usize,
}

/// Neither epoch nor step.
pub const NO_STEPS: i64 = pack_steps(STEP_NONE, STEP_NONE);

impl OpenSpan {
    pub const NONE: OpenSpan =
        OpenSpan { start: 0, name: 0, category: 0, steps: NO_STEPS, generation: 0, depth: 0, line: 0 };

    /// Returns a span that starts on the calling thread.
    pub(super) fn starting(start: u64, name: u32, category: u32, depth: u32) -> OpenSpan {
        let (generation, line) = (wiped_page::generation(), local() as usize);
        OpenSpan { start, name, category, steps: NO_STEPS, generation, depth, line }
    }

    pub fn is_open(&self) -> bool {
        self.start != 0
    }

    /// Changes name and category, for spans whose nature is known only at the end.
    pub fn rename(&mut self, name: u32, category: u32) {
        (self.name, self.category) = (name, category);
    }
}

/// Starts a span of this thread; [`OpenSpan::NONE`] while spans are not recorded.
pub fn begin(name: u32, category: u32, steps: i64) -> OpenSpan {
    if !lifecycle::records(Layer::App) {
        return OpenSpan::NONE;
    }
    let line = local();
    // SAFETY: the line is this thread's own.
    let depth = unsafe { (*line).depth };
    let start = clock::ticks();
    let span = OpenSpan { steps, ..OpenSpan::starting(start, name, category, depth) };
    // SAFETY: as above.
    unsafe { (*line).depth = depth + 1 };
    with_page(|page| note_open(page, &span));
    span
}

/// Ends a span. A span that is not open is ignored; ending a span of another thread is counted as misuse.
pub fn end(span: &mut OpenSpan, meta: &[Meta]) {
    let span = std::mem::replace(span, OpenSpan::NONE);
    if span.is_open() && phase::is_strict() {
        return header_page::count_lost(1);
    }
    if !span.is_open() || span.generation != wiped_page::generation() {
        return if span.is_open() {
            phase::await_end()
        };
    }
    let line = local();
    if span.line != line as usize {
        return header_page::count_misused_span();
    }
    let now = clock::ticks();
    let done = Done { start: span.start, duration: now - span.start };
    // Spans that started within this one and are still open end with it. Spans of interleaved tasks end in any order:
    // one that started within a span that has ended must not raise the depth again. SAFETY: the line is this thread's
    // own.
    let depth = unsafe { (*line).depth }.min(span.depth);
    // SAFETY: as above.
    unsafe { (*line).depth = depth };
    with_page(|page| note_closed(page, depth));
    put_meta(meta, span.start);
    done.record(Op::SPAN, span.name, span.category as i32, (span.steps, span.steps != NO_STEPS), 0, 0);
    slow_steps::ended((span.line, span.name), span.steps, now);
}

/// Updates the epoch or step of an open span.
pub fn update(span: &OpenSpan) {
    if span.is_open() && span.line == local() as usize {
        with_page(|page| note_steps(page, span));
    }
}

/// Records a point in time.
pub fn instant(name: u32, category: u32, steps: i64, meta: &[Meta]) {
    if lifecycle::records(Layer::App) {
        let done = Done { start: clock::ticks(), duration: 0 };
        put_meta(meta, done.start);
        done.record(Op::INSTANT, name, category as i32, (steps, steps != NO_STEPS), 0, 0);
    }
}

/// Records a span that did not run on this thread, such as one of a device: start and duration in ticks.
pub(super) fn elsewhere((name, category): (u32, u32), steps: i64, (start, duration): (u64, u64), meta: &[Meta]) {
    put_meta(meta, start);
    Done { start, duration }.record(Op::SPAN, name, category as i32, (steps, steps != NO_STEPS), 0, 0);
}

/// Records the value of a counter.
pub fn counter(name: u32, category: u32, value: f64) {
    if lifecycle::records(Layer::App) {
        let done = Done { start: clock::ticks(), duration: 0 };
        done.record(Op::COUNTER, name, category as i32, (value.to_bits() as i64, true), 0, 0);
    }
}

/// I/O by a library: see [`crate::spans::io`]. `start` and `end` are times of [`now`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LibraryIo {
    /// Number of an operation of the layer `object`.
    pub op: u32,
    /// Zero, or the error.
    pub errno: i32,
    pub start: u64,
    pub end: u64,
    /// Negative if there is no position.
    pub pos: i64,
    pub requested: i64,
    pub moved: i64,
}

/// Returns a timestamp for the start or end of I/O; zero while I/O is not recorded.
pub fn now() -> u64 {
    if lifecycle::records(Layer::Object) { clock::ticks() } else { 0 }
}

/// Records I/O on the named object. I/O that started while nothing was recorded is ignored, as are unknown
/// operations.
pub fn io_done(io: &LibraryIo, name: &[u8], meta: &[Meta]) {
    let op = Op(io.op as u16);
    let is_told = op.info().is_some_and(|info| info.layer == Layer::Object);
    if io.start == 0 || !is_told || !lifecycle::records(Layer::Object) {
        return;
    }
    let file = path_numbers::of_url(name);
    if file == number::FILTERED {
        return header_page::count_filtered();
    }
    put_meta(meta, io.start);
    let done = Done { start: io.start, duration: io.end.saturating_sub(io.start) };
    let ret = if io.errno > 0 { -(io.errno as i64) } else { io.moved.max(0) };
    done.record(op, file, -1, (io.pos.max(POS_UNKNOWN), io.pos >= 0), io.requested.max(0), ret);
}

pub(super) fn put_meta(meta: &[Meta], start: u64) {
    for pair in meta {
        Done { start, duration: 0 }.record(Op::META, pair.key, pair.kind, (pair.value, true), 0, 0);
    }
}

/// Runs `work` with the page of this thread's segment, which is created here if this is the thread's first event.
#[inline(always)]
pub(super) fn with_page(work: impl FnOnce(*mut u8)) {
    // SAFETY: the line is this thread's own; a state in use is never unmapped.
    unsafe {
        let mut thread: *mut Thread = (*local()).thread;
        if thread.is_null() || !(*thread).is_equipped() {
            ring::ensure();
            thread = (*local()).thread;
        }
        if !thread.is_null() && (*thread).is_equipped() {
            work((*thread).segment());
        }
    }
}

pub(super) fn note_open(page: *mut u8, span: &OpenSpan) {
    let depth = span.depth as usize;
    if depth >= segment::SPANS_MAX {
        return;
    }
    // SAFETY: the entry is within the segment's page, and only this thread writes there. The count is written last,
    // for a reader after a kill.
    unsafe {
        let place = page.add(segment::SPANS + depth * segment::SPAN_SIZE);
        place.cast::<u64>().write(span.start);
        place.add(8).cast::<u32>().write(span.name);
        place.add(12).cast::<u32>().write(span.category);
        place.add(16).cast::<i64>().write(span.steps);
    }
    set_open(page, depth as u32 + 1);
}

fn note_steps(page: *mut u8, span: &OpenSpan) {
    if (span.depth as usize) < segment::SPANS_MAX {
        let at = segment::SPANS + span.depth as usize * segment::SPAN_SIZE + 16;
        // SAFETY: as in `note_open`.
        unsafe { page.add(at).cast::<i64>().write(span.steps) };
    }
}

pub(super) fn note_closed(page: *mut u8, depth: u32) {
    set_open(page, depth.min(segment::SPANS_MAX as u32));
}

fn set_open(page: *mut u8, count: u32) {
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::Release);
    // SAFETY: the number lies within the segment's page, and only this thread writes it.
    unsafe { page.add(segment::OPEN_SPANS).cast::<u32>().write_volatile(count) };
}
