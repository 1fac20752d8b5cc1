//! Reads directories of Parquet written by `--parquet`: every row group is a unit.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use arrow::array::{Array, AsArray, MapArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type, Int64Type, UInt8Type};
use arrow::error::ArrowError;
use dlio_schemas::devices::{self, DEVICE};
use dlio_schemas::native::Damage;
use dlio_schemas::ops::{Arg as Meaning, OPS};
use dlio_schemas::secrets::masked_text;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::statistics::Statistics;

use crate::batch::{ABSENT, ABSENT_32, Arg, Batch, FAILED, Row, Value, Wanted};
use crate::catalog::{Catalog, FILE_NONE, Host, Process};
use crate::load::bytes::catch_panic::guarded;
use crate::load::bytes::trace_file::{self, StoredFile};
use crate::load::events::arguments::SOURCE;
use crate::load::events::parser::is_event;
use crate::load::events::transfers::note_source;
use crate::load::sources::duplicates::Duplicates;
use crate::load::sources::errors::Note;
use crate::load::sources::source::{Format, Opening, Reader, Source, Sources};
use crate::resources::Resources;
use crate::schema::arrow_schema::{is_events, schema};
use crate::schema::tables;
use crate::unit::Unit;

/// Rows converted into a batch at a time.
const ROWS: usize = 8192;

/// The number of each process of a directory in the catalog; `None` if another file has the process too.
type Numbers = HashMap<i32, Option<u32>>;

/// The Parquet format of this program.
pub const FORMAT: Format = Format {
    name: "Parquet directories of dlio-analyze",
    recognises: |head| head.starts_with(b"PAR1").into(),
    open: open_all,
    names_processes: false,
};

/// Opens every file of events among `paths`, starting with the processes of each directory. Other tables of a directory
/// belong to its events.
fn open_all(paths: &[PathBuf], opening: &mut Opening) -> Sources {
    let Opening { catalog, notes, duplicates } = opening;
    if !paths.is_empty() {
        duplicates.add_all(catalog);
    }
    // `None` if a directory's processes cannot be read, which is reported once.
    let mut folders: HashMap<PathBuf, Option<Numbers>> = HashMap::new();
    let mut sources = Sources::new();
    for path in paths {
        let opened = open(path, catalog, &mut folders, duplicates);
        match opened {
            Ok(Some(source)) => sources.push(Box::new(source)),
            Ok(None) => {}
            Err(what) => notes.push(Note { path: path.clone(), what: Damage::Broken(what), events_max: None }),
        }
    }
    sources
}

/// The error for an unreadable file, with the remedy.
const UNREADABLE: &str = "it is not valid Parquet; write it again from its trace: --parquet DIR";
const UNLISTED: &str = "the hosts.parquet and processes.parquet that belong to it are not valid Parquet; write all \
                        files again from their trace: --parquet DIR";
const ALONE: &str = "the hosts.parquet and processes.parquet that belong to it are not in the directory above; pass \
                     the directory that --parquet wrote";
const BROKEN_GROUP: &str = "a row group is not valid Parquet; write the file again from its trace: --parquet DIR";

