//! A traced call: the question every hook asks before it, and the event after it.

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

/// A traced call that has begun.
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

/// Asked by every hook before the real call: `None` means "only pass it on".
#[inline(always)]
pub fn begin(layer: Layer) -> Option<Call> {
    let mode = phase::mode();
    // SAFETY: the line is this thread's own.
    if mode & 1 << layer as u32 == 0 || unsafe { (*local()).passing } != 0 {
        return begin_oddly(layer, mode);
    }
    Some(Call::now(layer))
}

/// A call that is not recorded, or is the first, or comes from a signal handler that runs when vfork is about to return.
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

/// A call before the library's own constructor (another constructor's, or a program's that starts threads early), one after
/// the image was closed, or the first of a child that nobody announced.
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

    /// A call that began at a moment taken before.
    pub fn since(start: u64) -> Call {
        Call { start }
    }

    /// To be said right after the real call, before anything is looked up.
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
    /// Records the event, unless a filter turns out to leave its file out: a descriptor nobody was seen opening is named
    /// only now. `known` says that `a` holds what the operation's row promises.
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

/// The caller of a function of the C library, where these are patched themselves. Known only there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inside {
    /// The program, past all hooks.
    Nothing,
    /// A hook that records what goes on as one event.
    Call,
    /// The hook of a stream.
    Stream,
}

impl Inside {
    /// The function this thread is inside of.
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
        // Nothing that is patched goes on inside a wait, but for what a handler does there.
        let kind = match layer {
            Layer::Wait => 0,
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

    /// A stream is about to be closed, whose descriptor is forgotten already, or has just opened one that is not known yet: what
    /// goes on inside is on this file.
    pub fn note_changing(fd: i32, file: u32) {
        if SWITCHES.patched.load(Relaxed) && fd >= 0 {
            // SAFETY: as above.
            unsafe { ((*local()).changing, (*local()).changing_file) = (fd + 1, file) };
        }
    }

    /// The file of a descriptor inside the call of a stream.
    pub fn file(fd: i32) -> u32 {
        match descriptors::seen(fd) {
            // SAFETY: as above.
            number::NONE if Inside::changes(fd) => unsafe { (*local()).changing_file },
            seen => seen,
        }
    }

    /// True if the stream that this thread is inside a call of is being closed, or was just opened, on this descriptor.
    pub fn changes(fd: i32) -> bool {
        // SAFETY: as above.
        fd >= 0 && unsafe { (*local()).changing } == fd + 1
    }
}
