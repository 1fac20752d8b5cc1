//! Batches of events as Arrow record batches, column by column as the contract in `schemas` lists them.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, DictionaryArray, Int32Array, Int32Builder, Int64Array, MapBuilder, MapFieldNames, RecordBatch,
    RecordBatchOptions, StringArray, StringBuilder, UInt8Array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use arrow::error::ArrowError;
use dlio_schemas::tables::{self, Column, Type};

use crate::batch::{ABSENT, ABSENT_32, Batch, Value};
use crate::catalog::{Catalog, FILE_NONE, Process};

/// The Arrow schema of a table of the contract.
pub fn schema(columns: &[Column]) -> SchemaRef {
    let fields: Vec<_> =
        columns.iter().map(|column| Field::new(column.name, data_type(column.of), column.nullable)).collect();
    Arc::new(Schema::new(fields))
}

fn data_type(of: Type) -> DataType {
    match of {
        Type::Name => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
        Type::Text => DataType::Utf8,
        Type::Int64 => DataType::Int64,
        Type::Int32 => DataType::Int32,
        Type::UInt8 => DataType::UInt8,
        Type::Map => map_type(),
    }
}

fn map_type() -> DataType {
    let names = MapFieldNames::default();
    let fields = vec![Field::new(names.key, DataType::Utf8, false), Field::new(names.value, DataType::Utf8, true)];
    DataType::Map(Arc::new(Field::new(names.entry, DataType::Struct(fields.into()), false)), false)
}

/// Strings of the catalogue as Arrow shares them between batches, and what of each process every event repeats.
pub struct Shared {
    kinds: usize,
    pub names: Dictionary,
    pub cats: Dictionary,
    pub classes: Dictionary,
    pub hosts: ArrayRef,
    processes: Vec<SharedProcess>,
    pub files: Vec<Arc<str>>,
    texts: Vec<Arc<str>>,
}

/// What every event of a process repeats.
#[derive(Clone, Copy, Default)]
pub struct SharedProcess {
    pub pid: i32,
    /// A place in the list of hosts.
    pub host: Option<u32>,
    pub rank: Option<i32>,
}

/// Different strings, and which of them each kind has.
pub struct Dictionary {
    pub values: ArrayRef,
    pub keys: Vec<i32>,
}

impl Dictionary {
    fn new<'a>(texts: impl Iterator<Item = &'a str>) -> Dictionary {
        let mut values: Vec<&str> = Vec::new();
        let mut known = std::collections::HashMap::new();
        let keys = texts.map(|text| {
            *known.entry(text).or_insert_with(|| {
                values.push(text);
                values.len() as i32 - 1
            })
        });
        let keys = keys.collect();
        Dictionary { values: Arc::new(StringArray::from(values)), keys }
    }

    fn column(&self, kinds: &[u32]) -> Result<ArrayRef, ArrowError> {
        let keys: Int32Array = kinds.iter().map(|&kind| self.keys[kind as usize]).collect::<Vec<_>>().into();
        Ok(Arc::new(DictionaryArray::try_new(keys, self.values.clone())?))
    }
}

impl Shared {
    fn new(catalog: &Catalog) -> Shared {
        let kinds = catalog.kinds();
        let hosts: Vec<_> = catalog.hosts().into_iter().map(|host| host.name).collect();
        let process = |process: &Process| SharedProcess {
            pid: process.pid,
            host: Some(process.host).filter(|host| (*host as usize) < hosts.len()),
            rank: process.rank,
        };
        let processes = catalog.processes().iter().map(process).collect();
        Shared {
            kinds: kinds.len(),
            names: Dictionary::new(kinds.iter().map(|kind| kind.name.as_ref())),
            cats: Dictionary::new(kinds.iter().map(|kind| kind.cat.as_ref())),
            classes: Dictionary::new(kinds.iter().map(|kind| kind.class.name())),
            hosts: Arc::new(StringArray::from(hosts)),
            processes,
            files: Vec::new(),
            texts: Vec::new(),
        }
    }

