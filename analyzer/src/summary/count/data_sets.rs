//! Calls of libraries above the file system: the requests for each data set of HDF5 and each file of MPI-IO, and the
//! file calls inside them. Both libraries have separate counts, because HDF5 may use MPI-IO.
//!
//! Such a call is an event that ends after the calls inside it. A thread's calls inside a span are kept until a call of
//! a library claims them, or nothing can. A call that began before the part of the trace that is read at once claims
//! the calls in earlier parts when all parts are merged.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use dlio_schemas::ops::Class;
use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};

use super::kinds::{KindTraits, Library};
use crate::batch::{ABSENT, Batch, Value};
use crate::catalog::Catalog;
use crate::summary::figures::pattern::pattern;

/// Maximum number of data sets with separate counts; further ones are counted under [`OTHERS`].
const NAMES_MAX: usize = 10_000;

/// The name of all further data sets.
pub const OTHERS: &str = "(other data sets)";

/// Reads or writes: their number and bytes.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moves {
    pub calls: u64,
    pub bytes: u64,
}

impl Moves {
    fn add(&mut self, other: Moves) {
        self.calls += other.calls;
        self.bytes += other.bytes;
    }
}

/// The requests to a library for one data set, and the file calls that it made for them.
#[derive(Clone, Default, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataSetCount {
    pub opens: u64,
    pub failed: u64,
    pub reads: Moves,
    pub writes: Moves,
    /// Time of all these calls, of those that read, and of those that open a data set.
    pub time_ns: u64,
    pub read_ns: u64,
    pub open_ns: u64,
    pub reads_below: Moves,
    pub writes_below: Moves,
    /// Time of these calls.
    pub below_ns: u64,
    /// Layout, as the calls that open a data set record it. Empty if it is not known.
    pub shape: String,
    pub chunk: String,
    pub chunk_bytes: u64,
    pub filters: String,
}

impl DataSetCount {
    pub fn merge(&mut self, other: DataSetCount) {
        self.opens += other.opens;
        self.failed += other.failed;
        self.reads.add(other.reads);
        self.writes.add(other.writes);
        self.time_ns += other.time_ns;
        self.read_ns += other.read_ns;
        self.open_ns += other.open_ns;
        self.reads_below.add(other.reads_below);
        self.writes_below.add(other.writes_below);
        self.below_ns += other.below_ns;
        if self.shape.is_empty() {
            (self.shape, self.chunk, self.chunk_bytes, self.filters) =
                (other.shape, other.chunk, other.chunk_bytes, other.filters);
        }
    }
}

/// A file's number, and the name of a data set with `#` instead of digits, or how ranks made a request of MPI-IO; no name
/// for calls on the file itself.
pub type DataSetKey = (u32, Arc<str>);

/// A call on a file inside a span, which no library call has claimed yet.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Inside {
    ts: i64,
    class_is_read: bool,
    bytes: u64,
    dur: u64,
    /// Its part of the file, if that is known.
    range: Range,
}

/// A library call that may have calls in earlier parts of the trace.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Claim {
    start: i64,
    end: i64,
    key: DataSetKey,
}

/// The calls of one thread in the part of the trace that is being read.
#[derive(Default)]
struct Pending {
    calls: Vec<Inside>,
    claims: Vec<Claim>,
    first_ts: Option<i64>,
}

type ThreadKey = (u32, i32);

/// The calls that different parts of the trace have of a thread.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
struct Loose {
    calls: Vec<Inside>,
    claims: Vec<Claim>,
}

/// The part of a file that a process reached by calls inside requests: start and end. Empty if no position is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    pub start: i64,
    pub end: i64,
}

impl Range {
    const EMPTY: Range = Range { start: i64::MAX, end: i64::MIN };

    fn widen(&mut self, other: Range) {
        *self = Range { start: self.start.min(other.start), end: self.end.max(other.end) };
    }

    fn of(batch: &Batch, i: usize) -> Range {
        match (batch.pos.get(i).copied().unwrap_or(ABSENT), batch.bytes[i]) {
            (ABSENT, _) | (_, ABSENT | 0) => Range::EMPTY,
            (start, bytes) => Range { start, end: start.saturating_add(bytes) },
        }
    }
}

/// The counts of all data sets.
#[derive(Default, Debug, Serialize, Deserialize)]
pub struct DataSets {
    /// By data set and process that made requests.
    #[serde(with = "listed")]
    pub ranges: HashMap<(DataSetKey, u32), Range, RandomState>,
    #[serde(with = "listed")]
    pub rows: HashMap<DataSetKey, DataSetCount, RandomState>,
    #[serde(with = "listed")]
    loose: HashMap<ThreadKey, Loose, RandomState>,
}

/// Maps with keys that are not strings, as lists.
mod listed {
    use super::*;
    use serde::{Deserializer, Serializer};
    use std::hash::Hash;

