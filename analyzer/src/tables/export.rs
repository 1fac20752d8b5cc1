//! Exports a trace as a directory of Parquet that pandas, Polars, DuckDB and DataFusion read directly.
//!
//! ```text
//! DIR/events/part-000.parquet ...   one per thread; row groups of a million rows with minimum and maximum of ts
//! DIR/files.parquet  processes.parquet  hosts.parquet  waits.parquet  machine.parquet  summary.parquet
//! DIR/.dlio-unfinished              while it is written, so that a partial export is not mistaken for a whole one
//! ```
//!
//! The events are counted while they are written, so one pass suffices.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use super::columns::Converter;
use super::parquet_file::{Numbers, Part, plain_columns};
use super::small_tables;
use super::split::Split;
use crate::batch::{Batch, Columns, Wanted};
use crate::catalog::Catalog;
use crate::filter::Filter;
use crate::findings::concluded;
use crate::findings::limits::Limits;
use crate::load::Trace;
use crate::load::inputs::UNFINISHED;
use crate::scan::{Consumer, Progress, scan_some};
use crate::summary::analyse_beside;
use crate::summary::analysis::Analysis;
use crate::summary::exact_quantiles::refine;
use crate::unfinished::unless_finished;

/// Rows per page, and rows passed to a column at a time: each has an overhead.
const PAGE_ROWS: usize = 1 << 17;
const BATCH_ROWS: usize = 1 << 13;

/// Columns whose differences compress better than a dictionary.
const DIFFERENCES: [&str; 3] = ["ts", "dur", "pos"];

/// Columns among these by which readers skip row groups; columns written by keys contain their range anyway.
const CHOSEN_BY: [&str; 2] = ["ts", "dur"];

/// The directory of the events.
const EVENTS: &str = "events";
const TABLES: [&str; 6] =
    ["files.parquet", "processes.parquet", "hosts.parquet", "waits.parquet", "machine.parquet", "summary.parquet"];

/// Writes the directory, which must be new or empty, and returns the counts. After a failure the directory is as
/// before, so that a partial export is not mistaken for a whole trace.
pub fn write(
    trace: &Trace,
    filter: &Filter,
    (threads, memory): (usize, u64),
    report: &ReportOptions,
    progress: &Progress,
    folder: &Path,
) -> Result<Analysis, ArrowError> {
    whole_or_not(folder, |events| {
        let mut analysis = write_events(trace, filter, (threads, memory), progress, events)?;
        if report.exact && analysis.durations.is_none() {
            refine(trace, filter, threads, &Progress::default(), &mut analysis)?;
        }
        write_tables(trace, &analysis, &report.limits, folder)?;
        Ok(analysis)
    })
}

/// Settings of the report in the tables.
#[derive(Clone, Default)]
pub struct ReportOptions {
    /// The limits of the rules of the findings.
    pub limits: Limits,
    /// `true` if quantiles are exact for any number of events.
    pub exact: bool,
}

/// Writes a directory for events that were counted before and that `write_events` writes into a separate directory.
pub fn write_counted<E: From<ArrowError>>(
    trace: &Trace,
    analysis: &Analysis,
    limits: &Limits,
    folder: &Path,
    write_events: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    whole_or_not(folder, |events| {
        write_events(events)?;
        Ok(write_tables(trace, analysis, limits, folder)?)
    })
}

/// Fills the directory, and removes everything after a failure or a signal. A kill leaves a mark in it.
fn whole_or_not<T, E: From<ArrowError>>(folder: &Path, fill: impl FnOnce(&Path) -> Result<T, E>) -> Result<T, E> {
    let (is_new, events) = (!folder.exists(), folder.join(EVENTS));
    let failed = |error| E::from(ArrowError::from(error));
    // If a mark already exists, everything else belongs to its writer too.
    let mark = std::fs::create_dir_all(folder).and_then(|()| File::create_new(folder.join(UNFINISHED)));
    let mark = mark.map_err(failed)?;
    // On file systems without locks, only the mark separates two writers.
    let _ = mark.try_lock();
    let left = folder.to_path_buf();
    let unfinished = unless_finished(move || empty(&left, is_new));
    let made = std::fs::create_dir(&events).map_err(failed);
    let filled = made.and_then(|()| fill(&events)).map(|filled| (filled, mark));
    let filled = filled.and_then(|(filled, mark)| {
        std::fs::remove_file(folder.join(UNFINISHED)).map_err(failed)?;
        drop(mark);
        Ok(filled)
    });
    if filled.is_err() {
        empty(folder, is_new);
    }
    drop(unfinished);
    filled
}

/// Removes everything written into the directory, and the directory if it was created; the mark last.
fn empty(folder: &Path, is_new: bool) {
    let events = folder.join(EVENTS);
    // Threads may still create files there.
    while std::fs::remove_dir_all(&events).is_err_and(|error| error.kind() == ErrorKind::DirectoryNotEmpty) {}
    TABLES.iter().for_each(|table| drop(std::fs::remove_file(folder.join(table))));
    drop(std::fs::remove_file(folder.join(UNFINISHED)));
    if is_new {
        drop(std::fs::remove_dir(folder));
    }
}

/// The existing content at the location of a new Parquet directory.
#[derive(Debug, PartialEq)]
pub enum ExistingExport {
    Nothing,
    /// A partial export whose writer was killed; it has been removed.
    Half,
    /// Another process writes there.
    Written,
    Other,
}