fn open(
    path: &Path,
    catalog: &Catalog,
    folders: &mut HashMap<PathBuf, Option<Numbers>>,
    duplicates: &mut Duplicates,
) -> Result<Option<ParquetSource>, &'static str> {
    let opened = guarded(|| Ok(ParquetRecordBatchReaderBuilder::try_new(StoredFile::open(path)?)?));
    let reader = opened.and_then(|opened: Result<_, ArrowError>| opened).map_err(|_| UNREADABLE)?;
    if !is_events(reader.schema()) {
        return Ok(None);
    }
    let folder = path.parent().and_then(Path::parent).unwrap_or(Path::new("."));
    if !folders.contains_key(folder) {
        let known = guarded(|| processes(folder, catalog, duplicates)).and_then(|known| known);
        let reason = || if trace_file::exists(&folder.join("processes.parquet")) { UNLISTED } else { ALONE };
        let is_known = known.is_ok();
        folders.insert(folder.into(), known.ok());
        if !is_known {
            return Err(reason());
        }
    }
    let Some(numbers) = &folders[folder] else { return Ok(None) };
    if !numbers.is_empty() && numbers.values().all(Option::is_none) {
        return Ok(None);
    }
    // The process numbers are the catalog's, unless another directory was read before.
    let is_table = numbers.iter().all(|(own, known)| known.is_some_and(|known| i64::from(known) == i64::from(*own)))
        && schema(tables::EVENTS).fields() == reader.schema().fields()
        && path.is_file();
    let groups = reader.metadata().row_groups().iter();
    let groups = groups.map(|group| (group.num_rows().max(0) as u64, group.compressed_size().max(0) as u64)).collect();
    let first = reader.metadata().row_groups().iter().filter_map(|group| match group.column(0).statistics() {
        Some(Statistics::Int64(ts)) => ts.min_opt().copied(),
        _ => None,
    });
    Ok(Some(ParquetSource { path: path.into(), groups, start: first.min(), numbers: numbers.clone(), is_table }))
}

/// Reads `hosts.parquet` and `processes.parquet`; returns the new number of each process.
fn processes(folder: &Path, catalog: &Catalog, duplicates: &mut Duplicates) -> Result<Numbers, ArrowError> {
    let mut numbers = Numbers::new();
    for rows in ParquetRecordBatchReaderBuilder::try_new(StoredFile::open(&folder.join("hosts.parquet"))?)?.build()? {
        let rows = Rows(&rows?);
        for row in 0..rows.0.num_rows() {
            catalog.host(Host {
                name: rows.text("host", row).unwrap_or_default(),
                boot_id: rows.text("boot_id", row),
                cores: rows.int32("cores", row),
                memory: rows.int64("memory", row),
                kernel: rows.text("kernel", row),
                clock_offset_ns: rows.int64("clock_offset_ns", row).unwrap_or(0),
                clock_spread_ns: rows.int64("clock_spread_ns", row).unwrap_or(0),
            });
        }
    }
    for rows in
        ParquetRecordBatchReaderBuilder::try_new(StoredFile::open(&folder.join("processes.parquet"))?)?.build()?
    {
        let rows = Rows(&rows?);
        for row in 0..rows.0.num_rows() {
            let process = process(&rows, row, catalog);
            let number = (!duplicates.skips_process(&process, folder)).then(|| catalog.add_process(process));
            numbers.insert(rows.int32("proc", row).unwrap_or(-1), number);
        }
    }
    Ok(numbers)
}

fn process(rows: &Rows, row: usize, catalog: &Catalog) -> Process {
    let host = rows.text("host", row).unwrap_or_default();
    let host = catalog.hosts().iter().position(|known| known.name == host).unwrap_or(0) as u32;
    Process {
        // The tables do not contain it.
        resources: Resources::default(),
        profile: None,
        recorder: None,
        host,
        pid: rows.int32("pid", row).unwrap_or(0),
        ppid: rows.int32("ppid", row),
        rank: rows.int32("rank", row),
        run: None,
        job: rows.text("job", row),
        program: rows.text("program", row),
        command: rows.text("command", row).map(|command| masked_text(&command)),
        cwd: rows.text("cwd", row),
        start_ts: rows.int64("start_ts", row),
        end_ts: rows.int64("end_ts", row),
        ended: rows.text("ended", row).unwrap_or_else(|| "unknown".into()),
        lost: rows.int64("lost", row).unwrap_or(0).max(0) as u64,
        aggregated: rows.int64("aggregated", row).unwrap_or(0).max(0) as u64,
        filtered: rows.int64("filtered", row).unwrap_or(0).max(0) as u64,
        names_lost: rows.int64("names_lost", row).unwrap_or(0).max(0) as u64,
        misused_spans: rows.int64("misused_spans", row).unwrap_or(0).max(0) as u64,
        tracer_ns: rows.int64("tracer_ns", row),
        by_ptrace: false,
        clock_offset_ns: None,
        source: rows.text("source", row).unwrap_or_default(),
        threads: Vec::new(),
    }
}