    pub fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &HashMap<K, V, RandomState>,
        into: S,
    ) -> Result<S::Ok, S::Error> {
        into.collect_seq(map)
    }

    pub fn deserialize<'de, K, V, D>(from: D) -> Result<HashMap<K, V, RandomState>, D::Error>
    where
        K: Deserialize<'de> + Eq + Hash,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(from)?.into_iter().collect())
    }
}

impl DataSets {
    /// Adds a count; beyond the maximum number of names, to the row for all others.
    fn row(&mut self, key: DataSetKey) -> &mut DataSetCount {
        let is_new = self.rows.len() >= NAMES_MAX && !self.rows.contains_key(&key);
        self.rows.entry(if is_new { (key.0, OTHERS.into()) } else { key }).or_default()
    }

    /// Notes that a process made requests, and the part of the file that it reached.
    fn reach(&mut self, key: &DataSetKey, proc: u32, range: Range) {
        if let Some(known) = self.ranges.get_mut(&(key.clone(), proc)) {
            known.widen(range);
        } else if self.ranges.len() < NAMES_MAX {
            self.ranges.insert((key.clone(), proc), range);
        }
    }

    fn add_below(&mut self, key: &DataSetKey, proc: u32, call: &Inside) {
        self.row(key.clone()).add_below(call);
        self.reach(key, proc, call.range);
    }

    pub fn merge(&mut self, other: DataSets) {
        other.rows.into_iter().for_each(|(key, count)| self.row(key).merge(count));
        other.ranges.into_iter().for_each(|((key, proc), range)| self.reach(&key, proc, range));
        for (thread, loose) in other.loose {
            let all = self.loose.entry(thread).or_default();
            all.calls.extend(loose.calls);
            all.claims.extend(loose.claims);
        }
    }

    /// Renumbers files.
    pub fn renumber(&mut self, mut file: impl FnMut(u32) -> u32) {
        for (((of, name), proc), range) in std::mem::take(&mut self.ranges) {
            self.reach(&(file(of), name), proc, range);
        }
        let rows = std::mem::take(&mut self.rows);
        rows.into_iter().for_each(|((of, name), count)| self.row((file(of), name)).merge(count));
        for claim in self.loose.values_mut().flat_map(|loose| &mut loose.claims) {
            claim.key.0 = file(claim.key.0);
        }
    }

    /// Lets calls of libraries claim the file calls that were read in other parts.
    pub fn finish(&mut self) {
        for ((proc, _), Loose { mut calls, mut claims }) in std::mem::take(&mut self.loose) {
            calls.sort_by_key(|call| call.ts);
            // The innermost claims first: it starts last.
            claims.sort_by_key(|claim| std::cmp::Reverse(claim.start));
            for claim in claims {
                let from = calls.partition_point(|call| call.ts < claim.start);
                let to = calls.partition_point(|call| call.ts < claim.end);
                let claimed: Vec<_> = calls.drain(from..to.max(from)).collect();
                claimed.iter().for_each(|call| self.add_below(&claim.key, proc, call));
            }
        }
    }
}

impl DataSetCount {
    fn add_below(&mut self, call: &Inside) {
        let moves = if call.class_is_read { &mut self.reads_below } else { &mut self.writes_below };
        moves.add(Moves { calls: 1, bytes: call.bytes });
        self.below_ns += call.dur;
    }
}

/// Counts the data sets of the events that one thread of the analysis reads.
pub struct DataSetCounter {
    library: Library,
    threads: BTreeMap<ThreadKey, Pending>,
    /// Position of the next entry in the column of arguments.
    next_arg: usize,
    /// Texts of the catalog, as far as they were needed.
    texts: Vec<Arc<str>>,
    /// The patterns of names, by number of text.
    names: HashMap<u32, Arc<str>, RandomState>,
}

/// The arguments of a library call.
#[derive(Default)]
struct Told {
    name: Option<Arc<str>>,
    shape: String,
    chunk: String,
    filters: String,
    element_bytes: u64,
}

impl DataSetCounter {
    pub fn new(library: Library) -> DataSetCounter {
        DataSetCounter { library, threads: BTreeMap::new(), next_arg: 0, texts: Vec::new(), names: HashMap::default() }
    }

    pub fn begin(&mut self) {
        self.next_arg = 0;
    }

