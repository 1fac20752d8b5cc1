//! Reports of Nsight Systems: directories that `nsys export --type parquetdir` wrote, with a Parquet file per table.
//!
//! ```text
//! TARGET_INFO_SESSION_START_TIME          the Unix time at which the report's clock is zero
//! TARGET_INFO_SYSTEM_ENV                  the name of the host
//! StringIds, ENUM_...                     texts by number
//! CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY,    work of GPUs, shown as in a profile from PyTorch: each GPU of a process as a
//!     _MEMSET, _GRAPH_TRACE               process, its streams as threads
//! NVTX_EVENTS                             ranges and marks of threads
//! ```
//!
//! Tables and columns have the names of the SQLite export, which NVIDIA documents. If there is also a trace of the
//! same run, its processes and those of the report are matched by process id and time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use arrow::error::ArrowError;
use dlio_schemas::devices;
use dlio_schemas::native::Damage;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::batch::{ABSENT, Batch, Row, Value, Wanted};
use crate::catalog::{Catalog, Origin};
use crate::load::bytes::catch_panic::guarded;
use crate::load::bytes::trace_file::{self, StoredFile};
use crate::load::events::parser::{Processes, Threads};
use crate::load::sources::errors::Note;
use crate::load::sources::source::{Format, Opening, Reader, Recognition, Source, Sources};
use crate::unit::Unit;

/// The files of a report are Parquet files; their names distinguish them from the Parquet files that dlio-analyze writes.
pub const FORMAT: Format = Format {
    name: "Parquet directories of Nsight Systems",
    recognises: |_| Recognition::No,
    open: open_all,
    names_processes: false,
};

