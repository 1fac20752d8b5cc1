//! A process of `dlio-analyze`: a reader of its standard output that also receives its messages and its progress,
//! reacts to Ctrl-C, and ends the process when it is dropped.

use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};

use pyo3::prelude::*;

use super::main_thread;

/// The capacity of the pipe. With the usual 64 KiB, both processes switch 16 times as often.
const PIPE_BYTES: libc::c_int = 1 << 20;

/// The longest time until a signal is noticed that arrived just before the wait began, in milliseconds.
const WAIT_MS: libc::c_int = 200;

/// How long to wait for our own Ctrl-C after the process was ended by one, in milliseconds: a terminal sends both.
const INTERRUPT_MS: libc::c_int = 200;

/// The reason why a process has not delivered all of its output.
#[derive(Debug)]
enum Failure {
    /// A signal handler of the Python program raised this.
    Interrupted(PyErr),
    /// The exit status, or minus the number of the signal, and the messages.
    Ended(i32, String),
}

impl std::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Interrupted(_) => write!(f, "interrupted"),
            Failure::Ended(_, messages) => write!(f, "{messages}"),
        }
    }
}

/// Returns the Python exception for an error of [`AnalyzerProcess`].
pub fn raised(py: Python, error: io::Error) -> PyErr {
    match error.downcast::<Failure>() {
        Ok(Failure::Interrupted(raised)) => raised,
        Ok(Failure::Ended(status, messages)) => {
            let made = errors(py).and_then(|errors| errors.call_method1("failed", (messages, status)));
            made.map_or_else(|error| error, PyErr::from_value)
        }
        Err(other) => other.into(),
    }
}

/// Returns the exception that a signal handler raised, if that is the reason for an error.
pub fn interruption(error: &io::Error, py: Python) -> Option<PyErr> {
    match error.get_ref()?.downcast_ref::<Failure>()? {
        Failure::Interrupted(raised) => Some(raised.clone_ref(py)),
        Failure::Ended(..) => None,
    }
}

/// Issues messages of dlio-analyze as Python warnings.
pub fn warn(py: Python, messages: &str) -> PyResult<()> {
    if messages.is_empty() { Ok(()) } else { errors(py)?.call_method1("warn", (messages,)).map(drop) }
}

fn errors(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import("dliotrace._analysis.errors")
}

pub struct AnalyzerProcess {
    child: Child,
    stdout: ChildStdout,
    /// `None` after its end.
    stderr: Option<ChildStderr>,
    messages: Messages,
    /// The object that draws the progress.
    progress: Option<Py<PyAny>>,
    /// `true` once the exit status has been collected.
    has_ended: bool,
    /// The process that started it: a fork must not end its parent's analyzer.
    owner: u32,
}

impl AnalyzerProcess {
    pub fn start(program: &str, arguments: &[String], progress: Option<Py<PyAny>>) -> io::Result<AnalyzerProcess> {
        // The analysis itself is not traced, even if the Python program is.
        let mut child = Command::new(program)
            .args(arguments)
            .env("DLIO_TRACE", "0")
            .env_remove("LD_PRELOAD")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().expect("it is piped");
        let stderr = child.stderr.take().expect("it is piped");
        // SAFETY: an open descriptor; a smaller pipe works too.
        unsafe { libc::fcntl(stdout.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_BYTES) };
        let process = AnalyzerProcess {
            child,
            stdout,
            stderr: Some(stderr),
            messages: Messages::default(),
            progress,
            has_ended: false,
            owner: std::process::id(),
        };
        process.descriptors().into_iter().try_for_each(set_nonblocking)?;
        Ok(process)
    }

    /// Returns the messages since the last call.
    pub fn take_messages(&mut self) -> String {
        std::mem::take(&mut self.messages.text)
    }

    /// Returns the descriptors of standard output and standard error; -1 after its end.
    fn descriptors(&self) -> [RawFd; 2] {
        [self.stdout.as_raw_fd(), self.stderr.as_ref().map_or(-1, AsRawFd::as_raw_fd)]
    }

    /// Waits until there is output or a message.
    fn wait(&mut self) -> io::Result<()> {
        poll(self.descriptors(), WAIT_MS);
        self.receive_messages();
        self.react()
    }

