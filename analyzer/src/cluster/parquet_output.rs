//! Events that workers write as Parquet, into a directory that all hosts see.
//!
//! Each worker writes under temporary names that readers do not recognize as tables. The coordinator renames the files
//! when a split is done, so a split that two workers got appears once.

use std::collections::hash_map::RandomState;
use std::future::ready;
use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::error::ArrowError;
use dlio_cluster::dispatch::{Dispatched, dispatch};

use super::coordinator::{Cluster, ClusterError, Question, totals, undone};
use super::splits::splits;
use super::task::{SentPath, Task, Write, WrittenFiles, unpack};
use crate::filter::Filter;
use crate::findings::limits::Limits;
use crate::load::Trace;
use crate::scan::Progress;
use crate::summary::analysis::Analysis;
use crate::tables::export::{write_counted, write_split};
use crate::tables::parquet_file::Numbers;
use crate::unfinished::unless_finished;

/// Marks the names of files that are not tables yet.
const DRAFT: &str = ".part-";

/// The name of a file by which workers verify that they see the coordinator's directory.
const MARK: &str = ".same-";

/// Why no directory of Parquet was written.
pub enum WriteError {
    Workers(ClusterError),
    Here(ArrowError),
    /// A worker cannot or must not write there; in that case writing is not started.
    NotTheirs(String),
}

impl From<ArrowError> for WriteError {
    fn from(error: ArrowError) -> WriteError {
        WriteError::Here(error)
    }
}

impl From<ClusterError> for WriteError {
    fn from(trouble: ClusterError) -> WriteError {
        WriteError::Workers(trouble)
    }
}

/// Returns a random number.
fn some_number() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl Cluster {
    /// Makes workers write the counted events into a directory, whose content is unchanged after a failure.
    pub fn write(
        &self,
        question: &Question,
        (analysis, limits): (&Analysis, &Limits),
        folder: &Path,
        progress: &Arc<Progress>,
    ) -> Result<Dispatched, WriteError> {
        if question.trace.sources.iter().any(|source| source.processes().is_none()) {
            return Err(WriteError::NotTheirs(
                "its processes are discovered while it is read, in a different order on each worker".into(),
            ));
        }
        let mut dispatched = Dispatched::default();
        write_counted(question.trace, analysis, limits, folder, |events| {
            let events = std::fs::canonicalize(events).map_err(ArrowError::from)?;
            self.see(&events)?;
            dispatched = self.write_events(question, &events, progress)?;
            Ok::<(), WriteError>(())
        })?;
        Ok(dispatched)
    }

    /// Asks all workers whether they see the directory and may write there.
    fn see(&self, folder: &Path) -> Result<(), WriteError> {
        let mark = folder.join(format!("{MARK}{:016x}", some_number()));
        std::fs::File::create_new(&mark).map_err(ArrowError::from)?;
        let asked = Task::MayWrite { mark: SentPath::of(&mark) }.packed().map_err(ClusterError)?;
        let all = self.connections().iter().try_for_each(|connection| {
            let answer = connection.perform(asked.clone(), |_| (), |_| Ok(()));
            let answer = self.runtime().block_on(answer);
            answer.map_err(|fault| WriteError::NotTheirs(format!("worker {}: {fault}", connection.address))).map(drop)
        });
        std::fs::remove_file(&mark).map_err(ArrowError::from)?;
        all
    }

    fn write_events(
        &self,
        question: &Question,
        folder: &Path,
        progress: &Arc<Progress>,
    ) -> Result<Dispatched, WriteError> {
        let trace = Arc::new(question.described()?);
        let files = Arc::new(question.trace.catalog.files());
        let splits = splits(question.trace, question.filter, self.workers(), false).into_iter().enumerate();
        let piece = |(number, split)| {
            let asked = Write { split, folder: SentPath::of(folder), number, files: files.clone() };
            Task::Write { trace: trace.clone(), asked }.packed().map_err(ClusterError)
        };
        let pieces = splits.map(piece).collect::<Result<Vec<_>, _>>()?;
        let told = totals(pieces.len(), progress.clone());
        let take = |number, bytes: Vec<u8>| ready(self.take_written(question.trace, folder, number, &bytes));
        let done = dispatch(self.connections(), pieces, told, Vec::new, take);
        let dispatched = self.runtime().block_on(done).map_err(undone)?;
        sweep(folder).map_err(ArrowError::from)?;
        Ok(dispatched)
    }

    /// Renames the files of a split to their final names.
    fn take_written(&self, trace: &Trace, folder: &Path, number: usize, bytes: &[u8]) -> Result<(), String> {
        let WrittenFiles { names, notes } = unpack(bytes)?;
        notes.into_iter().for_each(|note| trace.note(note.note()));
        for (place, name) in names.iter().enumerate() {
            if !name.starts_with(DRAFT) || name.contains('/') {
                return Err(format!("it wrote {name}, which is not a part of a table"));
            }
            let path = folder.join(format!("part-{number:03}-{place}.parquet"));
            std::fs::rename(folder.join(name), &path)
                .map_err(|error| format!("cannot rename its output to {}: {error}", path.display()))?;
        }
        Ok(())
    }
}

/// Removes the files of workers that disconnected.
fn sweep(folder: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(DRAFT) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Writes a split on a worker; on failure removes its files.
pub fn write(
    trace: &Trace,
    filter: &Filter,
    asked: &Write,
    limits: (usize, u64),
    progress: &Progress,
) -> Result<Vec<String>, String> {
    let (folder, own) = (asked.folder.path(), some_number());
    let name = |thread: usize| folder.join(format!("{DRAFT}{:03}-{own:016x}-{thread}", asked.number));
    let numbers = Arc::new(Numbers::of(&asked.files));
    let left = folder.clone();
    let _unfinished = unless_finished(move || forget(&left, own));
    let written = write_split(trace, filter, (&asked.split, &numbers), limits, progress, name);
    let whole = match progress.stopped.load(Ordering::Relaxed) {
        true => Err("the result is no longer needed".into()),
        false => written.map_err(|error| format!("cannot write {}: {error}", folder.display())),
    };
    let named = |path: PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    whole.map(|paths| paths.into_iter().filter_map(named).collect()).inspect_err(|_| forget(&folder, own))
}

/// Removes the files that a worker wrote under its number.
fn forget(folder: &Path, own: u64) {
    let mark = format!("-{own:016x}-");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().contains(&mark));
    ours.for_each(|entry| drop(std::fs::remove_file(entry.path())));
}
