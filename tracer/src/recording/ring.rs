//! The rings, the first stop of every event.
//!
//! Each live thread has a segment of the process's ring file (drawn in `dlio_schemas::native::ring`): two halves of
//! [`EVENTS_MAX`](dlio_schemas::native::columns::EVENTS_MAX) slots. The first thread starts with a small segment that
//! has one half. When a half is full, the other half, or the first half of a new, large segment, takes over. This
//! happens *before* the full half is encoded, so that a signal handler during the encoding finds free slots.

use std::sync::atomic::{AtomicU32, Ordering::*, compiler_fence};

use dlio_schemas::native::ring::{HALF_SEALED, Shape, segment};
use dlio_schemas::record::Record;

use crate::kernel::clock;
use crate::recording::drain::{empty, write_names};
use crate::recording::{image, phase, signal_queue};
use crate::thread::chunk::Chunk;
use crate::thread::local::{Local, local, own_id};
use crate::thread::slots::{Half, fill, take_slot};
use crate::thread::thread_state::{self, Thread, halves_of, page_of, slots, taken};
use crate::thread::{stack, thread_names};
use crate::trace::{blocks, header_page, ring_file};

/// Number of records after which a long-lived half refreshes the clock anchor of the ring: the times of a killed
/// process are then accurate to the end.
const ANCHOR_EVERY: u32 = 256;

/// The outcome of a record that took the slow path.
enum Outcome {
    Kept,
    Lost,
    /// The image is closed.
    Closed,
}

/// Records one event of this thread.
#[inline(always)]
pub fn put(record: Record) {
    // SAFETY: the line is this thread's own; `thread` and `half` are null or point to memory that is never unmapped.
    unsafe {
        let thread = (*local()).thread;
        let half = if thread.is_null() { std::ptr::null_mut() } else { Thread::half(thread) };
        if !half.is_null() {
            let slot = take_slot(&raw mut (*half).next);
            if slot < (*thread).slots {
                fill(half, slot, &record);
                if slot % ANCHOR_EVERY == ANCHOR_EVERY - 1 {
                    header_page::refresh_anchor();
                }
                return;
            }
        }
    }
    let Record { word, start, file, fd, a, b, ret } = record;
    put_slowly(word, start, (file, fd), a, b, ret);
}

/// Handles a thread without a ring, or a full half. Takes the record in registers, so that callers on the
/// fast path never store it to memory.
#[cold]
#[inline(never)]
fn put_slowly(word: u64, start: u64, (file, fd): (u32, i32), a: i64, b: i64, ret: i64) {
    let record = Record { word, start, file, fd, a, b, ret };
    // SAFETY: the thread's state is never unmapped.
    unsafe { give_back_slot((*local()).thread) };
    // Counters are not events, so they cannot be lost.
    let lost = !record.is_counters() as u64;
    // The event is kept at once or, if the image is being closed for an exec, after that exec has failed.
    match put_once(&record) {
        Outcome::Kept => {}
        Outcome::Lost => header_page::count_lost(lost),
        Outcome::Closed => {
            phase::await_end();
            if !matches!(put_once(&record), Outcome::Kept) {
                header_page::count_lost(lost);
            }
        }
    }
    // While `busy` is set, the queued events belong to the frame that this one has interrupted: if they were recorded here, they would be
    // queued again, endlessly. SAFETY: the line is this thread's own.
    if unsafe { (*local()).busy } == 0 {
        signal_queue::take_back(put);
    }
}

fn put_once(record: &Record) -> Outcome {
    let line = local();
    // SAFETY: the line is this thread's own, and `busy` keeps signal handlers out of the code below.
    unsafe {
        if (*line).busy != 0 {
            signal_queue::keep(record);
            return Outcome::Kept;
        }
        (*line).busy = 1;
        compiler_fence(SeqCst);
        let began = clock::ticks();
        let outcome = stack::on_large_stack(|| put_on_large_stack(line, record));
        header_page::count_own_time(clock::ticks() - began);
        compiler_fence(SeqCst);
        (*line).busy = 0;
        outcome
    }
}

/// Records an event on the slow path.
///
/// # Safety
/// `line` is this thread's own and marked busy.
unsafe fn put_on_large_stack(line: *mut Local, record: &Record) -> Outcome {
    // SAFETY: see `put`; memory from `image` is never unmapped.
    unsafe {
        // First a thread state, then a fresh half: more than two rounds mean that the process is ending.
        for _ in 0..3 {
            if (*line).thread.is_null() || Thread::half((*line).thread).is_null() {
                (*line).thread = image::take_thread();
                if (*line).thread.is_null() {
                    break;
                }
            }
            let half = Thread::half((*line).thread);
            if half.is_null() {
                continue;
            }
            let slot = take_slot(&raw mut (*half).next);
            if slot < (*(*line).thread).slots {
                fill(half, slot, record);
                return Outcome::Kept;
            }
            if slot & HALF_SEALED != 0 {
                give_back_slot((*line).thread);
                return Outcome::Closed;
            }
            swap_halves((*line).thread);
        }
    }
    if phase::is_closed() { Outcome::Closed } else { Outcome::Lost }
}