    /// On the main thread, handles signals and draws progress.
    fn react(&mut self) -> io::Result<()> {
        if !main_thread::is_current() {
            return Ok(());
        }
        let (progress, latest) = (&self.progress, self.messages.progress.take());
        let handled = Python::attach(|py| {
            py.check_signals()?;
            match (progress, latest) {
                (Some(progress), Some(latest)) => progress.call_method1(py, "draw", latest).map(drop),
                _ => Ok(()),
            }
        });
        handled.map_err(|raised| {
            self.end();
            io::Error::other(Failure::Interrupted(raised))
        })
    }

    fn receive_messages(&mut self) {
        let mut chunk = [0; 4096];
        while let Some(stderr) = &mut self.stderr {
            match stderr.read(&mut chunk) {
                Ok(0) => self.stderr = None,
                Ok(length) => self.messages.receive(&chunk[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// Collects the exit status after the end of the output.
    fn finish(&mut self) -> io::Result<()> {
        if self.has_ended {
            return Ok(());
        }
        while self.stderr.is_some() {
            self.wait()?;
        }
        let status = self.child.wait()?;
        self.has_ended = true;
        self.clear_progress();
        if status.signal() == Some(libc::SIGINT) {
            poll([-1; 2], INTERRUPT_MS);
            self.react()?;
        }
        // A complete result of filters that select nothing has the status of a failure, but no message.
        let selects_nothing = status.code() == Some(1) && self.messages.text.is_empty();
        match status.success() || selects_nothing {
            true => Ok(()),
            false => Err(io::Error::other(Failure::Ended(code(status), self.explanation(status)))),
        }
    }

    fn explanation(&mut self, status: ExitStatus) -> String {
        let messages = self.take_messages();
        match status.signal() {
            Some(signal) => format!("{messages}dlio-analyze was ended by signal {signal}; read the result again"),
            None => messages,
        }
    }

    /// Ends the process if it still runs.
    fn end(&mut self) {
        if self.has_ended || self.owner != std::process::id() {
            return;
        }
        self.has_ended = true;
        // SAFETY: a child whose exit status has not been collected, so no other process has its id.
        unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGTERM) };
        let _ = self.child.wait();
        self.clear_progress();
    }

    fn clear_progress(&mut self) {
        if let Some(progress) = self.progress.take_if(|_| main_thread::is_current()) {
            // The result does not depend on whether the line could be cleared.
            let _ = Python::attach(|py| progress.call_method0(py, "clear").map(drop));
        }
    }
}

impl Read for AnalyzerProcess {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.stdout.read(into) {
                Ok(0) => return self.finish().map(|()| 0),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait()?,
                Err(error) if error.kind() == ErrorKind::Interrupted => self.react()?,
                read => return read,
            }
        }
    }
}

impl Drop for AnalyzerProcess {
    fn drop(&mut self) {
        self.end();
    }
}

fn code(status: ExitStatus) -> i32 {
    status.code().or(status.signal().map(|signal| -signal)).unwrap_or(-1)
}

fn set_nonblocking(descriptor: RawFd) -> io::Result<()> {
    // SAFETY: an open descriptor of this end of a pipe, which no other process uses.
    match unsafe { libc::fcntl(descriptor, libc::F_SETFL, libc::O_NONBLOCK) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Waits until one of the descriptors is readable, a signal arrives or the time is over. Ignores -1.
fn poll(descriptors: [RawFd; 2], milliseconds: libc::c_int) {
    let mut polled = descriptors.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    // SAFETY: a list with its length.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, milliseconds) };
}

/// Standard error of dlio-analyze: messages, and lines of `--progress-lines`.
#[derive(Default)]
struct Messages {
    /// A line without its end.
    partial: Vec<u8>,
    text: String,
    progress: Option<Progress>,
}

/// Bytes that were read, all bytes, and events.
type Progress = (u64, u64, u64);

impl Messages {
    fn receive(&mut self, bytes: &[u8]) {
        self.partial.extend_from_slice(bytes);
        while let Some(end) = self.partial.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            match progress(&line) {
                Some(progress) => self.progress = Some(progress),
                None => self.text.push_str(&line),
            }
        }
    }
}

/// Parses a line such as `progress 5 10 1000`.
fn progress(line: &str) -> Option<Progress> {
    let numbers: Result<Vec<u64>, _> = line.strip_prefix("progress ")?.split_whitespace().map(str::parse).collect();
    match numbers.ok()?[..] {
        [done, all, events] => Some((done, all, events)),
        _ => None,
    }
}