/// The tables with events.
const TABLES: [(&str, Table); 5] = [
    ("CUPTI_ACTIVITY_KIND_KERNEL", Table::Kernels),
    ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", Table::Graphs),
    ("CUPTI_ACTIVITY_KIND_MEMCPY", Table::Copies),
    ("CUPTI_ACTIVITY_KIND_MEMSET", Table::Sets),
    ("NVTX_EVENTS", Table::Ranges),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Table {
    Kernels,
    Graphs,
    Copies,
    Sets,
    Ranges,
}

const START: &str = "TARGET_INFO_SESSION_START_TIME";
const HOST: &str = "TARGET_INFO_SYSTEM_ENV";
const STRINGS: &str = "StringIds";
const MEMORY: &str = "ENUM_CUDA_MEM_KIND";
const DIRECTIONS: &str = "ENUM_CUDA_MEMCPY_OPER";

/// Kinds of NVTX events: a mark, and ranges of a thread or between any two points.
const MARK: i64 = 34;
const PUSHED: i64 = 59;
const STARTED: i64 = 60;

/// The ids of processes and threads are 24 bits each of a number that also identifies the machine.
const ID_BITS: u32 = 24;

/// Rows read at a time.
const ROWS: usize = 8192;

const UNREADABLE: &str = "it is not valid Parquet; export the report again: nsys export --type parquetdir REPORT";
const NO_START: &str = "TARGET_INFO_SESSION_START_TIME.parquet is missing next to it or has no column utcEpochNs, so its times \
                        are unknown; pass the whole directory that nsys export wrote";
const OTHER_RUN: &str = "it is a report of another run: at its times, none of its processes was traced under its number; pass the \
                         report of this run";

/// Returns `true` if the name of the file is that of a table with events.
pub fn is_table(path: &Path) -> bool {
    table_of(path).is_some()
}

fn table_of(path: &Path) -> Option<Table> {
    let stem = path.file_stem()?;
    TABLES.iter().find(|(name, _)| stem == *name).map(|(_, table)| *table)
}

/// Opens the reports to which tables belong.
fn open_all(paths: &[PathBuf], opening: &mut Opening) -> Sources {
    let folders: BTreeSet<&Path> = paths.iter().filter_map(|path| path.parent()).collect();
    let mut sources = Sources::new();
    for folder in folders {
        let tables = paths.iter().filter(|path| path.parent() == Some(folder));
        match Report::open(folder, tables, opening.catalog) {
            Ok(report) => sources.push(Box::new(report)),
            Err((path, what)) => opening.notes.push(Note { path, what, events_max: None }),
        }
    }
    sources
}

/// A row group of a table.
struct Part {
    path: PathBuf,
    table: Table,
    group: usize,
    rows: u64,
    size: u64,
}

struct Report {
    folder: PathBuf,
    parts: Vec<Part>,
    processes: Processes,
    /// The catalog number of each process to which ranges belong, by its process id in the report.
    hosts: BTreeMap<i64, u32>,
    host: String,
    /// Unix time at which the report's clock is zero.
    zero_ns: i64,
    strings: HashMap<i64, String>,
    memory: HashMap<i64, String>,
    directions: HashMap<i64, String>,
}

type Failed = (PathBuf, Damage);

impl Report {
    fn open<'p>(folder: &Path, tables: impl Iterator<Item = &'p PathBuf>, catalog: &Catalog) -> Result<Report, Failed> {
        let tables: Vec<&PathBuf> = tables.collect();
        let lacks_start = || (tables[0].clone(), Damage::Useless(NO_START));
        let zero_ns = first_number(folder, START, "utcEpochNs").ok_or_else(lacks_start)?;
        let names = texts(folder, HOST, "name", "value");
        let host = names.into_iter().find(|(name, _)| name == "Hostname").map_or("unknown".into(), |(_, host)| host);
        let (mut parts, mut lives) = (Vec::new(), BTreeMap::new());
        for path in tables {
            let broken = |_| (path.clone(), Damage::Broken(UNREADABLE));
            parts.extend(parts_of(path).map_err(broken)?);
            lives_in(path, zero_ns, &mut lives).map_err(broken)?;
        }
        let mut report = Report {
            folder: folder.into(),
            parts,
            processes: Processes::of(folder.display().to_string()),
            hosts: BTreeMap::new(),
            host,
            zero_ns,
            strings: numbered(folder, STRINGS, "value"),
            memory: numbered(folder, MEMORY, "label"),
            directions: numbered(folder, DIRECTIONS, "label"),
        };
        match report.join(&lives, catalog) {
            true => Ok(report),
            false => Err((folder.into(), Damage::Useless(OTHER_RUN))),
        }
    }

    /// Finds the traced process that is the same as each process of the report. Returns `false` if the trace has processes, but
    /// none that is in the report.
    fn join(&mut self, lives: &BTreeMap<i64, (i64, i64)>, catalog: &Catalog) -> bool {
        let host = Some(self.host.as_str()).filter(|host| *host != "unknown");
        let mut own = Vec::new();
        for (&pid, &(first, last)) in lives {
            let traced = catalog.process_at(pid, first, host).or_else(|| catalog.process_at(pid, last, host));
            match traced {
                Some(traced) => {
                    catalog.amend(traced, |process| process.profile = Some(self.source_of(pid)));
                    self.hosts.insert(pid, traced);
                }
                None => own.push(pid),
            }
        }
        let is_alone = catalog.processes_where(|process| process.start_ts.is_some()).is_empty();
        if self.hosts.is_empty() && !is_alone {
            return false;
        }
        let mut ignored = |_: &mut Batch| ();
        let mut into = Threads::new(catalog, Wanted::default(), &self.processes, &mut ignored);
        for pid in own {
            let source = self.source_of(pid);
            self.hosts.insert(pid, into.process_of_run(&self.host, pid as i32, 0, |process| process.source = source));
        }
        true
    }

    /// Returns the name that links a process to its GPUs.
    fn source_of(&self, pid: i64) -> String {
        format!("{}, process {pid}", self.folder.display())
    }

    /// Returns the number of the process that stands for a GPU of a real process.
    fn gpu(&self, pid: i64, device: i64, into: &mut Threads) -> u32 {
        let describe = |process: &mut crate::catalog::Process| {
            process.source = self.source_of(pid);
            process.program = Some(format!("GPU {device}"));
        };
        into.process_of_run(&self.host, device as i32, 1 + pid, describe)
    }

    fn text(&self, number: i64) -> &str {
        self.strings.get(&number).map_or("unnamed", String::as_str)
    }

    fn rows(&self, rows: &RecordBatch, table: Table, into: &mut Threads) -> Result<(), ArrowError> {
        let columns = Columns::of(rows, table)?;
        for row in 0..rows.num_rows() {
            let (start, end) = (columns.start[row], columns.end[row]);
            let is_mark = table == Table::Ranges && end == ABSENT;
            // Work that was still running at the end of the report has no end.
            if start == ABSENT || end == ABSENT && !(is_mark && columns.at("eventType", row) == MARK) {
                into.broken += u64::from(!is_mark);
                continue;
            }
            let (ts, dur) = (start.saturating_add(self.zero_ns), if is_mark { 0 } else { end.saturating_sub(start) });
            match table {
                Table::Ranges => self.range(&columns, row, (ts, dur), into),
                _ => self.work(&columns, row, table, (ts, dur), into),
            }
        }
        Ok(())
    }

    /// Adds a piece of work of a GPU.
    fn work(&self, columns: &Columns, row: usize, table: Table, (ts, dur): (i64, i64), into: &mut Threads) {
        let at = |name: &str| columns.at(name, row);
        let label = |labels: &HashMap<i64, String>, name: &str| {
            labels.get(&at(name)).cloned().unwrap_or_else(|| "Unknown".into())
        };
        let (name, category) = match table {
            Table::Graphs => ("graph".into(), devices::KERNEL),
            Table::Copies => {
                let (from, to) = (label(&self.memory, "srcKind"), label(&self.memory, "dstKind"));
                (format!("Memcpy {} ({from} -> {to})", label(&self.directions, "copyKind")), devices::COPY)
            }
            Table::Sets => (format!("Memset ({})", label(&self.memory, "memKind")), devices::SET),
            _ => (self.text(at("demangledName")).to_string(), devices::KERNEL),
        };
        let (device, stream, pid) = (at("deviceId"), at("streamId"), pid_of(at("globalPid")));
        let kind = into.catalog.app_kind(&name, category, Origin::Span);
        let proc = self.gpu(pid, device, into);
        let args = [(devices::DEVICE, device), (devices::STREAM, stream), ("bytes", at("bytes"))];
        let args = args.into_iter().filter(|(_, value)| into.wanted.args && *value != ABSENT);
        let args: Vec<_> = args.map(|(key, value)| (into.catalog.text(key), Value::Int(value))).collect();
        let row = Row { device: device as i32, ..Row::new(ts, dur, kind) };
        into.event(proc, stream as i32, &row, args);
    }

    /// Adds a range or a mark of a thread.
    fn range(&self, columns: &Columns, row: usize, (ts, dur): (i64, i64), into: &mut Threads) {
        let (kind, thread) = (columns.at("eventType", row), columns.at("globalTid", row));
        let Some(&proc) = self.hosts.get(&pid_of(thread)) else { return };
        let origin = match kind {
            PUSHED | STARTED => Origin::Span,
            MARK => Origin::Instant,
            _ => return,
        };
        let own = columns.text(row).map(str::to_string);
        let name = own.unwrap_or_else(|| self.text(columns.at("textId", row)).to_string());
        let kind = into.catalog.app_kind(&name, "nvtx", origin);
        into.event(proc, (thread & ((1 << ID_BITS) - 1)) as i32, &Row::new(ts, dur, kind), []);
    }
}

