//! The calls of the operating system that the standard library has no words for. Every `unsafe` here is one libc call.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// When the first request to stop came, in milliseconds of the monotonic clock; 0 before.
static STOP_ASKED: AtomicI64 = AtomicI64::new(0);

/// One request may come twice: `timeout` signals a process and then its group, and whoever stands in front hands on what
/// the whole group got. No hand presses Ctrl-C again this fast.
const SAME_REQUEST_MS: i64 = 500;

extern "C" fn note_signal(signal: libc::c_int) {
    let now = monotonic_millis();
    let first = STOP_ASKED.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
    if first.is_err_and(|first| now - first > SAME_REQUEST_MS) {
        // The second time the user means it: no clean-up that could hang.
        // SAFETY: `_exit` is safe in a signal handler and does not return.
        unsafe { libc::_exit(128 + signal) };
    }
}

fn monotonic_millis() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the one timespec it is given; safe in a signal handler.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec * 1000 + now.tv_nsec / 1_000_000
}

/// From now on Ctrl-C, termination and the end of the terminal are noted and the run ends at its next step; a second one
/// ends it at once.
pub fn note_interrupts() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // Under `nohup` the end of the terminal is nothing to us.
        if signal != libc::SIGHUP || !is_ignored(signal) {
            set_handler(signal, note_signal as extern "C" fn(libc::c_int) as libc::sighandler_t, 0);
        }
    }
}

/// For loader workers: a terminal sends Ctrl-C to all, but their end is the trainer's decision.
pub fn leave_interrupts_to_parent() {
    set_handler(libc::SIGINT, libc::SIG_IGN, 0);
}

static IN_FRONT: AtomicI32 = AtomicI32::new(0);
/// What came before the command was there, a bit a signal.
static EARLY: AtomicU64 = AtomicU64::new(0);

const HANDED_ON: [libc::c_int; 6] =
    [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];

extern "C" fn hand_on(signal: libc::c_int, about: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the kernel gives the handler a siginfo of its own. Who sent it is only asked for where a
    // process did.
    let (code, sender) = unsafe { ((*about).si_code, (*about).si_pid()) };
    let child = IN_FRONT.load(Ordering::Relaxed);
    // A terminal's signals come from the kernel and go to the whole group in front: the command has its own.
    if code == libc::SI_KERNEL || (code <= 0 && child > 0 && sender == child) {
        return;
    }
    match child {
        0 => drop(EARLY.fetch_or(1 << signal, Ordering::Relaxed)),
        child => tell(child, signal),
    }
}

fn tell(child: libc::pid_t, signal: libc::c_int) {
    // SAFETY: `kill` is safe in a signal handler.
    unsafe { libc::kill(child, signal) };
}

/// Runs a command as if it stood in our place: a signal sent to us is handed on to it, one that a terminal sends to both
/// is outlasted. Handlers, unlike "ignore", are not inherited: the command sees the signals it would see without us.
pub fn run_in_front(command: &mut Command) -> io::Result<ExitStatus> {
    let listen = |signal| {
        let handler = hand_on as extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
        set_handler(signal, handler as libc::sighandler_t, libc::SA_SIGINFO);
    };
    HANDED_ON.into_iter().filter(|signal| !is_ignored(*signal)).for_each(listen);
    let mut child = command.spawn()?;
    // What was ignored is ignored by the command too, unless it changes that: now it may have it as well.
    HANDED_ON.into_iter().for_each(listen);
    let id = child.id() as libc::pid_t;
    IN_FRONT.store(id, Ordering::Relaxed);
    let early = EARLY.swap(0, Ordering::Relaxed);
    HANDED_ON.into_iter().filter(|signal| early >> signal & 1 == 1).for_each(|signal| tell(id, signal));
    let status = child.wait();
    IN_FRONT.store(0, Ordering::Relaxed);
    status
}

/// The command is told to end when we do, even by a kill that leaves us no time to tell it.
pub fn ends_with_us(command: &mut Command) {
    let us = std::process::id();
    // SAFETY: between fork and exec only two system calls are made, and nothing is allocated.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            // Had we ended before that, nobody would tell it any more.
            if libc::getppid() as u32 == us { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
        });
    }
}

fn set_handler(signal: libc::c_int, handler: libc::sighandler_t, flags: libc::c_int) {
    // SAFETY: a zeroed sigaction is a valid one; no SA_RESTART, so that waits end when a signal comes.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}

fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: without a new action the old one is only written; a zeroed sigaction is valid to be overwritten.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action);
        action.sa_sigaction == libc::SIG_IGN
    }
}

pub fn interrupted() -> bool {
    STOP_ASKED.load(Ordering::Relaxed) != 0
}

