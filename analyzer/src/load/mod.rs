//! From files of any kind to batches of events.
//!
//! A [`Source`] is one traced process or one foreign file as its reader represents it: a list of [`Unit`]s, each of
//! which can be read independently on any thread. A [`Trace`] contains all sources of a command and the catalog they
//! share.
//!
//! ```text
//! inputs            the selected files, and the format of each
//! origin            where a cut trace comes from
//! companion_files   counters of hosts, and programs that left no trace
//! recorded          dlio's own traces, to be written again
//! formats/          one file per foreign format
//! native/           dlio's own files     json/   Chrome and DFTracer     lines/   text
//! sources/          the results of readers, and what readers share
//! events/           events of a text become batches
//! bytes/            files, objects, gzip
//! ```
//!
//! A directory uses those below it, never those above.

pub mod bytes;
pub mod companion_files;
pub mod events;
pub mod formats;
pub mod inputs;
pub mod json;
pub mod lines;
pub mod native;
pub mod origin;
pub mod recorded;
pub mod sources;

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use dlio_schemas::machine::samples::Samples;
use dlio_schemas::native::Damage;
use dlio_schemas::native::untraced::Untraced;

use crate::batch::{Batch, Wanted};
use crate::catalog::Catalog;
use crate::filter::{Filter, Sieve};
use crate::process_tree::late_ranks;
use crate::unit::{Categories, Seen, Unit};
use formats::FORMATS;
use native::index::Index;
use native::reader;
use sources::duplicates::{Duplicates, PassedOver};
use sources::errors::{LoadError, Note};
use sources::source::{Opening, Reader, Source};

/// The note on a trace with more names than fit in memory.
pub const NAMES_TOGETHER: &str = "it has more distinct event names than fit into --memory: the last ones are counted \
    together as (other names); raise --memory";

/// All inputs of a command, ready to be read.
pub struct Trace {
    pub catalog: Catalog,
    pub sources: Vec<Box<dyn Source>>,
    /// Latest end first: see [`crate::summary::time::intervals`].
    pub units: Vec<Unit>,
    /// Files, directories and patterns as given.
    pub given: Vec<String>,
    /// Files that were read.
    pub files: Vec<PathBuf>,
    pub notes: Mutex<Vec<Note>>,
    /// Files with processes that other files also contain.
    pub passed_over: Vec<PassedOver>,
    /// The meaning of the bits of units, if an earlier reading determined it.
    pub categories: Categories,
    /// Counters of hosts sampled while the commands ran.
    pub machines: Vec<Samples>,
    /// Programs that traced programs started and that left no trace.
    pub untraced: Vec<Untraced>,
    /// `true` if no process still writes, as far as is known.
    pub settled: bool,
    /// `true` if results of earlier readings of the files were used.
    pub indexed: bool,
}

impl Trace {
    /// Opens files, directories and patterns.
    pub fn open(given: &[String], threads: usize) -> Result<Trace, LoadError> {
        Trace::of(inputs::find(given)?, given, threads, &Index::default())
    }

    /// Opens the files that were found, using the index for those it contains.
    pub fn of(found: inputs::InputFiles, given: &[String], threads: usize, index: &Index) -> Result<Trace, LoadError> {
        let catalog = Catalog::default();
        let mut notes = found.notes;
        let mut duplicates = Duplicates::default();
        let look = reader::OpenMode { again: inputs::find_successors, index };
        let natives = reader::open_all(&found.natives, look, &catalog, threads, &mut notes, &mut duplicates);
        let mut sources = natives.sources;
        let mut opening = Opening { catalog: &catalog, notes: &mut notes, duplicates: &mut duplicates };
        let others: Vec<_> = found.others.into_iter().chain(natives.stand_ins).collect();
        for format in FORMATS {
            let of_format = others.iter().filter(|(_, of)| of == format).map(|(path, _)| path.clone());
            sources.extend((format.open)(&of_format.collect::<Vec<_>>(), &mut opening));
        }
        let mut trace = Trace {
            catalog,
            sources,
            units: Vec::new(),
            given: given.to_vec(),
            files: found.files,
            notes: Mutex::new(notes),
            passed_over: found.copies.into_iter().chain(duplicates.passed_over).collect(),
            categories: Categories::default(),
            machines: companion_files::samples(&found.machines),
            untraced: companion_files::untraced(&found.untraced),
            settled: natives.settled,
            indexed: index.is_used(),
        };
        for (proc, rank) in late_ranks(&trace.catalog.processes()) {
            trace.catalog.amend(proc, |process| process.rank = Some(rank));
        }
        trace.list_units();
        match trace.sources.is_empty() {
            true => Err(trace.nothing(given, &found.useless)),
            false => Ok(trace),
        }
    }

