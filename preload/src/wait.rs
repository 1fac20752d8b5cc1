//! Calls that block: on descriptors, children, time, signals, threads.
//!
//! They are hooked by the names that programs call; the C library's internal calls bypass the hooks. Most are
//! cancellation points, and some threads are cancelled inside the real call, when the hook has nothing to undo.

use std::ffi::{c_int, c_short, c_uint, c_ulong, c_void};

use dlio_tracer::calls::call::Done;
use dlio_tracer::calls::meaning::outcome;
use dlio_tracer::calls::network::accepted;
use dlio_tracer::calls::waits::{
    is_short, waited, waited_at_barrier, waited_for, waited_for_child, waited_for_condition, waited_for_semaphore,
};
use dlio_tracer::evidence::{Child, ChildEnd};
use dlio_tracer::known::wakers;
use dlio_tracer::ops::Op;
use libc::{WEXITSTATUS, WIFEXITED, WIFSIGNALED, WTERMSIG};
use libc::{clockid_t, fd_set, pid_t, pollfd, siginfo_t, sigset_t, size_t, timespec, timeval};

use crate::rows;

type Set = *mut fd_set;
type Time = *const timespec;

/// Records a call that returns -1 and sets errno.
fn on_nothing(done: Done, op: Op, a: i64, b: i64, ret: i64) {
    waited(done, op, -1, a, b, outcome(ret));
}

/// A call that returns the process id of a child whose state has changed.
///
/// # Safety
/// The real call, which has just returned `ret`, was given the pointer.
unsafe fn collected(done: Done, op: Op, ret: pid_t, status: *const c_int, options: c_int) {
    let mut child = Child { pid: ret.max(0) as u32, ended: None };
    if ret > 0 && !status.is_null() {
        // SAFETY: the real call has written it.
        let status = unsafe { *status };
        child.ended = match status {
            _ if WIFEXITED(status) => Some(ChildEnd::Exit(WEXITSTATUS(status) as u8)),
            _ if WIFSIGNALED(status) => Some(ChildEnd::Signal(WTERMSIG(status) as u8)),
            _ => None,
        };
    }
    waited_for_child(done, op, child, options as i64, outcome(ret as i64));
}

/// As [`collected`], for the call that fills a `siginfo_t`.
///
/// # Safety
/// As [`collected`].
unsafe fn collected_with_info(done: Done, ret: c_int, info: *const siginfo_t, options: c_int) {
    let mut child = Child::default();
    if ret == 0 && !info.is_null() {
        // SAFETY: the real call has filled it: with zeros if no child has changed its state.
        let (code, pid, status) = unsafe { ((*info).si_code, (*info).si_pid(), (*info).si_status()) };
        child.pid = pid.max(0) as u32;
        child.ended = match code {
            libc::CLD_EXITED => Some(ChildEnd::Exit(status as u8)),
            libc::CLD_KILLED | libc::CLD_DUMPED => Some(ChildEnd::Signal(status as u8)),
            _ => None,
        };
    }
    waited_for_child(done, Op::WAITID, child, options as i64, outcome(ret as i64));
}

/// Records a call that returns the error number itself.
fn of_thread(done: Done, op: Op, error: c_int) {
    waited(done, op, -1, 0, 0, -error as i64);
}

/// Records a wait for a list of descriptors with the first one found ready, or the only one in the list; otherwise
/// -1.
///
/// # Safety
/// The real call, which has just returned `ret`, was given the list.
unsafe fn polled(done: Done, op: Op, list: *const pollfd, count: c_ulong, ret: c_int) {
    let is_readable = ret > 0 || ret == 0 && count == 1;
    let is_long = is_readable && !is_short(done.duration);
    // SAFETY: the real call has filled it.
    let list = if is_long { unsafe { std::slice::from_raw_parts(list, count as usize) } } else { &[] };
    let ready = list.iter().find(|entry| entry.revents != 0 || count == 1).map_or(-1, |entry| entry.fd);
    waited_for(done, op, ready, count as i64, 0, outcome(ret as i64));
}

/// Records a wait like [`polled`]: a set has a bit for each descriptor, and may be longer than its type.
///
/// # Safety
/// The real call, which has just returned `ret`, was given the sets.
unsafe fn selected(done: Done, op: Op, count: c_int, sets: [Set; 3], ret: c_int) {
    const BITS: usize = c_ulong::BITS as usize;
    let is_long = ret > 0 && !is_short(done.duration);
    let words = if is_long { (count.max(0) as usize).div_ceil(BITS) } else { 0 };
    let ready = sets.into_iter().filter(|set| !set.is_null()).find_map(|set| {
        // SAFETY: the real call has filled each of them up to `count`.
        let words = unsafe { std::slice::from_raw_parts(set.cast::<c_ulong>(), words) };
        let at = words.iter().position(|word| *word != 0)?;
        Some(at * BITS + words[at].trailing_zeros() as usize)
    });
    waited_for(done, op, ready.map_or(-1, |fd| fd as c_int), count as i64, 0, outcome(ret as i64));
}