/// Sleeps to a deadline on the monotonic clock; comes back early when interrupted.
pub fn sleep(duration: Duration) {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the one timespec it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    let nanos = now.tv_nsec + i64::from(duration.subsec_nanos());
    let until = libc::timespec {
        tv_sec: now.tv_sec + duration.as_secs() as i64 + nanos / 1_000_000_000,
        tv_nsec: nanos % 1_000_000_000,
    };
    // SAFETY: reads the one timespec it is given; the remainder is not asked for with an absolute time.
    let wait =
        || unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &until, std::ptr::null_mut()) };
    while wait() == libc::EINTR && !interrupted() {}
}

/// Forks. `work` runs in the child, which then exits with its result; the parent gets the child's id.
///
/// Only for a process with one thread: the child has no other, and a lock held by one would stay locked for ever.
pub fn fork(work: impl FnOnce() -> i32) -> io::Result<libc::pid_t> {
    // SAFETY: the callers are single-threaded at this point (workers are made before any thread of ours), so the
    // child's memory is consistent. It ends in `exit` and never returns into the parent's frames.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: a plain flag of this process: it ends when its parent does, however the parent ends.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) };
            std::process::exit(work())
        }
        child => Ok(child),
    }
}

/// Waits for a child; its exit code, or 128 and the signal that ended it.
pub fn wait(child: libc::pid_t) -> i32 {
    let mut status = 0;
    loop {
        // SAFETY: writes the one integer it is given.
        let waited = unsafe { libc::waitpid(child, &mut status, 0) };
        if waited == child {
            break;
        }
        if waited < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return 0;
        }
    }
    if libc::WIFSIGNALED(status) { 128 + libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) }
}

/// Waits until the file can be read without blocking, at most so long. Whether it can.
pub fn readable_within(file: &impl AsRawFd, limit: Duration) -> bool {
    let mut poll = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one pollfd, as the count says.
    unsafe { libc::poll(&mut poll, 1, limit.as_millis() as libc::c_int) > 0 }
}

/// Bytes an unprivileged user may still write to the file system that holds `path`.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
    // SAFETY: the name ends in a zero byte and lives through the call; a zeroed statvfs is valid to be overwritten.
    unsafe {
        let mut stats: libc::statvfs = std::mem::zeroed();
        match libc::statvfs(name.as_ptr(), &mut stats) {
            0 => Ok(stats.f_bavail * stats.f_frsize),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Asks the kernel to forget the file's pages. Dirty ones stay, so they are written first.
pub fn forget_pages(file: &File) -> io::Result<()> {
    file.sync_data()?;
    // SAFETY: a hint about an open descriptor.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Drops the page cache of the whole machine; only root may.
pub fn drop_page_cache() -> io::Result<()> {
    // SAFETY: no arguments, no memory.
    unsafe { libc::sync() };
    std::fs::write("/proc/sys/vm/drop_caches", "3")
}

/// Numbers that several processes add to.
pub struct SharedCounter(*const AtomicU64);

// SAFETY: the pointer is to a mapping that lives as long as the value, and an atomic may be used from everywhere.
unsafe impl Sync for SharedCounter {}

impl SharedCounter {
    pub fn new() -> io::Result<SharedCounter> {
        // SAFETY: a new anonymous mapping of one page overlaps nothing; it is zeroed, which is a valid atomic.
        let raw = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), 4096, access, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0)
        };
        if raw == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(SharedCounter(raw.cast())) }
    }

    /// The number before.
    pub fn add(&self, number: u64) -> u64 {
        // SAFETY: the mapping is alive, aligned to a page, and holds an atomic.
        unsafe { &*self.0 }.fetch_add(number, Ordering::Relaxed)
    }
}

impl Drop for SharedCounter {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length; no reference outlives `add`.
        unsafe { libc::munmap(self.0.cast_mut().cast(), 4096) };
    }
}

/// Local time as DLIO's files say it: 2026-11-21T00:08:48.773682.
pub fn local_time() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let broken = broken_down(since.as_secs() as libc::time_t);
    let date = format!("{:04}-{:02}-{:02}", broken.tm_year + 1900, broken.tm_mon + 1, broken.tm_mday);
    format!("{date}T{:02}:{:02}:{:02}.{:06}", broken.tm_hour, broken.tm_min, broken.tm_sec, since.subsec_micros())
}

fn broken_down(seconds: libc::time_t) -> libc::tm {
    // SAFETY: reads one integer and writes one tm, which is valid when zeroed.
    unsafe {
        let mut broken: libc::tm = std::mem::zeroed();
        libc::localtime_r(&seconds, &mut broken);
        broken
    }
}

pub fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "localhost".into(), |name| name.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_is_not_short() {
        let begun = std::time::Instant::now();
        sleep(Duration::from_millis(5));
        assert!(begun.elapsed() >= Duration::from_millis(5));
    }

    #[test]
    fn local_time_has_microseconds() {
        let now = local_time();
        assert_eq!((now.len(), now.as_bytes()[10], now.as_bytes()[19]), (26, b'T', b'.'));
    }

    #[test]
    fn there_is_free_space_somewhere() {
        assert!(free_bytes(Path::new("/")).unwrap() > 0);
        assert!(free_bytes(Path::new("/nowhere/at/all")).is_err());
    }
}
