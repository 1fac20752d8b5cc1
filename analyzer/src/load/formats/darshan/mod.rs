//! Darshan's binary logs, one per job: counts per file and rank, and with DXT each read and write.
//!
//! ```text
//! log_file   header, regions, job, names      modules   what is partial, damaged or skipped
//! records    the numbers of each module       counts    numbers become counts that replace events
//! ```
//!
//! A rank of a job is a process. A file that all ranks opened has one record for all of them, which belongs to a
//! process without a rank. Traced reads and writes become events; counts contain the calls that were not traced.

mod counts;
mod log_file;
mod modules;
mod records;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use dlio_schemas::native::Damage;

use crate::batch::{ABSENT, Batch, Row, Wanted};
use crate::catalog::{Catalog, Host, Process};
use crate::load::bytes::file_bytes::{UNPACKED_MAX, unpacked};
use crate::load::events::parser::{BACKWARD, Processes, Threads};
use crate::load::lines::text::{finish, sizes};
use crate::load::sources::errors::Note;
use crate::load::sources::job_log::{Counter, CounterValue, JobLog};
use crate::load::sources::source::{Format, Opening, Reader, Recognition, Source, Sources};
use crate::load::sources::tally::ProcessTally;
use crate::unit::Unit;
use counts::{Counts, TracedSums};
use log_file::LogFile;
use modules::Module;
use records::{ALL_RANKS, Number, Record, Traced};

/// Darshan's own format.
pub const FORMAT: Format = Format {
    name: "Darshan logs",
    recognises: |head| match log_file::order(head) {
        Some(_) => Recognition::Yes,
        None if log_file::lacks_header(head) => Recognition::Useless(UNFINISHED),
        None => Recognition::No,
    },
    open: open_all,
    names_processes: true,
};

const UNFINISHED: &str = "a Darshan log without a header, which Darshan writes last: the job was killed before that; \
    nothing in it can be located, use the log of another execution";

/// A log that was read.
struct Opened {
    log: LogFile,
    records: Vec<Record>,
    /// The number of the module in the log, and its record.
    traced: Vec<(usize, Traced)>,
    notes: Vec<Damage>,
}

/// Opens logs on all CPUs: a site has thousands of small ones.
fn open_all(paths: &[PathBuf], opening: &mut Opening) -> Sources {
    let files = sizes(paths, opening);
    let (next, opened) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(files.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((place, (path, _))) = take_next(&next, &files) {
                    let read = open(path);
                    opened.lock().expect("logs").insert(place, read);
                }
            });
        }
    });
    let opened = opened.into_inner().expect("logs");
    let mut sources = Sources::new();
    for ((path, size), opened) in files.into_iter().zip(opened.into_values()) {
        let note = |what: Damage| {
            let events_max = matches!(what, Damage::Remark(_)).then_some(0);
            Note { path: path.clone(), what, events_max }
        };
        match opened {
            Ok(opened) => {
                opening.notes.extend(opened.notes.iter().cloned().map(note));
                sources.extend(sources_of(opened, &path, size, opening.catalog));
            }
            Err(damage) => opening.notes.push(note(damage)),
        }
    }
    sources
}

fn take_next<'a, T>(next: &AtomicUsize, of: &'a [T]) -> Option<(usize, &'a T)> {
    let place = next.fetch_add(1, Ordering::Relaxed);
    Some((place, of.get(place)?))
}

fn open(path: &Path) -> Result<Opened, Damage> {
    let mut bytes = Vec::new();
    let file = unpacked(path).map_err(|_| Damage::Broken("cannot open the file"))?;
    std::io::Read::read_to_end(&mut std::io::Read::take(file, UNPACKED_MAX), &mut bytes).map_err(|_| Damage::Cut)?;
    let mut log = LogFile::read(&bytes)?;
    let (mut records, mut traced, mut notes) = (Vec::new(), Vec::new(), std::mem::take(&mut log.damage));
    for (place, module) in log.modules.iter_mut().enumerate() {
        let whole = if let Some((found, whole)) = records::read(module, log.order) {
            records.extend(found);
            module.bytes = Vec::new();
            whole
        } else if let Some((found, whole)) = records::traced(module, log.order) {
            traced.extend(found.into_iter().map(|record| (place, record)));
            whole
        } else {
            notes.push(module.skipped());
            continue;
        };
        if !whole {
            module.presence = modules::Presence::Damaged;
        }
        notes.extend(module.damage());
    }
    Ok(Opened { log, records, traced, notes })
}

/// The parts of a log that belong to one process.
#[derive(Default)]
struct Part {
    records: Vec<usize>,
    heatmaps: Vec<usize>,
    traced: Vec<usize>,
}

/// Returns the layer of the calls that a module traces.
fn traced_module(module: &Module) -> (&'static str, &'static str) {
    if module.name() == "DXT_MPIIO" { ("MPI-IO", "mpiio") } else { ("POSIX", "posix") }
}