    fn list_units(&mut self) {
        self.units = (0u32..).zip(&self.sources).flat_map(|(number, source)| source.units(number)).collect();
        self.units.sort_by_key(|unit| std::cmp::Reverse(unit.last_end));
    }

    /// Uses the results of an earlier reading of the units: `known` returns the result for one of them.
    pub fn recall<'k>(&mut self, categories: Categories, known: impl Fn(&Path, u32) -> Option<&'k Seen>) {
        for unit in &mut self.units {
            if let Some(seen) = known(self.sources[unit.source as usize].path(), unit.index) {
                unit.first_start = seen.first_start;
                unit.last_end = unit.last_end.min(seen.last_end);
                unit.categories = seen.categories;
                unit.pid = seen.pid;
            }
        }
        self.categories = categories;
        self.units.sort_by_key(|unit| std::cmp::Reverse(unit.last_end));
    }

    /// Returns the sieve of a filter.
    pub fn sieve<'a>(&'a self, filter: &'a Filter) -> Sieve<'a> {
        Sieve::new(filter, &self.catalog).of_categories(&self.categories)
    }

    /// Returns why none of the sources could be opened.
    fn nothing(&self, given: &[String], useless: &[(PathBuf, &'static str)]) -> LoadError {
        if let Some((path, why)) = useless.first() {
            return LoadError::Useless(path.clone(), why);
        }
        match self.notes.lock().expect("notes").first() {
            Some(note) if note.what == Damage::NotATrace => LoadError::NoTrace(note.path.clone(), formats::names()),
            Some(note) => LoadError::Unusable(note.path.clone(), note.what.clone()),
            None => LoadError::Empty(given.first().map_or(".", String::as_str).into()),
        }
    }

    /// Reads one unit through a filter; damage is noted.
    pub fn read(
        &self,
        unit: &Unit,
        reader: &mut Reader,
        wanted: Wanted,
        sieve: &Sieve,
        take: &mut dyn FnMut(&mut Batch),
    ) {
        if !sieve.may_take(unit) {
            return;
        }
        let source = &self.sources[unit.source as usize];
        let mut sifted = |batch: &mut Batch| {
            sieve.sift(batch);
            take(batch);
        };
        if let Err(what) = source.read(unit.index, reader, &self.catalog, wanted, &mut sifted) {
            let events_max = match what {
                Damage::Remark(_) => Some(0),
                _ => source.knows_events().then_some(unit.events),
            };
            self.note(Note { path: source.path().into(), what, events_max });
        }
    }

    /// Adds a note on the trace as a whole that involves no loss.
    pub fn remark(&self, what: &'static str) {
        let path = self.files.first().cloned().unwrap_or_default();
        self.note(Note { path, what: Damage::Remark(what), events_max: Some(0) });
    }

    /// Notes damage once, however often the piece is read.
    pub fn note(&self, note: Note) {
        let mut notes = self.notes.lock().expect("notes");
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// Returns the start of the trace, as far as it is known without reading all of it: the origin of relative times.
    pub fn start(&self) -> i64 {
        self.sources.iter().filter_map(|source| source.start()).min().unwrap_or(0)
    }

    /// Returns the size of all units in bytes.
    pub fn size(&self) -> u64 {
        self.units.iter().map(|unit| unit.size).sum()
    }
}
