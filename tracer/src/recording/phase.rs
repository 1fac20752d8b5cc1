//! Whether anything is recorded now: not yet, by layers, or no longer because the image is being closed.
//!
//! ```text
//! 0 -> STARTED | layers -> CLOSED (calls of other threads block) -> gone: the process ended or executed another program
//!                              `-> STARTED | layers: it continues, as after an exec that failed
//! ```
//!
//! Some threads are not recorded in the meantime: a vfork child only forwards its calls, and a thread that must not
//! call the kernel is strict.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

use dlio_schemas::ops::Layer;

use crate::kernel::switches::SWITCHES;
use crate::kernel::sys;
use crate::recording::wiped_page;
use crate::thread::local::{local, own_id};

/// Bit of the mode next to one for each layer in the order of [`Layer::ALL`]: the layers have been decided.
pub const STARTED: u32 = 1 << 31;
/// The mode while the image is being closed and afterwards: calls block, see [`await_end`]. Like zero, it is less
/// than [`STARTED`], so one comparison separates both from all others.
pub const CLOSED: u32 = 1 << 30;

/// A copy of the mode. In a forked child, the mode that every hook reads is zeroed, whichever call forked the child.
static MODE: AtomicU32 = AtomicU32::new(0);
/// Zero, or the thread that is closing the image, or [`ENDED`].
static ENDING: AtomicU32 = AtomicU32::new(0);
const ENDED: u32 = u32::MAX;
/// The thread that closes the image or has closed it.
static ENDER: AtomicU32 = AtomicU32::new(0);
/// `true` if the process still runs long after its image was closed: calls no longer wait for its end.
static OVERDUE: AtomicBool = AtomicBool::new(false);

/// Time after the image was closed within which a process normally ends. It can take longer only if a thread blocks
/// while it holds a lock that the exit needs.
const END_LASTS_NS: u64 = 1_000_000_000;
/// The mode before the image was closed.
static BEFORE_END: AtomicU32 = AtomicU32::new(0);
/// The mode before the image was closed for an exec that has not succeeded yet; otherwise zero.
static BEFORE_EXEC: AtomicU32 = AtomicU32::new(0);

/// The recorded layers before the image was closed.
#[derive(Clone, Copy)]
pub struct Mode(u32);

impl Mode {
    /// Returns `true` if any layer was recorded.
    pub fn records(self) -> bool {
        self.0 & !STARTED != 0
    }
}

/// Returns the value that every hook checks first: a bit for each recorded layer, and [`STARTED`] or [`CLOSED`]. Zero
/// before the engine has started, and again in a child that has not been recognized as one yet.
#[inline(always)]
pub fn mode() -> u32 {
    wiped_page::mode().load(Relaxed)
}

/// Starts recording these layers.
pub fn start(layers: u32) {
    set_mode(STARTED | layers);
}

/// Sets the mode. Span APIs check a separate switch, which does not change while the image is closed, so that spans
/// block like calls.
fn set_mode(mode: u32) -> u32 {
    if mode != CLOSED {
        SWITCHES.app.store(mode & 1 << Layer::App as u32, Release);
    }
    MODE.store(mode, Release);
    wiped_page::mode().swap(mode, AcqRel)
}

/// Returns `true` in a child that was forked without the C library (`syscall(SYS_clone, ...)`, `_Fork`), until it is
/// recognized.
pub fn is_unannounced() -> bool {
    mode() == 0 && MODE.load(Relaxed) != 0
}

/// Returns `true` if any layer is recorded.
pub fn is_recording() -> bool {
    MODE.load(Relaxed) & !(STARTED | CLOSED) != 0
}

/// Returns the switch of spans, for span APIs.
pub const fn app_switch() -> *const AtomicU32 {
    &raw const SWITCHES.app
}

/// Gives up tracing: prints one message, and the program continues untraced.
pub fn give_up(parts: &[&[u8]]) {
    set_mode(STARTED);
    sys::say(parts);
}

/// Restores the parent's mode from before its image was closed, if it was closed.
pub fn after_fork_in_child() {
    ENDING.store(0, Relaxed);
    OVERDUE.store(false, Relaxed);
    BEFORE_EXEC.store(0, Relaxed);
    // Another thread of the parent may have closed its image during the fork.
    set_mode(if is_closed() { BEFORE_END.load(Relaxed) } else { MODE.load(Relaxed) });
}

