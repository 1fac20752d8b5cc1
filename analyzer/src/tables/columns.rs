//! Converts batches of events to Arrow record batches, column by column as the contract in `schemas` lists them.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{
    ArrayBuilder, ArrayRef, Int32Array, Int64Array, MapBuilder, RecordBatch, RecordBatchOptions, StringBuilder,
    StringViewArray, StringViewBuilder, UInt8Array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::take;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use foldhash::fast::RandomState;

use crate::batch::{ABSENT, ABSENT_32, Batch, Columns, FAILED, Value};
use crate::catalog::{Catalog, FILE_NONE, Kind};
use crate::schema::arrow_schema::queried;
use crate::schema::tables;

/// Strings of the catalog as Arrow shares them between batches, and the values of each process that all its events
/// repeat.
pub struct Shared {
    kinds: usize,
    pub names: Dictionary,
    pub cats: Dictionary,
    pub classes: Dictionary,
    pub layers: Dictionary,
    pub hosts: ArrayRef,
    processes: Vec<SharedProcess>,
    pub files: Vec<Arc<str>>,
    texts: Vec<Arc<str>>,
}

/// The columns that every event of a process repeats.
#[derive(Clone, Copy, Default)]
pub struct SharedProcess {
    pub pid: i32,
    /// An index in the list of hosts.
    pub host: Option<u32>,
    pub rank: Option<i32>,
}

/// Distinct strings, and which of them each kind has.
pub struct Dictionary {
    pub texts: Vec<Arc<str>>,
    pub keys: Vec<i32>,
    known: HashMap<Arc<str>, i32, RandomState>,
    /// All of them, repeated with every batch, unless they are too many.
    values: Option<ArrayRef>,
    /// For batches that contain only the strings of their own rows.
    places: BatchDictionary,
}

/// The maximum number of strings repeated with every batch. More would be scanned per batch by its readers, and rebuilt
/// with every new name in a foreign format, whose number is not limited.
const REPEATED_MAX: usize = 2048;

impl Dictionary {
    fn new() -> Dictionary {
        Dictionary {
            texts: Vec::new(),
            keys: Vec::new(),
            known: HashMap::default(),
            values: None,
            places: BatchDictionary::default(),
        }
    }

    /// Adds the strings of further kinds.
    fn extend<'a>(&mut self, texts: impl Iterator<Item = &'a str>) {
        for text in texts {
            let key = self.known.get(text).copied().unwrap_or_else(|| {
                let text: Arc<str> = text.into();
                self.texts.push(text.clone());
                self.known.insert(text, self.texts.len() as i32 - 1);
                self.texts.len() as i32 - 1
            });
            self.keys.push(key);
        }
        self.values = (self.texts.len() <= REPEATED_MAX).then(|| Arc::new(compact(&self.texts)) as ArrayRef);
    }

    fn column(&mut self, kinds: &[u32]) -> Result<ArrayRef, ArrowError> {
        let keys = kinds.iter().map(|&kind| self.keys[kind as usize]);
        match &self.values {
            Some(values) => {
                let keys: Int32Array = keys.collect::<Vec<_>>().into();
                take(values, &keys, None)
            }
            None => self.places.column(keys.map(|key| Some(key as usize)), &self.texts),
        }
    }
}

/// Returns strings in exactly as much memory as they need: every batch that has some of them counts all of it as its
/// own.
fn compact<T: AsRef<str>>(texts: &[T]) -> StringViewArray {
    let length: usize = texts.iter().map(|text| text.as_ref().len()).sum();
    let mut builder = StringViewBuilder::with_capacity(texts.len()).with_fixed_block_size(length.max(1) as u32);
    texts.iter().for_each(|text| builder.append_value(text));
    builder.finish()
}

/// Builds dictionaries of the strings in a batch.
#[derive(Default)]
struct BatchDictionary {
    /// For each string its key in the current batch, valid if `marks` has the batch's number.
    keys: Vec<i32>,
    marks: Vec<u64>,
    mark: u64,
}

