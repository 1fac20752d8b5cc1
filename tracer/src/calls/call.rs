//! A traced call: the check that every hook makes before the real call, and the event recorded after it.

use std::sync::atomic::Ordering::*;

use dlio_schemas::ops::{Layer, Op};
use dlio_schemas::record::{DEPTH_MAX, Record, word};

use crate::kernel::clock;
use crate::kernel::switches::SWITCHES;
use crate::known::{descriptors, number};
use crate::life::lifecycle;
use crate::recording::{phase, ring};
use crate::thread::local::local;
use crate::trace::header_page;

/// A traced call that has started.
#[derive(Clone, Copy)]
pub struct Call {
    start: u64,
}

/// A traced call that has returned.
#[derive(Clone, Copy)]
pub struct Done {
    pub start: u64,
    pub duration: u64,
}

/// Starts a call. Every hook calls this before the real call; `None` means that the hook only forwards the call.
#[inline(always)]
pub fn begin(layer: Layer) -> Option<Call> {
    let mode = phase::mode();
    // SAFETY: the line is this thread's own.
    if mode & 1 << layer as u32 == 0 || unsafe { (*local()).passing } != 0 {
        return begin_oddly(layer, mode);
    }
    Some(Call::now(layer))
}

/// Handles the rare cases of [`begin`]: a call that is not recorded, the first call, and a call from a signal handler
/// that runs when vfork is about to return.
#[cold]
fn begin_oddly(layer: Layer, mode: u32) -> Option<Call> {
    if phase::is_strict() {
        header_page::count_lost((mode & 1 << layer as u32 != 0) as u64);
        return None;
    }
    if mode < phase::STARTED {
        return begin_outside(layer, mode);
    }
    let recorded = mode & 1 << layer as u32 != 0 && !phase::is_passing();
    recorded.then(|| Call::now(layer))
}

/// Handles calls outside an image: a call before the library's own constructor (from another constructor, or from a
/// program that starts threads early), a call after the image was closed, and the first call of a child whose fork
/// was not seen.
#[cold]
fn begin_outside(layer: Layer, mode: u32) -> Option<Call> {
    match mode {
        phase::CLOSED => phase::await_end(),
        _ if phase::is_unannounced() => lifecycle::after_fork_in_child(),
        _ => lifecycle::start(),
    }
    let recorded = phase::mode() & 1 << layer as u32 != 0 && !phase::is_passing();
    recorded.then(|| Call::now(layer))
}

impl Call {
    #[inline(always)]
    fn now(layer: Layer) -> Call {
        if SWITCHES.patched.load(Relaxed) {
            Inside::enter(layer);
        }
        Call { start: clock::ticks() }
    }

    /// Returns a call that started at the given, earlier timestamp.
    pub fn since(start: u64) -> Call {
        Call { start }
    }

    /// Returns this call as if it started now, after work of the tracer.
    pub fn restarted(self) -> Call {
        Call { start: clock::ticks() }
    }

    /// Takes the end time. Callers do this right after the real call, before any lookup.
    #[inline(always)]
    pub fn end(self) -> Done {
        let duration = clock::ticks().wrapping_sub(self.start);
        if SWITCHES.patched.load(Relaxed) {
            Inside::leave();
        }
        Done { start: self.start, duration }
    }
}

impl Done {
    /// Records the event, unless a filter excludes its file: a descriptor whose opening was not seen gets its name
    /// only here. `known` is true if `a` contains the value that the operation's row promises.
    #[inline(always)]
    pub fn record(self, op: Op, file: u32, fd: i32, (a, known): (i64, bool), b: i64, ret: i64) {
        if self.duration < SWITCHES.min_ticks.load(Relaxed) || file == number::FILTERED {
            return header_page::count_filtered();
        }
        // SAFETY: the line is this thread's own.
        let depth = unsafe { (*local()).depth }.min(DEPTH_MAX as u32) as u8;
        ring::put(Record { word: word(op, depth, known, self.duration), start: self.start, file, fd, a, b, ret });
    }
}

/// The caller of a C library function when those functions are patched. Only then is it known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inside {
    /// The program, bypassing all hooks.
    Nothing,
    /// A hook that records all nested calls as one event.
    Call,
    /// The hook of a stream.
    Stream,
}

impl Inside {
    /// Returns the function that this thread is currently in.
    pub fn now() -> Inside {
        // SAFETY: the line is this thread's own.
        match unsafe { (*local()).inside } & 3 {
            0 => Inside::Nothing,
            1 => Inside::Call,
            _ => Inside::Stream,
        }
    }

    #[cold]
    pub fn enter(layer: Layer) {
        // Patched functions are never called inside a wait, except by a signal handler that runs there.
        let kind = match layer {
            Layer::Wait | Layer::Device => 0,
            Layer::Stdio => 2,
            _ => 1,
        };
        // SAFETY: the line is this thread's own.
        unsafe { (*local()).inside = (*local()).inside << 2 | kind };
    }

    #[cold]
    pub fn leave() {
        // SAFETY: as above.
        unsafe {
            (*local()).inside >>= 2;
            if (*local()).inside == 0 {
                (*local()).changing = 0;
            }
        }
    }

    /// Notes the file for calls inside a stream's hook: the stream is about to be closed and its descriptor is
    /// already forgotten, or it has just opened a descriptor that is not known yet.
    pub fn note_changing(fd: i32, file: u32) {
        if SWITCHES.patched.load(Relaxed) && fd >= 0 {
            // SAFETY: as above.
            unsafe { ((*local()).changing, (*local()).changing_file) = (fd + 1, file) };
        }
    }

    /// Returns the file of a descriptor that is used inside a stream's call.
    pub fn file(fd: i32) -> u32 {
        match descriptors::seen(fd) {
            // SAFETY: as above.
            number::NONE if Inside::changes(fd) => unsafe { (*local()).changing_file },
            seen => seen,
        }
    }

    /// Returns `true` if this thread is inside a call on a stream that is closing this descriptor or has just opened
    /// it.
    pub fn changes(fd: i32) -> bool {
        // SAFETY: as above.
        fd >= 0 && unsafe { (*local()).changing } == fd + 1
    }
}
