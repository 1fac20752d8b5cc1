//! The thread of `dlio trace --last` that keeps events which would be dropped after the period: those of slow steps, and those
//! before a signal that `dlio trace` forwards to the command (SIGUSR1, SIGUSR2).
//!
//! A traced process writes a [note](dlio_schemas::slow_step) about a slow step into the trace directory. Every `dlio trace` that
//! uses this directory then copies the files that it sees into a subdirectory `kept-...`, which `dlio-analyze` reads like any
//! trace. Every one of them has to copy, because on network file systems the rings of a host are visible only on that host. The
//! `dlio trace` that created the subdirectory removes the note once the next slow step would have different events.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use dlio_schemas::machine::samples::ENDING;
use dlio_schemas::slow_step::{KEPT, NOTE, SlowStep};
use dlio_tracer::spool;

use crate::system::processes;

/// How often the directory is inspected.
const PERIOD: Duration = Duration::from_secs(1);
/// More often if the period that is kept is short.
const LOOKS_PER_PERIOD: u32 = 4;
/// Number of slow steps that are kept: the slowest ones.
const KEPT_MAX: usize = 3;

/// Keeps slow steps on a thread until it is finished.
pub struct KeptSteps {
    stop: Sender<()>,
    thread: JoinHandle<Vec<Kept>>,
}

/// Events that were kept.
pub struct Kept {
    pub folder: PathBuf,
    /// `None` if a signal was the reason.
    pub step: Option<SlowStep>,
}

impl KeptSteps {
    /// Starts the thread; `None` if that is impossible.
    pub fn begin(folder: &Path, last: Duration, umask: u32) -> Option<KeptSteps> {
        let (stop, stopped) = channel();
        let mut keeper = Keeper { folder: folder.into(), last, umask, current: None, kept: Vec::new() };
        keeper.remove_stale_note();
        let thread = move || {
            let period = PERIOD.min(last / LOOKS_PER_PERIOD);
            while stopped.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                keeper.look();
            }
            keeper.end()
        };
        let thread = Builder::new().name("dlio-kept".into()).spawn(thread).ok()?;
        Some(KeptSteps { stop, thread })
    }

    /// Stops the thread, and returns what it has kept.
    pub fn finish(self) -> Vec<Kept> {
        // Fails if the thread has already ended.
        let _ = self.stop.send(());
        self.thread.join().unwrap_or_default()
    }
}

struct Keeper {
    folder: PathBuf,
    last: Duration,
    umask: u32,
    /// The step that has been kept last, while its note exists.
    current: Option<Current>,
    kept: Vec<Kept>,
}

struct Current {
    step: SlowStep,
    since: Instant,
    /// `true` if this process made the directory, and removes the note.
    is_ours: bool,
}

impl Keeper {
    /// Removes the note of an earlier run, whose process no longer exists to keep it.
    fn remove_stale_note(&self) {
        let note = self.folder.join(NOTE);
        let age = || note.metadata().ok()?.modified().ok()?.elapsed().ok();
        if age().is_some_and(|age| age > self.last) {
            let _ = fs::remove_file(note);
        }
    }

    /// Keeps the events of the slow step in the note, and the events that a signal requests.
    fn look(&mut self) {
        if processes::take_keep_request() {
            self.keep_for_signal();
        }
        let step = fs::read_to_string(self.folder.join(NOTE)).ok().and_then(|text| SlowStep::parse(&text));
        match (&self.current, step) {
            (_, None) => self.current = None,
            (Some(current), Some(step)) if current.step == step => {
                if current.is_ours && current.since.elapsed() > self.last / 2 {
                    let _ = fs::remove_file(self.folder.join(NOTE));
                    self.current = None;
                }
            }
            (_, Some(step)) => self.keep_step(step),
        }
    }

    fn keep_step(&mut self, step: SlowStep) {
        let target = self.folder.join(step.kept_name());
        let is_ours = self.make(&target).is_ok();
        self.current = Some(Current { step, since: Instant::now(), is_ours });
        if self.copy_into(&target).is_err() && is_ours {
            // Such as a full disk: a part of the events would look like all of them.
            let _ = fs::remove_dir_all(target);
            return;
        }
        if is_ours {
            self.kept.push(Kept { folder: target, step: Some(step) });
            self.drop_least_slow();
        }
    }

    fn keep_for_signal(&mut self) {
        let target = |number: usize| self.folder.join(format!("{KEPT}signal-{number}"));
        let Some(target) = (1..=KEPT_MAX).map(target).find(|target| self.make(target).is_ok()) else { return };
        match self.copy_into(&target) {
            Ok(()) => self.kept.push(Kept { folder: target, step: None }),
            Err(_) => drop(fs::remove_dir_all(target)),
        }
    }

    /// Removes the least slow step if there are more than [`KEPT_MAX`].
    fn drop_least_slow(&mut self) {
        let steps = || self.kept.iter().enumerate().filter_map(|(at, kept)| Some((at, kept.step?.factor())));
        if steps().count() > KEPT_MAX
            && let Some((at, _)) = steps().min_by(|a, b| a.1.total_cmp(&b.1))
        {
            let _ = fs::remove_dir_all(self.kept.remove(at).folder);
        }
    }

    fn make(&self, target: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o777 & !self.umask).create(target)
    }

    /// Copies the files of the trace, unless another `dlio trace` has copied them. Rings come first: an event that
    /// moves to the blocks in between is in both, and counts once.
    fn copy_into(&self, target: &Path) -> io::Result<()> {
        let mut files = spool::rings_of(&self.folder);
        let here = fs::read_dir(&self.folder)?.flatten().map(|entry| entry.path());
        files.extend(here.filter(|path| place(path).is_some()));
        files.sort_by_key(|path| place(path));
        files.iter().try_for_each(|file| self.copy(file, target))
    }

    /// Copies a file, first under another name, so that readers never see half of it.
    fn copy(&self, file: &Path, target: &Path) -> io::Result<()> {
        let whole = target.join(file.file_name().unwrap_or_default());
        let part = target.join(format!(".{}.{:x}", std::process::id(), self.kept.len()));
        // In a directory that others can write to, a name may be occupied by anything.
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(file);
        let mut from = match opened {
            Ok(from) if from.metadata()?.is_file() => from,
            // Its process has just ended, and its events are in a file that comes later in this order.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => return Ok(()),
        };
        let mut to = OpenOptions::new().write(true).create_new(true).mode(0o666 & !self.umask).open(&part)?;
        let copied = io::copy(&mut from, &mut to).and_then(|_| fs::hard_link(&part, &whole));
        let _ = fs::remove_file(&part);
        match copied {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            copied => copied,
        }
    }

    /// The last look: a step that was slow just now is in the trace itself.
    fn end(mut self) -> Vec<Kept> {
        if processes::take_keep_request() {
            self.keep_for_signal();
        }
        if self.current.is_some_and(|current| current.is_ours) {
            let _ = fs::remove_file(self.folder.join(NOTE));
        }
        self.kept
    }
}

/// Returns the place of a file of a trace in the order of copying; `None` for other files.
fn place(path: &Path) -> Option<usize> {
    let name = path.file_name()?.to_string_lossy();
    let is_ours = |ending: &&str| name.strip_suffix(*ending).is_some_and(|stem| stem.ends_with('.'));
    ["ring", "dlt", "pftrace", "json.gz", ENDING, "list"].iter().position(is_ours)
}