fn pid_of(global: i64) -> i64 {
    global >> ID_BITS & ((1 << ID_BITS) - 1)
}

/// The columns of some rows.
struct Columns<'r> {
    start: Vec<i64>,
    end: Vec<i64>,
    numbers: HashMap<&'static str, Vec<i64>>,
    rows: &'r RecordBatch,
}

impl Columns<'_> {
    fn of(rows: &RecordBatch, table: Table) -> Result<Columns<'_>, ArrowError> {
        let names: &[&str] = match table {
            Table::Kernels => &["deviceId", "streamId", "globalPid", "demangledName"],
            Table::Graphs => &["deviceId", "streamId", "globalPid"],
            Table::Copies => &["deviceId", "streamId", "globalPid", "bytes", "copyKind", "srcKind", "dstKind"],
            Table::Sets => &["deviceId", "streamId", "globalPid", "bytes", "memKind"],
            Table::Ranges => &["eventType", "globalTid", "textId"],
        };
        let (mut numbers, required) = (HashMap::new(), ["deviceId", "globalPid", "eventType", "globalTid"]);
        for &name in names {
            match int64(rows, name) {
                Ok(column) => drop(numbers.insert(name, column)),
                Err(error) if required.contains(&name) => return Err(error),
                // The other columns differ between versions of Nsight Systems.
                Err(_) => {}
            }
        }
        Ok(Columns { start: int64(rows, "start")?, end: int64(rows, "end")?, numbers, rows })
    }

    /// Returns a number; `ABSENT` if the table lacks it.
    fn at(&self, name: &str, row: usize) -> i64 {
        self.numbers.get(name).map_or(ABSENT, |column| column[row])
    }

    /// Returns the text of a range if it is stored in the row and not by number.
    fn text(&self, row: usize) -> Option<&str> {
        let column = self.rows.column_by_name("text")?.as_string_opt::<i32>()?;
        column.is_valid(row).then(|| column.value(row)).filter(|text| !text.is_empty())
    }
}