/// Inspects the directory, and removes a partial export.
pub fn before(folder: &Path) -> std::io::Result<ExistingExport> {
    if !std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        return Ok(ExistingExport::Nothing);
    }
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let Ok(mark) = File::options().read(true).custom_flags(flags).open(folder.join(UNFINISHED)) else {
        return Ok(ExistingExport::Other);
    };
    if let Err(TryLockError::WouldBlock) = mark.try_lock() {
        return Ok(ExistingExport::Written);
    }
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let (name, is_folder) = (entry.file_name(), entry.file_type()?.is_dir());
        let is_ours = match name.to_str() {
            Some(EVENTS) => is_folder && only_parts(&entry.path())?,
            Some(name) => !is_folder && (name == UNFINISHED || TABLES.contains(&name)),
            None => false,
        };
        if !is_ours {
            return Ok(ExistingExport::Other);
        }
    }
    empty(folder, false);
    Ok(ExistingExport::Half)
}

/// Returns `true` if the directory of events contains only files of an export.
fn only_parts(events: &Path) -> std::io::Result<bool> {
    for entry in std::fs::read_dir(events)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_part = ["part-", ".part-", ".same-"].iter().any(|start| name.starts_with(start));
        if !is_part || entry.file_type()?.is_dir() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn write_events(
    trace: &Trace,
    filter: &Filter,
    (threads, memory): (usize, u64),
    progress: &Progress,
    events: &Path,
) -> Result<Analysis, ArrowError> {
    let next = AtomicUsize::new(0);
    let part = || {
        let path = events.join(format!("part-{:03}.parquet", next.fetch_add(1, Ordering::Relaxed)));
        RowsOfThread::new(path, &trace.catalog, memory / threads.max(1) as u64, None)
    };
    let (analysis, parts) = analyse_beside(trace, filter, EVERYTHING, (threads, progress), part)?;
    parts.into_iter().try_for_each(|rows| rows.finish().map(drop))?;
    Ok(analysis)
}

/// All columns of events.
const EVERYTHING: Wanted = Wanted { args: true, depth: true, columns: Columns::ALL };

/// Writes the events of a split into files of these names, one per thread with events; returns the files written.
pub fn write_split(
    trace: &Trace,
    filter: &Filter,
    (split, numbers): (&Split, &Arc<Numbers>),
    (threads, memory): (usize, u64),
    progress: &Progress,
    name: impl Fn(usize) -> PathBuf + Sync,
) -> Result<Vec<PathBuf>, ArrowError> {
    let next = AtomicUsize::new(0);
    let part = || {
        let path = name(next.fetch_add(1, Ordering::Relaxed));
        RowsOfThread::new(path, &trace.catalog, memory / threads.max(1) as u64, Some(numbers.clone()))
    };
    let parts = scan_some(trace, &trace.sieve(filter), EVERYTHING, threads, progress, |unit| split.has(unit), part)?;
    parts.into_iter().filter_map(|rows| rows.finish().transpose()).collect()
}

fn write_tables(trace: &Trace, analysis: &Analysis, limits: &Limits, folder: &Path) -> Result<(), ArrowError> {
    let (catalog, summary) = (&trace.catalog, concluded(analysis, trace, limits));
    let rows = [
        small_tables::files(catalog, analysis)?,
        small_tables::processes(catalog, analysis)?,
        small_tables::hosts(catalog, None)?,
        small_tables::waits(catalog, analysis)?,
        small_tables::machine(trace)?,
        small_tables::summary(&summary)?,
    ];
    TABLES.iter().zip(&rows).try_for_each(|(table, rows)| write_table(&folder.join(table), rows))
}

/// The file of one thread.
struct RowsOfThread<'a> {
    path: PathBuf,
    catalog: &'a Catalog,
    converter: Converter,
    numbers: Option<Arc<Numbers>>,
    /// Created with the first event: a thread without events leaves no file.
    part: Option<Part>,
    /// Maximum bytes of a row group before it is written.
    group_max: usize,
    failed: Option<ArrowError>,
}

impl<'a> RowsOfThread<'a> {
    fn new(path: PathBuf, catalog: &'a Catalog, memory: u64, numbers: Option<Arc<Numbers>>) -> RowsOfThread<'a> {
        let converter = Converter::new(catalog, plain_columns(), 0);
        RowsOfThread { path, catalog, converter, numbers, part: None, group_max: memory as usize, failed: None }
    }

    fn append(&mut self, batch: &Batch) -> Result<(), ArrowError> {
        let rows = self.converter.convert(self.catalog, batch)?;
        let part = match &mut self.part {
            Some(part) => part,
            none => none.insert(Part::create(&self.path, properties(), self.numbers.clone())?),
        };
        part.append(batch, &rows, self.converter.shared())?;
        // A group that does not fit into memory is written early.
        if part.memory() > self.group_max {
            part.end_group(self.converter.shared())?;
        }
        Ok(())
    }

    /// Completes the file, if there is one.
    fn finish(self) -> Result<Option<PathBuf>, ArrowError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let closed = self.part.map(|part| part.close(self.converter.shared())).transpose()?;
        Ok(closed.map(|()| self.path))
    }
}

impl Consumer for RowsOfThread<'_> {
    fn batch(&mut self, batch: &mut Batch) {
        if !batch.is_empty() && self.failed.is_none() {
            self.failed = self.append(batch).err();
        }
    }

    fn part_done(&mut self, _: usize, _: i64) {}
}

fn properties() -> WriterProperties {
    let level = ZstdLevel::try_new(1).unwrap_or_default();
    let all = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_statistics_enabled(EnabledStatistics::None)
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_write_batch_size(BATCH_ROWS)
        // Useful only to readers that skip pages, for which pages would need statistics.
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
