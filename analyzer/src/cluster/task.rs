//! The messages to workers, and their results.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use dlio_schemas::native::Damage;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::pushdown::Number;
use crate::filter::Filter;
use crate::load::Trace;
use crate::load::bytes::{bucket, trace_file};
use crate::load::sources::errors::Note;
use crate::summary::exact_quantiles::RefineRequest;
use crate::summary::partial::{PartRequest, Partial};
use crate::tables::split::Split;

/// A request to a worker.
#[derive(Serialize, Deserialize)]
pub enum Task {
    /// Checks that it is reachable and has files of these directories.
    Greeting { inputs: Vec<SentPath> },
    /// The counts of a part of a trace.
    Count { trace: Arc<TraceDescription>, asked: PartRequest },
    /// The values in some buckets of durations, for exact quantiles of events counted before.
    CountAgain { trace: Arc<TraceDescription>, again: RefineRequest },
    /// The rows of a part of a query.
    Rows { trace: Arc<TraceDescription>, asked: Rows },
    /// Checks that it sees this file, and may write in its directory.
    MayWrite { mark: SentPath },
    /// The rows of a split, as files of Parquet.
    Write { trace: Arc<TraceDescription>, asked: Write },
}

/// A part of a query's plan, and the split of the trace that it reads.
#[derive(Serialize, Deserialize)]
pub struct Rows {
    pub plan: Vec<u8>,
    pub split: Split,
    /// The columns of its rows that contain numbers, and their kinds.
    pub numbers: Vec<(u32, Number)>,
    /// For times in the output.
    pub time_zone: Option<String>,
}

/// Events to be written.
#[derive(Serialize, Deserialize)]
pub struct Write {
    pub split: Split,
    pub folder: SentPath,
    /// The number of the split.
    pub number: usize,
    /// Files in order of their numbers.
    pub files: Arc<Vec<Arc<str>>>,
}

/// The result of writing: names of files in the directory.
#[derive(Serialize, Deserialize)]
pub struct WrittenFiles {
    pub names: Vec<String>,
    pub notes: Vec<SentNote>,
}

impl Task {
    /// Returns the encoded message.
    pub fn packed(&self) -> Result<Bytes, String> {
        pack(self).map(Bytes::from)
    }
}

/// A path as bytes, which need not be UTF-8.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct SentPath(Vec<u8>);

impl SentPath {
    pub fn of(path: &Path) -> SentPath {
        SentPath(path.as_os_str().as_bytes().to_vec())
    }

    pub fn path(&self) -> PathBuf {
        OsString::from_vec(self.0.clone()).into()
    }
}

/// A trace: its files as the coordinator sees them, and the filter.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TraceDescription {
    /// The directory of relative paths.
    pub here: SentPath,
    pub given: Vec<String>,
    pub files: Vec<SentFile>,
    pub filter: SentFilter,
    /// Memory for names of events: see `Catalog::allow_names`.
    pub memory: u64,
    /// Whether earlier results are used: see `load::index`.
    pub index: bool,
    pub found: TraceSize,
}

impl TraceDescription {
    /// Returns the inputs as absolute paths, independent of this process's directory.
    pub fn absolute_inputs(&self) -> Vec<String> {
        let whole = |given: &String| match bucket::is_object(Path::new(given)) {
            true => given.clone(),
            false => self.here.path().join(given).to_string_lossy().into_owned(),
        };
        self.given.iter().map(whole).collect()
    }

    /// Returns the path of a file.
    pub fn place(&self, file: &SentFile) -> PathBuf {
        let path = file.path.path();
        if bucket::is_object(&path) { path } else { self.here.path().join(path) }
    }
}

/// The number of processes and units in the files: a worker that counts differently has different files.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TraceSize {
    sources: u64,
    units: u64,
    events: u64,
    processes: u64,
}

impl TraceSize {
    /// Processes that are discovered while reading are not included.
    pub fn of(trace: &Trace) -> TraceSize {
        let known = trace.sources.iter().all(|source| source.processes().is_some());
        TraceSize {
            sources: trace.sources.len() as u64,
            units: trace.units.len() as u64,
            events: trace.units.iter().map(|unit| unit.events).sum(),
            processes: if known { trace.catalog.map_processes(|_| ()).len() as u64 } else { 0 },
        }
    }
}

/// A file, and its identity, which changes with its content.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SentFile {
    pub path: SentPath,
    /// `true` if it was given by name.
    pub named: bool,
    pub size: u64,
    pub modified: (i64, i64),
}

impl SentFile {
    pub fn of(path: &Path, named: bool) -> std::io::Result<SentFile> {
        let (size, modified) = SentFile::facts(path)?;
        Ok(SentFile { path: SentPath::of(path), named, size, modified })
    }

    /// Returns `true` if the file at this path is still the one described.
    pub fn is_at(&self, place: &Path) -> std::io::Result<bool> {
        Ok(SentFile::facts(place)? == (self.size, self.modified))
    }

    fn facts(path: &Path) -> std::io::Result<(u64, (i64, i64))> {
        let facts = trace_file::facts(path)?;
        Ok((facts.size, facts.modified))
    }
}