    /// Learns what was named since.
    fn extend(&mut self, catalog: &Catalog) {
        let (mut files, mut texts) = (std::mem::take(&mut self.files), std::mem::take(&mut self.texts));
        files.extend(catalog.files_from(files.len()));
        texts.extend(catalog.texts_from(texts.len()));
        *self = Shared { files, texts, ..Shared::new(catalog) };
    }

    /// What is known of a process.
    pub fn process(&self, proc: u32) -> SharedProcess {
        self.processes.get(proc as usize).copied().unwrap_or_default()
    }

    /// Whether everything the batch refers to is known here: foreign formats name things as they come to them.
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

/// Converts batches for one thread.
pub struct Converter {
    shared: Shared,
    schema: SchemaRef,
    /// Places in the list of columns.
    columns: Vec<usize>,
    /// For each file its key in the batch being made, valid where `marks` has the batch's number.
    keys: Vec<i32>,
    marks: Vec<u64>,
    mark: u64,
}

impl Converter {
    /// `columns` are places in [`tables::EVENTS`].
    pub fn new(catalog: &Catalog, columns: Vec<usize>) -> Converter {
        let listed: Vec<_> = columns.iter().map(|&place| tables::EVENTS[place]).collect();
        Converter {
            shared: Shared::new(catalog),
            schema: schema(&listed),
            columns,
            keys: Vec::new(),
            marks: Vec::new(),
            mark: 0,
        }
    }

    /// What all batches converted so far refer to.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    pub fn convert(&mut self, catalog: &Catalog, batch: &Batch) -> Result<RecordBatch, ArrowError> {
        if !self.shared.covers(batch) {
            self.shared.extend(catalog);
        }
        let places = self.columns.clone();
        let arrays: Result<Vec<_>, _> =
            places.iter().map(|&place| self.column(tables::EVENTS[place].name, batch)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.len()));
        RecordBatch::try_new_with_options(self.schema.clone(), arrays?, &options)
    }

    fn column(&mut self, name: &str, batch: &Batch) -> Result<ArrayRef, ArrowError> {
        let rows = batch.len();
        let SharedProcess { pid, host, rank } = self.shared.process(batch.proc);
        Ok(match name {
            "ts" => Arc::new(Int64Array::from(batch.ts.clone())),
            "dur" => Arc::new(Int64Array::from(batch.dur.clone())),
            "name" => self.shared.names.column(&batch.kind)?,
            "cat" => self.shared.cats.column(&batch.kind)?,
            "class" => self.shared.classes.column(&batch.kind)?,
            "host" => same_host(&self.shared.hosts, host, rows)?,
            "pid" => Arc::new(Int32Array::from(vec![pid; rows])),
            "tid" => Arc::new(Int32Array::from(vec![batch.tid; rows])),
            "rank" => Arc::new(repeated(rank, rows)),
            "proc" => Arc::new(Int32Array::from(vec![batch.proc as i32; rows])),
            "file" => self.files(&batch.file)?,
            "file_id" => {
                known_32(batch.file.iter().map(|&file| file as i32).collect(), |file| file != FILE_NONE as i32)
            }
            "fd" => optional_32(&batch.fd, rows),
            "pos" => optional(&batch.pos),
            "requested" => optional(&batch.requested),
            "bytes" => optional(&batch.bytes),
            "ret" => known(batch.ret.iter().map(|&ret| shown(ret)).collect(), |ret| ret != ABSENT),
            "errno" => known_32(batch.ret.iter().map(|&ret| errno(ret)).collect(), |errno| errno != ABSENT_32),
            "depth" => Arc::new(UInt8Array::from(batch.depth.clone())),
            "epoch" => optional_32(&batch.epoch, rows),
            "step" => optional_32(&batch.step, rows),
            "args" => self.args(batch)?,
            other => return Err(ArrowError::SchemaError(format!("no column {other} is made"))),
        })
    }

    /// Only the paths of this batch: functions on strings are computed once for each value of a dictionary, and a
    /// million paths would be a million computations a batch.
    fn files(&mut self, files: &[u32]) -> Result<ArrayRef, ArrowError> {
        self.mark += 1;
        self.keys.resize(self.shared.files.len(), 0);
        self.marks.resize(self.shared.files.len(), 0);
        let mut values = StringBuilder::new();
        let mut count = 0;
        let mut keys = Int32Builder::with_capacity(files.len());
        for &file in files {
            if file == FILE_NONE {
                keys.append_null();
                continue;
            }
            let at = file as usize;
            if self.marks[at] != self.mark {
                self.marks[at] = self.mark;
                self.keys[at] = count;
                values.append_value(&self.shared.files[at]);
                count += 1;
            }
            keys.append_value(self.keys[at]);
        }
        Ok(Arc::new(DictionaryArray::try_new(keys.finish(), Arc::new(values.finish()))?))
    }

    fn args(&self, batch: &Batch) -> Result<ArrayRef, ArrowError> {
        let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
        let mut args = batch.args.iter().peekable();
        for row in 0..batch.len() as u32 {
            let mut any = false;
            while let Some(arg) = args.next_if(|arg| arg.row == row) {
                map.keys().append_value(&self.shared.texts[arg.key as usize]);
                map.values().append_value(self.text(&arg.value));
                any = true;
            }
            map.append(any)?;
        }
        Ok(Arc::new(map.finish()))
    }

    fn text(&self, value: &Value) -> String {
        match value {
            Value::Int(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            Value::Text(number) => self.shared.texts[*number as usize].to_string(),
            Value::Octal(number) => format!("0{number:o}"),
            Value::Hex(number) => format!("0x{number:x}"),
        }
    }
}