/// Cells by column name; a missing column, or one of another type, has no cells.
struct Rows<'a>(&'a RecordBatch);

impl Rows<'_> {
    fn text(&self, name: &str, row: usize) -> Option<String> {
        let column = self.0.column_by_name(name)?.as_string_opt::<i32>()?;
        column.is_valid(row).then(|| column.value(row).to_string())
    }

    fn int32(&self, name: &str, row: usize) -> Option<i32> {
        let column = self.0.column_by_name(name)?.as_primitive_opt::<Int32Type>()?;
        column.is_valid(row).then(|| column.value(row))
    }

    fn int64(&self, name: &str, row: usize) -> Option<i64> {
        let column = self.0.column_by_name(name)?.as_primitive_opt::<Int64Type>()?;
        column.is_valid(row).then(|| column.value(row))
    }
}

struct ParquetSource {
    path: PathBuf,
    /// Rows and bytes of each row group.
    groups: Vec<(u64, u64)>,
    start: Option<i64>,
    numbers: Numbers,
    /// `true` if its rows are those of the table, unchanged.
    is_table: bool,
}

impl Source for ParquetSource {
    fn path(&self) -> &Path {
        &self.path
    }

    fn table(&self) -> Option<&Path> {
        self.is_table.then_some(self.path.as_path())
    }

    fn start(&self) -> Option<i64> {
        self.start
    }

    fn knows_events(&self) -> bool {
        true
    }

    fn processes(&self) -> Option<Vec<u32>> {
        Some(self.numbers.values().flatten().copied().collect())
    }

    fn units(&self, source: u32) -> Vec<Unit> {
        let unit = |(index, &(events, size)): (usize, &(u64, u64))| Unit::new(source, index as u32, events, size);
        self.groups.iter().enumerate().map(unit).collect()
    }

    fn read(
        &self,
        index: u32,
        _reader: &mut Reader,
        catalog: &Catalog,
        wanted: Wanted,
        take: &mut dyn FnMut(&mut Batch),
    ) -> Result<(), Damage> {
        let mut broken = 0;
        let mut read = || -> Result<(), ArrowError> {
            let builder = ParquetRecordBatchReaderBuilder::try_new(StoredFile::open(&self.path)?)?;
            let builder = builder.with_row_groups(vec![index as usize]).with_batch_size(ROWS);
            let mut group = guarded(|| builder.build())??;
            while let Some(rows) = guarded(|| group.next())? {
                broken += self.batches(&rows?, catalog, wanted, take)?;
            }
            Ok(())
        };
        read().map_err(|_| Damage::Broken(BROKEN_GROUP))?;
        if broken > 0 { Err(Damage::Broken("rows with numbers that events cannot have")) } else { Ok(()) }
    }
}

impl ParquetSource {
    /// Splits rows where process or thread change. Returns how many are not events.
    fn batches(
        &self,
        rows: &RecordBatch,
        catalog: &Catalog,
        wanted: Wanted,
        take: &mut dyn FnMut(&mut Batch),
    ) -> Result<u64, ArrowError> {
        let columns = Columns::of(rows, catalog)?;
        let (mut batch, mut broken) = (Batch::default(), 0);
        let mut place = None;
        for row in 0..rows.num_rows() {
            let proc = self.numbers.get(&columns.proc[row]).copied();
            let here = (columns.proc[row], columns.tid[row]);
            if place != Some(here) {
                if !batch.is_empty() {
                    take(&mut batch);
                    batch.clear();
                }
                place = Some(here);
                let Some(proc) = proc.ok_or_else(not_listed)? else { continue };
                batch = Batch { proc, tid: here.1, ..Batch::default() };
            } else if proc == Some(None) {
                continue;
            }
            let event = columns.row(row);
            if !is_event(&event) {
                broken += 1;
                continue;
            }
            batch.push(&event);
            let place = batch.len() as u32 - 1;
            if let Some(source) = columns.source(row, catalog) {
                note_source(&mut batch, place, (source, event.file), wanted.args, catalog);
            }
            if wanted.args {
                columns.args(row, place, catalog, &mut batch.args);
            }
        }
        if !batch.is_empty() {
            take(&mut batch);
        }
        Ok(broken)
    }
}

