//! `.parquet`: one row per sample. Columns are named in the workload; the default is one binary column `image`.
//!
//! Numbers with a size above one become a list column; `binary` and `string` columns have values of that many bytes. A
//! column with `read: false` is written but not read.

use super::format::{Format, Output, Reader, content_of, other, sample_of};
use crate::config::Dataset;
use crate::data_set::layout::FileSpec;
use crate::failure::{Failure, Outcome};
use crate::files::atomic_file::AtomicFile;
use crate::files::input::{Access, Input, open_regular};
use crate::keys::value::Value;
use crate::system::random::word;
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, DataType, FixedLenByteArray};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{ChunkReader, FileReader, Length};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};
use serde_json::{Value as Json, json};
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::{Arc, Mutex};

pub struct Parquet;

#[derive(Debug, Clone)]
struct Column {
    name: String,
    physical: Physical,
    logical: Option<LogicalType>,
    size: u64,
}

impl Column {
    fn is_list(&self) -> bool {
        self.physical != Physical::BYTE_ARRAY && self.size > 1
    }

    fn values_per_row(&self) -> u64 {
        if self.is_list() { self.size } else { 1 }
    }

    fn read(value: &Value) -> Column {
        let text = |key: &str, default: &str| match value.get(key) {
            Some(Value::Text(text)) => text.clone(),
            _ => default.to_string(),
        };
        let dtype = text("dtype", "float32");
        let size = if let Some(Value::Int(size)) = value.get("size") { (*size).max(1) as u64 } else { 1 };
        let physical = match dtype.as_str() {
            "float16" => Physical::FIXED_LEN_BYTE_ARRAY,
            "float32" | "float" => Physical::FLOAT,
            "float64" | "double" => Physical::DOUBLE,
            "int64" | "uint64" => Physical::INT64,
            "string" | "binary" | "bytes" => Physical::BYTE_ARRAY,
            _ => Physical::INT32,
        };
        let logical = match dtype.as_str() {
            "string" => Some(LogicalType::String),
            "float16" => Some(LogicalType::Float16),
            "int8" | "uint8" => Some(LogicalType::integer(8, dtype == "int8")),
            _ => None,
        };
        Column { name: text("name", "column"), physical, logical, size }
    }

    /// Returns a random integer of the column's type.
    fn whole(&self, value: u64) -> i32 {
        match &self.logical {
            Some(LogicalType::Integer(kind)) if kind.is_signed => i32::from(value as i8),
            Some(LogicalType::Integer(_)) => i32::from(value as u8),
            _ => value as i32,
        }
    }

    /// Returns a row as it is read back. `number` is the column's index in the file.
    fn row(&self, spec: &FileSpec, number: u64, row: u64) -> Vec<u8> {
        let range = row * self.values_per_row()..(row + 1) * self.values_per_row();
        let values = range.map(|index| word(spec.content_seed ^ number, index));
        match self.physical {
            Physical::BYTE_ARRAY => bytes_of(spec, self, row, &mut Vec::new(), false),
            Physical::FIXED_LEN_BYTE_ARRAY => values.flat_map(|value| half(value).to_le_bytes()).collect(),
            Physical::FLOAT => values.flat_map(|value| float(value).to_le_bytes()).collect(),
            Physical::DOUBLE => values.flat_map(|value| double(value).to_le_bytes()).collect(),
            Physical::INT64 => values.flat_map(u64::to_le_bytes).collect(),
            _ => values.flat_map(|value| self.whole(value).to_le_bytes()).collect(),
        }
    }

    fn schema(&self) -> Result<TypePtr> {
        let leaf = |name: &str| {
            let builder = Type::primitive_type_builder(name, self.physical).with_repetition(Repetition::REQUIRED);
            let length = if self.physical == Physical::FIXED_LEN_BYTE_ARRAY { HALF_BYTES } else { -1 };
            builder.with_length(length).with_logical_type(self.logical.clone()).build().map(Arc::new)
        };
        if !self.is_list() {
            return leaf(&self.name);
        }
        let list =
            Type::group_type_builder("list").with_repetition(Repetition::REPEATED).with_fields(vec![leaf("element")?]);
        let group = Type::group_type_builder(&self.name).with_repetition(Repetition::REQUIRED);
        let group = group.with_logical_type(Some(LogicalType::List)).with_fields(vec![Arc::new(list.build()?)]);
        group.build().map(Arc::new)
    }
}