fn column(rows: &RecordBatch, name: &str, of: DataType) -> Result<ArrayRef, ArrowError> {
    let lacks = || ArrowError::SchemaError(format!("no column {name}"));
    cast(rows.column_by_name(name).ok_or_else(lacks)?, &of)
}

fn int64(rows: &RecordBatch, name: &str) -> Result<Vec<i64>, ArrowError> {
    let column = column(rows, name, DataType::Int64)?;
    Ok(column.as_primitive::<Int64Type>().iter().map(|value| value.unwrap_or(ABSENT)).collect())
}

fn builder(path: &Path) -> Result<ParquetRecordBatchReaderBuilder<StoredFile>, ArrowError> {
    guarded(|| Ok(ParquetRecordBatchReaderBuilder::try_new(StoredFile::open(path)?)?))?
}

/// Passes on the rows of a table, limited to some columns or to one row group.
fn each(
    path: &Path,
    columns: Option<&[&str]>,
    group: Option<usize>,
    take: &mut dyn FnMut(&RecordBatch) -> Result<(), ArrowError>,
) -> Result<(), ArrowError> {
    let mut builder = builder(path)?.with_batch_size(ROWS);
    if let Some(columns) = columns {
        let mask = ProjectionMask::columns(builder.parquet_schema(), columns.iter().copied());
        builder = builder.with_projection(mask);
    }
    if let Some(group) = group {
        builder = builder.with_row_groups(vec![group]);
    }
    let mut reader = guarded(|| builder.build())??;
    while let Some(rows) = guarded(|| reader.next())? {
        take(&rows?)?;
    }
    Ok(())
}

fn parts_of(path: &Path) -> Result<Vec<Part>, ArrowError> {
    let opened = builder(path)?;
    let table = table_of(path).expect("recognized by its name");
    let part = |(group, data): (usize, &parquet::file::metadata::RowGroupMetaData)| Part {
        path: path.into(),
        table,
        group,
        rows: data.num_rows().max(0) as u64,
        size: data.compressed_size().max(0) as u64,
    };
    Ok(opened.metadata().row_groups().iter().enumerate().map(part).collect())
}