/// Gives back a slot number that was reserved beyond the end of a sealed half, so that the number of reserved slots does not
/// exceed the number of slots.
///
/// # Safety
/// `thread` is null or the caller's own.
unsafe fn give_back_slot(thread: *mut Thread) {
    // SAFETY: as in `put`; the number is aligned.
    unsafe {
        let half = if thread.is_null() { std::ptr::null_mut() } else { Thread::half(thread) };
        if !half.is_null() {
            let next = AtomicU32::from_ptr(&raw mut (*half).next);
            let number = next.load(Relaxed);
            // Skip this if the half was written to the file in the meantime and its count started from zero again.
            if number > HALF_SEALED {
                let _ = next.compare_exchange(number, number - 1, Relaxed, Relaxed);
            }
        }
    }
}

/// Makes another half active, then encodes the full one.
///
/// # Safety
/// `thread` is the caller's own, and busy.
unsafe fn swap_halves(thread: *mut Thread) {
    // SAFETY: the caller is the thread itself, busy; `encoding` excludes the thread that ends the process.
    unsafe {
        if (*thread).encoding.compare_exchange(0, own_id(), Acquire, Relaxed).is_err() {
            return;
        }
        let full = Thread::half(thread);
        if full.is_null() || ring_file::is_cut() {
            thread_state::retire_all();
            (*thread).encoding.store(0, Release);
            return;
        }
        let other = next_half(thread, full);
        if blocks::is_forbidden() && taken(thread, other) > 0 {
            // The half keeps its older events. Its count is set back to the number of slots, long before it could reach the
            // value that marks a sealed half.
            (*full).next = (*full).next & HALF_SEALED | (*thread).slots;
            (*thread).encoding.store(0, Release);
            return;
        }
        if !(*thread).pending.is_null() {
            empty(thread, (*thread).pending, true);
            (*thread).pending = std::ptr::null_mut();
        }
        // Switch the half first and set `slots` second: the next half is never smaller, so the old value is safe in between.
        // `turn` does nothing if the ring was taken away in the meantime.
        Thread::turn(thread, full, other);
        compiler_fence(SeqCst);
        (*thread).slots = slots(thread, other);
        // A frame below us on the stack may have taken a slot and not filled it: then this half waits for its next
        // turn.
        if !empty(thread, full, full == other) {
            (*thread).pending = full;
        }
        (*thread).encoding.store(0, Release);
    }
}

/// Returns the half after a full one: the same half if there is no memory beyond a small segment.
///
/// # Safety
/// The caller holds `encoding` of this thread.
unsafe fn next_half(thread: *mut Thread, full: *mut Half) -> *mut Half {
    // SAFETY: the caller holds `encoding`; a large segment has exactly two halves after its page.
    unsafe {
        match (*thread).large {
            large if large.is_null() && !grow(thread) => full,
            large if full == large => large.add(1),
            _ => (*thread).large,
        }
    }
}

/// Gives a thread with a small segment a large one. Returns `false` if there is no memory.
///
/// # Safety
/// The caller holds `encoding` of this thread.
unsafe fn grow(thread: *mut Thread) -> bool {
    let Some((segment, stream)) = ring_file::large_segment() else { return false };
    // SAFETY: the caller holds `encoding`; the segment is fresh and never unmapped.
    unsafe {
        segment.add(segment::TID).cast::<u32>().write((*thread).tid);
        (*thread).large_stream = stream;
        (*thread).large = halves_of(segment);
        (*(*thread).large.add(1)).sequence = 1;
    }
    true
}

impl Thread {
    /// Writes the names as a block and resets their chunk, replacing it with a larger one if possible. Returns
    /// `false` if that cannot be done now.
    ///
    /// # Safety
    /// `this` belongs to the calling thread, and no name is being added to it.
    #[cold]
    #[inline(never)]
    pub unsafe fn turn_names_over(this: *mut Thread) -> bool {
        stack::on_large_stack(|| {
            // SAFETY: by the contract above; `encoding` excludes the thread that ends the process.
            unsafe {
                if ring_file::is_cut() || (*this).encoding.compare_exchange(0, own_id(), Acquire, Relaxed).is_err() {
                    return false;
                }
                write_names(this);
                (*this).names.clear();
                let is_small = (*this).names.is_small();
                if is_small && (!(*this).large.is_null() || grow(this)) {
                    let segment = page_of((*this).large);
                    (*this).names = Chunk::new(segment.add(Shape::LARGE.names_at()), Shape::LARGE.names);
                }
                (*this).encoding.store(0, Release);
            }
            true
        })
    }
}

/// Gives this thread a ring before its first event.
#[cold]
pub fn ensure() {
    let line = local();
    // SAFETY: the line is this thread's own, and `busy` keeps a signal handler out.
    unsafe {
        if (*line).busy == 0 {
            (*line).busy = 1;
            // Finish all of this before signals are unblocked, because a handler that finds no ring has no place for names.
            stack::with_signals_blocked(|| {
                (*line).thread = image::take_thread();
                (*line).busy = 0;
            });
        }
    }
}

/// Ends this thread's recording: writes its events and releases its ring for the next thread.
pub fn end_thread() {
    let line = local();
    // SAFETY: the line is this thread's own; `busy` keeps signal handlers away from the state that is being released.
    unsafe {
        let thread = (*line).thread;
        if thread.is_null() || (*thread).half.is_null() || (*line).busy != 0 {
            return stack::give_back();
        }
        (*line).busy = 1;
        let drained = stack::on_large_stack(|| {
            thread_names::note_own();
            Thread::drain(thread)
        });
        if drained {
            (*line).thread = std::ptr::null_mut();
            image::give_back(thread);
        }
        (*line).busy = 0;
        stack::give_back();
    }
}