/// Returns a half-precision number in [0.5, 1): a fixed exponent, and a fraction of ten bits.
fn half(value: u64) -> u16 {
    0x3800 | value as u16 & 0x3ff
}

fn float(value: u64) -> f32 {
    (value >> 40) as f32 / (1 << 24) as f32
}

fn double(value: u64) -> f64 {
    (value >> 11) as f64 / (1u64 << 53) as f64
}

/// Bytes of a half-precision number.
const HALF_BYTES: i32 = 2;

/// Returns the names of the columns that are not read.
fn unread(dataset: &Dataset) -> Vec<String> {
    let is_unread = |column: &&Value| column.get("read") == Some(&Value::Bool(false));
    dataset.parquet_columns.iter().filter(is_unread).map(|column| Column::read(column).name).collect()
}

fn columns(dataset: &Dataset) -> Vec<Column> {
    dataset.parquet_columns.iter().map(Column::read).collect()
}

impl Format for Parquet {
    fn name(&self) -> &'static str {
        "parquet"
    }

    fn write(&self, spec: &FileSpec, dataset: &Dataset, draft: &mut AtomicFile, scratch: &mut Vec<u8>) -> Outcome<()> {
        let output = Output::create(draft, &spec.path)?;
        let buffered = std::io::BufWriter::with_capacity(1 << 20, output.file);
        write_file(spec, dataset, buffered, scratch).map_err(|error| match error {
            ParquetError::External(cause) => match cause.downcast::<std::io::Error>() {
                Ok(error) => Failure::io("write", &spec.path, *error),
                Err(cause) => {
                    Failure::new(crate::failure::Kind::System, format!("cannot write {}: {cause}", spec.path.display()))
                }
            },
            other => {
                Failure::new(crate::failure::Kind::System, format!("cannot write {}: {other}", spec.path.display()))
            }
        })
    }

    fn file_bytes(&self, _: &FileSpec, _: &Dataset) -> Option<u64> {
        None
    }

    fn made_with(&self, dataset: &Dataset) -> Vec<(&'static str, Json)> {
        let columns: Vec<Json> = dataset.parquet_columns.iter().map(Value::to_json).collect();
        vec![("parquet.columns", json!(columns)), ("parquet.row_group_size", json!(dataset.parquet_row_group))]
    }

    fn differs(&self, spec: &FileSpec, dataset: &Dataset) -> Option<String> {
        let (file, _) = open_regular(&spec.path, 0).ok()?;
        let Ok(reader) = SerializedFileReader::new(file) else { return Some("not a complete Parquet file".into()) };
        let found = reader.metadata();
        let names = |names: &mut dyn Iterator<Item = String>| names.collect::<Vec<_>>();
        let asked = match dataset.parquet_columns.is_empty() {
            true => vec!["image".to_string()],
            false => names(&mut columns(dataset).into_iter().map(|column| column.name)),
        };
        let fields = found.file_metadata().schema_descr().root_schema().get_fields();
        let rows = found.row_groups().first().map_or(0, |group| group.num_rows() as u64);
        other("rows:", &(found.file_metadata().num_rows() as u64), &spec.samples)
            .or_else(|| other("rows of a group:", &rows, &dataset.parquet_row_group.max(1).min(spec.samples)))
            .or_else(|| other("columns", &names(&mut fields.iter().map(|field| field.name().to_string())), &asked))
    }

    fn expected(&self, spec: &FileSpec, dataset: &Dataset, sample: u64) -> Outcome<Vec<u8>> {
        let (all, unread) = (columns(dataset), unread(dataset));
        if all.is_empty() {
            return Ok(sample_of(spec, sample));
        }
        let read = all.iter().enumerate().filter(|(_, column)| !unread.contains(&column.name));
        Ok(read.flat_map(|(number, column)| column.row(spec, number as u64, sample)).collect())
    }

    fn reads_whole(&self) -> bool {
        false
    }

    fn reader(&self, dataset: &Dataset, access: Access) -> Box<dyn Reader> {
        Box::new(ParquetReader { access, unread: unread(dataset), open: None, row: Vec::new(), moved: 0 })
    }
}