/// Adds the first and last Unix time of each process in a table.
fn lives_in(path: &Path, zero_ns: i64, lives: &mut BTreeMap<i64, (i64, i64)>) -> Result<(), ArrowError> {
    each(path, Some(&["start", "globalPid", "globalTid"]), None, &mut |rows| {
        let global = int64(rows, "globalPid").or_else(|_| int64(rows, "globalTid"))?;
        for (start, global) in int64(rows, "start")?.into_iter().zip(global) {
            if start != ABSENT && global != ABSENT {
                let ts = start.saturating_add(zero_ns);
                let (first, last) = lives.entry(pid_of(global)).or_insert((ts, ts));
                (*first, *last) = ((*first).min(ts), (*last).max(ts));
            }
        }
        Ok(())
    })
}

/// Returns the first number in a column of another table of the report.
fn first_number(folder: &Path, table: &str, column: &str) -> Option<i64> {
    let mut first = None;
    let path = folder.join(table).with_extension("parquet");
    let read = each(&path, None, None, &mut |rows| {
        first = first.or(int64(rows, column)?.first().copied().filter(|number| *number != ABSENT));
        Ok(())
    });
    read.ok().and(first)
}

/// Passes on the rows of another table of the report, if the table exists. Rows from the first unreadable one on are left out.
fn each_of(folder: &Path, table: &str, take: &mut dyn FnMut(&RecordBatch) -> Result<(), ArrowError>) {
    let path = folder.join(table).with_extension("parquet");
    if trace_file::exists(&path) {
        let _ = each(&path, None, None, take);
    }
}

/// Returns the texts of a table by number.
fn numbered(folder: &Path, table: &str, column: &str) -> HashMap<i64, String> {
    let mut found = HashMap::new();
    each_of(folder, table, &mut |rows| {
        found.extend(int64(rows, "id")?.into_iter().zip(utf8(rows, column)?));
        Ok(())
    });
    found
}

/// Returns pairs of texts in a table.
fn texts(folder: &Path, table: &str, key: &str, value: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    each_of(folder, table, &mut |rows| {
        found.extend(utf8(rows, key)?.into_iter().zip(utf8(rows, value)?));
        Ok(())
    });
    found
}

fn utf8(rows: &RecordBatch, name: &str) -> Result<Vec<String>, ArrowError> {
    let column = column(rows, name, DataType::Utf8)?;
    Ok(column.as_string::<i32>().iter().map(|text| text.unwrap_or_default().to_string()).collect())
}

impl Source for Report {
    fn path(&self) -> &Path {
        self.parts.first().map_or(&self.folder, |part| &part.path)
    }

    fn paths(&self) -> Vec<&Path> {
        let paths: BTreeSet<&Path> = self.parts.iter().map(|part| part.path.as_path()).collect();
        paths.into_iter().collect()
    }

    fn knows_events(&self) -> bool {
        true
    }

    fn units(&self, source: u32) -> Vec<Unit> {
        let unit = |(index, part): (usize, &Part)| Unit::new(source, index as u32, part.rows, part.size);
        self.parts.iter().enumerate().map(unit).collect()
    }

    fn read(
        &self,
        index: u32,
        _reader: &mut Reader,
        catalog: &Catalog,
        wanted: Wanted,
        take: &mut dyn FnMut(&mut Batch),
    ) -> Result<(), Damage> {
        let part = &self.parts[index as usize];
        let mut into = Threads::new(catalog, wanted, &self.processes, take);
        let read = each(&part.path, None, Some(part.group), &mut |rows| self.rows(rows, part.table, &mut into));
        into.flush();
        read.map_err(|_| Damage::Broken(UNREADABLE))?;
        match into.broken {
            0 => Ok(()),
            _ => Err(Damage::Broken("rows with times that events cannot have, or without an end")),
        }
    }
}