/// Makes the calls of all threads block, if anything is recorded. Called after [`begin_end`].
pub fn close() -> Mode {
    let before = Mode(MODE.load(Relaxed));
    if before.records() {
        BEFORE_END.store(before.0, Relaxed);
        set_mode(CLOSED);
    }
    before
}

/// Closes the image permanently.
pub fn end() {
    ENDING.store(ENDED, Release);
}

/// Closes the image unless the exec fails: see [`exec_failed`].
pub fn end_for_exec(before: Mode) {
    BEFORE_EXEC.store(before.0, Release);
}

/// Resumes after a failed exec for which this thread closed the image.
pub fn exec_failed() {
    if BEFORE_EXEC.load(Acquire) != 0 && ENDING.load(Acquire) == own_id() {
        resume(Mode(BEFORE_EXEC.swap(0, AcqRel)));
    }
}

/// Resumes recording as before: the process continues.
pub fn resume(before: Mode) {
    set_mode(before.0);
    ENDING.store(0, Release);
    sys::wake_all(&ENDING);
}

/// Blocks while another thread closes the image, and until the process has ended or executed another program. Returns
/// if the image was not closed permanently, or if the closing thread itself calls this.
#[cold]
pub fn await_end() {
    let me = sys::thread_id();
    let mut late_at = 0;
    loop {
        let (state, ender) = (ENDING.load(Acquire), ENDER.load(Acquire));
        // A process cloned directly by the kernel's call has this memory but not that thread.
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

/// Returns `true` if calls of this thread wait for the end.
pub fn is_closed() -> bool {
    MODE.load(Acquire) == CLOSED
}

/// Returns `true` if this thread must close the image.
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

/// Waits while another thread closes the image, because the caller is about to end the process.
pub fn wait_for_shutdown() {
    let me = if ENDING.load(Acquire) == 0 { 0 } else { own_id() };
    while another_is_ending(me) {
        sys::yield_now();
    }
}

fn another_is_ending(me: u32) -> bool {
    let owner = ENDING.load(Acquire);
    ![0, ENDED, me].contains(&owner) && sys::thread_exists(owner)
}

/// Returns `true` if the image is being closed or was closed permanently.
pub fn is_ending() -> bool {
    ENDING.load(Acquire) != 0
}

/// Marks the time between vfork and the child's exec, in which this thread's calls are the child's: they are
/// forwarded and not recorded. The mark is removed only by the process that set it, because its child may vfork, too.
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

/// Returns `true` in a vfork child, which runs on the memory and with the thread state of its parent. The parent's
/// thread continues only when the child is gone.
pub fn is_passing() -> bool {
    // SAFETY: the line is this thread's own.
    let left = unsafe { (*local()).passing };
    left != 0 && (left == STRICT || left != sys::process_id())
}

/// Replaces the id of a process that left by vfork: the thread may read, write and end, and is killed for any other
/// system call (strict seccomp). It may not read the TSC either. Its events are counted as lost, without any system
/// call.
const STRICT: i32 = i32::MIN;

/// Returns `true` if this thread must not make system calls.
#[inline(always)]
pub fn is_strict() -> bool {
    // SAFETY: the line is this thread's own.
    unsafe { (*local()).passing == STRICT }
}

/// Notes that this thread must not make system calls from now on.
pub fn confine() {
    // SAFETY: the line is this thread's own.
    unsafe { (*local()).passing = STRICT };
}

/// `true` if there is a seccomp filter, which may end the program for a system call that its author did not expect.
static IS_FILTERED: AtomicBool = AtomicBool::new(false);

/// Notes that the program is about to install a seccomp filter.
pub fn note_filter() {
    IS_FILTERED.store(true, Relaxed);
}

/// Returns `true` if the tracer must avoid all unnecessary system calls.
pub fn is_filtered() -> bool {
    IS_FILTERED.load(Relaxed)
}

/// Notes that the thread could not be confined.
pub fn strict_failed() {
    if is_strict() {
        // SAFETY: as above.
        unsafe { (*local()).passing = 0 };
    }
}
