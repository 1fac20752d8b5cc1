//! The process that attaches to static programs: it waits for requests of the library and for stops of its tracees.
//!
//! The supervisor is in its own session, so that signals from a terminal do not reach it. It ends when `dlio trace` has ended and
//! no tracee is left. It detaches from a process, which then continues without being recorded by ptrace,
//!
//! * when the process executes a program into which the library is loaded, because the library then records the program,
//! * before the process executes a program that gains privileges, because the kernel grants none under ptrace,
//! * before the process uses ptrace itself, because a process can have only one tracer.

use std::collections::HashSet;
use std::ffi::CString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use dlio_schemas::native::untraced;
use dlio_schemas::ops::Op;
use dlio_tracer::programs::{self, Loading};
use dlio_tracer::ptrace_request::{ATTACHED, CHILD, NO_CHILD, REFUSED};

pub use super::image::Settings;
use super::kernel::{self, CallStop, Change};
use super::processes::{Phase, Tracees};

/// A running supervisor, as `dlio trace` sees it.
pub struct Supervisor {
    /// The abstract name of its socket, for the environment of the command.
    pub name: String,
    /// Ends the supervisor when it is closed. It reports each recorded process image by one byte.
    connection: UnixStream,
}

impl Supervisor {
    /// Starts the process. `name` is unique to this run.
    ///
    /// Only for a process with one thread.
    pub fn start(name: &str, settings: Settings) -> io::Result<Supervisor> {
        let (ours, theirs) = UnixStream::pair()?;
        let address = SocketAddr::from_abstract_name(name.as_bytes())?;
        let parent_end = ours.as_raw_fd();
        kernel::fork_detached(|| {
            // The end of the parent must close when the parent does.
            kernel::close(parent_end);
            // Tracees allow only the process that listens to attach, so this process has to create the listener.
            let listener = UnixListener::bind_addr(&address);
            if let (Ok(listener), Ok(parent)) = (listener, theirs.try_clone())
                && kernel::interrupt_on_input([listener.as_raw_fd(), parent.as_raw_fd()]).is_ok()
            {
                Loop::new(listener, parent, settings).run();
            }
        })?;
        drop(theirs);
        let mut ready = [0];
        (&ours).read_exact(&mut ready)?;
        Ok(Supervisor { name: name.to_string(), connection: ours })
    }

    /// Returns the number of process images that were recorded so far.
    pub fn recorded(&self) -> usize {
        let mut bytes = Vec::new();
        let _ = self.connection.set_nonblocking(true);
        let _ = (&self.connection).read_to_end(&mut bytes);
        bytes.len()
    }
}

/// How long a client has to send its request.
const PATIENCE: Duration = Duration::from_secs(1);

struct Loop {
    listener: UnixListener,
    /// `None` after `dlio trace` has ended.
    parent: Option<UnixStream>,
    tracees: Tracees,
    /// Threads that stopped before their parent's stop announced them.
    early: HashSet<i32>,
    /// Number of recorded images that the parent knows of.
    reported: u64,
}

impl Loop {
    fn new(listener: UnixListener, mut parent: UnixStream, settings: Settings) -> Loop {
        let _ = parent.write_all(b"r");
        let _ = parent.set_nonblocking(true);
        let parent = Some(parent);
        Loop { listener, parent, tracees: Tracees::new(settings), early: HashSet::new(), reported: 0 }
    }

