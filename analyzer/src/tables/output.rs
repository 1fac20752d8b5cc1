//! Rows of a query as text, CSV, JSON, Parquet or Arrow.

use std::collections::HashSet;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamEncoder;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use parquet::arrow::ArrowWriter;

use crate::summary::report::flat::quoted;
use crate::text_table::{Grid, is_obeyed};

/// The format of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Format {
    Text,
    Json,
    Csv,
    /// A table for a pull request or a page.
    Markdown,
    /// One JSON object a line.
    Ndjson,
    Parquet,
    /// Arrow's stream format.
    Arrow,
}

/// The maximum number of rows in a text table: its columns are as wide as their widest cell, so all rows must be known.
const TEXT_ROWS_MAX: usize = 10_000;

/// Writes batches one after another.
pub struct RowWriter<W: Write + Send> {
    written: FormatWriter<W>,
    /// The columns under unique names, if two share a name and readers find columns by name.
    renamed: Option<SchemaRef>,
}

/// The state of each output format.
enum FormatWriter<W: Write + Send> {
    Text { out: W, schema: SchemaRef, rows: Vec<Vec<String>>, left_out: usize, markdown: bool },
    Json(arrow::json::ArrayWriter<W>),
    Csv(Box<arrow::csv::Writer<W>>),
    Ndjson(arrow::json::LineDelimitedWriter<W>),
    Parquet(Box<ArrowWriter<W>>),
    Arrow(Box<StreamEncoder>, W),
}

impl<W: Write + Send> RowWriter<W> {
    pub fn new(format: Format, schema: SchemaRef, mut out: W) -> Result<RowWriter<W>, ArrowError> {
        let by_name = !matches!(format, Format::Text | Format::Markdown | Format::Csv);
        let renamed = if by_name { with_own_names(&schema) } else { None };
        let schema = renamed.clone().unwrap_or(schema);
        let written = match format {
            Format::Text | Format::Markdown => {
                let markdown = format == Format::Markdown;
                FormatWriter::Text { out, schema, rows: Vec::new(), left_out: 0, markdown }
            }
            Format::Json => FormatWriter::Json(arrow::json::WriterBuilder::new().with_explicit_nulls(true).build(out)),
            Format::Csv => {
                // Write a header even without rows, and map columns as text: Arrow's writer supports neither.
                let names: Vec<_> = schema.fields().iter().map(|field| quoted(field.name())).collect();
                writeln!(out, "{}", names.join(","))?;
                FormatWriter::Csv(Box::new(arrow::csv::WriterBuilder::new().with_header(false).build(out)))
            }
            Format::Ndjson => {
                FormatWriter::Ndjson(arrow::json::WriterBuilder::new().with_explicit_nulls(true).build(out))
            }
            Format::Parquet => FormatWriter::Parquet(Box::new(ArrowWriter::try_new(out, schema, None)?)),
            Format::Arrow => FormatWriter::Arrow(Box::new(StreamEncoder::try_new(&schema)?), out),
        };
        Ok(RowWriter { written, renamed })
    }

    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        let under_own_names = match &self.renamed {
            Some(schema) => &RecordBatch::try_new(schema.clone(), batch.columns().to_vec())?,
            None => batch,
        };
        self.written.write(under_own_names)
    }

    /// Writes buffered rows and completes the output.
    pub fn finish(self) -> Result<(), ArrowError> {
        self.written.finish()
    }
}

impl<W: Write + Send> FormatWriter<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        match self {
            FormatWriter::Text { rows, left_out, .. } => {
                let room = TEXT_ROWS_MAX.saturating_sub(rows.len()).min(batch.num_rows());
                *left_out += batch.num_rows() - room;
                rows.extend(cells(&batch.slice(0, room))?);
                Ok(())
            }
            FormatWriter::Json(writer) => writer.write(batch),
            FormatWriter::Csv(writer) => writer.write(&without_maps(batch)?),
            FormatWriter::Ndjson(writer) => writer.write(batch),
            FormatWriter::Parquet(writer) => Ok(writer.write(batch)?),
            FormatWriter::Arrow(encoder, out) => Ok(write_together(out, &encoder.encode(batch)?)?),
        }
    }

    fn finish(self) -> Result<(), ArrowError> {
        match self {
            FormatWriter::Text { mut out, schema, rows, markdown, .. } if is_plan(&schema) => {
                out.write_all(plan(&rows, markdown).as_bytes())?;
                Ok(out.flush()?)
            }
            FormatWriter::Text { mut out, schema, rows, left_out, markdown } => {
                out.write_all(grid(&schema, &rows, left_out, markdown).as_bytes())?;
                Ok(out.flush()?)
            }
            FormatWriter::Json(mut writer) => {
                writer.finish()?;
                Ok(writeln!(writer.into_inner())?)
            }
            FormatWriter::Csv(writer) => Ok(writer.into_inner().flush()?),
            FormatWriter::Ndjson(mut writer) => writer.finish(),
            FormatWriter::Parquet(writer) => writer.close().map(|_| ()).map_err(ArrowError::from),
            FormatWriter::Arrow(encoder, mut out) => Ok(write_together(&mut out, &encoder.finish()?)?),
        }
    }
}