// ---- descriptors ----------------------------------------------------------------------------------------------------

rows! { Wait
    [poll __poll] (list: *mut pollfd, count: c_ulong, timeout: c_int) -> c_int; {
        |done, ret| polled(done, Op::POLL, list, count, ret)
    }
    [__poll_chk] (list: *mut pollfd, count: c_ulong, timeout: c_int, room: size_t) -> c_int; {
        |done, ret| polled(done, Op::POLL, list, count, ret)
    }
    [ppoll] (list: *mut pollfd, count: c_ulong, timeout: Time, mask: *const sigset_t) -> c_int; {
        |done, ret| polled(done, Op::PPOLL, list, count, ret)
    }
    [__ppoll_chk] (list: *mut pollfd, count: c_ulong, timeout: Time, mask: *const sigset_t, room: size_t) -> c_int; {
        |done, ret| polled(done, Op::PPOLL, list, count, ret)
    }
    [select __select] (count: c_int, readable: Set, writable: Set, other: Set, timeout: *mut timeval) -> c_int; {
        |done, ret| selected(done, Op::SELECT, count, [readable, writable, other], ret)
    }
    [pselect] (count: c_int, readable: Set, writable: Set, other: Set, timeout: Time, mask: *const sigset_t) -> c_int; {
        |done, ret| selected(done, Op::PSELECT, count, [readable, writable, other], ret)
    }
    [epoll_wait] (fd: c_int, events: *mut c_void, count: c_int, timeout: c_int) -> c_int; {
        |done, ret| waited(done, Op::EPOLL_WAIT, fd, count as i64, 0, outcome(ret as i64))
    }
    [epoll_pwait] (fd: c_int, events: *mut c_void, count: c_int, timeout: c_int, mask: *const sigset_t) -> c_int; {
        |done, ret| waited(done, Op::EPOLL_PWAIT, fd, count as i64, 0, outcome(ret as i64))
    }
    [epoll_pwait2] (fd: c_int, events: *mut c_void, count: c_int, timeout: Time, mask: *const sigset_t) -> c_int; {
        |done, ret| waited(done, Op::EPOLL_PWAIT, fd, count as i64, 0, outcome(ret as i64))
    }
    [accept] (fd: c_int, address: *mut c_void, length: *mut c_uint) -> c_int; {
        |done, ret| accepted(done, Op::ACCEPT, fd, 0, ret)
    }
    [accept4] (fd: c_int, address: *mut c_void, length: *mut c_uint, flags: c_int) -> c_int; {
        |done, ret| accepted(done, Op::ACCEPT4, fd, flags as i64, ret)
    }
}

// ---- children ---------------------------------------------------------------------------------------------------------

rows! { Wait
    [wait __wait] (status: *mut c_int) -> pid_t; {
        |done, ret| collected(done, Op::WAIT, ret, status, 0)
    }
    [waitpid __waitpid] (child: pid_t, status: *mut c_int, options: c_int) -> pid_t; {
        |done, ret| collected(done, Op::WAITPID, ret, status, options)
    }
    [waitid] (kind: c_uint, id: c_uint, info: *mut c_void, options: c_int) -> c_int; {
        |done, ret| collected_with_info(done, ret, info.cast(), options)
    }
    [wait3] (status: *mut c_int, options: c_int, usage: *mut c_void) -> pid_t; {
        |done, ret| collected(done, Op::WAIT3, ret, status, options)
    }
    [wait4] (child: pid_t, status: *mut c_int, options: c_int, usage: *mut c_void) -> pid_t; {
        |done, ret| collected(done, Op::WAIT4, ret, status, options)
    }
}

// ---- time and signals -------------------------------------------------------------------------------------------------

rows! { Wait
    // The remaining time.
    [sleep] (seconds: c_uint) -> c_uint; {
        |done, ret| waited(done, Op::SLEEP, -1, seconds as i64, 0, ret as i64)
    }
    [usleep] (microseconds: c_uint) -> c_int; {
        |done, ret| on_nothing(done, Op::USLEEP, microseconds as i64, 0, ret as i64)
    }
    [nanosleep __nanosleep] (time: Time, left: *mut timespec) -> c_int; {
        |done, ret| on_nothing(done, Op::NANOSLEEP, 0, 0, ret as i64)
    }
    [clock_nanosleep] (clock: clockid_t, flags: c_int, time: Time, left: *mut timespec) -> c_int; {
        |done, error| waited(done, Op::CLOCK_NANOSLEEP, -1, clock as i64, flags as i64, -error as i64)
    }
    [pause] () -> c_int; {
        |done, ret| on_nothing(done, Op::PAUSE, 0, 0, ret as i64)
    }
    [sigsuspend] (mask: *const sigset_t) -> c_int; {
        |done, ret| on_nothing(done, Op::SIGSUSPEND, 0, 0, ret as i64)
    }
    [sigwait] (set: *const sigset_t, signal: *mut c_int) -> c_int; {
        |done, error| of_thread(done, Op::SIGWAIT, error)
    }
    [sigwaitinfo] (set: *const sigset_t, info: *mut c_void) -> c_int; {
        |done, ret| on_nothing(done, Op::SIGWAITINFO, 0, 0, ret as i64)
    }
    [sigtimedwait] (set: *const sigset_t, info: *mut c_void, timeout: Time) -> c_int; {
        |done, ret| on_nothing(done, Op::SIGTIMEDWAIT, 0, 0, ret as i64)
    }
}

