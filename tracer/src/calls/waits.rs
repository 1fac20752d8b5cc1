//! Calls that block: which of them deserve an event, and the evidence of the cause of the wait.
//!
//! `sem_wait` on a free semaphore and `poll` without a timeout do not block. There are a hundred of them for each
//! call that blocks, and they do not show where time was spent, so they are counted as left out and not recorded. The
//! time they took distinguishes them, so nothing has to be checked before the real call.
//!
//! The event before a wait contains the work of its thread since the previous wait ([`counters`]). The event of a
//! wait for an object contains the thread that posted ([`wakers`]), or the id of a semaphore shared by processes
//! ([`semaphores`]), for which each post is an event.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use dlio_schemas::evidence::{Child, Waker};
use dlio_schemas::ops::{Layer, Op};

use crate::calls::call::{self, Done};
use crate::kernel::clock;
use crate::kernel::switches::SWITCHES;
use crate::known::wakers::Waiting;
use crate::known::{number, semaphores, wakers};
use crate::naming::descriptor_files;
use crate::process::config;
use crate::recording::counters;
use crate::trace::header_page;

/// The limit in ticks; zero until the tick rate is known. A thread that sleeps and is woken immediately takes about
/// ten microseconds; a call that does not block takes a tenth of that.
static SHORT_TICKS: AtomicU64 = AtomicU64::new(0);

/// Records a call that waited; `outcome` is its result as defined in the operation's row.
pub fn waited(done: Done, op: Op, fd: i32, a: i64, b: i64, outcome: i64) {
    if is_left_out(done.duration) {
        return header_page::count_filtered();
    }
    record(done, op, (number::NONE, fd), a, b, outcome);
}

/// Records a wait for a child process. The end of one is recorded however short the call: nothing else says how it ended.
pub fn waited_for_child(done: Done, op: Op, child: Child, options: i64, outcome: i64) {
    if child.ended.is_none() && is_left_out(done.duration) {
        return header_page::count_filtered();
    }
    record(done, op, (number::NONE, -1), child.pack(), options, outcome);
}

/// Records a wait for a semaphore. A wait that timed out has no waker.
pub fn waited_for_semaphore(done: Done, op: Op, waiting: Waiting, outcome: i64) {
    waited_for_object(done, op, waiting, outcome, if outcome == 0 { WaitEnd::Took } else { WaitEnd::ByNobody });
}

/// Records a wait for a condition.
pub fn waited_for_condition(done: Done, op: Op, waiting: Waiting, outcome: i64) {
    waited_for_object(done, op, waiting, outcome, if outcome == 0 { WaitEnd::Woken } else { WaitEnd::ByNobody });
}

/// Records a wait at a barrier. The last thread to arrive gets -1, which is not an error: it did not wait.
pub fn waited_at_barrier(done: Done, waiting: Waiting, error: i32) {
    let ended = if error == 0 { WaitEnd::AllArrived } else { WaitEnd::ByNobody };
    waited_for_object(done, Op::PTHREAD_BARRIER_WAIT, waiting, -error.max(0) as i64, ended);
}

/// The way a wait for an object ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitEnd {
    Took,
    Woken,
    AllArrived,
    ByNobody,
}

#[inline]
fn waited_for_object(done: Done, op: Op, waiting: Waiting, outcome: i64, ended: WaitEnd) {
    if is_left_out(done.duration) {
        waiting.over(ended == WaitEnd::Took);
        return header_page::count_filtered();
    }
    let end = done.start.wrapping_add(done.duration);
    let mut waker = if ended == WaitEnd::ByNobody { Waker::default() } else { waiting.waker(end) };
    waiting.over(ended == WaitEnd::Took);
    if ended == WaitEnd::AllArrived && waker.tid != 0 {
        // All other threads have posted, one after another, and this one was the last.
        waker.flags &= !Waker::SEVERAL;
    }
    let object = object_of(waiting.object, &mut waker);
    record(done, op, (number::NONE, -1), object, waker.pack(), outcome);
}

/// Returns the id of a semaphore or condition shared by processes, or the address of any other object.
fn object_of(address: usize, waker: &mut Waker) -> i64 {
    match semaphores::id(address) {
        Some(id) => {
            waker.flags |= Waker::SHARED;
            id as i64
        }
        None => address as i64,
    }
}

/// Records a wait and the work of its thread before it.
fn record(done: Done, op: Op, (file, fd): (u32, i32), a: i64, b: i64, outcome: i64) {
    counters::at_wait(done.start.wrapping_add(done.duration), done.duration);
    done.record(op, file, fd, (a, true), b, outcome);
}

/// Posts to a semaphore shared by processes, or signals such a condition, with the real function. That is an event, because the waiter may be
/// in another process.
#[cold]
#[inline(never)]
pub fn post_shared(op: Op, address: usize, real: impl FnOnce() -> i32) -> i32 {
    let is_taken = wakers::is_taken_by_caller(address);
    let is_awaited = wakers::post(address);
    let call = semaphores::id(address).and_then(|id| Some((id, call::begin(Layer::Wait)?)));
    let Some((id, call)) = call else {
        let ret = real();
        if is_awaited {
            posted(op, address);
        }
        return ret;
    };
    let ret = real();
    let done = call.end();
    let outcome = crate::calls::meaning::outcome(ret as i64);
    let flags = Waker::SHARED | if is_taken { Waker::BY_TAKER } else { 0 };
    let told = Waker { flags, ..Waker::default() }.pack();
    let _ = counters::at_post();
    done.record(op, number::NONE, -1, (id as i64, true), told, outcome);
    ret
}

/// Handles a post that another thread waits for. A thread that only works never waits itself; its posts are where its
/// results are delivered. A post is an event only if it comes with counters.
#[cold]
#[inline(never)]
pub fn posted(op: Op, object: usize) {
    if counters::at_post() {
        let done = Done { start: clock::ticks(), duration: 0 };
        done.record(op, number::NONE, -1, (object as i64, true), Waker::default().pack(), 0);
    }
}

/// Returns `true` if a call is too short to be recorded, by the limit here or the user's.
fn is_left_out(ticks: u64) -> bool {
    is_short(ticks) || ticks < SWITCHES.min_ticks.load(Relaxed)
}

/// Records a call that waited for descriptors and found `fd` ready; -1 if none was ready.
pub fn waited_for(done: Done, op: Op, fd: i32, a: i64, b: i64, outcome: i64) {
    if is_short(done.duration) {
        return header_page::count_filtered();
    }
    // A filter excludes files, but not the time spent waiting for them.
    let file = match descriptor_files::file(fd) {
        number::FILTERED => number::NONE,
        file => file,
    };
    record(done, op, (file, fd), a, b, outcome);
}

/// Records a call that entered the kernel for a ring of requests and was long enough to have blocked: it waited for
/// requests, or executed them. `file` is that of the last one that has ended.
pub fn waited_for_requests(done: Done, (file, fd): (u32, i32), ended: i64, outcome: i64) {
    if is_left_out(done.duration) {
        return header_page::count_filtered();
    }
    record(done, Op::URING_ENTER, (file, fd), ended, 0, outcome);
}

/// Returns `true` if a call was too short to have blocked.
pub fn is_short(ticks: u64) -> bool {
    let known = SHORT_TICKS.load(Relaxed);
    ticks < if known != 0 { known } else { short_ticks() }
}

#[cold]
fn short_ticks() -> u64 {
    let ticks = if config::get().short_waits { 1 } else { clock::ten_us() };
    if config::get().short_waits || clock::knows_ten_us() {
        SHORT_TICKS.store(ticks, Relaxed);
    }
    ticks
}