/// Writes buffers with as few system calls as possible, and leaves nothing in buffers of `out`: the reader of a pipe is
/// woken once for all, and receives rows when they are complete.
fn write_together(out: &mut impl Write, buffers: &[Buffer]) -> io::Result<()> {
    let mut slices: Vec<_> = buffers.iter().filter(|buffer| !buffer.is_empty()).map(|it| IoSlice::new(it)).collect();
    let mut left = &mut slices[..];
    while !left.is_empty() {
        match out.write_vectored(left) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut left, written),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    out.flush()
}

/// Returns the columns with a number after each repeated name: `n`, `n:1`. `None` if all names are unique.
fn with_own_names(schema: &SchemaRef) -> Option<SchemaRef> {
    let given: HashSet<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    if given.len() == schema.fields().len() {
        return None;
    }
    let mut taken: HashSet<String> = HashSet::new();
    let own = |field: &Arc<Field>| {
        let name = field.name();
        let numbered = (1..).map(|number| format!("{name}:{number}")).filter(|name| !given.contains(name.as_str()));
        let own = [name.clone()].into_iter().chain(numbered).find(|name| !taken.contains(name)).expect("endless");
        taken.insert(own.clone());
        field.as_ref().clone().with_name(own).with_nullable(true)
    };
    let fields: Vec<Field> = schema.fields().iter().map(own).collect();
    Some(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

/// Returns `true` for the result of `explain`: steps of many lines, which do not fit in a table.
fn is_plan(schema: &SchemaRef) -> bool {
    schema.fields().iter().map(|field| field.name().as_str()).eq(["plan_type", "plan"])
}

/// Returns plans line by line, each under its name.
fn plan(rows: &[Vec<String>], markdown: bool) -> String {
    let fence = if markdown { "```\n" } else { "" };
    let tamed = |line: &str| line.chars().map(|c| if is_obeyed(c) { '\u{fffd}' } else { c }).collect::<String>();
    let told = |row: &Vec<String>| {
        let lines: String = row[1].trim_end().lines().map(|line| format!("  {}\n", tamed(line))).collect();
        format!("{}\n{fence}{lines}{fence}", tamed(&row[0]))
    };
    rows.iter().map(told).collect::<Vec<_>>().join("\n")
}

fn grid(schema: &SchemaRef, rows: &[Vec<String>], left_out: usize, markdown: bool) -> String {
    let heads: Vec<String> = schema.fields().iter().map(|field| head(field.name(), field.data_type())).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut grid = Grid::new(&heads);
    rows.iter().for_each(|row| grid.row(row.clone()));
    let mut out = String::new();
    if markdown {
        grid.print_markdown(&mut out)
    } else {
        grid.print(&mut out)
    }
    if left_out > 0 {
        out.push_str(&format!("  ... and {left_out} more rows: add a LIMIT, or use --format csv for all of them\n"));
    }
    out
}

/// Returns a header; text columns are left-aligned.
fn head(name: &str, of: &DataType) -> String {
    let right = of.is_numeric();
    if right { name.into() } else { format!("<{name}") }
}

fn cells(batch: &RecordBatch) -> Result<Vec<Vec<String>>, ArrowError> {
    let options = FormatOptions::default();
    let columns: Result<Vec<_>, _> =
        batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options)).collect();
    let columns = columns?;
    Ok((0..batch.num_rows()).map(|row| columns.iter().map(|column| column.value(row).to_string()).collect()).collect())
}

/// Converts maps to text, because CSV has no maps.
fn without_maps(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let nested = |of: &DataType| of.is_nested();
    if !batch.schema().fields().iter().any(|field| nested(field.data_type())) {
        return Ok(batch.clone());
    }
    let options = FormatOptions::default();
    let mut fields = Vec::new();
    let mut columns = Vec::new();
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        if !nested(field.data_type()) {
            fields.push(field.clone());
            columns.push(column.clone());
            continue;
        }
        let formatter = ArrayFormatter::try_new(column.as_ref(), &options)?;
        let texts: Vec<_> = (0..column.len()).map(|row| formatter.value(row).to_string()).collect();
        fields.push(Arc::new(Field::new(field.name(), DataType::Utf8, true)));
        columns.push(Arc::new(arrow::array::StringArray::from(texts)));
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_with_equal_names_get_numbers() {
        let names = |names: &[&str]| {
            let fields: Vec<_> = names.iter().map(|name| Field::new(*name, DataType::Utf8, true)).collect();
            let own = with_own_names(&Arc::new(Schema::new(fields)))?;
            Some(own.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(names(&["a", "b"]), None);
        assert_eq!(names(&["a", "b", "a", "a"]).as_deref(), Some("a b a:1 a:2"));
        assert_eq!(names(&["a", "a", "a:1"]).as_deref(), Some("a a:2 a:1"));
    }

    #[test]
    fn plans_are_printed_line_by_line() {
        let rows =
            vec![vec!["logical_plan".into(), format!("Sort\n  {}\n", "x".repeat(99))], vec!["b".into(), "c".into()]];
        let told = format!("logical_plan\n  Sort\n    {}\n\nb\n  c\n", "x".repeat(99));
        assert_eq!(plan(&rows, false), told);
        assert!(plan(&rows, true).starts_with("logical_plan\n```\n  Sort\n"));
    }
}