// ---- threads ----------------------------------------------------------------------------------------------------------

rows! { Wait
    [pthread_cond_wait] (condition: *mut c_void, mutex: *mut c_void) -> c_int; {
        with waiting = wakers::wait(condition.addr());
        |done, error| waited_for_condition(done, Op::PTHREAD_COND_WAIT, waiting, -error as i64)
    }
    [pthread_cond_timedwait] (condition: *mut c_void, mutex: *mut c_void, until: Time) -> c_int; {
        with waiting = wakers::wait(condition.addr());
        |done, error| waited_for_condition(done, Op::PTHREAD_COND_TIMEDWAIT, waiting, -error as i64)
    }
    [pthread_cond_clockwait] (condition: *mut c_void, mutex: *mut c_void, clock: clockid_t, until: Time) -> c_int; {
        with waiting = wakers::wait(condition.addr());
        |done, error| waited_for_condition(done, Op::PTHREAD_COND_CLOCKWAIT, waiting, -error as i64)
    }
    [pthread_join] (thread: c_ulong, result: *mut *mut c_void) -> c_int; {
        |done, error| of_thread(done, Op::PTHREAD_JOIN, error)
    }
    [pthread_timedjoin_np] (thread: c_ulong, result: *mut *mut c_void, until: Time) -> c_int; {
        |done, error| of_thread(done, Op::PTHREAD_TIMEDJOIN, error)
    }
    [pthread_clockjoin_np] (thread: c_ulong, result: *mut *mut c_void, clock: clockid_t, until: Time) -> c_int; {
        |done, error| of_thread(done, Op::PTHREAD_CLOCKJOIN, error)
    }
    // One of the threads gets -1, which is not an error.
    [pthread_barrier_wait] (barrier: *mut c_void) -> c_int; {
        with waiting = wakers::arrive(barrier.addr());
        |done, error| waited_at_barrier(done, waiting, error)
    }
    [sem_wait] (semaphore: *mut c_void) -> c_int; {
        with waiting = wakers::wait(semaphore.addr());
        |done, ret| waited_for_semaphore(done, Op::SEM_WAIT, waiting, outcome(ret as i64))
    }
    [sem_timedwait] (semaphore: *mut c_void, until: Time) -> c_int; {
        with waiting = wakers::wait(semaphore.addr());
        |done, ret| waited_for_semaphore(done, Op::SEM_TIMEDWAIT, waiting, outcome(ret as i64))
    }
    [sem_clockwait] (semaphore: *mut c_void, clock: clockid_t, until: Time) -> c_int; {
        with waiting = wakers::wait(semaphore.addr());
        |done, ret| waited_for_semaphore(done, Op::SEM_CLOCKWAIT, waiting, outcome(ret as i64))
    }
    [semop] (set: c_int, list: *mut [c_short; 3], count: size_t) -> c_int; {
        |done, ret| on_nothing(done, Op::SEMOP, count as i64, 0, ret as i64)
    }
    [semtimedop] (set: c_int, list: *mut [c_short; 3], count: size_t, timeout: Time) -> c_int; {
        |done, ret| on_nothing(done, Op::SEMTIMEDOP, count as i64, 0, ret as i64)
    }
    // Separate numbers, not those of errno.
    [cnd_wait] (condition: *mut c_void, mutex: *mut c_void) -> c_int; {
        with waiting = wakers::wait(condition.addr());
        |done, ret| waited_for_condition(done, Op::CND_WAIT, waiting, ret as i64)
    }
    [cnd_timedwait] (condition: *mut c_void, mutex: *mut c_void, until: Time) -> c_int; {
        with waiting = wakers::wait(condition.addr());
        |done, ret| waited_for_condition(done, Op::CND_TIMEDWAIT, waiting, ret as i64)
    }
    [thrd_join] (thread: c_ulong, result: *mut c_int) -> c_int; {
        |done, ret| waited(done, Op::THRD_JOIN, -1, 0, 0, ret as i64)
    }
    [thrd_sleep] (time: Time, left: *mut timespec) -> c_int; {
        |done, ret| waited(done, Op::THRD_SLEEP, -1, 0, 0, ret.into())
    }
}
