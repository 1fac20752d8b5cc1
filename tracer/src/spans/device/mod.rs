//! The time for which a device waited for data: pairs of events around `next()` of a loader, on the stream of the model.
//!
//! ```text
//! host     | next() | launch kernels | next()            | launch ...
//! stream   E1       E2  kernels ...  E1 (kernels)        E2  kernels ...
//! device   |--------|================|.......=============|
//!       gpu.data_wait    gpu.step      gpu.data_wait: zero if kernels were queued, the exposed wait if the device ran dry
//! ```
//!
//! An event completes when the device reaches it in the stream. The time between both events of a pair is therefore the part of
//! the wait that queued work did not hide. This code never waits for the device. It queries events in later calls, and counts
//! events that never completed.
//!
//! [`driver`] is the interface of the driver that the process has loaded itself, [`pairs`] has the events in flight,
//! [`device_clock`] maps their times to the clock of the trace, and [`emit`] records spans. A forked child must not call the
//! driver, and neither must a process whose libraries have begun to shut down: see [`with_state`] and [`at_exit`].

mod device_clock;
mod driver;
mod emit;
mod pairs;

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

use dlio_schemas::ops::Layer;

use crate::kernel::sys;
use crate::life::lifecycle;
use crate::thread::local::local;
use driver::{Driver, Problem, Session};
use pairs::Pairs;

/// The handle of no stream: the stream is unknown.
pub const NO_STREAM: usize = usize::MAX;

/// Contexts that are used one after another, and failures after which another attempt is made. A program that alternates
/// between devices would otherwise leave events behind in each step.
const CONTEXTS_MAX: u32 = 8;
/// A program may load the driver after its first batches.
const SEARCHES_MAX: u32 = 100;

/// The state of this process; all zeros if it is unused.
struct State {
    /// The process that uses the device.
    pid: i32,
    driver: Driver,
    /// The number of times that the driver was searched for.
    searches: u32,
    is_registered: bool,
    /// The number of contexts used, and of failures.
    contexts: u32,
    /// The thread that is inside `next()`, by the address of its line, and how deep; zero if none is.
    thread: usize,
    depth: u32,
    /// The first event of the current pair is recorded.
    is_open: bool,
    pairs: Pairs,
    /// Calls of `next()` whose wait is unknown.
    unresolved: u64,
}

struct Shared(UnsafeCell<State>);

// SAFETY: the state is used only by the thread that has set `IS_USED`.
unsafe impl Sync for Shared {}

crate::large! {
    static STATE: Shared = Shared(UnsafeCell::new(State {
        pid: 0,
        driver: Driver::NONE,
        searches: 0,
        is_registered: false,
        contexts: 0,
        thread: 0,
        depth: 0,
        is_open: false,
        pairs: Pairs::NEW,
        unresolved: 0,
    }));
}

/// `true` while a thread uses the state. Another thread does not wait: the driver may block it.
static IS_USED: AtomicBool = AtomicBool::new(false);
/// Calls of `next()` that found the state in use.
static MISSED: AtomicU64 = AtomicU64::new(0);
/// `true` once the process is ending, so the driver may be gone.
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// Notes that the loader's `next()` is called. `stream` is the handle of the stream that runs the model; `steps` are epoch and
/// step of the batch, packed. Calls inside another one on the same thread are part of it.
pub extern "C" fn next_entered(stream: usize, steps: i64) {
    if is_recorded() && with_state(|state| state.enter(stream, steps)).is_none() {
        MISSED.fetch_add(1, Relaxed);
    }
}

/// Notes that `next()` has returned, with a batch or at the end of the iteration.
pub fn next_returned(stream: usize, has_batch: bool) {
    if is_recorded() {
        with_state(|state| state.leave(stream, has_batch));
    }
}

fn is_recorded() -> bool {
    lifecycle::records(Layer::App) && !IS_OVER.load(Relaxed)
}

