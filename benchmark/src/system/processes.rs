//! Signals of this process, the children it forks or runs, and sleeps that either of them interrupts.
//!
//! Signals and children belong together: the handler of SIGCHLD notes which child was lost, and a stop request ends a
//! sleep.

use crate::system::{clock, file_calls};
use dlio_schemas::process_stat::ProcessStat;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

/// The time of the first stop request, in milliseconds of the monotonic clock; 0 before.
static STOP_ASKED: AtomicI64 = AtomicI64::new(0);

/// Two signals within this time count as one request: `timeout` signals a process and then its group, and a wrapper
/// forwards a signal that its whole group received. No user presses Ctrl-C again this fast.
const SAME_REQUEST_MS: i64 = 500;

extern "C" fn note_signal(signal: libc::c_int) {
    let now = clock::monotonic_millis();
    let first = STOP_ASKED.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
    if first.is_err_and(|first| now - first > SAME_REQUEST_MS) {
        // A second request is deliberate: exit without a clean-up that could hang. SAFETY: `_exit` is safe in a signal
        // handler and does not return.
        unsafe { libc::_exit(128 + signal) };
    }
}

/// Makes Ctrl-C, termination and hangup end the run at its next step; a second signal ends it immediately.
pub fn note_interrupts() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // Under `nohup` hangups are ignored.
        if signal != libc::SIGHUP || !is_ignored(signal) {
            set_handler(signal, note_signal as extern "C" fn(libc::c_int) as libc::sighandler_t, 0);
        }
    }
    // A write beyond the size limit of a file then fails with an error that names the file.
    set_handler(libc::SIGXFSZ, libc::SIG_IGN, 0);
}

/// Ignores Ctrl-C in loader workers: a terminal sends it to all processes, but the trainer decides when workers exit.
pub fn leave_interrupts_to_parent() {
    set_handler(libc::SIGINT, libc::SIG_IGN, 0);
}

static IN_FRONT: AtomicI32 = AtomicI32::new(0);
/// The signals that arrived before the command was started, one bit per signal.
static EARLY: AtomicU64 = AtomicU64::new(0);

const HANDED_ON: [libc::c_int; 6] =
    [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];

/// The signals that programs define themselves: a flight recorder keeps the events before them.
const KEEP_SIGNALS: [libc::c_int; 2] = [libc::SIGUSR1, libc::SIGUSR2];
static KEEP_ASKED: AtomicBool = AtomicBool::new(false);

/// Returns `true` once after such a signal.
pub fn take_keep_request() -> bool {
    KEEP_ASKED.swap(false, Ordering::Relaxed)
}

extern "C" fn hand_on(signal: libc::c_int, about: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a siginfo to the handler. The sender is read only if a process sent the
    // signal.
    let (code, sender) = unsafe { ((*about).si_code, (*about).si_pid()) };
    if KEEP_SIGNALS.contains(&signal) {
        KEEP_ASKED.store(true, Ordering::Relaxed);
    }
    let child = IN_FRONT.load(Ordering::Relaxed);
    // A terminal's signals come from the kernel and go to the whole foreground group, so the command has received its
    // own.
    if code == libc::SI_KERNEL || (code <= 0 && child > 0 && sender == child) {
        return;
    }
    match child {
        0 => drop(EARLY.fetch_or(1 << signal, Ordering::Relaxed)),
        child => send(child, signal),
    }
}

fn send(child: libc::pid_t, signal: libc::c_int) {
    // SAFETY: `kill` is safe in a signal handler.
    unsafe { libc::kill(child, signal) };
}

/// Standard descriptors that were closed when this program was started, one bit each, and whether SIGPIPE was ignored:
/// before `main` the runtime opens /dev/null for the former and ignores the latter.
static CLOSED: AtomicU8 = AtomicU8::new(0);
static IGNORED_PIPE: AtomicBool = AtomicBool::new(false);

#[used]
#[unsafe(link_section = ".init_array")]
static LOOK_AT_START: extern "C" fn() = look_at_start;

extern "C" fn look_at_start() {
    // SAFETY: reads flags and changes nothing.
    let is_closed = |fd: &i32| unsafe { libc::fcntl(*fd, libc::F_GETFD) } < 0;
    CLOSED.store((0..3).filter(is_closed).map(|fd| 1 << fd).sum(), Ordering::Relaxed);
    IGNORED_PIPE.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
}

extern "C" fn outlast(_: libc::c_int) {}

/// A step of a command's process before it executes the command. It must not allocate memory.
type LastStep = Box<dyn Fn() + Send + Sync>;