fn same_host(hosts: &ArrayRef, host: Option<u32>, rows: usize) -> Result<ArrayRef, ArrowError> {
    let keys = repeated(host.map(|host| host as i32), rows);
    Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, hosts.clone())?))
}

/// One value in all rows.
fn repeated(value: Option<i32>, rows: usize) -> Int32Array {
    value.map_or_else(|| Int32Array::new_null(rows), |value| vec![value; rows].into())
}

fn optional(values: &[i64]) -> ArrayRef {
    known(values.to_vec(), |value| value != ABSENT)
}

/// A column of the values for which `is_known` holds, null elsewhere.
fn known(values: Vec<i64>, is_known: impl Fn(i64) -> bool) -> ArrayRef {
    let nulls = NullBuffer::new(BooleanBuffer::collect_bool(values.len(), |i| is_known(values[i])));
    Arc::new(Int64Array::new(values.into(), (nulls.null_count() > 0).then_some(nulls)))
}

/// The same for 32 bits.
fn known_32(values: Vec<i32>, is_known: impl Fn(i32) -> bool) -> ArrayRef {
    let nulls = NullBuffer::new(BooleanBuffer::collect_bool(values.len(), |i| is_known(values[i])));
    Arc::new(Int32Array::new(values.into(), (nulls.null_count() > 0).then_some(nulls)))
}

/// A column that nobody carries is empty.
fn optional_32(values: &[i32], rows: usize) -> ArrayRef {
    if values.is_empty() {
        return Arc::new(Int32Array::new_null(rows));
    }
    known_32(values.to_vec(), |value| value != ABSENT_32)
}

/// A result as the table has it: -1 where the call failed, or [`ABSENT`].
pub fn shown(ret: i64) -> i64 {
    if ret == ABSENT { ret } else { ret.max(-1) }
}

/// The error behind a result, or [`ABSENT_32`].
pub fn errno(ret: i64) -> i32 {
    if ret >= 0 || ret == ABSENT { ABSENT_32 } else { (-ret).try_into().unwrap_or(i32::MAX) }
}