impl BatchDictionary {
    /// Returns only the strings of this batch: functions on strings are computed once for each value of a dictionary,
    /// and a million paths would mean a million computations per batch.
    fn column(
        &mut self,
        rows: impl Iterator<Item = Option<usize>>,
        texts: &[Arc<str>],
    ) -> Result<ArrayRef, ArrowError> {
        self.mark += 1;
        self.keys.resize(texts.len(), 0);
        self.marks.resize(texts.len(), 0);
        let mut values = StringViewBuilder::new();
        let mut last = (None, NO_KEY);
        let keys = rows.map(|row| {
            // Adjacent rows often have the same string.
            if row != last.0 {
                last = (row, row.map_or(NO_KEY, |at| self.key(at, texts, &mut values)));
            }
            last.1
        });
        let keys = known_32(keys.collect(), |key| key != NO_KEY);
        take(&values.finish(), &keys, None)
    }

    fn key(&mut self, at: usize, texts: &[Arc<str>], values: &mut StringViewBuilder) -> i32 {
        if self.marks[at] != self.mark {
            self.marks[at] = self.mark;
            self.keys[at] = values.len() as i32;
            values.append_value(&texts[at]);
        }
        self.keys[at]
    }
}

/// The key of a row without a string.
const NO_KEY: i32 = -1;

impl Shared {
    fn new(catalog: &Catalog) -> Shared {
        let mut shared = Shared {
            kinds: 0,
            names: Dictionary::new(),
            cats: Dictionary::new(),
            classes: Dictionary::new(),
            layers: Dictionary::new(),
            hosts: Arc::new(StringViewArray::new_null(0)),
            processes: Vec::new(),
            files: Vec::new(),
            texts: Vec::new(),
        };
        shared.learn(catalog);
        shared
    }

    /// Adds names that are new in the catalog.
    fn extend(&mut self, catalog: &Catalog) {
        self.files.extend(catalog.files_from(self.files.len()));
        self.texts.extend(catalog.texts_from(self.texts.len()));
        self.learn(catalog);
    }

    fn learn(&mut self, catalog: &Catalog) {
        let kinds = catalog.kinds_from(self.kinds);
        if !kinds.is_empty() {
            self.kinds += kinds.len();
            self.names.extend(kinds.iter().map(|kind| kind.name.as_ref()));
            self.cats.extend(kinds.iter().map(|kind| kind.cat.as_ref()));
            self.classes.extend(kinds.iter().map(|kind| kind.class.name()));
            self.layers.extend(kinds.iter().map(Kind::layer));
        }
        let hosts: Vec<_> = catalog.hosts().into_iter().map(|host| host.name).collect();
        self.processes = catalog.map_processes(|process| SharedProcess {
            pid: process.pid,
            host: Some(process.host).filter(|host| (*host as usize) < hosts.len()),
            rank: process.rank,
        });
        self.hosts = Arc::new(compact(&hosts));
    }

    /// Returns the shared columns of a process.
    pub fn process(&self, proc: u32) -> SharedProcess {
        self.processes.get(proc as usize).copied().unwrap_or_default()
    }

    /// Returns `true` if everything the batch refers to is known here: foreign formats name things on first use.
    fn covers(&self, batch: &Batch) -> bool {
        let below = |column: &[u32], length: usize| column.iter().all(|&number| (number as usize) < length);
        let text = |arg: &crate::batch::Arg| {
            let value = if let Value::Text(number) = arg.value { number } else { 0 };
            (arg.key.max(value) as usize) < self.texts.len()
        };
        below(&batch.kind, self.kinds)
            && below(&batch.file, self.files.len())
            && (batch.proc as usize) < self.processes.len()
            && batch.args.iter().all(text)
    }
}

/// Converts batches for one thread. The rows of several batches become one record batch: batches of dlio's own traces are
/// small, and each record batch has an overhead per column.
pub struct Converter {
    shared: Shared,
    schema: SchemaRef,
    /// Indexes in the list of columns.
    columns: Vec<usize>,
    files: BatchDictionary,
    rows: Rows,
}