fn write_file<W: std::io::Write + Send>(
    spec: &FileSpec,
    dataset: &Dataset,
    file: W,
    scratch: &mut Vec<u8>,
) -> Result<()> {
    let mut columns = columns(dataset);
    let samples_as_bytes = columns.is_empty();
    if samples_as_bytes {
        columns.push(Column {
            name: "image".into(),
            physical: Physical::BYTE_ARRAY,
            logical: None,
            size: spec.sample_bytes(),
        });
    }
    let fields = columns.iter().map(Column::schema).collect::<Result<Vec<_>>>()?;
    let schema = Arc::new(Type::group_type_builder("schema").with_fields(fields).build()?);
    // Noise has no repeated values for a dictionary.
    let properties =
        WriterProperties::builder().set_compression(Compression::UNCOMPRESSED).set_dictionary_enabled(false);
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties.build()))?;
    let group_rows = dataset.parquet_row_group.max(1);
    for first in (0..spec.samples).step_by(group_rows as usize) {
        let rows = first..(first + group_rows).min(spec.samples);
        let mut group = writer.next_row_group()?;
        for (number, column) in columns.iter().enumerate() {
            let mut open = group.next_column()?.expect("a writer for each column of the schema");
            write_column(spec, column, number as u64, rows.clone(), open.untyped(), scratch, samples_as_bytes)?;
            open.close()?;
        }
        group.close()?;
    }
    writer.close().map(drop)
}

fn write_column(
    spec: &FileSpec,
    column: &Column,
    number: u64,
    rows: std::ops::Range<u64>,
    writer: &mut ColumnWriter<'_>,
    scratch: &mut Vec<u8>,
    samples_as_bytes: bool,
) -> Result<()> {
    // A batch is one row or 1,024 values, whichever is more.
    let step = (1024 / column.values_per_row()).max(1);
    let step = if column.physical == Physical::BYTE_ARRAY { (1 << 20) / column.size.clamp(1, 1 << 20) } else { step };
    let mut first = rows.start;
    while first < rows.end {
        let end = (first + step.max(1)).min(rows.end);
        let range = first * column.values_per_row()..end * column.values_per_row();
        let values = range.clone().map(|index| word(spec.content_seed ^ number, index));
        let repeated: Vec<i16> =
            range.clone().map(|index| i16::from(!index.is_multiple_of(column.values_per_row()))).collect();
        let defined = vec![1i16; repeated.len()];
        let levels = column.is_list().then_some((defined.as_slice(), repeated.as_slice()));
        let (defined, repeated) = levels.unzip();
        let _written = match writer {
            ColumnWriter::Int32ColumnWriter(typed) => {
                typed.write_batch(&values.map(|value| column.whole(value)).collect::<Vec<_>>(), defined, repeated)?
            }
            ColumnWriter::Int64ColumnWriter(typed) => {
                typed.write_batch(&values.map(|value| value as i64).collect::<Vec<_>>(), defined, repeated)?
            }
            ColumnWriter::FloatColumnWriter(typed) => {
                typed.write_batch(&values.map(float).collect::<Vec<_>>(), defined, repeated)?
            }
            ColumnWriter::DoubleColumnWriter(typed) => {
                typed.write_batch(&values.map(double).collect::<Vec<_>>(), defined, repeated)?
            }
            ColumnWriter::FixedLenByteArrayColumnWriter(typed) => {
                let halves = values.map(|value| FixedLenByteArray::from(half(value).to_le_bytes().to_vec()));
                typed.write_batch(&halves.collect::<Vec<_>>(), defined, repeated)?
            }
            ColumnWriter::ByteArrayColumnWriter(typed) => {
                let one = |row| ByteArray::from(bytes_of(spec, column, row, scratch, samples_as_bytes));
                let values: Vec<ByteArray> = (first..end).map(one).collect();
                typed.write_batch(&values, None, None)?
            }
            _ => unreachable!("no other physical type is put into the schema"),
        };
        first = end;
    }
    Ok(())
}

fn bytes_of(spec: &FileSpec, column: &Column, row: u64, scratch: &mut Vec<u8>, sample: bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(column.size as usize);
    let range = row * column.size..(row + 1) * column.size;
    let _ = content_of(spec).pieces(range.start, range.end, scratch, |piece| -> std::result::Result<(), ()> {
        bytes.extend_from_slice(piece);
        Ok(())
    });
    if column.logical == Some(LogicalType::String) && !sample {
        // Letters: a string column must be UTF-8.
        bytes.iter_mut().for_each(|byte| *byte = b'a' + *byte % 26);
    }
    bytes
}

