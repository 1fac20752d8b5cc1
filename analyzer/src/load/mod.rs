//! From files of any kind to batches of events.
//!
//! A [`Source`] is what one reader makes of one traced process or one foreign file: a list of [`Unit`]s, each of which can
//! be read on its own, on any thread. A [`Trace`] is all sources of a command together with the catalogue they share.
//!
//! Reading order: [`inputs`] (which files), [`store`] (their bytes), [`native`] (ours), then the foreign ones.

pub mod alike;
pub mod arguments;
pub mod copies;
pub mod dxt;
pub mod gzip;
pub mod inputs;
pub mod json;
pub mod native;
pub mod parquet;
pub mod perfetto;
pub mod pieces;
pub mod pull;
pub mod resolve;
pub mod shapes;
pub mod store;
pub mod strace;
pub mod tally;
pub mod text;
pub mod twins;

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use dlio_schemas::native::Damage;
use serde::{Deserialize, Serialize};

use crate::batch::{Batch, Wanted};
use crate::catalog::Catalog;
use crate::filter::{Categories, Filter, Sieve};

/// A piece of a source that is read at once.
#[derive(Clone, Copy, Debug)]
pub struct Unit {
    pub source: u32,
    pub index: u32,
    /// No event of the unit begins earlier than this; `i64::MIN` where that is not known.
    pub first_start: i64,
    /// No event of the unit ends later than this; `i64::MAX` where that cannot be known before reading.
    pub last_end: i64,
    pub proc: Option<u32>,
    /// The only process id in it, where that is known and the process is not.
    pub pid: Option<i32>,
    /// Which of the trace's categories it holds.
    pub categories: u64,
    /// How many events it holds, as far as known.
    pub events: u64,
    /// How many bytes of the file it is.
    pub size: u64,
}

/// What reading a unit told about it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    pub first_start: i64,
    pub last_end: i64,
    /// Where all of it is of one process id.
    pub pid: Option<i32>,
    pub categories: u64,
}

impl Unit {
    /// A unit of which only its size is known.
    pub fn new(source: u32, index: u32, events: u64, size: u64) -> Unit {
        let (first_start, last_end) = (i64::MIN, i64::MAX);
        Unit { source, index, first_start, last_end, proc: None, pid: None, categories: Categories::ANY, events, size }
    }
}

/// What one reader makes of its input.
pub trait Source: Send + Sync {
    fn path(&self) -> &Path;

    /// What was counted in the place of events.
    fn tally(&self, _catalog: &Catalog) -> Option<tally::ProcessTally> {
        None
    }

    /// When the first of its events began, where that is known before reading.
    fn start(&self) -> Option<i64> {
        None
    }

    /// `source` is to be written into each.
    fn units(&self, source: u32) -> Vec<Unit>;

    /// Whether its units know how many events they hold, and do not guess.
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

/// What one thread keeps between units: open files, buffers, decompressors.
pub struct Reader {
    pub files: store::OpenFiles,
    pub native: native::Scratch,
    pub times: resolve::Times,
    pub batch: Batch,
    pub text: Vec<u8>,
}

impl Reader {
    pub fn new() -> std::io::Result<Reader> {
        Ok(Reader {
            files: Default::default(),
            native: native::Scratch::new()?,
            times: Default::default(),
            batch: Batch::default(),
            text: Vec::new(),
        })
    }

    /// What resolving writes to.
    pub fn split(&mut self) -> (&mut resolve::Times, &mut Batch) {
        (&mut self.times, &mut self.batch)
    }
}

/// Something that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub path: PathBuf,
    pub what: Damage,
    /// How many events that can have cost; `None` where nothing says.
    pub events_max: Option<u64>,
}

