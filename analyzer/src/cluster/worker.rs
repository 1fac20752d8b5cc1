//! Processes a task on a worker.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use dlio_cluster::work::{Done, Out, Piece, Work};

use super::rows::RowsTrailer;
use super::task::{
    Count, Rows, SentFile, SentNote, Task, TraceDescription, TraceSize, Write, WrittenFiles, pack, unpack,
};
use super::{parquet_output, query};
use crate::cache::Cache;
use crate::load::bytes::bucket;
use crate::load::{Trace, inputs};
use crate::scan::Progress;
use crate::summary::exact_quantiles::{RefineRequest, count_again};
use crate::summary::partial::{PartRequest, analyse_part};

/// Traces that stay open between the work items of one question: the facts of their processes, about a kilobyte each.
const OPEN_MAX: usize = 2;

/// A worker: the files it may read, and its number of threads.
pub struct Worker {
    /// Directories with links resolved, and locations in buckets.
    roots: Vec<PathBuf>,
    /// Directories below which it may write.
    writes: Vec<PathBuf>,
    threads: usize,
    open: Mutex<Vec<(Arc<TraceDescription>, Arc<Trace>)>>,
}

impl Worker {
    /// Creates a worker. `roots` are the directories and buckets below which it reads, `writes` the directories below
    /// which it may write.
    pub fn new(roots: &[PathBuf], writes: &[PathBuf], threads: usize) -> Result<Worker, String> {
        let whole = |root: &PathBuf| {
            if bucket::is_object(root) {
                return Ok(root.clone());
            }
            let whole = std::fs::canonicalize(root)
                .map_err(|error| format!("{}: the root does not exist ({error})", root.display()))?;
            if whole.is_dir() { Ok(whole) } else { Err(format!("{}: a root must be a directory", root.display())) }
        };
        let roots = roots.iter().map(whole).collect::<Result<_, _>>()?;
        Ok(Worker { roots, writes: writes.to_vec(), threads, open: Mutex::default() })
    }

    /// Checks that a path, with links resolved, is one it may read.
    fn permit(&self, path: &Path) -> Result<(), String> {
        let roots = || {
            let roots = self.roots.iter().map(|root| root.display().to_string());
            roots.collect::<Vec<_>>().join(", ")
        };
        let whole = match bucket::is_object(path) {
            true => path.to_path_buf(),
            false => std::fs::canonicalize(path).map_err(|error| missing_file(path, &error))?,
        };
        match self.roots.iter().any(|root| whole.starts_with(root)) {
            true => Ok(()),
            false => Err(format!(
                "{} is not below one of its roots ({}); start it with another --root",
                path.display(),
                roots()
            )),
        }
    }

    /// Checks that a directory, with links resolved, is one it may write to.
    fn permit_writing(&self, folder: &Path) -> Result<(), String> {
        let whole = std::fs::canonicalize(folder).map_err(|error| missing_file(folder, &error))?;
        let is_below =
            |allowed: &PathBuf| std::fs::canonicalize(allowed).is_ok_and(|allowed| whole.starts_with(allowed));
        match self.writes.iter().any(is_below) {
            true => Ok(()),
            false => Err(format!("it may not write to {}; start it with --write DIR", folder.display())),
        }
    }

    fn see(&self, mark: &Path) -> Result<(), String> {
        self.permit_writing(mark.parent().unwrap_or(mark))?;
        std::fs::metadata(mark).map(drop).map_err(|error| missing_file(mark, &error))
    }

    fn greet(&self, inputs: &[PathBuf]) -> Result<(), String> {
        inputs.iter().try_for_each(|input| self.permit(input))
    }

    /// Returns the trace of a task. A trace whose processes are discovered while reading must be opened again, because
    /// the processes known at the start of a reading affect the results.
    pub fn trace(&self, described: &Arc<TraceDescription>, is_new: bool) -> Result<Arc<Trace>, String> {
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

    fn open_trace(&self, described: &TraceDescription) -> Result<Trace, String> {
        described.files.iter().try_for_each(|file| self.permit(&described.place(file)))?;
        for given in described.given.iter().filter(|given| bucket::is_object(Path::new(given))) {
            self.permit(Path::new(bucket::fixed(given)))?;
            bucket::list(given).map_err(|error| format!("{given}: {error}, in the worker's directory"))?;
        }
        check_files(described, &described.files)?;
        let files: Vec<_> = described.files.iter().map(|file| (described.place(file), file.named)).collect();
        let cache = if described.index { Cache::of(&described.absolute_inputs(), &files) } else { None };
        let index = cache.map(|cache| cache.index()).unwrap_or_default();
        let found = inputs::classify(files).map_err(|error| error.to_string())?;
        let trace = Trace::of(found, &described.given, self.threads, &index).map_err(|error| error.to_string())?;
        trace.catalog.allow_names(described.memory);
        match TraceSize::of(&trace) == described.found {
            true => Ok(trace),
            false => Err("its files have different contents: one of them has just changed; run this again".into()),
        }
    }
}

fn missing_file(path: &Path, error: &std::io::Error) -> String {
    format!("{}: it does not exist on this host ({error}); is its file system mounted?", path.display())
}

/// Checks that files are unchanged since the question was sent.
fn check_files<'f>(described: &TraceDescription, files: impl IntoIterator<Item = &'f SentFile>) -> Result<(), String> {
    for file in files {
        let path = described.place(file);
        let is_same = file.is_at(&path).map_err(|error| missing_file(&path, &error))?;
        if !is_same {
            return Err(format!(
                "{} changed during the run; run this again after its program has ended, or without --workers",
                path.display()
            ));
        }
    }
    Ok(())
}