/// The library reads through this, so that transfers have the workload's size and bytes are counted.
#[derive(Clone)]
struct Shared(Arc<Mutex<Input>>, u64);

impl Length for Shared {
    fn len(&self) -> u64 {
        self.1
    }
}

impl ChunkReader for Shared {
    type T = BufReader<Following>;

    /// Reads page headers: mostly small, of unknown length. They contain the minimum and maximum of a page.
    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(BufReader::with_capacity(4096, Following { shared: self.clone(), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<bytes::Bytes> {
        let mut bytes = vec![0; length];
        let mut input = self.0.lock().expect("no reader panics while it reads");
        input.read_exact_at(start, &mut bytes).map_err(|failure| ParquetError::General(failure.what))?;
        Ok(bytes.into())
    }
}

/// A reader from an offset on, which fetches bytes as they are needed.
struct Following {
    shared: Shared,
    at: u64,
}

impl Read for Following {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let there = self.shared.len().saturating_sub(self.at).min(into.len() as u64) as usize;
        let bytes = self.shared.get_bytes(self.at, there).map_err(io::Error::other)?;
        into[..there].copy_from_slice(&bytes);
        self.at += there as u64;
        Ok(there)
    }
}

struct Open {
    file: SerializedFileReader<Shared>,
    shared: Shared,
    path: std::path::PathBuf,
    /// The indexes of the columns to read.
    wanted: Vec<usize>,
    /// The columns of the row group being read, and its rows.
    columns: Vec<ColumnReader>,
    rows: std::ops::Range<u64>,
    next: u64,
}

struct ParquetReader {
    access: Access,
    unread: Vec<String>,
    open: Option<Open>,
    row: Vec<u8>,
    moved: u64,
}

impl Open {
    fn go_to(&mut self, index: u64) -> Result<()> {
        if !self.rows.contains(&index) || index < self.next {
            self.open_group(index)?;
        }
        let skip = (index - self.next) as usize;
        for column in &mut self.columns {
            skip_rows(column, skip)?;
        }
        self.next = index;
        Ok(())
    }

    fn open_group(&mut self, index: u64) -> Result<()> {
        let mut first = 0;
        for number in 0..self.file.num_row_groups() {
            let group = self.file.get_row_group(number)?;
            let rows = first..first + group.metadata().num_rows() as u64;
            first = rows.end;
            if rows.contains(&index) {
                self.columns =
                    self.wanted.iter().map(|column| group.get_column_reader(*column)).collect::<Result<_>>()?;
                self.next = rows.start;
                self.rows = rows;
                return Ok(());
            }
        }
        Err(ParquetError::General(format!("row {index} of {first} does not exist")))
    }
}

fn skip_rows(column: &mut ColumnReader, rows: usize) -> Result<()> {
    match column {
        ColumnReader::BoolColumnReader(reader) => reader.skip_records(rows),
        ColumnReader::Int32ColumnReader(reader) => reader.skip_records(rows),
        ColumnReader::Int64ColumnReader(reader) => reader.skip_records(rows),
        ColumnReader::Int96ColumnReader(reader) => reader.skip_records(rows),
        ColumnReader::FloatColumnReader(reader) => reader.skip_records(rows),
        ColumnReader::DoubleColumnReader(reader) => reader.skip_records(rows),
        ColumnReader::ByteArrayColumnReader(reader) => reader.skip_records(rows),
        ColumnReader::FixedLenByteArrayColumnReader(reader) => reader.skip_records(rows),
    }
    .map(|_skipped| ())
}

fn values<T: DataType>(reader: &mut ColumnReaderImpl<T>) -> Result<Vec<T::T>> {
    let (mut values, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    reader.read_records(1, Some(&mut defined), Some(&mut repeated), &mut values)?;
    Ok(values)
}

fn append_row(column: &mut ColumnReader, row: &mut Vec<u8>) -> Result<()> {
    match column {
        ColumnReader::BoolColumnReader(reader) => row.extend(values(reader)?.into_iter().map(u8::from)),
        ColumnReader::Int32ColumnReader(reader) => row.extend(values(reader)?.into_iter().flat_map(i32::to_le_bytes)),
        ColumnReader::Int64ColumnReader(reader) => row.extend(values(reader)?.into_iter().flat_map(i64::to_le_bytes)),
        ColumnReader::FloatColumnReader(reader) => row.extend(values(reader)?.into_iter().flat_map(f32::to_le_bytes)),
        ColumnReader::DoubleColumnReader(reader) => row.extend(values(reader)?.into_iter().flat_map(f64::to_le_bytes)),
        ColumnReader::ByteArrayColumnReader(reader) => {
            values(reader)?.iter().for_each(|value| row.extend(value.data()))
        }
        ColumnReader::FixedLenByteArrayColumnReader(reader) => {
            values(reader)?.iter().for_each(|value| row.extend(value.data()))
        }
        ColumnReader::Int96ColumnReader(_) => return Err(ParquetError::NYI("columns of 96-bit times".into())),
    }
    Ok(())
}

impl Reader for ParquetReader {
    fn open(&mut self, path: &Path) -> Outcome<()> {
        let access = Access { direct: false, ..self.access };
        let mut input = Input::open(path, access)?;
        let length = input.length()?;
        let shared = Shared(Arc::new(Mutex::new(input)), length);
        let file = SerializedFileReader::new(shared.clone()).map_err(|error| Failure::damaged(path, error))?;
        let schema = file.metadata().file_metadata().schema_descr_ptr();
        let is_wanted =
            |column: &usize| !self.unread.iter().any(|name| name == schema.column(*column).path().parts()[0].as_str());
        let wanted = (0..schema.num_columns()).filter(is_wanted).collect();
        let path = path.to_path_buf();
        self.open = Some(Open { file, shared, path, wanted, columns: Vec::new(), rows: 0..0, next: 0 });
        Ok(())
    }

    fn sample(&mut self, index: u64) -> Outcome<()> {
        let open = self.open.as_mut().expect("a reader is opened before it reads");
        self.row.clear();
        let read = open
            .go_to(index)
            .and_then(|()| open.columns.iter_mut().try_for_each(|column| append_row(column, &mut self.row)));
        open.next += 1;
        self.moved += open.shared.0.lock().expect("no reader panics while it reads").take_moved();
        read.map_err(|error| Failure::damaged(&open.path, error))
    }

    fn bytes(&self) -> &[u8] {
        &self.row
    }

    fn take_moved(&mut self) -> u64 {
        std::mem::take(&mut self.moved)
    }

    fn close(&mut self) {
        self.open = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::keys::value::parse_yaml;
    use parquet::data_type::ByteArrayType;
    use parquet::file::properties::EnabledStatistics;

    /// As pyarrow writes them: the header of each page contains the whole minimum and maximum.
    #[test]
    fn pages_with_long_headers_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let text = "{dataset: {format: parquet}}";
        let dataset = Config::read(&parse_yaml("t", text).unwrap()).unwrap().dataset;
        for bytes in [1500, 2100, 4000, 20_000] {
            let path = folder.path().join(format!("{bytes}.parquet"));
            let image = Column { name: "image".into(), physical: Physical::BYTE_ARRAY, logical: None, size: bytes };
            let schema = Type::group_type_builder("schema").with_fields(vec![image.schema().unwrap()]).build().unwrap();
            let properties = WriterProperties::builder()
                .set_statistics_enabled(EnabledStatistics::Page)
                .set_statistics_truncate_length(None)
                .set_write_page_header_statistics(true);
            let file = std::fs::File::create(&path).unwrap();
            let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties.build())).unwrap();
            let mut group = writer.next_row_group().unwrap();
            let mut column = group.next_column().unwrap().unwrap();
            let values: Vec<Vec<u8>> = (1..4u8).map(|row| vec![row; bytes as usize]).collect();
            let typed: Vec<ByteArray> = values.iter().cloned().map(ByteArray::from).collect();
            column.typed::<ByteArrayType>().write_batch(&typed, None, None).unwrap();
            column.close().unwrap();
            group.close().unwrap();
            writer.close().unwrap();
            let mut reader = Parquet.reader(&dataset, Access::default());
            reader.open(&path).unwrap();
            for row in [0, 2, 1] {
                reader.sample(row).unwrap();
                assert_eq!(reader.bytes(), values[row as usize], "{bytes}: row {row}");
            }
        }
    }
}
