//! The kernel's interface for tracing other processes.

use std::io;
use std::mem::size_of;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, c_long, c_uint, pid_t};

/// A change in the state of a tracee, as `waitpid` reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    Exited,
    /// At the entry or exit of a system call.
    Call,
    /// A `PTRACE_EVENT` with the signal of the stop.
    Event(c_int, c_int),
    /// About to receive a signal.
    Signal(c_int),
}

impl Change {
    fn of(status: c_int) -> Change {
        if !libc::WIFSTOPPED(status) {
            return Change::Exited;
        }
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        match () {
            _ if event != 0 => Change::Event(event, signal),
            _ if signal == libc::SIGTRAP | 0x80 => Change::Call,
            _ => Change::Signal(signal),
        }
    }
}

/// Waits for the next tracee whose state changes. Fails if there are no tracees, and with EINTR when a signal arrives.
pub fn next_change() -> io::Result<(pid_t, Change)> {
    let mut status = 0;
    // SAFETY: writes the one integer it is given.
    match unsafe { libc::waitpid(-1, &mut status, libc::__WALL) } {
        -1 => Err(io::Error::last_os_error()),
        thread => Ok((thread, Change::of(status))),
    }
}

/// Waits until this thread, which was told to stop, has stopped; `false` if it ended.
pub fn wait_for_stop(thread: pid_t) -> Option<Change> {
    let mut status = 0;
    // SAFETY: writes the one integer it is given.
    let found = unsafe { libc::waitpid(thread, &mut status, libc::__WALL) };
    (found == thread).then(|| Change::of(status)).filter(|change| *change != Change::Exited)
}

fn request(request: c_uint, thread: pid_t, address: usize, data: usize) -> io::Result<c_long> {
    // SAFETY: the callers pass numbers, or addresses of structures with their sizes that live during the call.
    match unsafe { libc::ptrace(request as _, thread, address, data) } {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

const OPTIONS: c_int = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACEEXIT
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK;

/// Attaches to a thread, and to all threads and processes that it creates.
pub fn attach(thread: pid_t) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, thread, 0, OPTIONS as usize).map(drop)
}

/// Makes a tracee stop.
pub fn interrupt(thread: pid_t) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, thread, 0, 0).map(drop)
}

/// Lets a stopped tracee run to its next system call, and delivers a signal if it is not zero. A tracee that was killed
/// in the meantime is reported by the next wait.
pub fn resume(thread: pid_t, signal: c_int) {
    let _ = request(libc::PTRACE_SYSCALL, thread, 0, signal as usize);
}

/// Lets a stopped tracee run to its next event, without stops at its system calls.
pub fn run_on(thread: pid_t, signal: c_int) {
    let _ = request(libc::PTRACE_CONT, thread, 0, signal as usize);
}

/// Leaves a tracee stopped, as its shell wants it, until it is continued.
pub fn stay_stopped(thread: pid_t) {
    let _ = request(libc::PTRACE_LISTEN as c_uint, thread, 0, 0);
}

/// Ends the tracing of a stopped tracee, which runs on.
pub fn detach(thread: pid_t, signal: c_int) {
    let _ = request(libc::PTRACE_DETACH, thread, 0, signal as usize);
}

/// Returns the number that belongs to an event: a new process id, an exit status.
pub fn event_message(thread: pid_t) -> Option<u64> {
    let mut message = 0u64;
    request(libc::PTRACE_GETEVENTMSG as c_uint, thread, 0, (&raw mut message).addr()).ok().map(|_| message)
}

/// A system call at one of its two stops.
#[derive(Clone, Copy, Debug)]
pub enum CallStop {
    Entry { number: i64, arguments: [u64; 6] },
    Exit { result: i64 },
}

/// The architecture of system calls as the kernel numbers it; a program can make calls of another one.
const ARCHITECTURE: u32 = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };

/// Returns the system call at which a tracee has stopped; `None` for a call of another architecture. Exits of those are
/// returned, because they have no arguments.
pub fn call_stop(thread: pid_t) -> io::Result<Option<CallStop>> {
    const ENTRY: u64 = 1;
    const EXIT: u64 = 2;
    // `struct ptrace_syscall_info`: operation and architecture, two addresses, then number and arguments, or the result.
    let mut words = [0u64; 11];
    let size = size_of::<[u64; 11]>();
    request(libc::PTRACE_GET_SYSCALL_INFO as c_uint, thread, size, (&raw mut words).addr())?;
    let is_native = (words[0] >> 32) as u32 == ARCHITECTURE;
    Ok(match words[0] & 0xff {
        ENTRY if is_native => {
            let mut arguments = [0; 6];
            arguments.copy_from_slice(&words[4..10]);
            Some(CallStop::Entry { number: words[3] as i64, arguments })
        }
        EXIT => Some(CallStop::Exit { result: words[3] as i64 }),
        _ => None,
    })
}

const PAGE: u64 = 4096;