/// Rows that have been added and are not converted yet.
struct Rows {
    columns: Batch,
    /// The columns that are needed.
    needed: Columns,
    /// Process and thread of adjacent rows, and the number of the row after them.
    threads: Vec<(u32, i32, usize)>,
    /// The column `args`, if it is requested.
    args: Option<Args>,
    /// The number of rows of a record batch, unless one batch has more.
    rows_max: usize,
}

type Args = MapBuilder<StringBuilder, StringBuilder>;

impl Converter {
    /// Creates a converter to record batches of about `rows_max` rows; `columns` are indexes in [`tables::EVENTS`].
    pub fn new(catalog: &Catalog, columns: Vec<usize>, rows_max: usize) -> Converter {
        let listed: Vec<_> = columns.iter().map(|&place| tables::EVENTS[place]).collect();
        let names = || listed.iter().map(|column| column.name).filter(|name| *name != ARGS);
        let has_args = listed.iter().any(|column| column.name == ARGS);
        let rows = Rows {
            columns: Batch::default(),
            needed: names().fold(Columns::NONE, |needed, name| needed.and(made_of(name))),
            threads: Vec::new(),
            args: has_args.then(|| MapBuilder::new(None, StringBuilder::new(), StringBuilder::new())),
            rows_max,
        };
        let (shared, schema) = (Shared::new(catalog), queried(&listed));
        Converter { shared, schema, columns, files: BatchDictionary::default(), rows }
    }

    /// Returns the parts that all batches converted so far refer to.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Converts one batch alone.
    pub fn convert(&mut self, catalog: &Catalog, batch: &Batch) -> Result<RecordBatch, ArrowError> {
        self.add(catalog, batch)?;
        self.record_batch()
    }

    /// Adds rows. Complete record batches are added to `into`.
    pub fn append(
        &mut self,
        catalog: &Catalog,
        batch: &Batch,
        into: &mut impl Extend<RecordBatch>,
    ) -> Result<(), ArrowError> {
        if self.rows.len() + batch.len() > self.rows.rows_max {
            into.extend(self.finish()?);
        }
        self.add(catalog, batch)?;
        if self.rows.len() >= self.rows.rows_max {
            into.extend(self.finish()?);
        }
        Ok(())
    }

    /// Returns the rows that are not in a record batch yet, if there are any.
    pub fn finish(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        if self.rows.len() == 0 { Ok(None) } else { self.record_batch().map(Some) }
    }

    fn add(&mut self, catalog: &Catalog, batch: &Batch) -> Result<(), ArrowError> {
        if !self.shared.covers(batch) {
            self.shared.extend(catalog);
        }
        self.rows.add(batch, &self.shared.texts)
    }

