//! The interface of readers: their input and output.

use std::path::{Path, PathBuf};

use dlio_schemas::native::Damage;
use dlio_schemas::native::block::Opener;
use dlio_schemas::native::columns::Events;

use super::duplicates::Duplicates;
use super::errors::Note;
use super::job_log::{Counter, JobLog};
use super::resolve::Times;
use super::tally::ProcessTally;
use crate::batch::{Batch, Wanted};
use crate::catalog::Catalog;
use crate::load::bytes::file_bytes::OpenFiles;
use crate::unit::Unit;

/// A format of traces: how its files are recognized and opened.
pub struct Format {
    /// The common name.
    pub name: &'static str,
    /// Recognizes the format from the first bytes of a file, unpacked if the file is compressed.
    pub recognises: fn(head: &[u8]) -> Recognition,
    /// Creates sources of files; unusable ones are noted.
    pub open: fn(paths: &[PathBuf], opening: &mut Opening) -> Sources,
    /// `true` if files identify their process, so that two identical files are copies and not two identical runs.
    pub names_processes: bool,
}

impl PartialEq for Format {
    fn eq(&self, other: &Format) -> bool {
        self.name == other.name
    }
}

impl std::fmt::Debug for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Whether a file has a format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recognition {
    Yes,
    No,
    /// It was meant to have it but is unusable: the reason, and the remedy.
    Useless(&'static str),
}

impl From<bool> for Recognition {
    fn from(is: bool) -> Recognition {
        if is { Recognition::Yes } else { Recognition::No }
    }
}

pub type Sources = Vec<Box<dyn Source>>;

/// The lists that opening files adds to.
pub struct Opening<'a> {
    pub catalog: &'a Catalog,
    pub notes: &'a mut Vec<Note>,
    pub duplicates: &'a mut Duplicates,
}

/// The opened input of one reader.
pub trait Source: Send + Sync {
    fn path(&self) -> &Path;

    /// Returns all files that it is read from.
    fn paths(&self) -> Vec<&Path> {
        vec![self.path()]
    }

    /// Returns the file whose rows are those of the table `events`, unchanged, if it reads such a file.
    fn table(&self) -> Option<&Path> {
        None
    }

    /// Returns the counts that replace events.
    fn tally(&self, _catalog: &Catalog) -> Option<ProcessTally> {
        None
    }

    /// Returns the counts of all events of a flight recorder, including the recorded ones.
    fn totals(&self, _catalog: &Catalog) -> Option<ProcessTally> {
        None
    }

    /// Returns the job that its file describes; once per file.
    fn job(&self) -> Option<&JobLog> {
        None
    }

    /// Passes on every number that its file has for files, as the program that counted names it.
    fn counters(&self, _take: &mut dyn FnMut(Counter)) {}

    /// Returns the start of its first event, if known before reading.
    fn start(&self) -> Option<i64> {
        None
    }

    /// Returns `true` if all of its processes and their starts are known before reading.
    fn knows_processes(&self) -> bool {
        self.start().is_some()
    }

    /// Returns the processes whose events it may contain; `None` if unknown before reading.
    fn processes(&self) -> Option<Vec<u32>> {
        None
    }

    /// Returns the units; `source` is written into each.
    fn units(&self, source: u32) -> Vec<Unit>;

    /// Returns `true` if its units have exact numbers of events, not estimates.
    fn knows_events(&self) -> bool {
        false
    }

    /// Reads one unit and passes on its batches. Damage is returned; batches before it count.
    fn read(
        &self,
        index: u32,
        reader: &mut Reader,
        catalog: &Catalog,
        wanted: Wanted,
        take: &mut dyn FnMut(&mut Batch),
    ) -> Result<(), Damage>;
}

/// The state of one thread between units: open files, buffers, decompressors.
pub struct Reader {
    pub files: OpenFiles,
    pub native: Scratch,
    pub times: Times,
    pub batch: Batch,
    pub text: Vec<u8>,
}

impl Reader {
    pub fn new() -> std::io::Result<Reader> {
        Ok(Reader {
            files: Default::default(),
            native: Scratch::new()?,
            times: Default::default(),
            batch: Batch::default(),
            text: Vec::new(),
        })
    }

    /// Returns the parts that resolving writes to.
    pub fn split(&mut self) -> (&mut Times, &mut Batch) {
        (&mut self.times, &mut self.batch)
    }
}

/// The state of one thread between blocks of native files.
pub struct Scratch {
    pub opener: Opener,
    pub events: Events,
    pub bytes: Vec<u8>,
}

impl Scratch {
    pub fn new() -> std::io::Result<Scratch> {
        Ok(Scratch { opener: Opener::default(), events: Events::default(), bytes: Vec::new() })
    }
}
