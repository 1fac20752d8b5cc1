//! Calls that wait for others: which of them are worth an event, and the evidence of what they waited for.
//!
//! `sem_wait` on a semaphore that is free and `poll` without a timeout did not wait. There are a hundred of them for one
//! that did, and they say nothing about where the time went: they are counted as left out and not recorded. What tells
//! them apart is the time they took, so that nothing has to be asked before the real call.
//!
//! Before a wait stands what its thread did since the last one ([`counters`]). In a wait for an object stands the thread that
//! posted ([`wakers`]), or the id of a semaphore that processes share ([`semaphores`]): who posts to that is an event.

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

/// In ticks; zero while nobody knows how many that are. A thread that sleeps and is woken at once takes about ten microseconds;
/// a call that finds what it came for, a tenth of it.
static SHORT_TICKS: AtomicU64 = AtomicU64::new(0);

/// Records a call that waited; `outcome` is its result as the operation's row has it.
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

/// Records a wait for a semaphore. A time that ran out was ended by nobody.
pub fn waited_for_semaphore(done: Done, op: Op, waiting: Waiting, outcome: i64) {
    waited_for_object(done, op, waiting, outcome, if outcome == 0 { Ended::Took } else { Ended::ByNobody });
}

/// Records a wait for a condition.
pub fn waited_for_condition(done: Done, op: Op, waiting: Waiting, outcome: i64) {
    waited_for_object(done, op, waiting, outcome, if outcome == 0 { Ended::Woken } else { Ended::ByNobody });
}

/// Records a wait at a barrier. The last thread to arrive is told -1, which is no error: it waited for nobody.
pub fn waited_at_barrier(done: Done, waiting: Waiting, error: i32) {
    let ended = if error == 0 { Ended::AllArrived } else { Ended::ByNobody };
    waited_for_object(done, Op::PTHREAD_BARRIER_WAIT, waiting, -error.max(0) as i64, ended);
}

/// How a wait for an object ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Took,
    Woken,
    AllArrived,
    ByNobody,
}

#[inline]
fn waited_for_object(done: Done, op: Op, waiting: Waiting, outcome: i64, ended: Ended) {
    if is_left_out(done.duration) {
        waiting.over(ended == Ended::Took);
        return header_page::count_filtered();
    }
    let end = done.start.wrapping_add(done.duration);
    let mut waker = if ended == Ended::ByNobody { Waker::default() } else { waiting.waker(end) };
    waiting.over(ended == Ended::Took);
    if ended == Ended::AllArrived && waker.tid != 0 {
        // All the others have posted, one after another, and the last of them it was.
        waker.flags &= !Waker::SEVERAL;
    }
    let object = object_of(waiting.object, &mut waker);
    record(done, op, (number::NONE, -1), object, waker.pack(), outcome);
}

/// The id of a semaphore that processes share, else its address.
fn object_of(address: usize, waker: &mut Waker) -> i64 {
    match semaphores::id(address) {
        Some(id) => {
            waker.flags |= Waker::SHARED;
            id as i64
        }
        None => address as i64,
    }
}

/// A wait and what its thread did before.
fn record(done: Done, op: Op, (file, fd): (u32, i32), a: i64, b: i64, outcome: i64) {
    counters::at_wait(done.start.wrapping_add(done.duration), done.duration);
    done.record(op, file, fd, (a, true), b, outcome);
}

/// Posts to a semaphore that processes share, by the real function: an event, because who waits may be in another one.
#[cold]
#[inline(never)]
pub fn post_shared(address: usize, real: impl FnOnce() -> i32) -> i32 {
    let is_taken = wakers::is_taken_by_caller(address);
    let is_awaited = wakers::post(address);
    let call = semaphores::id(address).and_then(|id| Some((id, call::begin(Layer::Wait)?)));
    let Some((id, call)) = call else {
        let ret = real();
        if is_awaited {
            posted(Op::SEM_POST, address);
        }
        return ret;
    };
    let ret = real();
    let done = call.end();
    let outcome = crate::calls::meaning::outcome(ret as i64);
    let flags = Waker::SHARED | if is_taken { Waker::BY_TAKER } else { 0 };
    let told = Waker { flags, ..Waker::default() }.pack();
    let _ = counters::at_post();
    done.record(Op::SEM_POST, number::NONE, -1, (id as i64, true), told, outcome);
    ret
}

/// After a post that somebody waits for: a thread that always works hands over what it made, and may never wait itself. It is an
/// event where counters come with it.
#[cold]
#[inline(never)]
pub fn posted(op: Op, object: usize) {
    if counters::at_post() {
        let done = Done { start: clock::ticks(), duration: 0 };
        done.record(op, number::NONE, -1, (object as i64, true), Waker::default().pack(), 0);
    }
}

/// True of what is too short to be recorded, here or by the user's wish.
fn is_left_out(ticks: u64) -> bool {
    is_short(ticks) || ticks < SWITCHES.min_ticks.load(Relaxed)
}

/// Records a call that waited for descriptors and found `fd` ready; -1 where it found none.
pub fn waited_for(done: Done, op: Op, fd: i32, a: i64, b: i64, outcome: i64) {
    if is_short(done.duration) {
        return header_page::count_filtered();
    }
    // A filter leaves files out, not the time that is waited for them.
    let file = match descriptor_files::file(fd) {
        number::FILTERED => number::NONE,
        file => file,
    };
    record(done, op, (file, fd), a, b, outcome);
}

/// True for a call that took too little time to have waited.
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