    fn run(&mut self) {
        while self.parent.is_some() || !self.tracees.threads.is_empty() {
            match kernel::next_change() {
                Ok((thread, change)) => {
                    self.handle(thread, change);
                    self.report();
                    if kernel::take_input() {
                        self.take_requests(0);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => self.take_requests(0),
                // No tracees: only requests can arrive.
                Err(_) => {
                    self.tracees.threads.clear();
                    self.take_requests(-1);
                }
            }
        }
    }

    /// Answers requests that have arrived, and notes the end of `dlio trace`.
    fn take_requests(&mut self, milliseconds: i32) {
        let mut patience = milliseconds;
        loop {
            let parent = self.parent.as_ref().map_or(-1, |parent| parent.as_raw_fd());
            let [requested, ended] = kernel::readable([self.listener.as_raw_fd(), parent], patience);
            if ended {
                self.parent = None;
            }
            if !requested {
                return;
            }
            if let Ok((client, _)) = self.listener.accept() {
                self.answer(client);
            }
            patience = 0;
        }
    }

    fn report(&mut self) {
        while self.reported < self.tracees.recorded {
            self.reported += 1;
            if let Some(mut parent) = self.parent.as_ref() {
                let _ = parent.write_all(b"1");
            }
        }
    }

    /// Attaches to the thread at the other end of a connection.
    fn answer(&mut self, mut client: UnixStream) {
        let is_attached = self.attach(&mut client).is_some();
        let _ = client.write_all(&[if is_attached { ATTACHED } else { REFUSED }]);
    }

    fn attach(&mut self, client: &mut UnixStream) -> Option<()> {
        client.set_read_timeout(Some(PATIENCE)).ok()?;
        let pid = kernel::peer_process(client.as_raw_fd())?;
        let mut request = [0; 5];
        client.read_exact(&mut request).ok()?;
        let [a, b, c, d, who] = request;
        let thread = i32::from_le_bytes([a, b, c, d]);
        if who == NO_CHILD {
            return self.withdraw(thread, pid);
        }
        // In another namespace of processes, the number belongs to another thread or to none.
        if process_of(thread)? != pid || self.tracees.threads.contains_key(&thread) {
            return None;
        }
        kernel::attach(thread).ok()?;
        let phase = if who == CHILD { Phase::Creating } else { Phase::BeforeExec };
        self.tracees.add_announced(thread, pid, phase);
        kernel::interrupt(thread).ok()?;
        let stopped = kernel::wait_for_stop(thread)?;
        let signal = if let Change::Signal(signal) = stopped { signal } else { 0 };
        if kernel::call_stop(thread).is_err() {
            // Before Linux 5.3.
            kernel::detach(thread, signal);
            self.tracees.threads.remove(&thread);
            return None;
        }
        match phase {
            Phase::Creating => kernel::run_on(thread, signal),
            _ => kernel::resume(thread, signal),
        }
        Some(())
    }

    /// Detaches from a thread that could not create its child.
    fn withdraw(&mut self, thread: i32, pid: i32) -> Option<()> {
        let state = self.tracees.threads.get(&thread)?;
        if state.pid == pid && state.phase == Phase::Creating {
            kernel::interrupt(thread).ok()?;
            let change = kernel::wait_for_stop(thread)?;
            self.leave(thread, change);
        }
        Some(())
    }

    /// Handles a change of a thread that is about to create a child: after that, only the child is a tracee.
    fn creates(&mut self, thread: i32, change: Change) {
        match change {
            Change::Event(libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK, _) => {
                if let Some(child) = kernel::event_message(thread).map(|child| child as i32) {
                    self.tracees.add_announced(child, child, Phase::BeforeExec);
                    if self.early.remove(&child) {
                        kernel::resume(child, 0);
                    }
                }
                self.leave(thread, change);
            }
            Change::Event(libc::PTRACE_EVENT_STOP, signal) if is_job_control(signal) => kernel::stay_stopped(thread),
            Change::Event(libc::PTRACE_EVENT_EXIT, _) => self.leave(thread, change),
            Change::Signal(signal) => kernel::run_on(thread, signal),
            _ => kernel::run_on(thread, 0),
        }
    }

    fn handle(&mut self, thread: i32, change: Change) {
        if change == Change::Exited {
            self.early.remove(&thread);
            return self.tracees.remove_thread(thread, "killed");
        }
        let Some(state) = self.tracees.threads.get(&thread) else {
            // A child of a tracee stops before or after its parent's stop.
            self.early.insert(thread);
            return;
        };
        match state.phase {
            Phase::Leaving => return self.leave(thread, change),
            Phase::Creating => return self.creates(thread, change),
            _ => {}
        }
        match change {
            Change::Call => self.at_call(thread),
            Change::Signal(signal) => kernel::resume(thread, signal),
            Change::Event(libc::PTRACE_EVENT_STOP, signal) if is_job_control(signal) => kernel::stay_stopped(thread),
            Change::Event(libc::PTRACE_EVENT_EXEC, _) => self.executed(thread),
            Change::Event(libc::PTRACE_EVENT_EXIT, _) => {
                let status = kernel::event_message(thread).map_or(0, |status| status as i32);
                self.tracees.remove_thread(thread, &ending(status));
                kernel::resume(thread, 0);
            }
            Change::Event(libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK, _) => {
                let parent = state.pid;
                if let Some(child) = kernel::event_message(thread).map(|child| child as i32) {
                    self.created(child, parent);
                }
                kernel::resume(thread, 0);
            }
            _ => kernel::resume(thread, 0),
        }
    }

    fn created(&mut self, child: i32, parent: i32) {
        // A child that was killed already belongs to no process.
        self.tracees.add_created(child, process_of(child).unwrap_or(child), parent);
        if self.early.remove(&child) {
            kernel::resume(child, 0);
        }
    }

    fn at_call(&mut self, thread: i32) {
        let now = kernel::clock_ns(libc::CLOCK_MONOTONIC);
        let Some(phase) = self.tracees.threads.get(&thread).map(|state| state.phase) else { return };
        match kernel::call_stop(thread) {
            Ok(Some(CallStop::Entry { number, arguments })) if !self.enters(thread, phase, number, arguments) => return,
            Ok(Some(CallStop::Exit { result })) => self.tracees.call_ends(thread, result, now),
            _ => {}
        }
        self.tracees.call_runs(thread);
        kernel::resume(thread, 0);
    }

    /// Handles the entry of a call; `false` if the tracee was let go instead.
    fn enters(&mut self, thread: i32, phase: Phase, number: i64, arguments: [u64; 6]) -> bool {
        match number {
            libc::SYS_ptrace => return self.before_ptrace(thread, arguments),
            libc::SYS_exit_group | libc::SYS_exit => {
                self.tracees.note(thread, Op::EXIT, None, arguments[0] as i32 as i64);
                return true;
            }
            libc::SYS_execve | libc::SYS_execveat => {
                let name = arguments[if number == libc::SYS_execve { 0 } else { 1 }];
                let dir = if number == libc::SYS_execve { libc::AT_FDCWD } else { arguments[0] as i32 };
                if self.gains_privileges(thread, dir, name) {
                    return false;
                }
            }
            _ => {}
        }
        let is_exec = matches!(number, libc::SYS_execve | libc::SYS_execveat);
        match phase {
            Phase::BeforeExec | Phase::ExecFailed if is_exec => {
                self.tracees.announced_exec(thread, number, arguments);
                true
            }
            Phase::BeforeExec => true,
            // All directories of the search path were tried: the library goes on.
            Phase::ExecFailed => {
                let pid = self.tracees.threads.get(&thread).map_or(thread, |state| state.pid);
                kernel::detach(thread, 0);
                self.tracees.forget(pid);
                false
            }
            _ => {
                self.tracees.call_begins(thread, number, arguments);
                true
            }
        }
    }

    /// Lets a process go that is about to execute a program which gains privileges: under ptrace it would gain none.
    fn gains_privileges(&mut self, thread: i32, dir: i32, name: u64) -> bool {
        let Some(path) = kernel::read_path(thread, name) else { return false };
        let Some(pid) = self.tracees.threads.get(&thread).map(|state| state.pid) else { return false };
        let place = match (path.first(), dir) {
            (Some(b'/'), _) => format!("/proc/{pid}/root"),
            (None, dir) => format!("/proc/{pid}/fd/{dir}"),
            (_, libc::AT_FDCWD) => format!("/proc/{pid}/cwd/"),
            (_, dir) => format!("/proc/{pid}/fd/{dir}/"),
        };
        let Ok(place) = CString::new([place.as_bytes(), &path].concat()) else { return false };
        if programs::loading(&place) != Loading::Privileged {
            return false;
        }
        self.note_untraced(pid, untraced::PRIVILEGED, &path);
        self.tracees.end_image(pid, "exec");
        self.let_go(thread, pid);
        true
    }

    /// Detaches from processes that another process is about to trace. Returns `false` if the caller is one of them.
    fn before_ptrace(&mut self, thread: i32, arguments: [u64; 6]) -> bool {
        let Some(pid) = self.tracees.threads.get(&thread).map(|state| state.pid) else { return true };
        let request = arguments[0] as u32;
        let target = match request {
            libc::PTRACE_TRACEME => pid,
            libc::PTRACE_ATTACH | libc::PTRACE_SEIZE => {
                let wanted = arguments[1] as i32;
                match self.tracees.threads.get(&wanted) {
                    Some(state) => state.pid,
                    None => return true,
                }
            }
            _ => return true,
        };
        let program = fs::read_link(format!("/proc/{target}/exe")).unwrap_or_default();
        self.note_untraced(target, untraced::OWN_PTRACE, program.as_os_str().as_bytes());
        self.tracees.end_image(target, "running");
        self.let_go(if target == pid { thread } else { 0 }, target);
        target != pid
    }

    /// Detaches from all threads of a process. `stopped` is stopped now; the others are made to stop.
    fn let_go(&mut self, stopped: i32, pid: i32) {
        let threads: Vec<i32> =
            self.tracees.threads.iter().filter(|(_, state)| state.pid == pid).map(|(thread, _)| *thread).collect();
        for thread in threads {
            if thread == stopped {
                kernel::detach(thread, 0);
                self.tracees.threads.remove(&thread);
            } else if kernel::interrupt(thread).is_ok() {
                if let Some(state) = self.tracees.threads.get_mut(&thread) {
                    state.phase = Phase::Leaving;
                }
                // Another process is about to attach to it.
                if let Some(change) = kernel::wait_for_stop(thread) {
                    self.leave(thread, change);
                }
            }
        }
        self.tracees.forget(pid);
    }

    fn leave(&mut self, thread: i32, change: Change) {
        let signal = match change {
            Change::Signal(signal) => signal,
            Change::Event(libc::PTRACE_EVENT_STOP, signal) if is_job_control(signal) => signal,
            _ => 0,
        };
        kernel::detach(thread, signal);
        self.tracees.threads.remove(&thread);
    }

    /// Handles a program that has just been executed in a process.
    fn executed(&mut self, pid: i32) {
        let former = kernel::event_message(pid).map_or(pid, |thread| thread as i32);
        let was_recorded = self.tracees.threads.get(&former).is_some_and(|state| state.phase == Phase::Recorded);
        let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        if was_recorded {
            self.tracees.note(former, Op::EXEC, Some(program.as_os_str().as_bytes()), 0);
            self.tracees.end_image(pid, "exec");
        }
        let loading = programs::loading(&CString::new(format!("/proc/{pid}/exe")).unwrap_or_default());
        let records_itself = loading == Loading::Works && has_library(pid);
        if records_itself || loading == Loading::OtherMachine {
            if loading == Loading::OtherMachine {
                self.note_untraced(pid, untraced::OTHER_MACHINE, program.as_os_str().as_bytes());
            }
            kernel::detach(pid, 0);
            self.tracees.forget(pid);
            return;
        }
        self.tracees.begin_image(pid);
        kernel::resume(pid, 0);
    }

    fn note_untraced(&self, pid: i32, reason: &str, program: &[u8]) {
        dlio_tracer::untraced::note_of(self.tracees.settings().folder.as_os_str().as_bytes(), pid, reason, program);
    }
}

/// Returns `true` for the signals that stop a process until it is continued.
fn is_job_control(signal: i32) -> bool {
    matches!(signal, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU)
}

/// Returns the ending of a process for its trace.
fn ending(status: i32) -> String {
    if libc::WIFEXITED(status) { format!("exit {}", libc::WEXITSTATUS(status)) } else { "killed".into() }
}

/// Returns the process that a thread belongs to.
fn process_of(thread: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// Returns `true` if the environment of a process names the tracing library.
fn has_library(pid: i32) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let library = crate::system::locate::LIBRARY.as_bytes();
    let mut entries = environment.split(|byte| *byte == 0);
    entries.any(|entry| entry.starts_with(b"LD_PRELOAD=") && entry.windows(library.len()).any(|part| part == library))
}