/// Runs with the state, unless another thread uses it. A forked child gets `Some` without running: its parent's events are
/// not its own, and calls of the driver after a fork are errors.
fn with_state(work: impl FnOnce(&mut State)) -> Option<()> {
    IS_USED.compare_exchange(false, true, Acquire, Relaxed).ok()?;
    // SAFETY: the address of this thread's errno is always valid.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: this thread has taken the state.
    let state = unsafe { &mut *STATE.0.get() };
    let pid = sys::process_id();
    if state.pid == 0 {
        state.pid = pid;
    }
    if state.pid == pid {
        work(state);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    IS_USED.store(false, Release);
    Some(())
}

impl State {
    fn enter(&mut self, stream: usize, steps: i64) {
        let me = local().addr();
        match self.thread {
            0 => (self.thread, self.depth, self.is_open) = (me, 1, false),
            thread if thread == me => return self.depth += 1,
            _ => return self.count(1),
        }
        let begun = self.with_device(stream, |pairs, session| {
            pairs.resolve(session)?;
            pairs.enter(session, stream, steps)
        });
        self.is_open = begun.is_ok();
        if let Err(problem) = begun {
            self.pairs.cut();
            self.count((problem != Problem::NoDevice) as u64);
        }
    }

    fn leave(&mut self, stream: usize, has_batch: bool) {
        if self.thread != local().addr() {
            return;
        }
        self.depth -= 1;
        if self.depth > 0 {
            return;
        }
        self.thread = 0;
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        let ended = self.with_device(stream, |pairs, session| pairs.leave(session, stream, has_batch));
        if ended.is_err() {
            // After a failure of the driver, the pair has been counted with all others in flight.
            let dropped = self.pairs.take_back();
            self.count(dropped as u64);
        }
    }

    /// Runs with the pairs of the current context, unless the stream is being captured, because no event may be recorded during a
    /// capture. If the driver fails, the context is no longer used, and its events are not touched again.
    fn with_device(
        &mut self,
        stream: usize,
        work: impl FnOnce(&mut Pairs, &Session) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        if stream == NO_STREAM {
            return Err(Problem::Skipped);
        }
        if !self.driver.is_loaded() && self.searches < SEARCHES_MAX {
            self.searches += 1;
            self.driver = Driver::find();
        }
        if !self.driver.is_usable() || self.contexts > CONTEXTS_MAX {
            return Err(if self.driver.is_loaded() { Problem::Skipped } else { Problem::NoDevice });
        }
        let session = self.session()?;
        let done = match session.is_capturing(stream) {
            Ok(false) => work(&mut self.pairs, &session),
            Ok(true) => Err(Problem::Skipped),
            Err(problem) => Err(problem),
        };
        if done == Err(Problem::Failed) {
            self.forget_pairs();
            self.contexts += 1;
        }
        done
    }

    /// Starts a session with the current context. A process that has used a context still uses a device without one.
    fn session(&mut self) -> Result<Session, Problem> {
        let unless_used = |problem| if self.contexts == 0 { problem } else { Problem::Skipped };
        let session = self.driver.session().map_err(unless_used)?;
        let context = session.context().map_err(unless_used)?;
        if !self.pairs.is_of(&context) {
            let device = session.device()?;
            self.forget_pairs();
            self.contexts += 1;
            self.pairs.start(&session, context, device);
            self.register();
        }
        Ok(session)
    }

    /// Counts the pairs in flight and forgets their events, whose context may be gone.
    fn forget_pairs(&mut self) {
        let in_flight = self.pairs.forget();
        self.count(in_flight);
        self.is_open = false;
    }

    /// Counts calls of `next()` for which the device's wait is unknown.
    fn count(&mut self, calls: u64) {
        if calls > 0 {
            self.unresolved += calls;
            self.register();
        }
    }

    /// Registers a function for the end of the process. Functions that are registered later run earlier. The driver is already in
    /// use, so it is still intact when this function runs.
    fn register(&mut self) {
        unsafe extern "C" {
            fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
        }
        if !std::mem::replace(&mut self.is_registered, true) {
            // SAFETY: a function that lives as long as the process.
            unsafe { on_exit(at_exit, std::ptr::null_mut()) };
            lifecycle::before_end(finish);
        }
    }

    /// Queries the events in flight for the last time, and records how many calls of `next()` remain unknown.
    fn finish(&mut self) {
        if self.driver.is_usable()
            && let Ok(session) = self.driver.session()
            && session.context().is_ok_and(|context| self.pairs.is_of(&context))
        {
            // The events that have not completed are counted below.
            let _ = self.pairs.resolve_all(&session);
        }
        self.forget_pairs();
        let unresolved = std::mem::take(&mut self.unresolved) + MISSED.swap(0, Relaxed);
        if unresolved > 0 {
            emit::unresolved(unresolved);
        }
    }
}

/// Records the rest at the end of the process, before the libraries of the driver shut down.
extern "C" fn at_exit(_: c_int, _: *mut c_void) {
    finish();
    // A forked child ends here, too, without having used the device.
    IS_OVER.store(true, Relaxed);
}

/// Records the rest at the end of an image.
fn finish() {
    if is_recorded() {
        with_state(State::finish);
    }
}
