//! The kernel's counts of a thread between two waits: CPU time, faults, switches, and time without a processor.
//!
//! The kernel's numbers only grow. The previous ones are stored with the thread, and each reading returns the
//! differences. A new thread starts with zeros, here and in the kernel, and so does the one thread of a forked child.
//! The first counters include everything since that start, even the run of a previous program: reading at the start
//! would cost every short-lived process a system call.
//!
//! | source | when | ns, immediately and after a sleep |
//! |---|---|---|
//! | `getrusage(RUSAGE_THREAD)` | always | 130, 1,000 |
//! | `clock_gettime(CLOCK_THREAD_CPUTIME_ID)` | if the thread has not just slept: the CPU time above is that of the last switch or tick | 170, 1,300 |
//! | `/proc/thread-self/schedstat`: open, read, close | after long waits, at most a hundred times a second | 1,400, 16,000 |
//!
//! A descriptor per thread that stays open would take 260 and 4,900 ns, but the program could notice it.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::*};

use dlio_schemas::evidence::Counters;

use crate::kernel::{clock, sys};

/// The kernel's numbers at the last reading. Zeros in a new thread.
#[repr(C)]
pub struct Evidence {
    /// Time of that reading in ticks.
    taken: u64,
    cpu_us: u64,
    delay_ns: u64,
    /// Time of the last reading of the run delay.
    delay_taken: u64,
    major_faults: u32,
    minor_faults: u32,
    voluntary: u32,
    involuntary: u32,
    /// A bitmap, by some bits of the number, of descriptors that carry no messages, and [`IS_USED`]; and the time
    /// since which it is filled.
    marks: u64,
    looked: u64,
}

/// Set once counters were returned.
const IS_USED: u64 = 1 << 63;

/// How precisely counters are read.
#[derive(Clone, Copy)]
pub struct Precision {
    /// Read the exact CPU time: the thread may not have slept for long.
    pub exact_cpu: bool,
    pub run_delay: bool,
}

impl Evidence {
    pub const NONE: Evidence = Evidence {
        taken: 0,
        cpu_us: 0,
        delay_ns: 0,
        delay_taken: 0,
        major_faults: 0,
        minor_faults: 0,
        voluntary: 0,
        involuntary: 0,
        marks: 0,
        looked: 0,
    };

    /// Returns `true` if counters of this thread were returned before.
    ///
    /// # Safety
    /// `this` belongs to the calling thread.
    pub unsafe fn is_used(this: *const Evidence) -> bool {
        // SAFETY: by the contract above.
        unsafe { (*this).marks & IS_USED != 0 }
    }

    /// Returns the ticks since the last counters, or since tracing of the process started.
    ///
    /// # Safety
    /// `this` belongs to the calling thread.
    pub unsafe fn age(this: *const Evidence, now: u64) -> u64 {
        // SAFETY: by the contract above.
        now.saturating_sub(unsafe { (*this).taken }.max(clock::started()))
    }

    /// Returns the differences since the last reading. `None` if the kernel does not provide them.
    ///
    /// # Safety
    /// `this` belongs to the calling thread. A signal handler may come in between and take a part.
    pub unsafe fn take(this: *mut Evidence, now: u64, care: Precision) -> Option<Counters> {
        let usage = sys::thread_usage()?;
        let us = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
        let exact = if care.exact_cpu { sys::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) / 1000 } else { 0 };
        let cpu_us = exact.max(us(usage.ru_utime) + us(usage.ru_stime));
        let delay = if care.run_delay { run_delay_ns() } else { None };
        // SAFETY: by the contract above.
        let kept = unsafe { &mut *this };
        let since =
            |kept: &mut u32, now: i64| now.wrapping_sub(std::mem::replace(kept, now as u32) as i64) as u32 as u64;
        let counters = Counters {
            // The exact clock may have been ahead of the other one.
            cpu_us: cpu_us.saturating_sub(kept.cpu_us),
            major_faults: since(&mut kept.major_faults, usage.ru_majflt),
            minor_faults: since(&mut kept.minor_faults, usage.ru_minflt),
            run_delay_us: delay.map(|ns| kept.delay_since(ns, now)),
            voluntary: since(&mut kept.voluntary, usage.ru_nvcsw),
            involuntary: since(&mut kept.involuntary, usage.ru_nivcsw),
        };
        kept.cpu_us = kept.cpu_us.max(cpu_us);
        kept.taken = now;
        kept.marks |= IS_USED;
        Some(counters)
    }

    fn delay_since(&mut self, ns: u64, now: u64) -> u64 {
        self.delay_taken = now;
        ns.saturating_sub(std::mem::replace(&mut self.delay_ns, ns)) / 1000
    }

    /// Returns the ticks since the run delay was read.
    ///
    /// # Safety
    /// `this` belongs to the calling thread.
    pub unsafe fn age_of_delay(this: *const Evidence, now: u64) -> u64 {
        // SAFETY: by the contract above.
        now.saturating_sub(unsafe { (*this).delay_taken })
    }

    /// Returns `true` if a descriptor was found to carry no messages less than `ticks` ago.
    ///
    /// # Safety
    /// `this` belongs to the calling thread.
    pub unsafe fn is_silent(this: *const Evidence, fd: i32, now: u64, ticks: u64) -> bool {
        // SAFETY: by the contract above.
        unsafe { (*this).marks & bit(fd) != 0 && now.saturating_sub((*this).looked) < ticks }
    }

    /// Notes that a descriptor carries no messages, for `ticks` ticks.
    ///
    /// # Safety
    /// `this` belongs to the calling thread.
    pub unsafe fn note_silent(this: *mut Evidence, fd: i32, now: u64, ticks: u64) {
        // SAFETY: by the contract above.
        unsafe {
            if now.saturating_sub((*this).looked) >= ticks {
                (*this).marks &= IS_USED;
                (*this).looked = now;
            }
            (*this).marks |= bit(fd);
        }
    }
}