/// The variables that a command gets in addition to the environment of this process.
#[derive(Default)]
pub struct Variables {
    set: Vec<(OsString, OsString)>,
    last_step: Option<LastStep>,
}

impl Variables {
    pub fn set(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) {
        self.set.push((name.as_ref().into(), value.as_ref().into()));
    }

    /// Runs `step` in the command's process, the last step before it executes the command. It must not allocate memory.
    pub fn run_last(&mut self, step: impl Fn() + Send + Sync + 'static) {
        self.last_step = Some(Box::new(step));
    }

    /// Returns the environment of this process in its order, followed by these variables.
    fn entries(&self) -> Vec<CString> {
        let kept = std::env::vars_os().filter(|(name, _)| !self.set.iter().any(|(set, _)| set == name));
        let entry = |(name, value): (OsString, OsString)| [name.as_bytes(), b"=", value.as_bytes()].concat();
        kept.chain(self.set.iter().cloned()).filter_map(|pair| CString::new(entry(pair)).ok()).collect()
    }
}

/// Starts a command as if dlio were absent: with the original standard descriptors and SIGPIPE, and with an environment
/// in its original order, which is lost if variables are set on the `Command`.
fn leave_as_found(command: &mut Command, variables: &mut Variables) {
    let entries = variables.entries();
    let environment: Vec<usize> = entries.iter().map(|entry| entry.as_ptr() as usize).chain([0]).collect();
    let last_step = variables.last_step.take();
    // SAFETY: between fork and exec only system calls are made, nothing is allocated, and the closure owns everything
    // that the environment points to.
    unsafe {
        command.pre_exec(move || {
            let _held = &entries;
            libc::environ = environment.as_ptr().cast_mut().cast();
            for fd in (0..3).filter(|fd| CLOSED.load(Ordering::Relaxed) >> fd & 1 == 1) {
                libc::close(fd);
            }
            if IGNORED_PIPE.load(Ordering::Relaxed) {
                libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            }
            last_step.iter().for_each(|step| step());
            Ok(())
        });
    }
}

/// Starts a command with the state that [`leave_as_found`] restores, but without copying this process first, which takes
/// longer than many commands run. `None` if the C library cannot report a failure of that, and for a script without an
/// interpreter, which a shell has to run.
fn spawn_in_place(command: &Command, variables: &Variables) -> Option<io::Result<libc::pid_t>> {
    let list = |texts: &[CString]| -> Vec<*mut libc::c_char> {
        texts.iter().map(|text| text.as_ptr().cast_mut()).chain([std::ptr::null_mut()]).collect()
    };
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let words: Vec<CString> = words.map(|word| CString::new(word.as_bytes())).collect::<Result<_, _>>().ok()?;
    let entries = variables.entries();
    let (arguments, environment) = (list(&words), list(&entries));
    if !reports_failed_exec() {
        return None;
    }
    // SAFETY: zeroed structures are initialized before they are used, and destroyed once; both lists end with a null
    // pointer, and the texts they point to live until the command has started.
    let (error, child) = unsafe {
        let (mut actions, mut attributes) = (std::mem::zeroed(), std::mem::zeroed());
        libc::posix_spawn_file_actions_init(&mut actions);
        libc::posix_spawnattr_init(&mut attributes);
        for fd in (0..3).filter(|fd| CLOSED.load(Ordering::Relaxed) >> fd & 1 == 1) {
            libc::posix_spawn_file_actions_addclose(&mut actions, fd);
        }
        if !IGNORED_PIPE.load(Ordering::Relaxed) {
            let mut pipe = std::mem::zeroed();
            libc::sigemptyset(&mut pipe);
            libc::sigaddset(&mut pipe, libc::SIGPIPE);
            libc::posix_spawnattr_setsigdefault(&mut attributes, &pipe);
            libc::posix_spawnattr_setflags(&mut attributes, libc::POSIX_SPAWN_SETSIGDEF as libc::c_short);
        }
        let (program, mut child) = (words[0].as_ptr(), 0);
        let error =
            libc::posix_spawnp(&mut child, program, &actions, &attributes, arguments.as_ptr(), environment.as_ptr());
        libc::posix_spawn_file_actions_destroy(&mut actions);
        libc::posix_spawnattr_destroy(&mut attributes);
        (error, child)
    };
    match error {
        0 => Some(Ok(child)),
        libc::ENOEXEC => None,
        error => Some(Err(io::Error::from_raw_os_error(error))),
    }
}