/// Reads memory of a tracee: up to the buffer's size, and less if what follows is not mapped.
pub fn read_memory(thread: pid_t, address: u64, into: &mut [u8]) -> usize {
    let mut done = 0;
    while done < into.len() {
        let at = address.wrapping_add(done as u64);
        // Each page in a separate call: one that is not mapped does not affect those before it.
        let length = (PAGE - at % PAGE).min((into.len() - done) as u64) as usize;
        let local = libc::iovec { iov_base: into[done..].as_mut_ptr().cast(), iov_len: length };
        let remote = libc::iovec { iov_base: at as usize as *mut _, iov_len: length };
        // SAFETY: the kernel writes up to `length` bytes into the buffer, and checks the tracee's address.
        let read = unsafe { libc::process_vm_readv(thread, &local, 1, &remote, 1, 0) };
        if read <= 0 {
            break;
        }
        done += read as usize;
        if (read as usize) < length {
            break;
        }
    }
    done
}

/// Reads numbers of 64 bits from a tracee; missing ones are zero.
pub fn read_words<const N: usize>(thread: pid_t, address: u64) -> [u64; N] {
    let mut words = [0; N];
    for (i, word) in words.iter_mut().enumerate() {
        let mut bytes = [0; 8];
        read_memory(thread, address.wrapping_add(i as u64 * 8), &mut bytes);
        *word = u64::from_ne_bytes(bytes);
    }
    words
}

/// Reads a path from a tracee; `None` if it cannot be read or is too long.
pub fn read_path(thread: pid_t, address: u64) -> Option<Vec<u8>> {
    const CHUNK: usize = 256;
    let mut text = Vec::new();
    while address != 0 && text.len() < libc::PATH_MAX as usize {
        let start = text.len();
        text.resize(start + CHUNK, 0);
        let read = read_memory(thread, address + start as u64, &mut text[start..]);
        text.truncate(start + read);
        if let Some(end) = text[start..].iter().position(|byte| *byte == 0) {
            text.truncate(start + end);
            return Some(text);
        }
        if read < CHUNK {
            break;
        }
    }
    None
}

/// Returns which descriptors can be read, after waiting for one of them up to `milliseconds`; -1 is forever.
pub fn readable(fds: [c_int; 2], milliseconds: c_int) -> [bool; 2] {
    let mut polled = fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    // SAFETY: the array lives here. Negative descriptors are ignored.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, milliseconds) };
    polled.map(|one| one.revents != 0)
}

/// `true` since a signal announced input, until it is taken.
static HAS_INPUT: AtomicBool = AtomicBool::new(false);

extern "C" fn note_input(_: c_int) {
    HAS_INPUT.store(true, Ordering::Relaxed);
}

/// Returns `true` if there may be input since the last call.
pub fn take_input() -> bool {
    HAS_INPUT.swap(false, Ordering::Relaxed)
}

/// Makes input on these descriptors interrupt [`next_change`], so that waiting for input takes no additional call per stop. If a
/// signal arrives just before the wait, it is missed, and a timer ends the wait.
pub fn interrupt_on_input(fds: [c_int; 2]) -> io::Result<()> {
    const TICK: libc::timeval = libc::timeval { tv_sec: 0, tv_usec: 100_000 };
    let every = libc::itimerval { it_interval: TICK, it_value: TICK };
    // SAFETY: the handler stores one flag; a zeroed action has no flags, so waits are interrupted.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = note_input as extern "C" fn(c_int) as libc::sighandler_t;
        libc::sigaction(libc::SIGIO, &action, std::ptr::null_mut());
        libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut());
        for fd in fds {
            libc::fcntl(fd, libc::F_SETOWN, libc::getpid());
            let flags = libc::fcntl(fd, libc::F_GETFL);
            if libc::fcntl(fd, libc::F_SETFL, flags | libc::O_ASYNC) < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        match libc::syscall(libc::SYS_setitimer, libc::ITIMER_REAL, &raw const every, 0usize) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Returns the process at the other end of a local socket.
pub fn peer_process(fd: c_int) -> Option<pid_t> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel fills a structure and its length, which both live here.
    let result =
        unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut found).cast(), &mut length) };
    // SAFETY: reads a number.
    let user = unsafe { libc::geteuid() };
    (result == 0 && found.pid > 0 && (user == 0 || found.uid == user)).then_some(found.pid)
}

/// Forks a process that survives this one: in its own session, without the standard streams of this process, which a
/// pipe's reader would wait for. `work` runs in it. Returns its process id.
///
/// Only for a process with one thread.
pub fn fork_detached(work: impl FnOnce()) -> io::Result<pid_t> {
    // SAFETY: the caller's process has one thread, so the child's memory is consistent; the child ends in `_exit`.
    unsafe {
        match libc::fork() {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                libc::setsid();
                let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
                for fd in 0..3 {
                    libc::dup2(null, fd);
                }
                for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGPIPE, libc::SIGTERM] {
                    libc::signal(signal, libc::SIG_IGN);
                }
                work();
                libc::_exit(0)
            }
            child => Ok(child),
        }
    }
}

/// Returns the time on a clock in nanoseconds.
pub fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the structure.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Closes a descriptor that belongs to the parent of a forked process.
pub fn close(fd: c_int) {
    // SAFETY: the caller no longer uses the descriptor.
    unsafe { libc::close(fd) };
}
