//! Writes one Parquet file of events, row group by row group.
//!
//! Columns with repeated values are written by [`super::keys`]: names, hosts, processes and files by the numbers in the
//! catalog, integers by numbers of the row group. The Parquet library writes all other columns.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::FieldRef;
use foldhash::fast::RandomState;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use zstd::bulk::Compressor;

use super::columns::{Dictionary, Shared, errno, shown};
use super::keys::{self, Keys, Values};
use crate::batch::{ABSENT, ABSENT_32, Batch};
use crate::catalog::FILE_NONE;
use crate::schema::arrow_schema::schema;
use crate::schema::tables::{self, Type};

/// Columns that are not written by keys: their values hardly repeat, or are maps.
const PLAIN: [&str; 4] = ["ts", "dur", "pos", "args"];

/// Rows of a row group, which the last batch may exceed.
const GROUP_ROWS: usize = 1 << 20;

/// Indexes in [`tables::EVENTS`] of the columns that [`Part::append`] needs in Arrow's format.
pub fn plain_columns() -> Vec<usize> {
    (0..tables::EVENTS.len()).filter(|&place| PLAIN.contains(&tables::EVENTS[place].name)).collect()
}

/// File numbers assigned elsewhere, for parts of one table that are written by several processes.
pub struct Numbers(HashMap<Arc<str>, i32, RandomState>);

impl Numbers {
    /// Creates the numbers from paths in order; for duplicates the first one counts.
    pub fn of(paths: &[Arc<str>]) -> Numbers {
        let numbered: Vec<_> = paths.iter().cloned().zip(0i32..).collect();
        Numbers(numbered.into_iter().rev().collect())
    }

    fn number(&self, path: &str) -> Result<i32> {
        let number = self.0.get(path).copied();
        number.ok_or_else(|| ParquetError::General(format!("{path} did not exist when the files were numbered")))
    }
}

/// A file being written.
pub struct Part {
    file: SerializedFileWriter<File>,
    groups: ArrowRowGroupWriterFactory,
    packer: Compressor<'static>,
    /// Columns in Arrow's format, by their index.
    plain: Vec<(usize, FieldRef)>,
    keyed: Keyed,
    numbers: Option<Arc<Numbers>>,
    /// Writers of the current row group, one per column and one more for the values of the last, which is a map.
    writers: Vec<ArrowColumnWriter>,
    rows: usize,
}

impl Part {
    /// Creates a file. Files have the catalog's numbers, unless others are given.
    pub fn create(path: &Path, properties: WriterProperties, numbers: Option<Arc<Numbers>>) -> Result<Part> {
        let schema = schema(tables::EVENTS);
        let plain = plain_columns().into_iter().map(|place| (place, schema.fields()[place].clone())).collect();
        let (file, groups) =
            ArrowWriter::try_new(File::create_new(path)?, schema, Some(properties))?.into_serialized_writer()?;
        let packer = Compressor::new(1)?;
        Ok(Part { file, groups, packer, plain, keyed: Keyed::new(), numbers, writers: Vec::new(), rows: 0 })
    }

    /// Appends a batch; `plain` has the columns of [`plain_columns`], and `shared` knows everything the batch refers
    /// to.
    pub fn append(&mut self, batch: &Batch, plain: &RecordBatch, shared: &Shared) -> Result<()> {
        if self.writers.is_empty() {
            self.writers = self.groups.create_column_writers(self.file.flushed_row_groups().len())?;
        }
        self.keyed.append(batch, shared);
        for ((place, field), array) in self.plain.iter().zip(plain.columns()) {
            let leaves = compute_leaves(field, array)?;
            let writers = self.writers[*place..].iter_mut();
            leaves.iter().zip(writers).try_for_each(|(leaf, writer)| writer.write(leaf))?;
        }
        self.rows += batch.len();
        if self.rows >= GROUP_ROWS { self.end_group(shared) } else { Ok(()) }
    }

    /// Returns the memory of the current row group in bytes.
    pub fn memory(&self) -> usize {
        self.keyed.memory() + self.writers.iter().map(ArrowColumnWriter::memory_size).sum::<usize>()
    }

    /// Writes the row group, whatever its length.
    pub fn end_group(&mut self, shared: &Shared) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let columns = self.file.schema_descr().columns().to_vec();
        let mut group = self.file.next_row_group()?;
        for (place, writer) in self.writers.drain(..).enumerate() {
            match self.keyed.column(place, shared, self.numbers.as_deref())? {
                Some((keys, values)) => {
                    keys::append(keys, &values, &columns[place], &mut self.packer, &mut group)?;
                }
                None => writer.close()?.append_to_row_group(&mut group)?,
            }
        }
        group.close()?;
        self.keyed.clear();
        self.rows = 0;
        Ok(())
    }

    pub fn close(mut self, shared: &Shared) -> Result<()> {
        self.end_group(shared)?;
        self.file.close()?;
        Ok(())
    }
}

/// The other columns in a row group.
struct Keyed {
    /// With their indexes, in order.
    columns: Vec<(usize, Keys)>,
    integers: Integers,
}

impl Keyed {
    fn new() -> Keyed {
        let is_keyed = |place: &usize| !PLAIN.contains(&tables::EVENTS[*place].name);
        let columns = (0..tables::EVENTS.len()).filter(is_keyed).map(|place| (place, Keys::default())).collect();
        Keyed { columns, integers: Integers::default() }
    }

    fn append(&mut self, batch: &Batch, shared: &Shared) {
        for (place, keys) in &mut self.columns {
            extend(keys, tables::EVENTS[*place].name, &mut self.integers, batch, shared);
        }
    }

