//! What a worker does with a task.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use dlio_cluster::work::{Done, Piece, Work};

use super::task::{Count, Described, Found, SentFile, SentNote, Task, pack, unpack};
use crate::load::{Trace, inputs};
use crate::scan::Progress;
use crate::summary::partial::{Asked, analyse_part};

/// Traces that stay open between the pieces of one question: the facts of their processes, about a kilobyte each.
const OPEN_MAX: usize = 2;

/// A worker: which files it may read, and with how many threads.
pub struct Worker {
    /// Without links in them.
    roots: Vec<PathBuf>,
    threads: usize,
    open: Mutex<Vec<(Arc<Described>, Arc<Trace>)>>,
}

impl Worker {
    /// `roots` are the folders below which it reads.
    pub fn new(roots: &[PathBuf], threads: usize) -> Result<Worker, String> {
        let whole = |root: &PathBuf| {
            let whole =
                std::fs::canonicalize(root).map_err(|error| format!("{}: no such root ({error})", root.display()))?;
            if whole.is_dir() { Ok(whole) } else { Err(format!("{}: a root is a folder", root.display())) }
        };
        Ok(Worker { roots: roots.iter().map(whole).collect::<Result<_, _>>()?, threads, open: Mutex::default() })
    }

    /// That a path is one of those it may read, wherever links lead.
    fn permit(&self, path: &Path) -> Result<(), String> {
        let roots = || {
            let roots = self.roots.iter().map(|root| root.display().to_string());
            roots.collect::<Vec<_>>().join(", ")
        };
        let whole = std::fs::canonicalize(path).map_err(|error| {
            format!("{}: it is not there on this machine ({error}); is its file system mounted?", path.display())
        })?;
        match self.roots.iter().any(|root| whole.starts_with(root)) {
            true => Ok(()),
            false => Err(format!(
                "{} lies below none of its roots ({}); start it with another --root",
                path.display(),
                roots()
            )),
        }
    }

    fn greet(&self, inputs: &[PathBuf]) -> Result<Vec<u8>, String> {
        inputs.iter().try_for_each(|input| self.permit(input))?;
        Ok(Vec::new())
    }

    /// The trace of a task. One whose processes are met while it is read has to be new: what is known of them when reading
    /// begins is part of what is measured.
    pub fn trace(&self, described: &Arc<Described>, is_new: bool) -> Result<Arc<Trace>, String> {
        let known = || self.open.lock().expect("open traces").iter().find(|(known, _)| known == described).cloned();
        if let Some((_, trace)) = known().filter(|_| !is_new) {
            return Ok(trace);
        }
        let trace = Arc::new(self.open_trace(described)?);
        if !is_new {
            let mut open = self.open.lock().expect("open traces");
            open.retain(|(known, _)| known != described);
            open.insert(0, (described.clone(), trace.clone()));
            open.truncate(OPEN_MAX);
        }
        Ok(trace)
    }

    fn open_trace(&self, described: &Described) -> Result<Trace, String> {
        described.files.iter().try_for_each(|file| self.permit(&described.place(file)))?;
        check_files(described, &described.files)?;
        let files = described.files.iter().map(|file| (described.place(file), file.named)).collect();
        let found = inputs::tell(files).map_err(|error| error.to_string())?;
        let trace = Trace::of(found, &described.given, self.threads).map_err(|error| error.to_string())?;
        trace.catalog.allow_names(described.memory);
        match Found::of(&trace) == described.found {
            true => Ok(trace),
            false => Err("it finds other things in the same files: one of them changed just now; ask again".into()),
        }
    }
}

/// That files are as they were when the question was asked.
fn check_files<'f>(described: &Described, files: impl IntoIterator<Item = &'f SentFile>) -> Result<(), String> {
    for file in files {
        let path = described.place(file);
        let is_same = file.is_at(&path).map_err(|error| {
            format!("{}: it is not there on this machine ({error}); is its file system mounted?", path.display())
        })?;
        if !is_same {
            return Err(format!(
                "{} changed since it was asked for; ask again when its program has ended, or without --workers",
                path.display()
            ));
        }
    }
    Ok(())
}

/// The work of a process: pieces for whoever asks.
pub struct Works(pub Arc<Worker>);

impl Work for Works {
    fn begin(&self, piece: Bytes) -> Result<Arc<dyn Piece>, String> {
        let task = unpack(&piece)?;
        Ok(Arc::new(Running { worker: self.0.clone(), task, progress: Progress::default() }))
    }
}

/// A task under way.
struct Running {
    worker: Arc<Worker>,
    task: Task,
    progress: Progress,
}

impl Piece for Running {
    fn run(&self) -> Result<Vec<u8>, String> {
        match &self.task {
            Task::Greeting { inputs } => self.worker.greet(&inputs.iter().map(|path| path.path()).collect::<Vec<_>>()),
            Task::Count { trace, asked } => self.count(trace, asked),
        }
    }

    fn stop(&self) {
        self.progress.stopped.store(true, Ordering::Relaxed);
    }

    fn done(&self) -> Done {
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        Done { events: count(&self.progress.events), bytes: count(&self.progress.bytes) }
    }
}

impl Running {
    fn count(&self, described: &Arc<Described>, asked: &Asked) -> Result<Vec<u8>, String> {
        let trace = self.worker.trace(described, asked.meets_processes)?;
        let filter = described.filter.filter()?;
        let mut partial = analyse_part(&trace, &filter, self.worker.threads, &self.progress, asked)
            .map_err(|error| format!("no memory to decompress a trace ({error})"))?;
        // What was read belongs to what was asked for only if it is still the same.
        let read = asked.sources.iter().flat_map(|(from, to)| &trace.sources[*from as usize..*to as usize]);
        let read: HashSet<&Path> = read.map(|source| source.path()).collect();
        check_files(described, described.files.iter().filter(|file| read.contains(described.place(file).as_path())))?;
        let names = Names::of(described);
        partial.rename_sources(|source| names.of_text(source));
        let notes = trace.notes.lock().expect("notes");
        let notes = notes.iter().map(|note| SentNote::of(note, &names.of_path(&note.path))).collect();
        pack(&Count { partial, notes })
    }
}

/// What files are called where they were asked for, by where they lie.
struct Names(HashMap<PathBuf, PathBuf>);

impl Names {
    fn of(described: &Described) -> Names {
        Names(described.files.iter().map(|file| (described.place(file), file.path.path())).collect())
    }

    fn of_path(&self, place: &Path) -> PathBuf {
        self.0.get(place).cloned().unwrap_or_else(|| place.into())
    }

    fn of_text(&self, place: &str) -> String {
        self.of_path(Path::new(place)).display().to_string()
    }
}