/// The service of a worker process: runs the work items of its clients.
pub struct WorkService(pub Arc<Worker>);

impl Work for WorkService {
    fn begin(&self, piece: Bytes) -> Result<Arc<dyn Piece>, String> {
        let task = unpack(&piece)?;
        Ok(Arc::new(RunningTask { worker: self.0.clone(), task, progress: Arc::default() }))
    }
}

/// A task in progress.
struct RunningTask {
    worker: Arc<Worker>,
    task: Task,
    progress: Arc<Progress>,
}

impl Piece for RunningTask {
    fn run(&self, out: Out) -> Result<(), String> {
        match &self.task {
            Task::Greeting { inputs } => self.worker.greet(&inputs.iter().map(|path| path.path()).collect::<Vec<_>>()),
            Task::Count { trace, asked } => out(self.count(trace, asked)?.into()),
            Task::CountAgain { trace, again } => out(self.count_again(trace, again)?.into()),
            Task::Rows { trace, asked } => self.rows(trace, asked, out),
            Task::MayWrite { mark } => self.worker.see(&mark.path()),
            Task::Write { trace, asked } => out(self.write(trace, asked)?.into()),
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

impl RunningTask {
    fn count(&self, described: &Arc<TraceDescription>, asked: &PartRequest) -> Result<Vec<u8>, String> {
        let trace = self.worker.trace(described, asked.meets_processes)?;
        let filter = described.filter.filter()?;
        let mut partial =
            analyse_part(&trace, &filter, self.worker.threads, &self.progress, asked).map_err(no_memory)?;
        check_read(described, &trace, each(&asked.sources))?;
        let names = Names::of(described);
        partial.rename_sources(|source| names.of_text(Path::new(source)));
        pack(&Count { partial, notes: names.notes(&trace) })
    }

    fn count_again(&self, described: &Arc<TraceDescription>, again: &RefineRequest) -> Result<Vec<u8>, String> {
        let trace = self.worker.trace(described, false)?;
        let counts = count_again(&trace, &described.filter.filter()?, self.worker.threads, &self.progress, again)
            .map_err(no_memory)?;
        check_read(described, &trace, each(&again.sources))?;
        pack(&counts)
    }

    fn rows(&self, described: &Arc<TraceDescription>, asked: &Rows, out: Out) -> Result<(), String> {
        let trace = self.worker.trace(described, false)?;
        let (threads, memory, progress) = (self.worker.threads, described.memory, self.progress.clone());
        let running = query::RunningQuery { trace: trace.clone(), threads, memory, progress };
        running.send(asked, out, |mut rest| {
            check_read(described, &trace, asked.split.sources().into_iter())?;
            let names = Names::of(described);
            query::rename_sources(&mut rest, |source| names.of_text(source));
            Ok(RowsTrailer { notes: names.notes(&trace), ..rest })
        })
    }

    fn write(&self, described: &Arc<TraceDescription>, asked: &Write) -> Result<Vec<u8>, String> {
        self.worker.permit_writing(&asked.folder.path())?;
        let trace = self.worker.trace(described, false)?;
        let limits = (self.worker.threads, described.memory);
        let names = parquet_output::write(&trace, &described.filter.filter()?, asked, limits, &self.progress)?;
        check_read(described, &trace, asked.split.sources().into_iter())?;
        pack(&WrittenFiles { names, notes: Names::of(described).notes(&trace) })
    }
}

fn no_memory(error: std::io::Error) -> String {
    format!("cannot decompress a trace: out of memory ({error})")
}

/// Iterates over the numbers in ranges.
fn each(ranges: &[(u32, u32)]) -> impl Iterator<Item = u32> {
    ranges.iter().flat_map(|(from, to)| *from..*to)
}

/// Checks after reading that the files are still unchanged: only then the result is valid.
fn check_read(described: &TraceDescription, trace: &Trace, sources: impl Iterator<Item = u32>) -> Result<(), String> {
    let read: HashSet<&Path> = sources.flat_map(|source| trace.sources[source as usize].paths()).collect();
    check_files(described, described.files.iter().filter(|file| read.contains(described.place(file).as_path())))
}

/// The coordinator's names of files, by their paths here.
struct Names(HashMap<PathBuf, PathBuf>);

impl Names {
    fn of(described: &TraceDescription) -> Names {
        Names(described.files.iter().map(|file| (described.place(file), file.path.path())).collect())
    }

    fn of_path(&self, place: &Path) -> PathBuf {
        self.0.get(place).cloned().unwrap_or_else(|| place.into())
    }

    fn of_text(&self, place: &Path) -> String {
        self.of_path(place).display().to_string()
    }

    /// Returns the notes so far, with the coordinator's file names.
    fn notes(&self, trace: &Trace) -> Vec<SentNote> {
        let notes = trace.notes.lock().expect("notes");
        notes.iter().map(|note| SentNote::of(note, &self.of_path(&note.path))).collect()
    }
}