fn not_listed() -> ArrowError {
    ArrowError::ParquetError("a process that is not listed".into())
}

/// The columns of a record batch as lists of plain numbers.
struct Columns {
    proc: Vec<i32>,
    tid: Vec<i32>,
    ts: Vec<i64>,
    dur: Vec<i64>,
    kind: Vec<u32>,
    file: Vec<u32>,
    fd: Vec<i32>,
    pos: Vec<i64>,
    requested: Vec<i64>,
    bytes: Vec<i64>,
    ret: Vec<i64>,
    errno: Vec<i32>,
    depth: Vec<u8>,
    epoch: Vec<i32>,
    step: Vec<i32>,
    /// Empty if no span is one of a GPU.
    device: Vec<i32>,
    args: MapArray,
}

fn column<'a>(rows: &'a RecordBatch, name: &str) -> Result<&'a dyn Array, ArrowError> {
    rows.column_by_name(name).map(AsRef::as_ref).ok_or_else(|| ArrowError::SchemaError(format!("no column {name}")))
}

fn int64(rows: &RecordBatch, name: &str) -> Result<Vec<i64>, ArrowError> {
    let column = cast(column(rows, name)?, &DataType::Int64)?;
    Ok(column.as_primitive::<Int64Type>().iter().map(|value| value.unwrap_or(ABSENT)).collect())
}

fn int32(rows: &RecordBatch, name: &str) -> Result<Vec<i32>, ArrowError> {
    let column = cast(column(rows, name)?, &DataType::Int32)?;
    Ok(column.as_primitive::<Int32Type>().iter().map(|value| value.unwrap_or(ABSENT_32)).collect())
}

/// Returns keys and values of a column of names.
fn names(rows: &RecordBatch, name: &str) -> Result<(Vec<Option<usize>>, Vec<String>), ArrowError> {
    let column = column(rows, name)?;
    let dictionary = column.as_dictionary_opt::<Int32Type>();
    let dictionary = dictionary.ok_or_else(|| ArrowError::SchemaError(format!("{name} is not a dictionary")))?;
    let values = cast(dictionary.values(), &DataType::Utf8)?;
    let texts = values.as_string::<i32>().iter().map(|text| text.unwrap_or_default().to_string()).collect();
    Ok((dictionary.keys().iter().map(|key| key.map(|key| key as usize)).collect(), texts))
}

impl Columns {
    fn of(rows: &RecordBatch, catalog: &Catalog) -> Result<Columns, ArrowError> {
        let (paths, texts) = names(rows, "file")?;
        let files: Vec<u32> = texts.iter().map(|path| catalog.file(path)).collect();
        let file = paths.into_iter().map(|path| path.map_or(FILE_NONE, |path| files[path])).collect();
        let depth = cast(column(rows, "depth")?, &DataType::UInt8)?;
        let args =
            column(rows, "args")?.as_map_opt().ok_or_else(|| ArrowError::SchemaError("args is not a map".into()))?;
        Ok(Columns {
            proc: int32(rows, "proc")?,
            tid: int32(rows, "tid")?,
            ts: int64(rows, "ts")?,
            dur: int64(rows, "dur")?,
            kind: kinds(rows, catalog)?,
            file,
            fd: int32(rows, "fd")?,
            pos: int64(rows, "pos")?,
            requested: int64(rows, "requested")?,
            bytes: int64(rows, "bytes")?,
            ret: int64(rows, "ret")?,
            errno: int32(rows, "errno")?,
            depth: depth.as_primitive::<UInt8Type>().values().to_vec(),
            epoch: int32(rows, "epoch")?,
            step: int32(rows, "step")?,
            device: gpus(rows, args)?,
            args: args.clone(),
        })
    }