fn bit(fd: i32) -> u64 {
    1 << (fd as u32 % IS_USED.trailing_zeros())
}

/// Set if the kernel does not provide the run delay, or must not be queried.
static IS_UNREADABLE: AtomicBool = AtomicBool::new(false);

/// Descriptors, plus one, that are open now: a child that another thread forks in the meantime closes them.
static OPEN: [AtomicI32; 8] = [const { AtomicI32::new(0) }; 8];

const SCHEDSTAT: &std::ffi::CStr = c"/proc/thread-self/schedstat";

/// Returns the time that this thread was runnable without a processor.
fn run_delay_ns() -> Option<u64> {
    if IS_UNREADABLE.load(Relaxed) {
        return None;
    }
    let mut text = [0; 96];
    let fd = sys::open(SCHEDSTAT, libc::O_RDONLY) as i32;
    // Descriptors may have run out temporarily.
    if [-libc::EMFILE, -libc::ENFILE].contains(&fd) {
        return None;
    }
    if fd >= 0 {
        let place = OPEN.iter().find(|place| place.compare_exchange(0, fd + 1, Relaxed, Relaxed).is_ok());
        sys::read_at(fd, &mut text, 0);
        // Before another thread can reuse the number.
        place.into_iter().for_each(|place| place.store(0, Relaxed));
        sys::close(fd);
    }
    let found = run_delay_of(&text);
    IS_UNREADABLE.fetch_or(found.is_none(), Relaxed);
    found
}

/// Returns the second of three numbers. A kernel that does not count reports zeros.
fn run_delay_of(text: &[u8]) -> Option<u64> {
    let mut numbers = text.split(|byte| !byte.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let mut number =
        || numbers.next()?.iter().try_fold(0u64, |sum, digit| sum.checked_mul(10)?.checked_add((digit - b'0') as u64));
    let (ran, waited) = (number()?, number()?);
    (ran > 0).then_some(waited)
}

/// Closes, in a forked child, the descriptors that other threads of the parent had open during the fork.
pub fn close_inherited() {
    for place in &OPEN {
        let fd = place.load(Relaxed) - 1;
        if fd < 0 {
            continue;
        }
        place.store(0, Relaxed);
        if sys::read_link(sys::descriptor_link(fd, &mut [0; 32]), &mut [0; 64]).ends_with(b"/schedstat") {
            sys::close(fd);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_between_waits_is_counted_without_sleep() {
        let mut evidence = Evidence::NONE;
        let exact = Precision { exact_cpu: true, run_delay: true };
        // SAFETY: evidence of this thread's own.
        let mut take = || unsafe { Evidence::take(&mut evidence, 1, exact) }.unwrap();
        take();
        let began = sys::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
        while sys::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) < began + 30_000_000 {}
        let worked = take();
        assert!((29_000..40_000).contains(&worked.cpu_us), "{worked:?}");
        std::thread::sleep(std::time::Duration::from_millis(20));
        let slept = take();
        assert!(slept.cpu_us < 5_000 && slept.voluntary >= 1, "{slept:?}");
    }

    #[test]
    fn the_delay_is_the_second_number() {
        assert_eq!(run_delay_of(b"123456 789 12\n\0\0"), Some(789));
        assert_eq!(run_delay_of(b"0 0 0\n"), None);
        assert_eq!(run_delay_of(b""), None);
        assert_eq!(run_delay_of(b"12"), None);
    }

    #[test]
    fn run_delay_counts_since_the_last_reading() {
        let mut evidence = Evidence::NONE;
        assert_eq!((evidence.delay_since(5_000_000, 1), evidence.delay_since(7_000_000, 2)), (5000, 2000));
    }

    #[test]
    fn disagreeing_clocks_count_nothing_negative() {
        let mut evidence = Evidence { cpu_us: u64::MAX, ..Evidence::NONE };
        // SAFETY: evidence of this thread's own.
        let counters =
            unsafe { Evidence::take(&mut evidence, 1, Precision { exact_cpu: false, run_delay: false }) }.unwrap();
        assert_eq!((counters.cpu_us, counters.run_delay_us, evidence.cpu_us), (0, None, u64::MAX));
    }
}
