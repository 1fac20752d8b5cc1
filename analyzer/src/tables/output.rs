//! Rows of a query as text, CSV, JSON, Parquet or Arrow.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use parquet::arrow::ArrowWriter;

use crate::grid::Grid;
use crate::summary::flat::quoted;

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

/// Rows that a text table holds: its columns are as wide as their widest cell, so all of it must be known.
const TEXT_ROWS_MAX: usize = 10_000;

/// Takes batches one after another.
pub enum RowWriter<W: Write + Send> {
    Text { out: W, schema: SchemaRef, rows: Vec<Vec<String>>, left_out: usize, markdown: bool },
    Json(arrow::json::ArrayWriter<W>),
    Csv(Box<arrow::csv::Writer<W>>),
    Ndjson(arrow::json::LineDelimitedWriter<W>),
    Parquet(Box<ArrowWriter<W>>),
    Arrow(arrow::ipc::writer::StreamWriter<W>),
}

impl<W: Write + Send> RowWriter<W> {
    pub fn new(format: Format, schema: SchemaRef, mut out: W) -> Result<RowWriter<W>, ArrowError> {
        Ok(match format {
            Format::Text | Format::Markdown => {
                let markdown = format == Format::Markdown;
                RowWriter::Text { out, schema, rows: Vec::new(), left_out: 0, markdown }
            }
            Format::Json => RowWriter::Json(arrow::json::WriterBuilder::new().with_explicit_nulls(true).build(out)),
            Format::Csv => {
                // A head even where no row follows, and map columns as text: the writer of arrow knows neither.
                let names: Vec<_> = schema.fields().iter().map(|field| quoted(field.name())).collect();
                writeln!(out, "{}", names.join(","))?;
                RowWriter::Csv(Box::new(arrow::csv::WriterBuilder::new().with_header(false).build(out)))
            }
            Format::Ndjson => RowWriter::Ndjson(arrow::json::WriterBuilder::new().with_explicit_nulls(true).build(out)),
            Format::Parquet => RowWriter::Parquet(Box::new(ArrowWriter::try_new(out, schema, None)?)),
            Format::Arrow => RowWriter::Arrow(arrow::ipc::writer::StreamWriter::try_new(out, &schema)?),
        })
    }

    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        match self {
            RowWriter::Text { rows, left_out, .. } => {
                let room = TEXT_ROWS_MAX.saturating_sub(rows.len()).min(batch.num_rows());
                *left_out += batch.num_rows() - room;
                rows.extend(cells(&batch.slice(0, room))?);
                Ok(())
            }
            RowWriter::Json(writer) => writer.write(batch),
            RowWriter::Csv(writer) => writer.write(&without_maps(batch)?),
            RowWriter::Ndjson(writer) => writer.write(batch),
            RowWriter::Parquet(writer) => Ok(writer.write(batch)?),
            RowWriter::Arrow(writer) => writer.write(batch),
        }
    }

    /// Writes what is still held; returns how many rows were written beyond what could be shown.
    pub fn finish(self) -> Result<(), ArrowError> {
        match self {
            RowWriter::Text { mut out, schema, rows, left_out, markdown } => {
                out.write_all(grid(&schema, &rows, left_out, markdown).as_bytes())?;
                Ok(out.flush()?)
            }
            RowWriter::Json(mut writer) => {
                writer.finish()?;
                Ok(writeln!(writer.into_inner())?)
            }
            RowWriter::Csv(writer) => Ok(writer.into_inner().flush()?),
            RowWriter::Ndjson(mut writer) => writer.finish(),
            RowWriter::Parquet(writer) => writer.close().map(|_| ()).map_err(ArrowError::from),
            RowWriter::Arrow(mut writer) => writer.finish(),
        }
    }
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
        out.push_str(&format!("  ... and {left_out} rows more: add a LIMIT, or use --format csv for all of them\n"));
    }
    out
}

/// Text stands left.
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

/// CSV has no maps: they become text.
fn without_maps(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    use std::sync::Arc;
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
        fields.push(Arc::new(arrow::datatypes::Field::new(field.name(), DataType::Utf8, true)));
        columns.push(Arc::new(arrow::array::StringArray::from(texts)));
    }
    RecordBatch::try_new(Arc::new(arrow::datatypes::Schema::new(fields)), columns)
}
