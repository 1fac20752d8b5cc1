//! A trace as a folder of Parquet that pandas, Polars, DuckDB and DataFusion read at once.
//!
//! ```text
//! DIR/events/part-000.parquet ...   one a thread; row groups of a million rows with their smallest and largest ts
//! DIR/files.parquet  processes.parquet  hosts.parquet  summary.parquet
//! ```
//!
//! The events are counted while they are written, so that one pass makes all of it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use super::columns::Converter;
use super::facts;
use super::part::{Part, plain_columns};
use crate::batch::{Batch, Wanted};
use crate::catalog::Catalog;
use crate::filter::Filter;
use crate::load::Trace;
use crate::scan::{Consumer, Progress, scan};
use crate::summary::analysis::Analysis;
use crate::summary::count::Counter;
use crate::summary::counted::Counted;
use crate::summary::flat::figures;
use crate::summary::report::Summary;
use crate::summary::shared_sweep::SharedSweep;
use crate::summary::tally::Tallies;
use crate::unit::Unit;

/// Rows of a page, and rows that are handed to a column at once: each costs a little of its own.
const PAGE_ROWS: usize = 1 << 17;
const BATCH_ROWS: usize = 1 << 13;

/// Columns whose differences pack better than a dictionary would.
const DIFFERENCES: [&str; 3] = ["ts", "dur", "pos"];

/// Of these, columns by which readers leave out row groups; those that are written by keys say their range anyway.
const CHOSEN_BY: [&str; 2] = ["ts", "dur"];

/// The place of the events, and the tables beside them.
const EVENTS: &str = "events";
const TABLES: [&str; 4] = ["files.parquet", "processes.parquet", "hosts.parquet", "summary.parquet"];

/// Writes the folder, which must be new or empty, and returns what was counted on the way. Where that fails it is as it was
/// before: half of a trace is not to be taken for all of it.
pub fn write(
    trace: &Trace,
    filter: &Filter,
    limits: (usize, u64),
    progress: &Progress,
    folder: &Path,
) -> Result<Analysis, ArrowError> {
    let is_new = !folder.exists();
    let written = fill(trace, filter, limits, progress, folder);
    if written.is_err() {
        drop(std::fs::remove_dir_all(folder.join(EVENTS)));
        TABLES.iter().for_each(|table| drop(std::fs::remove_file(folder.join(table))));
        if is_new {
            drop(std::fs::remove_dir(folder));
        }
    }
    written
}

fn fill(
    trace: &Trace,
    filter: &Filter,
    (threads, memory): (usize, u64),
    progress: &Progress,
    folder: &Path,
) -> Result<Analysis, ArrowError> {
    let events = folder.join(EVENTS);
    std::fs::create_dir_all(&events)?;
    let sieve = trace.sieve(filter);
    let sweep = SharedSweep::new(&trace.catalog);
    let next = AtomicUsize::new(0);
    let part = || Written {
        path: events.join(format!("part-{:03}.parquet", next.fetch_add(1, Ordering::Relaxed))),
        catalog: &trace.catalog,
        converter: Converter::new(&trace.catalog, plain_columns()),
        counter: Counter::new(&trace.catalog, &sweep),
        part: None,
        group_max: (memory / threads.max(1) as u64) as usize,
        failed: None,
    };
    let tallies = Tallies::open(trace, filter, &sieve);
    sweep.add(tallies.intervals());
    let parts = scan(trace, &sieve, Wanted { args: true }, threads, progress, part)?;
    let mut counted = Counted::default();
    for part in parts {
        counted.merge(part.finish()?);
    }
    let tally = tallies.add_to(&mut counted, &trace.catalog);
    counted.finish(&trace.catalog.aliases());
    let measured = sweep.finish();
    let analysis = Analysis { filter: filter.clone(), counted, measured, tally, durations: None, files_listed: 0 };
    let (catalog, summary) = (&trace.catalog, analysis.summary(trace));
    let rows = [
        facts::files(catalog, &analysis)?,
        facts::processes(catalog, &analysis)?,
        facts::hosts(catalog)?,
        summary_table(&summary)?,
    ];
    for (table, rows) in TABLES.iter().zip(&rows) {
        write_table(&folder.join(table), rows)?;
    }
    Ok(analysis)
}

/// The file of one thread.
struct Written<'a> {
    path: PathBuf,
    catalog: &'a Catalog,
    converter: Converter,
    counter: Counter<'a>,
    /// Made with the first event: a thread without any leaves no file.
    part: Option<Part>,
    /// Bytes a row group may take before it is written.
    group_max: usize,
    failed: Option<ArrowError>,
}

impl Written<'_> {
    fn append(&mut self, batch: &Batch) -> Result<(), ArrowError> {
        let rows = self.converter.convert(self.catalog, batch)?;
        let part = match &mut self.part {
            Some(part) => part,
            none => none.insert(Part::create(&self.path, properties())?),
        };
        part.append(batch, &rows, self.converter.shared())?;
        // A group that does not fit into memory is written early.
        if part.memory() > self.group_max {
            part.end_group(self.converter.shared())?;
        }
        Ok(())
    }

    fn finish(self) -> Result<Counted, ArrowError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.part.map(|part| part.close(self.converter.shared())).transpose()?;
        Ok(self.counter.counted)
    }
}

impl Consumer for Written<'_> {
    fn batch(&mut self, batch: &mut Batch) {
        self.counter.batch(batch);
        if !batch.is_empty() && self.failed.is_none() {
            self.failed = self.append(batch).err();
        }
    }

    fn unit_done(&mut self, unit: &Unit) {
        self.counter.unit_done(unit);
    }

    fn part_done(&mut self, part: usize, horizon: i64) {
        self.counter.part_done(part, horizon);
    }
}

fn properties() -> WriterProperties {
    let level = ZstdLevel::try_new(1).unwrap_or_default();
    let all = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_statistics_enabled(EnabledStatistics::None)
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_write_batch_size(BATCH_ROWS)
        // Of use only to readers that leave out pages, for which pages would need statistics.
        .set_offset_index_disabled(true);
    let chosen = CHOSEN_BY.into_iter().fold(all, |properties, column| {
        properties.set_column_statistics_enabled(ColumnPath::from(column), EnabledStatistics::Chunk)
    });
    let packed = DIFFERENCES.into_iter().fold(chosen, |properties, column| {
        let path = ColumnPath::from(column);
        properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED)
    });
    packed.build()
}

fn write_table(path: &Path, rows: &RecordBatch) -> Result<(), ArrowError> {
    let mut writer = ArrowWriter::try_new(File::create_new(path)?, rows.schema(), Some(properties()))?;
    writer.write(rows)?;
    writer.close()?;
    Ok(())
}

/// The report's figures as rows.
fn summary_table(summary: &Summary) -> Result<RecordBatch, ArrowError> {
    let figures = figures(summary);
    let field = |name: &str| Field::new(name, DataType::Utf8, false);
    type Text = fn(&crate::summary::flat::Figure) -> &str;
    let columns: [(&str, Text); 4] = [
        ("section", |figure| &figure.section),
        ("row", |figure| &figure.row),
        ("figure", |figure| &figure.figure),
        ("value", |figure| &figure.value),
    ];
    let schema = Schema::new(columns.iter().map(|(name, _)| field(name)).collect::<Vec<_>>());
    let arrays = columns
        .iter()
        .map(|(_, of)| Arc::new(figures.iter().map(|f| Some(of(f))).collect::<StringArray>()) as ArrayRef);
    RecordBatch::try_new(Arc::new(schema), arrays.collect())
}