    /// Counts one event of a process that called a library.
    pub(in crate::summary) fn event(
        &mut self,
        (batch, i): (&Batch, usize),
        (traits, is_stored): (KindTraits, bool),
        catalog: &Catalog,
        counted: &mut DataSets,
    ) {
        let thread = self.threads.entry((batch.proc, batch.tid)).or_default();
        let (ts, depth) = (batch.ts[i], batch.depth.get(i).copied().unwrap_or(0));
        thread.first_ts.get_or_insert(ts);
        if traits.library != Some(self.library) {
            if traits.io && is_stored && depth > 0 && matches!(traits.class, Class::Read | Class::Write) {
                let bytes = if batch.bytes[i] == ABSENT { 0 } else { batch.bytes[i] as u64 };
                let (class_is_read, dur) = (traits.class == Class::Read, batch.dur[i].max(0) as u64);
                thread.calls.push(Inside { ts, class_is_read, bytes, dur, range: Range::of(batch, i) });
            } else if depth == 0 {
                thread.calls.clear();
            }
            return;
        }
        let told = self.told(batch, i, catalog);
        let key = (batch.file[i], told.name.clone().unwrap_or_else(|| traits.mode.into()));
        counted.row(key.clone()).merge(count(batch, i, traits, told));
        counted.reach(&key, batch.proc, Range::EMPTY);
        let thread = self.threads.entry((batch.proc, batch.tid)).or_default();
        while let Some(call) = thread.calls.pop_if(|call| call.ts >= ts) {
            counted.add_below(&key, batch.proc, &call);
        }
        if thread.first_ts.is_none_or(|first| first >= ts) {
            let end = ts.saturating_add(batch.dur[i]);
            thread.claims.push(Claim { start: ts, end, key });
        }
    }

    /// Returns the arguments of row `i`.
    fn told(&mut self, batch: &Batch, i: usize, catalog: &Catalog) -> Told {
        let mut told = Told::default();
        let before = |row: u32| (row as usize) < i;
        while batch.args.get(self.next_arg).is_some_and(|arg| before(arg.row)) {
            self.next_arg += 1;
        }
        while let Some(arg) = batch.args.get(self.next_arg).filter(|arg| arg.row as usize == i) {
            self.next_arg += 1;
            let key = self.text(arg.key, catalog);
            match (&*key, &arg.value) {
                ("dataset", Value::Text(name)) => told.name = Some(self.name(*name, catalog)),
                ("shape", Value::Text(text)) => told.shape = self.text(*text, catalog).to_string(),
                ("chunk", Value::Text(text)) => told.chunk = self.text(*text, catalog).to_string(),
                ("filters", Value::Text(text)) => told.filters = self.text(*text, catalog).to_string(),
                ("element_bytes", Value::Int(bytes)) => told.element_bytes = (*bytes).max(0) as u64,
                _ => {}
            }
        }
        told
    }

    fn text(&mut self, number: u32, catalog: &Catalog) -> Arc<str> {
        if number as usize >= self.texts.len() {
            self.texts.extend(catalog.texts_from(self.texts.len()));
        }
        self.texts.get(number as usize).cloned().unwrap_or_else(|| "".into())
    }

    fn name(&mut self, number: u32, catalog: &Catalog) -> Arc<str> {
        if let Some(name) = self.names.get(&number) {
            return name.clone();
        }
        let name: Arc<str> = pattern(&self.text(number, catalog)).into();
        self.names.insert(number, name.clone());
        name
    }

    /// Keeps what other parts of the trace may claim or have to claim.
    pub fn part_done(&mut self, counted: &mut DataSets) {
        for (thread, Pending { calls, claims, .. }) in std::mem::take(&mut self.threads) {
            let loose = counted.loose.entry(thread).or_default();
            loose.calls.extend(calls);
            loose.claims.extend(claims);
        }
    }
}

/// Returns the counts of one call.
fn count(batch: &Batch, i: usize, traits: KindTraits, told: Told) -> DataSetCount {
    let has_failed = batch.ret[i] < 0 && batch.ret[i] != ABSENT;
    let (dur, bytes) = (batch.dur[i].max(0) as u64, batch.bytes[i]);
    let moved = Moves { calls: 1, bytes: if bytes == ABSENT { 0 } else { bytes as u64 } };
    let extent = |text: &str| text.split('x').map(|part| part.parse().unwrap_or(0u64)).product::<u64>();
    let chunk_bytes = if told.chunk.is_empty() { 0 } else { extent(&told.chunk).saturating_mul(told.element_bytes) };
    // Only the call that opens a data set of HDF5 records the size of an element.
    let opens = (told.element_bytes > 0 || traits.opens) && !has_failed;
    DataSetCount {
        opens: opens as u64,
        failed: has_failed as u64,
        reads: if traits.class == Class::Read { moved } else { Moves::default() },
        writes: if traits.class == Class::Write { moved } else { Moves::default() },
        time_ns: dur,
        read_ns: if traits.class == Class::Read { dur } else { 0 },
        open_ns: if opens { dur } else { 0 },
        shape: told.shape,
        chunk: told.chunk,
        chunk_bytes,
        filters: told.filters,
        ..DataSetCount::default()
    }
}