/// Why there is nothing to analyse. One sentence each: what, where, what to do.
#[derive(Debug)]
pub enum LoadError {
    Missing(PathBuf),
    Unreadable(PathBuf, std::io::Error),
    Empty(PathBuf),
    NoTrace(PathBuf),
    Hollow(PathBuf, inputs::Hollow),
    Unusable(PathBuf, Damage),
    NoMatch(String),
    BadPattern(String, String),
    Memory(std::io::Error),
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LoadError::Missing(path) => write!(
                f,
                "{}: no such file or folder; give the folder a program was traced into (DLIO_TRACE_DIR, by default ./dlio-trace)",
                path.display()
            ),
            LoadError::Unreadable(path, error) => {
                write!(f, "{}: cannot be read ({error}); check its permissions", path.display())
            }
            LoadError::Empty(path) => write!(
                f,
                "{}: no trace in this folder; trace a program into it first: dlio trace -o {} -- PROGRAM",
                path.display(),
                path.display()
            ),
            LoadError::NoTrace(path) => write!(
                f,
                "{}: not a trace that dlio-analyze reads; it takes .dlt, .ring, .pftrace, Chrome JSON, DFTracer .pfw, \
                 darshan-dxt-parser and strace text, and its own Parquet folders",
                path.display()
            ),
            LoadError::Hollow(path, inputs::Hollow::Empty) => write!(
                f,
                "{}: empty: what traced was killed before it wrote anything, or had no room; trace again",
                path.display()
            ),
            LoadError::Hollow(path, inputs::Hollow::Timeless) => write!(
                f,
                "{}: strace's text without times, from which no time can be analysed; record it with strace -f -ttt -T -y \
                 -o FILE PROGRAM",
                path.display()
            ),
            LoadError::Unusable(path, damage) => write!(f, "{}: {damage}", path.display()),
            LoadError::NoMatch(pattern) => write!(f, "{pattern}: no file matches this pattern; check the spelling"),
            LoadError::BadPattern(pattern, why) => write!(f, "{pattern}: not a pattern ({why}); use * ? [..] and **"),
            LoadError::Memory(error) => write!(f, "no memory to decompress a trace ({error}); free some and try again"),
        }
    }
}

impl std::error::Error for LoadError {}

/// Everything that was given, ready to be read.
pub struct Trace {
    pub catalog: Catalog,
    pub sources: Vec<Box<dyn Source>>,
    /// Latest end first: see [`crate::summary::intervals`].
    pub units: Vec<Unit>,
    /// Files that were read.
    pub files: Vec<PathBuf>,
    pub notes: Mutex<Vec<Note>>,
    /// Files some of whose processes other files have too.
    pub passed_over: Vec<twins::PassedOver>,
    /// What the bits of units mean, where an earlier reading found out.
    pub categories: Categories,
    /// Whether no process writes any more, as far as can be told.
    pub settled: bool,
}

impl Trace {
    /// Opens files, folders and patterns.
    pub fn open(given: &[String], threads: usize) -> Result<Trace, LoadError> {
        Trace::of(inputs::find(given)?, given, threads)
    }

    /// Opens what was found.
    pub fn of(found: inputs::Found, given: &[String], threads: usize) -> Result<Trace, LoadError> {
        let catalog = Catalog::default();
        let mut notes = found.notes;
        let mut twins = twins::Twins::default();
        let natives = native::open_all(&found.natives, &catalog, threads, &mut notes, &mut twins);
        let mut sources = natives.sources;
        let exports: Vec<_> = found.perfettos.into_iter().chain(natives.stand_ins).collect();
        sources.extend(perfetto::open_all(&exports, &catalog, &mut notes, &mut twins));
        sources.extend(parquet::open_all(&found.parquets, &catalog, &mut notes, &mut twins));
        sources.extend(text::open_all(&found.texts, &mut notes));
        let mut trace = Trace {
            catalog,
            sources,
            units: Vec::new(),
            files: found.files,
            notes: Mutex::new(notes),
            passed_over: found.copies.into_iter().chain(twins.passed_over).collect(),
            categories: Categories::default(),
            settled: natives.settled,
        };
        trace.list_units();
        match trace.sources.is_empty() {
            true => Err(trace.nothing(given, &found.hollow)),
            false => Ok(trace),
        }
    }

    fn list_units(&mut self) {
        self.units = (0u32..).zip(&self.sources).flat_map(|(number, source)| source.units(number)).collect();
        self.units.sort_by_key(|unit| std::cmp::Reverse(unit.last_end));
    }

    /// Makes use of what an earlier reading found out about the units: `known` gives what it holds of one of them.
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

    /// What passes a filter.
    pub fn sieve<'a>(&'a self, filter: &'a Filter) -> Sieve<'a> {
        Sieve::new(filter, &self.catalog).of_categories(&self.categories)
    }

    /// Why not one source could be opened.
    fn nothing(&self, given: &[String], hollow: &[(PathBuf, inputs::Hollow)]) -> LoadError {
        if let Some((path, why)) = hollow.first() {
            return LoadError::Hollow(path.clone(), *why);
        }
        match self.notes.lock().expect("notes").first() {
            Some(note) if note.what == Damage::NotATrace => LoadError::NoTrace(note.path.clone()),
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

    /// Notes damage once, however often the piece is read.
    fn note(&self, note: Note) {
        let mut notes = self.notes.lock().expect("notes");
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// When the trace begins, as far as that is known without reading all of it: relative times count from here.
    pub fn start(&self) -> i64 {
        self.sources.iter().filter_map(|source| source.start()).min().unwrap_or(0)
    }

    /// Bytes of all units.
    pub fn size(&self) -> u64 {
        self.units.iter().map(|unit| unit.size).sum()
    }
}