/// A filter; patterns are texts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SentFilter {
    from: Option<i64>,
    to: Option<i64>,
    pids: Vec<i32>,
    ranks: Vec<i32>,
    files: Vec<String>,
    cats: Vec<String>,
    calls: Vec<String>,
    min_dur_ns: i64,
    run: Option<(i64, i64)>,
}

impl SentFilter {
    pub fn of(filter: &Filter) -> SentFilter {
        // Exports do not run on workers, so nothing else keeps relations.
        let Filter { from, to, pids, ranks, files, cats, calls, min_dur_ns, run, relations: _ } = filter.clone();
        let files = files.iter().map(|pattern| pattern.as_str().to_string()).collect();
        SentFilter { from, to, pids, ranks, files, cats, calls, min_dur_ns, run }
    }

    pub fn filter(&self) -> Result<Filter, String> {
        let SentFilter { from, to, pids, ranks, files, cats, calls, min_dur_ns, run } = self.clone();
        let files = files.iter().map(|text| glob::Pattern::new(text)).collect::<Result<_, _>>();
        let files = files.map_err(|error| format!("cannot read a file pattern: {error}"))?;
        Ok(Filter { from, to, pids, ranks, files, cats, calls, min_dur_ns, run, relations: false })
    }
}

/// The result of [`Task::Count`].
#[derive(Serialize, Deserialize)]
pub struct Count {
    pub partial: Partial,
    pub notes: Vec<SentNote>,
}

/// A note on a file.
#[derive(Serialize, Deserialize)]
pub struct SentNote {
    path: SentPath,
    what: SentDamage,
    events_max: Option<u64>,
}

#[derive(Serialize, Deserialize)]
enum SentDamage {
    NotATrace,
    TooNew(u32),
    Empty,
    Cut,
    Incomplete,
    NoRoom,
    Torn,
    Broken(String),
    Useless(String),
    Remark(String),
}

impl SentNote {
    /// `name` is the coordinator's name of the file.
    pub fn of(note: &Note, name: &Path) -> SentNote {
        let what = match note.what {
            Damage::NotATrace => SentDamage::NotATrace,
            Damage::TooNew(version) => SentDamage::TooNew(version),
            Damage::Empty => SentDamage::Empty,
            Damage::Cut => SentDamage::Cut,
            Damage::Incomplete => SentDamage::Incomplete,
            Damage::NoRoom => SentDamage::NoRoom,
            Damage::Torn => SentDamage::Torn,
            Damage::Broken(what) => SentDamage::Broken(what.into()),
            Damage::Useless(what) => SentDamage::Useless(what.into()),
            Damage::Remark(what) => SentDamage::Remark(what.into()),
        };
        SentNote { path: SentPath::of(name), what, events_max: note.events_max }
    }

    /// Leaks each distinct text of damage: these are a few dozen constants of the program, here as there.
    pub fn note(self) -> Note {
        let what = match self.what {
            SentDamage::NotATrace => Damage::NotATrace,
            SentDamage::TooNew(version) => Damage::TooNew(version),
            SentDamage::Empty => Damage::Empty,
            SentDamage::Cut => Damage::Cut,
            SentDamage::Incomplete => Damage::Incomplete,
            SentDamage::NoRoom => Damage::NoRoom,
            SentDamage::Torn => Damage::Torn,
            SentDamage::Broken(what) => Damage::Broken(leak(what)),
            SentDamage::Useless(what) => Damage::Useless(leak(what)),
            SentDamage::Remark(what) => Damage::Remark(leak(what)),
        };
        Note { path: self.path.path(), what, events_max: self.events_max }
    }
}

/// Returns a text that lives as long as the program, allocated once.
fn leak(text: String) -> &'static str {
    static KEPT: std::sync::Mutex<Vec<&'static str>> = std::sync::Mutex::new(Vec::new());
    let mut kept = KEPT.lock().expect("descriptions of damage");
    let known = kept.iter().copied().find(|known| *known == text);
    known.unwrap_or_else(|| {
        let text: &'static str = text.leak();
        kept.push(text);
        text
    })
}

/// The level of zstd: on a cluster's network a higher one would save less than it costs.
const LEVEL: i32 = 3;

/// A larger message is damage.
const MESSAGE_MAX: usize = 4 << 30;

/// Encodes a message.
pub fn pack(message: &impl Serialize) -> Result<Vec<u8>, String> {
    let plain = rmp_serde::to_vec(message).map_err(|error| format!("cannot send it: {error}"))?;
    zstd::stream::encode_all(plain.as_slice(), LEVEL).map_err(|error| format!("cannot send it: {error}"))
}

/// Decodes a message.
pub fn unpack<T: DeserializeOwned>(packed: &[u8]) -> Result<T, String> {
    use std::io::Read;
    let mut plain = Vec::new();
    let decoder = zstd::stream::read::Decoder::new(packed).map_err(|error| error.to_string())?;
    let read = decoder.take(MESSAGE_MAX as u64).read_to_end(&mut plain).map_err(|error| error.to_string());
    read.and_then(|_| rmp_serde::from_slice(&plain).map_err(|error| error.to_string()))
        .map_err(|error| format!("cannot read its response: {error}"))
}
