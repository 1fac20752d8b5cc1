//! The interface of readers: what each brings, and what it is given.

use std::path::{Path, PathBuf};

use dlio_schemas::native::Damage;
use dlio_schemas::native::block::Opener;
use dlio_schemas::native::columns::Events;

use super::duplicates::Duplicates;
use super::errors::Note;
use super::resolve::Times;
use super::tally::ProcessTally;
use crate::batch::{Batch, Wanted};
use crate::catalog::Catalog;
use crate::load::bytes::file_bytes::OpenFiles;
use crate::unit::Unit;

/// A format of traces: how its files are recognised and opened.
pub struct Format {
    /// As people call it.
    pub name: &'static str,
    /// The format that the first bytes of a file show, unpacked where the file is packed.
    pub recognises: fn(head: &[u8]) -> Recognised,
    /// Makes sources of files; what cannot be used is noted.
    pub open: fn(paths: &[PathBuf], opening: &mut Opening) -> Sources,
    /// True if its files say of which process they are, so that two alike are copies and not two runs alike.
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

/// The answer whether a file is of a format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recognised {
    Yes,
    No,
    /// It was meant to be, and nothing of it can be used: why, and what to do.
    Useless(&'static str),
}

impl From<bool> for Recognised {
    fn from(is: bool) -> Recognised {
        if is { Recognised::Yes } else { Recognised::No }
    }
}

pub type Sources = Vec<Box<dyn Source>>;

/// The lists that opening files adds to.
pub struct Opening<'a> {
    pub catalog: &'a Catalog,
    pub notes: &'a mut Vec<Note>,
    pub duplicates: &'a mut Duplicates,
}

/// The input of one reader, opened.
pub trait Source: Send + Sync {
    fn path(&self) -> &Path;

    /// All files that it is read from.
    fn paths(&self) -> Vec<&Path> {
        vec![self.path()]
    }

    /// The file whose rows are those of the table `events` as they stand, if that is what it reads.
    fn table(&self) -> Option<&Path> {
        None
    }

    /// The counts that stand in the place of events.
    fn tally(&self, _catalog: &Catalog) -> Option<ProcessTally> {
        None
    }

    /// The start of the first of its events, where that is known before reading.
    fn start(&self) -> Option<i64> {
        None
    }

    /// True if all of its processes, and when they began, are known before reading.
    fn knows_processes(&self) -> bool {
        self.start().is_some()
    }

    /// The processes whose events it may hold; `None` where that is not known before reading.
    fn processes(&self) -> Option<Vec<u32>> {
        None
    }

    /// `source` is to be written into each.
    fn units(&self, source: u32) -> Vec<Unit>;

    /// True if its units know how many events they hold, and do not guess.
    fn knows_events(&self) -> bool {
        false
    }

    /// Reads one unit and hands its batches on. What is damaged is returned; what was read before it counts.
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

    /// The parts that resolving writes to.
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
        Ok(Scratch { opener: Opener::new()?, events: Events::default(), bytes: Vec::new() })
    }
}