/// Returns `true` if `posix_spawn` reports that a program cannot be executed: since glibc 2.24.
fn reports_failed_exec() -> bool {
    // SAFETY: the C library's version is a constant text.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) }.to_str().unwrap_or_default();
    let numbers = version.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    numbers.is_some_and(|numbers: (u32, u32)| numbers >= (2, 24))
}

/// Waits for a child and returns its status.
fn status_at_end(child: libc::pid_t) -> io::Result<ExitStatus> {
    let mut status = 0;
    loop {
        // SAFETY: writes the one integer it is given.
        if unsafe { libc::waitpid(child, &mut status, 0) } == child {
            return Ok(ExitStatus::from_raw(status));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Whether a command may run longer than this process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outliving {
    Allowed,
    /// It ends when this process does, even if this process is killed and cannot signal it.
    Prevented,
}

/// Runs a command in the foreground. Signals sent to this process are forwarded to it, and a terminal's signal to both
/// is survived. Handlers, unlike "ignore", are not inherited, so except for the variables the command starts with the
/// signals and environment it would have without dlio. Returns its pid and exit status.
///
/// `started` is called when the command runs or could not be started: a thread created earlier would change the signal
/// state that the command inherits.
pub fn run_in_front(
    command: &mut Command,
    variables: &mut Variables,
    outliving: Outliving,
    started: impl FnOnce(),
) -> io::Result<(u32, ExitStatus)> {
    let listen = |signal| {
        let handler = hand_on as extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
        set_handler(signal, handler as libc::sighandler_t, libc::SA_SIGINFO);
    };
    HANDED_ON.into_iter().filter(|signal| !is_ignored(*signal)).for_each(listen);
    if !is_ignored(libc::SIGXFSZ) {
        // Messages printed afterwards may go to a log that has reached its size limit.
        set_handler(libc::SIGXFSZ, outlast as extern "C" fn(libc::c_int) as libc::sighandler_t, 0);
    }
    let has_no_step = outliving == Outliving::Allowed && variables.last_step.is_none();
    let in_place = if has_no_step { spawn_in_place(command, variables) } else { None };
    let spawned = in_place.unwrap_or_else(|| {
        if outliving == Outliving::Prevented {
            ends_with_us(command);
        }
        leave_as_found(command, variables);
        command.spawn().map(|child| child.id() as libc::pid_t)
    });
    started();
    let child = spawned?;
    // Signals that were ignored are ignored by the command too, unless it changes that; so they can be forwarded now.
    HANDED_ON.into_iter().for_each(listen);
    IN_FRONT.store(child, Ordering::Relaxed);
    let early = EARLY.swap(0, Ordering::Relaxed);
    HANDED_ON.into_iter().filter(|signal| early >> signal & 1 == 1).for_each(|signal| send(child, signal));
    let status = status_at_end(child);
    IN_FRONT.store(0, Ordering::Relaxed);
    Ok((child as u32, status?))
}

fn ends_with_us(command: &mut Command) {
    let us = std::process::id();
    // SAFETY: between fork and exec only two system calls are made, and nothing is allocated.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            // If the parent had already exited, no signal would arrive.
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

/// The maximum time that a sleep continues after a signal that arrived just before it.
const NAP: i64 = 250_000_000;

/// Sleeps until a deadline on the monotonic clock; returns early when interrupted or when a watched child is lost.
pub fn sleep(duration: Duration) {
    let until = clock::monotonic_nanos().saturating_add(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX));
    while !interrupted() && !lost_child() {
        let end = until.min(clock::monotonic_nanos() + NAP);
        let time = libc::timespec { tv_sec: end / 1_000_000_000, tv_nsec: end % 1_000_000_000 };
        // SAFETY: reads the one timespec it is given; with an absolute time no remainder is written.
        let ended =
            unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &time, std::ptr::null_mut()) };
        if ended == 0 && end == until {
            return;
        }
        if ended == 0 {
            poll_watched();
        }
    }
}

/// The children that are watched, and whether one exited abnormally.
static WATCHED: OnceLock<Vec<libc::pid_t>> = OnceLock::new();
static LOST_CHILD: AtomicBool = AtomicBool::new(false);

extern "C" fn note_child(_: libc::c_int) {
    // SAFETY: the address of this thread's errno, which the call below may change under the interrupted code.
    let errno = unsafe { *libc::__errno_location() };
    let watched = WATCHED.get().map_or(&[][..], Vec::as_slice);
    if watched.iter().any(|child| ended_badly(*child)) {
        LOST_CHILD.store(true, Ordering::Relaxed);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Returns how a child ended and its status, without waiting for it. Safe in a signal handler.
fn end_of(child: libc::pid_t) -> Option<(libc::c_int, libc::c_int)> {
    // SAFETY: `waitid` writes the one siginfo it is given, which is valid when zeroed; with WNOWAIT the child can still
    // be waited for. It fills in process and status for a child that ended.
    unsafe {
        let mut about: libc::siginfo_t = std::mem::zeroed();
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        let known = libc::waitid(libc::P_PID, child as libc::id_t, &mut about, options) == 0 && about.si_pid() == child;
        known.then(|| (about.si_code, about.si_status()))
    }
}

pub fn ended_badly(child: libc::pid_t) -> bool {
    end_of(child).is_some_and(|(how, status)| how != libc::CLD_EXITED || status != 0)
}

/// Makes sleeps end early when one of these children exits abnormally. May be called once per process.
pub fn watch_children(children: &[libc::pid_t]) {
    if WATCHED.set(children.to_vec()).is_ok() {
        let handler = note_child as extern "C" fn(libc::c_int) as libc::sighandler_t;
        set_handler(libc::SIGCHLD, handler, libc::SA_RESTART | libc::SA_NOCLDSTOP);
        // One may have ended before.
        note_child(libc::SIGCHLD);
    }
}

/// Processes of this host that are not children, so that no signal reports their exit; they are polled.
static LOOKED_AT: OnceLock<Vec<u32>> = OnceLock::new();

/// Makes sleeps end early when one of these processes is gone. May be called once per process.
pub fn watch_processes(processes: Vec<u32>) {
    let _ = LOOKED_AT.set(processes);
}

fn poll_watched() {
    if LOOKED_AT.get().is_some_and(|processes| processes.iter().any(|process| !lives(*process))) {
        LOST_CHILD.store(true, Ordering::Relaxed);
    }
}

pub fn lost_child() -> bool {
    LOST_CHILD.load(Ordering::Relaxed)
}

/// Returns `true` if a process with this pid is running; a zombie is not.
pub fn lives(process: u32) -> bool {
    let line = std::fs::read(format!("/proc/{process}/stat")).unwrap_or_default();
    ProcessStat::parse(&line).is_some_and(ProcessStat::lives)
}

pub fn has_ended(child: libc::pid_t) -> bool {
    end_of(child).is_some()
}

/// Returns the status of a child, like [`wait`]; kills the child if it does not exit in time.
pub fn status_of(child: libc::pid_t, patience: Duration) -> i32 {
    until_ended(&[child], patience);
    match end_of(child) {
        Some((libc::CLD_EXITED, status)) => status,
        Some((_, signal)) => 128 + signal,
        None => {
            send(child, libc::SIGKILL);
            128 + libc::SIGKILL
        }
    }
}

/// Sends SIGTERM to children.
pub fn signal_children(children: &[libc::pid_t]) {
    children.iter().filter(|child| !has_ended(**child)).for_each(|child| send(*child, libc::SIGTERM));
}

/// Waits for children that were asked to exit, and kills those that do not exit in time.
pub fn end_children(children: &[libc::pid_t], patience: Duration) {
    until_ended(children, patience);
    children.iter().filter(|child| !has_ended(**child)).for_each(|child| send(*child, libc::SIGKILL));
}

/// Asks children to exit, and kills those that do not exit in time.
pub fn stop_children(children: &[libc::pid_t], patience: Duration) {
    signal_children(children);
    end_children(children, patience);
}

fn until_ended(children: &[libc::pid_t], patience: Duration) {
    let begun = std::time::Instant::now();
    while !children.iter().all(|child| has_ended(*child)) && begun.elapsed() < patience {
        // The exit of a child raises a signal, which ends this wait early.
        file_calls::readable(&[] as &[&File], Duration::from_millis(10));
    }
}

/// Forks. `work` runs in the child, which then exits with its result; the parent gets the child's pid.
///
/// Only for a process with one thread: the child has no other threads, and a lock held by one would stay locked
/// forever.
pub fn fork(work: impl FnOnce() -> i32) -> io::Result<libc::pid_t> {
    // SAFETY: the callers are single-threaded at this point (workers are created before any thread), so the child's
    // memory is consistent. The child ends in `exit` and never returns into the parent's frames.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: sets a flag of this process: it exits when its parent does, however the parent ends.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) };
            std::process::exit(work())
        }
        child => Ok(child),
    }
}

/// Waits for a child; returns its exit code, or 128 plus the signal that ended it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_is_not_short() {
        let begun = std::time::Instant::now();
        sleep(Duration::from_millis(5));
        assert!(begun.elapsed() >= Duration::from_millis(5));
    }
}