    /// Returns a column and the values of its keys; `None` if it is not written by keys.
    fn column(&self, place: usize, shared: &Shared, numbers: Option<&Numbers>) -> Result<Option<(&Keys, Values)>> {
        let Some((_, keys)) = self.columns.iter().find(|(keyed, _)| *keyed == place) else { return Ok(None) };
        let column = &tables::EVENTS[place];
        let values = match (column.name, column.of) {
            ("name", _) => texts(keys, &shared.names),
            ("cat", _) => texts(keys, &shared.cats),
            ("class", _) => texts(keys, &shared.classes),
            ("layer", _) => texts(keys, &shared.layers),
            ("host", _) => {
                let hosts = shared.hosts.as_string_view();
                Values::texts(keys.numbers().iter().map(|&host| hosts.value(host as usize)))
            }
            ("file", _) => Values::texts(keys.numbers().iter().map(|&file| &*shared.files[file as usize])),
            ("file_id", _) => {
                let number = |&file: &u32| match numbers {
                    Some(numbers) => numbers.number(&shared.files[file as usize]),
                    None => Ok(file as i32),
                };
                Values::integers(keys.numbers().iter().map(number).collect::<Result<Vec<_>>>()?.into_iter())
            }
            (_, Type::Int64) => Values::longs(self.integers.of(keys)),
            _ => Values::integers(self.integers.of(keys).map(|value| value as i32)),
        };
        Ok(Some((keys, values)))
    }

    fn memory(&self) -> usize {
        self.integers.memory() + self.columns.iter().map(|(_, keys)| keys.memory()).sum::<usize>()
    }

    fn clear(&mut self) {
        self.columns.iter_mut().for_each(|(_, keys)| keys.clear());
        self.integers.clear();
    }
}

/// Adds the rows of a batch to the column `name`.
fn extend(keys: &mut Keys, name: &str, integers: &mut Integers, batch: &Batch, shared: &Shared) {
    let rows = batch.len();
    let process = shared.process(batch.proc);
    let by_kind = |of: &Dictionary, kind: &u32| Some(of.keys[*kind as usize] as u32);
    let file = |file: &u32| Some(*file).filter(|file| *file != FILE_NONE);
    match name {
        "name" => keys.extend(batch.kind.iter().map(|kind| by_kind(&shared.names, kind))),
        "cat" => keys.extend(batch.kind.iter().map(|kind| by_kind(&shared.cats, kind))),
        "class" => keys.extend(batch.kind.iter().map(|kind| by_kind(&shared.classes, kind))),
        "layer" => keys.extend(batch.kind.iter().map(|kind| by_kind(&shared.layers, kind))),
        "host" => keys.repeat(process.host, rows),
        "pid" => keys.repeat(Some(integers.number(process.pid as i64)), rows),
        "tid" => keys.repeat(Some(integers.number(batch.tid as i64)), rows),
        "rank" => keys.repeat(process.rank.map(|rank| integers.number(rank as i64)), rows),
        "proc" => keys.repeat(Some(integers.number(batch.proc as i64)), rows),
        "file" | "file_id" => keys.extend(batch.file.iter().map(file)),
        "depth" => keys.extend(batch.depth.iter().map(|&depth| Some(integers.number(depth as i64)))),
        "fd" => keys.extend(batch.fd.iter().map(|&fd| integers.known_32(fd))),
        "epoch" | "step" if batch.epoch.is_empty() => keys.repeat(None, rows),
        "epoch" => keys.extend(batch.epoch.iter().map(|&epoch| integers.known_32(epoch))),
        "step" => keys.extend(batch.step.iter().map(|&step| integers.known_32(step))),
        "requested" => keys.extend(batch.requested.iter().map(|&bytes| integers.known(bytes))),
        "bytes" => keys.extend(batch.bytes.iter().map(|&bytes| integers.known(bytes))),
        "ret" => keys.extend(batch.ret.iter().map(|&ret| integers.known(shown(ret)))),
        "errno" => keys.extend(batch.ret.iter().map(|&ret| integers.known_32(errno(ret)))),
        other => unreachable!("the column {other} is not written by keys"),
    }
}

fn texts(keys: &Keys, all: &Dictionary) -> Values {
    Values::texts(keys.numbers().iter().map(|&number| &*all.texts[number as usize]))
}

/// Numbers of the integers in a row group: few, but with arbitrary values.
#[derive(Default)]
struct Integers {
    numbers: HashMap<i64, u32, RandomState>,
    values: Vec<i64>,
    /// The last integer: most are repeated immediately.
    last: Option<(i64, u32)>,
}

impl Integers {
    #[inline(always)]
    fn number(&mut self, value: i64) -> u32 {
        match self.last {
            Some((last, number)) if last == value => number,
            _ => self.look_up(value),
        }
    }

    fn look_up(&mut self, value: i64) -> u32 {
        let number = *self.numbers.entry(value).or_insert_with(|| {
            self.values.push(value);
            self.values.len() as u32 - 1
        });
        self.last = Some((value, number));
        number
    }

    #[inline(always)]
    fn known(&mut self, value: i64) -> Option<u32> {
        (value != ABSENT).then(|| self.number(value))
    }

    #[inline(always)]
    fn known_32(&mut self, value: i32) -> Option<u32> {
        (value != ABSENT_32).then(|| self.number(value as i64))
    }

    /// Returns the values of keys.
    fn of(&self, keys: &Keys) -> impl Iterator<Item = i64> + Clone {
        keys.numbers().iter().map(|&number| self.values[number as usize])
    }

    fn memory(&self) -> usize {
        self.values.capacity() * size_of::<i64>() + self.numbers.capacity() * size_of::<(i64, u32)>()
    }

    fn clear(&mut self) {
        *self = Integers::default();
    }
}