    fn record_batch(&mut self) -> Result<RecordBatch, ArrowError> {
        let places = self.columns.clone();
        let arrays: Result<Vec<_>, _> = places.iter().map(|&place| self.column(tables::EVENTS[place].name)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows.len()));
        self.rows.clear();
        RecordBatch::try_new_with_options(self.schema.clone(), arrays?, &options)
    }

    fn column(&mut self, name: &str) -> Result<ArrayRef, ArrowError> {
        let Converter { shared, files, rows, .. } = self;
        let length = rows.len();
        let columns = &mut rows.columns;
        Ok(match name {
            "ts" => Arc::new(Int64Array::from(taken(&mut columns.ts))),
            "dur" => Arc::new(Int64Array::from(taken(&mut columns.dur))),
            "name" => shared.names.column(&columns.kind)?,
            "cat" => shared.cats.column(&columns.kind)?,
            "class" => shared.classes.column(&columns.kind)?,
            "layer" => shared.layers.column(&columns.kind)?,
            "host" => {
                let hosts = rows.known_of_processes(|proc| shared.process(proc).host.map(|host| host as i32));
                take(&shared.hosts, &hosts, None)?
            }
            "pid" => Arc::new(Int32Array::from(rows.repeated(|proc, _| shared.process(proc).pid))),
            "tid" => Arc::new(Int32Array::from(rows.repeated(|_, tid| tid))),
            "rank" => Arc::new(rows.known_of_processes(|proc| shared.process(proc).rank)),
            "proc" => Arc::new(Int32Array::from(rows.repeated(|proc, _| proc as i32))),
            "file" => {
                let numbers = columns.file.iter().map(|&file| (file != FILE_NONE).then_some(file as usize));
                files.column(numbers, &shared.files)?
            }
            "file_id" => {
                known_32(columns.file.iter().map(|&file| file as i32).collect(), |file| file != FILE_NONE as i32)
            }
            "fd" => optional_32(taken(&mut columns.fd), length),
            "pos" => optional(taken(&mut columns.pos)),
            "requested" => optional(taken(&mut columns.requested)),
            "bytes" => optional(taken(&mut columns.bytes)),
            "ret" => optional(columns.ret.iter().map(|&ret| shown(ret)).collect()),
            "errno" => known_32(columns.ret.iter().map(|&ret| errno(ret)).collect(), |errno| errno != ABSENT_32),
            "depth" => Arc::new(UInt8Array::from(taken(&mut columns.depth))),
            "epoch" => optional_32(taken(&mut columns.epoch), length),
            "step" => optional_32(taken(&mut columns.step), length),
            ARGS => match &mut rows.args {
                Some(args) => Arc::new(args.finish()),
                None => return Err(ArrowError::SchemaError("a column is requested twice".into())),
            },
            other => return Err(ArrowError::SchemaError(format!("column {other} is not created"))),
        })
    }
}

/// The column that is a map.
const ARGS: &str = "args";

impl Rows {
    fn len(&self) -> usize {
        self.columns.len()
    }

    fn add(&mut self, batch: &Batch, texts: &[Arc<str>]) -> Result<(), ArrowError> {
        self.columns.extend(batch, self.needed, self.rows_max);
        self.threads.push((batch.proc, batch.tid, self.columns.len()));
        match &mut self.args {
            Some(args) => add_args(args, batch, texts),
            None => Ok(()),
        }
    }

    fn clear(&mut self) {
        self.columns.clear();
        self.threads.clear();
    }

    /// Returns a value of process and thread for each row.
    fn repeated<T: Clone>(&self, value: impl Fn(u32, i32) -> T) -> Vec<T> {
        let mut values = Vec::with_capacity(self.len());
        self.threads.iter().for_each(|&(proc, tid, end)| values.resize(end, value(proc, tid)));
        values
    }

    /// Returns a value of the process for each row, null if it is unknown.
    fn known_of_processes(&self, value: impl Fn(u32) -> Option<i32>) -> Int32Array {
        let values = self.repeated(|proc, _| value(proc).unwrap_or_default());
        let are_known = self.threads.iter().all(|(proc, ..)| value(*proc).is_some());
        let nulls = (!are_known).then(|| NullBuffer::from(self.repeated(|proc, _| value(proc).is_some())));
        Int32Array::new(values.into(), nulls)
    }
}

fn add_args(map: &mut Args, batch: &Batch, texts: &[Arc<str>]) -> Result<(), ArrowError> {
    let mut args = batch.args.iter().peekable();
    for row in 0..batch.len() as u32 {
        let mut any = false;
        while let Some(arg) = args.next_if(|arg| arg.row == row) {
            map.keys().append_value(&texts[arg.key as usize]);
            append_text(map.values(), &arg.value, texts);
            any = true;
        }
        map.append(any)?;
    }
    Ok(())
}

fn append_text(into: &mut StringBuilder, value: &Value, texts: &[Arc<str>]) {
    // Writing to memory cannot fail. An empty end completes the text.
    let _ = match value {
        Value::Int(number) => write!(into, "{number}"),
        Value::Float(number) => write!(into, "{number}"),
        Value::Text(number) => into.write_str(&texts[*number as usize]),
        Value::Octal(number) => write!(into, "0{number:o}"),
        Value::Hex(number) => write!(into, "0x{number:x}"),
    };
    into.append_value("");
}

