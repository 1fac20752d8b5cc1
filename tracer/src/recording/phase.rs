//! Whether anything is recorded now: not yet, by layers, or no more because the image is being closed.
//!
//! ```text
//! 0 -> STARTED | layers -> CLOSED (calls of other threads wait) -> gone: the process ended or became another program
//!                              `-> STARTED | layers: it goes on, as after an exec that failed
//! ```
//!
//! A thread may be left out meanwhile: a vfork child passes its calls on, and a thread that may not call the kernel is strict.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

use dlio_schemas::ops::Layer;

use crate::kernel::switches::SWITCHES;
use crate::kernel::sys;
use crate::recording::wiped_page;
use crate::thread::local::{local, own_id};

/// Bit of the mode, beside one for each layer in the order of [`Layer::ALL`]: that has been decided.
pub const STARTED: u32 = 1 << 31;
/// The mode while the image is being closed and afterwards: calls wait, see [`await_end`]. Like zero it is less than
/// [`STARTED`], so that one comparison tells both from all others.
pub const CLOSED: u32 = 1 << 30;

/// The mode once more: a forked child finds the one that every hook asks for zeroed, however it was forked.
static MODE: AtomicU32 = AtomicU32::new(0);
/// Zero, or the thread that closes the image just now, or [`ENDED`].
static ENDING: AtomicU32 = AtomicU32::new(0);
const ENDED: u32 = u32::MAX;
/// The thread that closes the image or has closed it.
static ENDER: AtomicU32 = AtomicU32::new(0);
/// True if the process lives on long after its image was closed: nobody waits for its end any more.
static OVERDUE: AtomicBool = AtomicBool::new(false);

/// How long after its image was closed a process is gone at the latest. Only a thread that waits with a lock which the
/// exit needs can make it last longer.
const END_LASTS_NS: u64 = 1_000_000_000;
/// The mode before the image was closed.
static BEFORE_END: AtomicU32 = AtomicU32::new(0);
/// The same while the image is closed for an exec that has not succeeded yet; else zero.
static BEFORE_EXEC: AtomicU32 = AtomicU32::new(0);

/// What was recorded before the image was closed.
#[derive(Clone, Copy)]
pub struct Mode(u32);

impl Mode {
    /// Returns `true` if any layer was recorded.
    pub fn records(self) -> bool {
        self.0 & !STARTED != 0
    }
}

/// Returns what every hook asks first: a bit for each layer that is recorded, and [`STARTED`] or [`CLOSED`]. Zero before the
/// engine has started, and again in a child that has not noticed yet that it is one.
#[inline(always)]
pub fn mode() -> u32 {
    wiped_page::mode().load(Relaxed)
}

/// Records these layers from now on.
pub fn start(layers: u32) {
    set_mode(STARTED | layers);
}

/// Span APIs look at a switch of their own. It stays as it is while the image is closed, so that spans wait as calls do.
fn set_mode(mode: u32) -> u32 {
    if mode != CLOSED {
        SWITCHES.app.store(mode & 1 << Layer::App as u32, Release);
    }
    MODE.store(mode, Release);
    wiped_page::mode().swap(mode, AcqRel)
}

/// True in a child that was forked past the C library (`syscall(SYS_clone, ...)`, `_Fork`), until it is noticed.
pub fn is_unannounced() -> bool {
    mode() == 0 && MODE.load(Relaxed) != 0
}

/// Returns `true` if any layer is recorded.
pub fn is_recording() -> bool {
    MODE.load(Relaxed) & !(STARTED | CLOSED) != 0
}

/// The switch of spans, for span APIs.
pub const fn app_switch() -> *const AtomicU32 {
    &raw const SWITCHES.app
}

/// Something makes tracing impossible: one sentence, and the program runs on untraced.
pub fn give_up(parts: &[&[u8]]) {
    set_mode(STARTED);
    sys::say(parts);
}

/// Records as the parent did before its image was closed, if that was so.
pub fn after_fork_in_child() {
    ENDING.store(0, Relaxed);
    OVERDUE.store(false, Relaxed);
    BEFORE_EXEC.store(0, Relaxed);
    // Another thread of the parent may have closed its image while this one was forking.
    set_mode(if is_closed() { BEFORE_END.load(Relaxed) } else { MODE.load(Relaxed) });
}

/// Makes the calls of all threads wait, if anything is recorded. Comes after [`begin_end`].
pub fn close() -> Mode {
    let before = Mode(MODE.load(Relaxed));
    if before.records() {
        BEFORE_END.store(before.0, Relaxed);
        set_mode(CLOSED);
    }
    before
}

/// The image is closed for good.
pub fn end() {
    ENDING.store(ENDED, Release);
}