/// Returns the sums of traced calls that counters contain, too.
fn sums(opened: &Opened) -> TracedSums {
    let mut sums = TracedSums::new();
    for (place, record) in &opened.traced {
        let module = &opened.log.modules[*place];
        for index in 0..record.writes + record.reads {
            let Some(segment) = record.segment(module, opened.log.order, index) else { continue };
            let direction = usize::from(index < record.writes);
            for rank in [record.rank, ALL_RANKS] {
                let sum = &mut sums.entry((traced_module(module).0, record.id, rank)).or_default()[direction];
                sum.calls += 1;
                sum.bytes = sum.bytes.saturating_add(segment.length.max(0) as u64);
                sum.ns = sum.ns.saturating_add(((segment.end - segment.start).max(0.0) * 1e9) as u64);
            }
        }
    }
    sums
}

fn parts(opened: &Opened) -> BTreeMap<i64, Part> {
    let mut parts: BTreeMap<i64, Part> = BTreeMap::new();
    let is_heatmap = |record: &Record| record.module == "HEATMAP";
    for (place, record) in opened.records.iter().enumerate().filter(|(_, record)| !is_heatmap(record)) {
        parts.entry(record.rank).or_default().records.push(place);
    }
    for (place, (_, traced)) in opened.traced.iter().enumerate() {
        parts.entry(traced.rank).or_default().traced.push(place);
    }
    // Events show the activity better, and MPI-IO moves its bytes by calls of POSIX.
    let name = |record: &Record| opened.log.names.get(&record.id).map_or("", String::as_str);
    for (place, record) in opened.records.iter().enumerate().filter(|(_, record)| is_heatmap(record)) {
        let rank = if parts.contains_key(&record.rank) { record.rank } else { ALL_RANKS };
        let part = parts.entry(rank).or_default();
        let shows = name(record) != "heatmap:MPIIO" && opened.traced.is_empty();
        if shows { &mut part.heatmaps } else { &mut part.records }.push(place);
    }
    if parts.is_empty() {
        parts.insert(ALL_RANKS, Part::default());
    }
    parts
}

fn sources_of(opened: Opened, path: &Path, size: u64, catalog: &Catalog) -> Sources {
    let (parts, sums) = (parts(&opened), sums(&opened));
    let file_of = |id: u64| {
        let name = opened.log.names.get(&id).filter(|name| !name.is_empty());
        name.map_or_else(|| catalog.file(&format!("<darshan {id}>")), |name| catalog.file(name))
    };
    let mut files = HashMap::new();
    let ids = opened.records.iter().map(|record| record.id).chain(opened.traced.iter().map(|(_, traced)| traced.id));
    for id in ids {
        files.entry(id).or_insert_with(|| file_of(id));
    }
    let hosts: HashMap<i64, &str> =
        opened.traced.iter().map(|(_, traced)| (traced.rank, traced.host.as_str())).collect();
    let procs: Vec<(i64, u32)> = parts
        .keys()
        .map(|rank| (*rank, catalog.add_process(process(&opened.log, *rank, hosts.get(rank).copied(), path, catalog))))
        .collect();
    let job = Arc::new(job_log(&opened, path, procs.iter().map(|(_, proc)| *proc).collect()));
    let log = Arc::new(Log { path: path.into(), size, opened, files, sums });
    let sources = procs.into_iter().zip(parts.into_values()).enumerate().map(|(number, ((rank, proc), part))| {
        let job = (number == 0).then(|| job.clone());
        Box::new(DarshanSource { log: log.clone(), job, proc, rank, part }) as Box<dyn Source>
    });
    sources.collect()
}

fn process(log: &LogFile, rank: i64, host: Option<&str>, path: &Path, catalog: &Catalog) -> Process {
    let job = &log.job;
    let program = job.command.split_whitespace().next().and_then(|path| path.rsplit('/').next()).unwrap_or("unknown");
    let is_one = rank != ALL_RANKS;
    Process {
        host: catalog.host(Host { name: host.unwrap_or("").into(), ..Host::default() }),
        pid: rank as i32,
        rank: is_one.then_some(rank as i32),
        job: Some(job.id.to_string()),
        program: Some(if is_one { program.into() } else { format!("{program}, all ranks") }),
        command: Some(job.command.clone()),
        start_ts: Some(job.start_ns),
        end_ts: Some(job.end_ns),
        ended: "unknown".into(),
        source: path.display().to_string(),
        ..Process::default()
    }
}

fn job_log(opened: &Opened, path: &Path, procs: Vec<u32>) -> JobLog {
    let job = &opened.log.job;
    JobLog {
        path: path.display().to_string(),
        version: opened.log.version.clone(),
        library: job.metadata.iter().find(|(key, _)| key == "lib_ver").map(|(_, version)| version.clone()),
        id: job.id,
        uid: job.uid,
        command: job.command.clone(),
        processes: job.processes,
        start_ts: job.start_ns,
        end_ts: job.end_ns,
        mounts: job.mounts.clone(),
        metadata: job.metadata.clone(),
        modules: opened.log.modules.iter().map(Module::name).filter(|name| !name.is_empty()).collect(),
        procs,
    }
}