/// Returns the columns of a batch that a column of the table is computed from.
pub fn made_of(name: &str) -> Columns {
    match name {
        "ts" => Columns::TS,
        "dur" => Columns::DUR,
        "file" | "file_id" => Columns::FILE,
        "fd" => Columns::FD,
        "pos" => Columns::POS,
        "requested" => Columns::REQUESTED,
        "bytes" => Columns::BYTES,
        "ret" | "errno" => Columns::RET,
        "epoch" | "step" => Columns::STEPS,
        "name" | "cat" | "class" | "layer" | "host" | "pid" | "tid" | "rank" | "proc" | "depth" => Columns::NONE,
        _ => Columns::ALL,
    }
}

/// Takes the values of a column out; memory that few values use is returned.
fn taken<T>(column: &mut Vec<T>) -> Vec<T> {
    let mut values = std::mem::take(column);
    if values.len() < values.capacity() / 2 {
        values.shrink_to_fit();
    }
    values
}

fn optional(values: Vec<i64>) -> ArrayRef {
    known(values, |value| value != ABSENT)
}

/// Returns a column of the values for which `is_known` holds, null elsewhere.
fn known(values: Vec<i64>, is_known: impl Fn(i64) -> bool) -> ArrayRef {
    let nulls = NullBuffer::new(BooleanBuffer::collect_bool(values.len(), |i| is_known(values[i])));
    Arc::new(Int64Array::new(values.into(), (nulls.null_count() > 0).then_some(nulls)))
}

/// Returns a column of known 32-bit values.
fn known_32(values: Vec<i32>, is_known: impl Fn(i32) -> bool) -> ArrayRef {
    let nulls = NullBuffer::new(BooleanBuffer::collect_bool(values.len(), |i| is_known(values[i])));
    Arc::new(Int32Array::new(values.into(), (nulls.null_count() > 0).then_some(nulls)))
}

/// Returns nulls for a column that is empty because no event has a value.
fn optional_32(values: Vec<i32>, rows: usize) -> ArrayRef {
    if values.is_empty() {
        return Arc::new(Int32Array::new_null(rows));
    }
    known_32(values, |value| value != ABSENT_32)
}

/// Returns a result as in the table: -1 if the call failed, or [`ABSENT`].
pub fn shown(ret: i64) -> i64 {
    if ret == ABSENT { ret } else { ret.max(-1) }
}

/// Returns the error in a result, or [`ABSENT_32`].
pub fn errno(ret: i64) -> i32 {
    if ret >= 0 || matches!(ret, ABSENT | FAILED) { ABSENT_32 } else { (-ret).try_into().unwrap_or(i32::MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Row;
    use arrow::array::AsArray;

    /// Names of spans; a batch has three of them.
    fn names(of_all: usize) -> (RecordBatch, Vec<String>) {
        let catalog = Catalog::default();
        let kinds: Vec<u32> = (0..of_all).map(|number| catalog.span(&format!("span {number}"), "app")).collect();
        let place = tables::EVENTS.iter().position(|column| column.name == "name").unwrap();
        let mut converter = Converter::new(&Catalog::default(), vec![place], 8);
        let mut batch = Batch::default();
        let chosen = [0, of_all - 1, 0];
        chosen.iter().for_each(|&number| batch.push(&Row::new(1, 1, kinds[number])));
        catalog.add_process(Default::default());
        let rows = converter.convert(&catalog, &batch).unwrap();
        (rows, chosen.iter().map(|number| format!("span {number}")).collect())
    }

    #[test]
    fn names_match_rows_for_few_and_many_names() {
        for of_all in [3, REPEATED_MAX + 1] {
            let (rows, expected) = names(of_all);
            let found: Vec<_> = rows.column(0).as_string_view().iter().flatten().collect();
            assert_eq!(found, expected);
        }
    }
}