/// The image is closed, unless the exec fails: see [`exec_failed`].
pub fn end_for_exec(before: Mode) {
    BEFORE_EXEC.store(before.0, Release);
}

/// The exec this thread has closed the image for has failed: the program goes on, and so do we.
pub fn exec_failed() {
    if BEFORE_EXEC.load(Acquire) != 0 && ENDING.load(Acquire) == own_id() {
        resume(Mode(BEFORE_EXEC.swap(0, AcqRel)));
    }
}

/// Records again as before: the process goes on.
pub fn resume(before: Mode) {
    set_mode(before.0);
    ENDING.store(0, Release);
    sys::wake_all(&ENDING);
}

/// Waits while another thread closes the image, and until the process has ended or become another program. Returns where
/// the image was not closed for good, or where that thread itself asks.
#[cold]
pub fn await_end() {
    let me = sys::thread_id();
    let mut late_at = 0;
    loop {
        let (state, ender) = (ENDING.load(Acquire), ENDER.load(Acquire));
        // A process made by the kernel's call alone has this memory and not that thread.
        if state == 0 || ender == me || OVERDUE.load(Relaxed) || is_passing() || !sys::thread_exists(ender) {
            return;
        }
        if state == ENDED || BEFORE_EXEC.load(Acquire) != 0 {
            let now = sys::clock_ns(libc::CLOCK_MONOTONIC);
            late_at = if late_at == 0 { now + END_LASTS_NS } else { late_at };
            if now > late_at {
                OVERDUE.store(true, Relaxed);
                return;
            }
        }
        sys::wait_on(&ENDING, state, END_LASTS_NS / 10);
    }
}

/// True if calls of this thread wait for the end.
pub fn is_closed() -> bool {
    MODE.load(Acquire) == CLOSED
}

/// True if it is this thread's task to close the image.
pub fn begin_end() -> bool {
    let me = own_id();
    while ENDING.compare_exchange(0, me, AcqRel, Acquire).is_err() {
        if !another_is_ending(me) {
            return false;
        }
        sys::yield_now();
    }
    ENDER.store(me, Release);
    true
}

/// Another thread closes the image just now; the caller is about to take the process away from under it, and waits.
pub fn let_another_end() {
    let me = if ENDING.load(Acquire) == 0 { 0 } else { own_id() };
    while another_is_ending(me) {
        sys::yield_now();
    }
}

fn another_is_ending(me: u32) -> bool {
    let owner = ENDING.load(Acquire);
    ![0, ENDED, me].contains(&owner) && sys::thread_exists(owner)
}

/// True if the image is being closed, or has been for good.
pub fn is_ending() -> bool {
    ENDING.load(Acquire) != 0
}

/// Between vfork and the child's exec this thread's calls are the child's: they are passed on and leave no trace. Who
/// comes back says so, and only the process that left: its child may vfork too.
pub fn pass(passing: bool) {
    let me = sys::process_id();
    let line = local();
    // SAFETY: the line is this thread's own.
    unsafe {
        match passing {
            true if !is_passing() => (*line).passing = me,
            false if (*line).passing == me => (*line).passing = 0,
            _ => {}
        }
    }
}

/// True if this is a vfork child, on the memory and in the name of a thread of its parent. That thread itself runs again
/// only when the child is gone.
pub fn is_passing() -> bool {
    // SAFETY: the line is this thread's own.
    let left = unsafe { (*local()).passing };
    left != 0 && (left == STRICT || left != sys::process_id())
}

/// In the place of who left by vfork: the thread may read, write and end, and be killed for any other call of the kernel's
/// (strict seccomp). It may not read the TSC either. What it does from then on is counted as lost, without any call.
const STRICT: i32 = i32::MIN;

/// True if this thread may call nothing of the kernel's.
#[inline(always)]
pub fn is_strict() -> bool {
    // SAFETY: the line is this thread's own.
    unsafe { (*local()).passing == STRICT }
}

/// This thread calls nothing of the kernel's from now on.
pub fn confine() {
    // SAFETY: the line is this thread's own.
    unsafe { (*local()).passing = STRICT };
}

/// A filter of system calls is there: what the filter's author did not foresee may be the program's end.
static IS_FILTERED: AtomicBool = AtomicBool::new(false);

/// The program is about to install such a filter.
pub fn note_filter() {
    IS_FILTERED.store(true, Relaxed);
}

/// True if the tracer makes no call of the kernel's that it could do without.
pub fn is_filtered() -> bool {
    IS_FILTERED.load(Relaxed)
}

/// The thread could not be confined.
pub fn strict_failed() {
    if is_strict() {
        // SAFETY: as above.
        unsafe { (*local()).passing = 0 };
    }
}