    fn row(&self, row: usize) -> Row {
        let ret = match (self.errno[row], self.ret[row]) {
            (ABSENT_32, ABSENT) => ABSENT,
            (ABSENT_32, ..0) => FAILED,
            (ABSENT_32, ret) => ret,
            (errno, _) => -(errno as i64),
        };
        Row {
            file: self.file[row],
            fd: self.fd[row],
            pos: self.pos[row],
            requested: self.requested[row],
            bytes: self.bytes[row],
            ret,
            depth: self.depth[row],
            epoch: self.epoch[row],
            step: self.step[row],
            device: self.device.get(row).copied().unwrap_or(ABSENT_32),
            ..Row::new(self.ts[row], self.dur[row].max(0), self.kind[row])
        }
    }

    /// Returns the file that a row's bytes came from, for calls with a file on either side.
    fn source(&self, row: usize, catalog: &Catalog) -> Option<u32> {
        OPS.get(self.kind[row] as usize).filter(|info| info.a == Meaning::Source)?;
        let path = argument(&self.args, row, SOURCE)?;
        catalog.file_numbers(std::iter::once(path.into())).pop()
    }

    fn args(&self, row: usize, place: u32, catalog: &Catalog, into: &mut Vec<Arg>) {
        if self.args.is_null(row) {
            return;
        }
        let entries = self.args.value(row);
        let (keys, values) = (entries.column(0).as_string_opt::<i32>(), entries.column(1).as_string_opt::<i32>());
        for (key, value) in keys.into_iter().flatten().zip(values.into_iter().flatten()) {
            let value = Value::Text(catalog.text(value.unwrap_or_default()));
            into.push(Arg { row: place, key: catalog.text(key.unwrap_or_default()), value });
        }
    }
}

/// Returns the value of an argument.
fn argument(args: &MapArray, row: usize, key: &str) -> Option<String> {
    let entries = (!args.is_null(row)).then(|| args.value(row))?;
    let (keys, values) = (entries.column(0).as_string_opt::<i32>()?, entries.column(1).as_string_opt::<i32>()?);
    let (_, value) = keys.iter().zip(values).find(|(found, _)| *found == Some(key))?;
    value.map(str::to_string)
}

/// Returns the GPU of each row; empty if no row is a span of one.
fn gpus(rows: &RecordBatch, args: &MapArray) -> Result<Vec<i32>, ArrowError> {
    let (cat, texts) = names(rows, "cat")?;
    let is_of_device: Vec<bool> = texts.iter().map(|cat| devices::is_of_device(cat.as_bytes())).collect();
    if !is_of_device.contains(&true) {
        return Ok(Vec::new());
    }
    let is_one = |row: usize| cat[row].and_then(|cat| is_of_device.get(cat)) == Some(&true);
    let device = |row: usize| argument(args, row, DEVICE).and_then(|device| device.parse().ok());
    Ok((0..rows.num_rows())
        .map(|row| Some(row).filter(|row| is_one(*row)).and_then(device).unwrap_or(ABSENT_32))
        .collect())
}

/// Returns the kind of each row; kinds are few, so each combination is looked up once.
fn kinds(rows: &RecordBatch, catalog: &Catalog) -> Result<Vec<u32>, ArrowError> {
    let (name, name_texts) = names(rows, "name")?;
    let (cat, cat_texts) = names(rows, "cat")?;
    let (class, class_texts) = names(rows, "class")?;
    let (layer, layer_texts) = if rows.column_by_name("layer").is_some() {
        names(rows, "layer")?
    } else {
        (cat.clone(), cat_texts.iter().map(|cat| layer_of(cat).to_string()).collect())
    };
    let mut known: HashMap<[usize; 4], u32> = HashMap::new();
    let numbers = (0..rows.num_rows()).map(|row| {
        let keys = [&name, &cat, &class, &layer].map(|list| list[row].unwrap_or(0));
        *known.entry(keys).or_insert_with(|| {
            let texts = [&name_texts, &cat_texts, &class_texts, &layer_texts];
            let text = |column: usize| texts[column].get(keys[column]).map_or("", String::as_str);
            catalog.restored(text(0), text(1), text(2), text(3))
        })
    });
    Ok(numbers.collect())
}

/// Returns the layer of events in tables of an earlier version, which lack it.
fn layer_of(cat: &str) -> &str {
    if matches!(cat, "posix" | "stdio" | "process" | "mpiio") { cat } else { "app" }
}