/// A log, shared by its processes.
struct Log {
    path: PathBuf,
    size: u64,
    opened: Opened,
    /// Numbers of files by record id.
    files: HashMap<u64, u32>,
    sums: TracedSums,
}

/// One process of a log.
struct DarshanSource {
    log: Arc<Log>,
    /// Only for the first process of a log.
    job: Option<Arc<JobLog>>,
    proc: u32,
    rank: i64,
    part: Part,
}

impl DarshanSource {
    fn events(&self) -> u64 {
        let traced = self.part.traced.iter().map(|place| &self.log.opened.traced[*place].1);
        traced.map(|traced| (traced.writes + traced.reads) as u64).sum()
    }

    /// Returns the events in order of their start, each with its thread.
    fn rows(&self, catalog: &Catalog, remark: &mut Option<&'static str>) -> Vec<(i32, Row)> {
        let opened = &self.log.opened;
        let mut rows = Vec::with_capacity(self.events() as usize);
        let mut threads: HashMap<u64, i32> = HashMap::new();
        for (place, traced) in self.part.traced.iter().map(|place| &opened.traced[*place]) {
            let module = &opened.log.modules[*place];
            let kinds = ["write", "read"].map(|name| catalog.moving(name, traced_module(module).1));
            let file = self.log.files.get(&traced.id).copied().unwrap_or_default();
            for index in 0..traced.writes + traced.reads {
                let Some(segment) = traced.segment(module, opened.log.order, index) else { continue };
                let start = (segment.start * 1e9).round() as i64;
                let dur = (segment.end * 1e9).round() as i64 - start;
                if dur < 0 {
                    remark.get_or_insert(BACKWARD);
                }
                let ts = opened.log.job.start_ns.saturating_add(start);
                let pos = if segment.offset < 0 { ABSENT } else { segment.offset };
                let (requested, bytes, ret) = (segment.length, segment.length, segment.length);
                let kind = kinds[usize::from(index >= traced.writes)];
                let row = Row { file, pos, requested, bytes, ret, ..Row::new(ts, dur.max(0), kind) };
                let next = threads.len() as i32 + 1;
                let thread = segment.thread.filter(|thread| *thread != 0);
                let tid = thread.map(|thread| *threads.entry(thread).or_insert(next));
                rows.push((tid.unwrap_or(self.rank as i32), row));
            }
        }
        rows.sort_by_key(|(_, row)| row.ts);
        rows
    }
}

impl Source for DarshanSource {
    fn path(&self) -> &Path {
        &self.log.path
    }

    fn job(&self) -> Option<&JobLog> {
        self.job.as_deref()
    }

    fn tally(&self, catalog: &Catalog) -> Option<ProcessTally> {
        let opened = &self.log.opened;
        let mut counts = Counts::new(catalog, &opened.log, &self.log.sums);
        for record in self.part.records.iter().map(|place| &opened.records[*place]) {
            counts.add(record, self.log.files.get(&record.id).copied().unwrap_or_default());
        }
        let heatmaps: Vec<&Record> = self.part.heatmaps.iter().map(|place| &opened.records[*place]).collect();
        Some(counts.finish(self.proc, &heatmaps))
    }

    fn counters(&self, take: &mut dyn FnMut(Counter)) {
        let opened = &self.log.opened;
        for record in self.part.records.iter().chain(&self.part.heatmaps).map(|place| &opened.records[*place]) {
            for (name, number) in record.names.iter().zip(&record.numbers) {
                take(Counter {
                    module: record.module,
                    rank: (record.rank != ALL_RANKS).then_some(record.rank),
                    file: self.log.files.get(&record.id).copied().unwrap_or_default(),
                    name,
                    value: match number {
                        Number::Int(number) => CounterValue::Int(*number),
                        Number::Float(number) => CounterValue::Float(*number),
                    },
                });
            }
        }
    }

    fn start(&self) -> Option<i64> {
        Some(self.log.opened.log.job.start_ns)
    }

    fn processes(&self) -> Option<Vec<u32>> {
        Some(vec![self.proc])
    }

    fn units(&self, source: u32) -> Vec<Unit> {
        let events = self.events();
        let unit = Unit { proc: Some(self.proc), ..Unit::new(source, 0, events, self.log.size) };
        if events == 0 { Vec::new() } else { vec![unit] }
    }

    fn knows_events(&self) -> bool {
        true
    }

    fn read(
        &self,
        _index: u32,
        _reader: &mut Reader,
        catalog: &Catalog,
        wanted: Wanted,
        take: &mut dyn FnMut(&mut Batch),
    ) -> Result<(), Damage> {
        let processes = Processes::of(self.log.path.display().to_string());
        let mut into = Threads::new(catalog, wanted, &processes, take);
        for (tid, row) in self.rows(catalog, &mut into.remark) {
            into.event(self.proc, tid, &row, []);
        }
        finish(Ok(()), into)
    }
}
