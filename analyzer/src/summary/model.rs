//! The report as plain values: what `--format json` writes, what text, CSV and later reports print.
//!
//! Times are nanoseconds, sizes bytes, shares fractions of one. Raise [`VERSION`] when a field changes its meaning or goes
//! away; new fields need no new version. SUMMARY.md says what each field means.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use dlio_schemas::native::Damage;
use dlio_schemas::ops::Class;
use serde::{Deserialize, Serialize};

use super::count::{Counted, FileCount, KindCount, ProcessCount};
use super::intervals::{Measures, Set};
use super::quantiles::{Counts, Quantiles, quantiles};
use super::tally::Tally;
use super::units::many;
use crate::batch::ABSENT;
use crate::catalog::{Catalog, FILE_NONE, Kind, Origin, Process, is_stored};
use crate::filter::Filter;
use crate::load::tally::OTHER_FILES;
use crate::load::twins::PassedOver;
use crate::load::{Note, Trace};

pub const VERSION: u32 = 1;

#[derive(Serialize, Deserialize, Debug)]
pub struct Summary {
    /// `dlio-summary`.
    pub schema: Cow<'static, str>,
    pub version: u32,
    pub verdict: Vec<String>,
    pub allocation: Allocation,
    pub dataset: Dataset,
    pub time: Time,
    pub functions: Vec<Function>,
    pub spans: Vec<Function>,
    pub directories: Vec<Directory>,
    pub files: Vec<FileUse>,
    pub processes: Vec<ProcessUse>,
    pub ranks: Vec<RankUse>,
    pub hosts: Vec<HostUse>,
    pub damage: Vec<DamageNote>,
    /// Files some of whose processes were read from other files, so that they count once.
    #[serde(default)]
    pub passed_over: Vec<PassedOver>,
    /// What processes counted in the place of events; `null` where all events were recorded.
    pub tally: Option<Tally>,
}

/// Who took part.
#[derive(Serialize, Deserialize, Debug, Default)]
pub struct Allocation {
    pub hosts: u64,
    /// Program images: an exec begins a new one.
    pub processes: u64,
    /// Processes, whatever number of programs each ran one after another.
    pub pids: u64,
    pub killed: u64,
    pub threads: u64,
    pub io_threads: u64,
    pub compute_threads: u64,
    pub events: u64,
    pub lost: u64,
    /// Of these, calls that DFTracer counted together: their number is known and nothing else.
    #[serde(default)]
    pub aggregated: u64,
    pub filtered: u64,
    pub names_lost: u64,
    pub misused_spans: u64,
}

/// What was read and written.
#[derive(Serialize, Deserialize, Debug, Default)]
pub struct Dataset {
    /// Whether the numbers of files and the positions reached are at least what is said: some files were counted together.
    #[serde(default)]
    pub at_least: bool,
    /// Events on files that were counted together, for want of room.
    #[serde(default)]
    pub other_events: u64,
    pub files: u64,
    pub files_read: u64,
    pub files_written: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Sum of the largest position reached in each file.
    pub bytes_reached: u64,
    /// Bytes through pipes, sockets and terminals, which are no data set.
    pub elsewhere_read: u64,
    pub elsewhere_written: u64,
}

/// Where the time went. Each is the length of a union of intervals over all processes, and exact.
#[derive(Serialize, Deserialize, Debug, Default)]
pub struct Time {
    pub start_ts: i64,
    pub end_ts: i64,
    pub total_ns: i64,
    /// `null` where no span says that it computes; so are all figures that need it.
    pub compute_ns: Option<i64>,
    pub app_io_ns: Option<i64>,
    pub io_ns: i64,
    pub unoverlapped_app_io_ns: Option<i64>,
    pub unoverlapped_app_compute_ns: Option<i64>,
    pub unoverlapped_io_ns: Option<i64>,
    pub unoverlapped_compute_ns: Option<i64>,
    /// Neither I/O nor compute.
    pub other_ns: i64,
    /// Events whose stream was out of order and that could be counted in part only.
    pub late: u64,
    pub late_ns: i64,
}

/// One kind of call, or one name of span.
#[derive(Serialize, Deserialize, Debug)]
pub struct Function {
    pub name: String,
    pub cat: String,
    pub class: Cow<'static, str>,
    pub count: u64,
    pub failed: u64,
    pub time_ns: u64,
    pub duration_ns: Spread,
    /// `null` where the call moves no bytes.
    pub bytes: Option<u64>,
    pub size: Option<Spread>,
}

/// A distribution.
#[derive(Serialize, Deserialize, Debug, Clone, Copy)]
pub struct Spread {
    pub min: f64,
    pub p25: f64,
    pub mean: f64,
    pub median: f64,
    pub p75: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
    /// Whether the quantiles are those of the very values; otherwise they are off by 0.4 % at most.
    pub exact: bool,
}

impl Spread {
    fn new(q: Quantiles, exact: bool) -> Spread {
        let Quantiles { min, p25, mean, median, p75, p95, p99, max } = q;
        Spread { min, p25, mean, median, p75, p95, p99, max, exact }
    }
}

#[derive(Serialize, Deserialize, Debug)]
pub struct Directory {
    pub directory: String,
    /// Zero where it stands for files that were counted together.
    pub files: u64,
    #[serde(flatten)]
    pub use_: Use,
}

#[derive(Serialize, Deserialize, Debug)]
pub struct FileUse {
    pub path: String,
    #[serde(flatten)]
    pub use_: Use,
}

/// What was done with a file or folder.
#[derive(Serialize, Deserialize, Debug, Default, Clone)]
pub struct Use {
    pub events: u64,
    pub opens: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub time_ns: u64,
}

impl Allocation {
    /// `4 processes`, and the programs they ran where those are more.
    pub fn shown_processes(&self) -> String {
        let processes = many(self.pids, "process", "processes");
        match self.processes == self.pids {
            true => processes,
            false => format!("{processes} ({})", many(self.processes, "program", "programs")),
        }
    }
}

impl Dataset {
    /// What stands before numbers that may be larger.
    pub fn at_least(&self) -> &'static str {
        if self.at_least { "at least " } else { "" }
    }
}

impl Summary {
    /// Whether every quantile is that of the very values.
    pub fn is_exact(&self) -> bool {
        let functions = self.functions.iter().chain(&self.spans);
        functions.flat_map(|function| [Some(function.duration_ns), function.size]).flatten().all(|spread| spread.exact)
    }
}

impl Use {
    fn add(&mut self, count: &FileCount) {
        self.events += count.events;
        self.opens += count.opens;
        self.bytes_read += count.bytes_read;
        self.bytes_written += count.bytes_written;
        self.time_ns += count.time_ns;
    }
}

#[derive(Serialize, Deserialize, Debug)]
pub struct ProcessUse {
    pub host: String,
    pub pid: i32,
    pub rank: Option<i32>,
    pub program: String,
    pub ended: String,
    pub threads: u64,
    pub lost: u64,
    #[serde(flatten)]
    pub work: Work,
}

#[derive(Serialize, Deserialize, Debug)]
pub struct RankUse {
    pub rank: i32,
    pub processes: u64,
    pub pids: u64,
    #[serde(flatten)]
    pub work: Work,
}

/// What a process or rank did. Times are summed over calls and threads.
#[derive(Serialize, Deserialize, Debug, Default, Clone)]
pub struct Work {
    pub events: u64,
    pub failed: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub read_ns: u64,
    pub write_ns: u64,
    pub metadata_ns: u64,
    pub sync_ns: u64,
    pub compute_ns: u64,
    pub span_ns: i64,
}

impl Work {
    fn add(&mut self, count: &ProcessCount) {
        self.events += count.events;
        self.failed += count.failed;
        self.bytes_read += count.bytes_read;
        self.bytes_written += count.bytes_written;
        self.read_ns += count.call_time(Class::Read);
        self.write_ns += count.call_time(Class::Write);
        self.metadata_ns += count.call_time(Class::Metadata);
        self.sync_ns += count.call_time(Class::Sync);
        self.compute_ns += count.compute_ns;
        self.span_ns = self.span_ns.max(count.last_ts.saturating_sub(count.first_ts).max(0));
    }
}

#[derive(Serialize, Deserialize, Debug)]
pub struct HostUse {
    pub host: String,
    pub cores: Option<i32>,
    pub processes: u64,
    pub clock_spread_ns: i64,
}

#[derive(Serialize, Deserialize, Debug)]
pub struct DamageNote {
    pub path: String,
    pub what: String,
    /// Whether it is the end that is missing.
    pub cut: bool,
    /// `null` where nothing says how many events that cost.
    pub events_max: Option<u64>,
    /// Whether nothing is damaged and only something has to be said.
    #[serde(default)]
    pub remark: bool,
}

/// One scan's outcome, from which reports and tables are made.
pub struct Analysis {
    /// What was let through.
    pub filter: Filter,
    pub counted: Counted,
    pub measures: Measures,
    pub late: u64,
    pub late_ns: i64,
    pub tally: Option<Tally>,
    /// Values in the buckets of quantiles, by kind, where a second pass counted them.
    pub durations: Option<Counts>,
}

impl Analysis {
    /// First start and last end; `None` for a trace without events.
    pub fn bounds(&self) -> Option<(i64, i64)> {
        let used = || self.counted.processes.iter().filter(|process| process.events > 0);
        used().map(|process| process.first_ts).min().zip(used().map(|process| process.last_ts).max())
    }

    pub fn events(&self) -> u64 {
        self.counted.processes.iter().map(|process| process.events).sum()
    }

    pub fn summary(&self, trace: &Trace) -> Summary {
        let catalog = &trace.catalog;
        let kinds = catalog.kinds();
        let notes = trace.notes.lock().expect("notes").clone();
        let mut summary = Summary {
            schema: "dlio-summary".into(),
            version: VERSION,
            verdict: Vec::new(),
            allocation: self.allocation(catalog),
            dataset: self.dataset(catalog),
            time: self.time(&kinds),
            functions: self.functions(&kinds, |kind| kind.origin == Origin::Call),
            spans: self.functions(&kinds, |kind| kind.origin != Origin::Call),
            directories: self.directories(catalog),
            files: self.files(catalog),
            processes: self.processes(catalog),
            ranks: self.ranks(catalog),
            hosts: self.hosts(catalog),
            damage: notes.iter().map(DamageNote::of).collect(),
            passed_over: trace.passed_over.clone(),
            tally: self.tally.clone(),
        };
        summary.verdict = super::verdict::verdict(&summary);
        summary
    }

    /// Processes with what they did: without a filter all of them, else those of which something passed.
    fn partakers<'a>(&'a self, processes: &'a [Process]) -> Vec<(&'a Process, &'a ProcessCount)> {
        const NOTHING: &ProcessCount = &ProcessCount::NOTHING;
        let counts = self.counted.processes.iter().chain(std::iter::repeat(NOTHING));
        let takes = |count: &ProcessCount| self.filter.is_empty() || count.events > 0;
        processes.iter().zip(counts).filter(|(_, count)| takes(count)).collect()
    }

    fn allocation(&self, catalog: &Catalog) -> Allocation {
        let all = catalog.processes();
        let threads = self.threads(&all);
        let said_lost: u64 = self.counted.processes.iter().map(|process| process.lost).sum();
        let partakers = self.partakers(&all);
        let made = || partakers.iter().map(|(process, _)| *process);
        // What was lost may have been anything, of any process that is asked for.
        let processes: Vec<_> =
            all.iter().filter(|process| self.filter.takes_process(process.pid, process.rank)).collect();
        Allocation {
            hosts: self.hosts(catalog).len() as u64,
            processes: partakers.len() as u64,
            pids: started(made()),
            killed: made().filter(|process| process.ended == "killed").count() as u64,
            threads: threads.len() as u64,
            io_threads: threads.values().filter(|(does_io, _)| *does_io).count() as u64,
            compute_threads: threads.values().filter(|(_, computes)| *computes).count() as u64,
            events: self.events(),
            lost: processes.iter().map(|process| process.lost).sum::<u64>() + said_lost,
            aggregated: self.counted.processes.iter().map(|process| process.aggregated).sum(),
            filtered: processes.iter().map(|process| process.filtered).sum(),
            names_lost: processes.iter().map(|process| process.names_lost).sum(),
            misused_spans: processes.iter().map(|process| process.misused_spans).sum(),
        }
    }

    /// Threads by host, process and number, and whether they did I/O and computed: a thread stays one through an exec.
    fn threads(&self, processes: &[Process]) -> BTreeMap<(u32, i32, i32), (bool, bool)> {
        let mut threads = BTreeMap::new();
        for (process, count) in processes.iter().zip(&self.counted.processes) {
            for (tid, thread) in &count.threads {
                let (does_io, computes) = threads.entry((process.host, process.pid, *tid)).or_default();
                *does_io |= thread.does_io;
                *computes |= thread.computes;
            }
        }
        threads
    }

    /// Files that were used, with their paths.
    fn used_files<'a>(&'a self, paths: &'a [std::sync::Arc<str>]) -> impl Iterator<Item = (&'a str, &'a FileCount)> {
        let files = paths.iter().zip(&self.counted.files).skip(FILE_NONE as usize + 1);
        files.filter(|(path, count)| count.events > 0 && is_stored(path)).map(|(path, count)| (path.as_ref(), count))
    }

    fn dataset(&self, catalog: &Catalog) -> Dataset {
        let paths = catalog.files();
        let mut dataset = Dataset::default();
        for (path, count) in self.used_files(&paths) {
            dataset.bytes_read += count.bytes_read;
            dataset.bytes_written += count.bytes_written;
            // How many they are is not known, and some may have been counted before there was no room any more.
            if path == OTHER_FILES {
                (dataset.at_least, dataset.other_events) = (true, count.events);
                continue;
            }
            dataset.files += 1;
            dataset.files_read += (count.bytes_read > 0) as u64;
            dataset.files_written += (count.bytes_written > 0) as u64;
            dataset.bytes_reached += if count.size == ABSENT { 0 } else { count.size.max(0) as u64 };
        }
        for (_, count) in paths.iter().zip(&self.counted.files).filter(|(path, _)| !is_stored(path)) {
            dataset.elsewhere_read += count.bytes_read;
            dataset.elsewhere_written += count.bytes_written;
        }
        dataset
    }

    fn time(&self, kinds: &[Kind]) -> Time {
        let (start_ts, end_ts) = self.bounds().unwrap_or((0, 0));
        let measures = &self.measures;
        let spans = |wanted: &[Class]| {
            let rows = kinds.iter().zip(&self.counted.kinds).filter(|(_, count)| count.durations.count > 0);
            rows.filter(|(kind, _)| kind.origin == Origin::Span).any(|(kind, _)| wanted.contains(&kind.class))
        };
        let compute = spans(&[Class::Compute]).then_some(measures.of(Set::Compute));
        let app_io = spans(&[Class::Read, Class::Write]).then_some(measures.of(Set::AppIo));
        let io = measures.of(Set::Io);
        let covered = io + measures.of(Set::Compute) - measures.compute_and_io;
        Time {
            start_ts,
            end_ts,
            total_ns: end_ts - start_ts,
            compute_ns: compute,
            app_io_ns: app_io,
            io_ns: io,
            unoverlapped_app_io_ns: compute.and(app_io).map(|io| io - measures.compute_and_app_io),
            unoverlapped_app_compute_ns: app_io.and(compute).map(|compute| compute - measures.compute_and_app_io),
            unoverlapped_io_ns: compute.map(|_| io - measures.compute_and_io),
            unoverlapped_compute_ns: compute.map(|compute| compute - measures.compute_and_io),
            other_ns: end_ts - start_ts - covered,
            late: self.late,
            late_ns: self.late_ns,
        }
    }

    fn functions(&self, kinds: &[Kind], takes: impl Fn(&Kind) -> bool) -> Vec<Function> {
        let sizes = self.counted.sizes.sorted();
        let durations = self.durations.as_ref().filter(|counts| !counts.rounded).map(Counts::sorted);
        let rows = (0u32..).zip(kinds.iter().zip(&self.counted.kinds));
        let used = rows.filter(|(_, (kind, count))| takes(kind) && count.durations.count > 0);
        let mut functions: Vec<_> = used
            .filter_map(|(number, (kind, count))| {
                let durations = durations.as_ref().map(|durations| of_kind(durations, number));
                let sizes = (of_kind(&sizes, number), !self.counted.sizes.rounded);
                function(kind, count, durations, sizes)
            })
            .collect();
        functions.sort_by(|a, b| b.time_ns.cmp(&a.time_ns).then_with(|| a.name.cmp(&b.name)));
        functions
    }

    fn directories(&self, catalog: &Catalog) -> Vec<Directory> {
        let paths = catalog.files();
        let mut found: BTreeMap<&str, (u64, Use)> = BTreeMap::new();
        for (path, count) in self.used_files(&paths) {
            let is_one = path != OTHER_FILES;
            let folder = if is_one { directory(path).unwrap_or(".") } else { path };
            let (files, sum) = found.entry(folder).or_default();
            *files += is_one as u64;
            sum.add(count);
        }
        let rows =
            found.into_iter().map(|(directory, (files, use_))| Directory { directory: directory.into(), files, use_ });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.use_.time_ns));
        rows
    }

    fn files(&self, catalog: &Catalog) -> Vec<FileUse> {
        let paths = catalog.files();
        let mut used: Vec<_> = self.used_files(&paths).collect();
        used.sort_by(|a, b| b.1.time_ns.cmp(&a.1.time_ns).then_with(|| a.0.cmp(b.0)));
        used.truncate(FILES_LISTED);
        let row = |(path, count): (&str, &FileCount)| {
            let mut use_ = Use::default();
            use_.add(count);
            FileUse { path: path.into(), use_ }
        };
        used.into_iter().map(row).collect()
    }

    fn processes(&self, catalog: &Catalog) -> Vec<ProcessUse> {
        let hosts = catalog.hosts();
        let processes = catalog.processes();
        let row = |(process, count): (&Process, &ProcessCount)| {
            let mut work = Work::default();
            work.add(count);
            ProcessUse {
                host: hosts.get(process.host as usize).map_or_else(String::new, |host| host.name.clone()),
                pid: process.pid,
                rank: process.rank,
                program: process.program.clone().unwrap_or_default(),
                ended: process.ended.clone(),
                threads: count.threads.len() as u64,
                lost: process.lost + count.lost,
                work,
            }
        };
        self.partakers(&processes).into_iter().map(row).collect()
    }

    fn ranks(&self, catalog: &Catalog) -> Vec<RankUse> {
        let all = catalog.processes();
        let mut ranks: BTreeMap<i32, (Vec<&Process>, Work)> = BTreeMap::new();
        for (process, count) in self.partakers(&all) {
            if let Some(rank) = process.rank {
                let (processes, work) = ranks.entry(rank).or_default();
                processes.push(process);
                work.add(count);
            }
        }
        let row = |(rank, (images, work)): (i32, (Vec<&Process>, Work))| RankUse {
            rank,
            processes: images.len() as u64,
            pids: started(images),
            work,
        };
        ranks.into_iter().map(row).collect()
    }

    fn hosts(&self, catalog: &Catalog) -> Vec<HostUse> {
        let processes = catalog.processes();
        let hosts = catalog.hosts();
        let mut partakers = vec![0; hosts.len()];
        self.partakers(&processes).iter().for_each(|(process, _)| partakers[process.host as usize] += 1);
        let row = |(host, processes): (crate::catalog::Host, u64)| HostUse {
            host: host.name,
            cores: host.cores,
            processes,
            clock_spread_ns: host.clock_spread_ns,
        };
        let takes = |processes: u64| self.filter.is_empty() || processes > 0;
        hosts.into_iter().zip(partakers).filter(|(_, processes)| takes(*processes)).map(row).collect()
    }
}

/// How many processes program images belong to: an exec keeps host, process id and start.
fn started<'a>(images: impl IntoIterator<Item = &'a Process>) -> u64 {
    let starts: BTreeSet<_> = images.into_iter().map(|image| (image.host, image.pid, image.start_ts)).collect();
    starts.len() as u64
}

/// Files listed one by one, those with the most time; SQL and Parquet have them all.
const FILES_LISTED: usize = 100;

/// Folder of a path.
pub fn directory(path: &str) -> Option<&str> {
    let (folder, _) = path.trim_end_matches('/').rsplit_once('/')?;
    Some(if folder.is_empty() { "/" } else { folder })
}

/// Values of one kind and how often they occur.
type Values<'a> = &'a [(u32, u64, u64)];

fn of_kind(values: Values<'_>, number: u32) -> Values<'_> {
    let from = values.partition_point(|(kind, ..)| *kind < number);
    let to = values.partition_point(|(kind, ..)| *kind <= number);
    &values[from..to]
}

fn duration(count: &KindCount, values: Option<Values>) -> Option<Spread> {
    let values: Option<Vec<_>> = values.map(|values| values.iter().map(|(_, value, n)| (*value, *n)).collect());
    let exact = values.and_then(|values| count.durations.refined(&values)).map(|q| Spread::new(q, true));
    exact.or_else(|| Some(Spread::new(count.durations.quantiles()?, false)))
}

fn function(
    kind: &Kind,
    count: &KindCount,
    durations: Option<Values>,
    (sizes, exact): (Values, bool),
) -> Option<Function> {
    let steps = sizes.iter().map(|(_, value, n)| (*value as f64, *n));
    Some(Function {
        name: kind.name.to_string(),
        cat: kind.cat.to_string(),
        class: kind.class.name().into(),
        count: count.durations.count,
        failed: count.failed,
        time_ns: count.durations.sum as u64,
        duration_ns: duration(count, durations)?,
        bytes: (count.sized > 0).then_some(count.bytes as u64),
        size: quantiles(steps, count.sized, count.bytes).map(|q| Spread::new(q, exact)),
    })
}

impl DamageNote {
    pub fn of(note: &Note) -> DamageNote {
        let cut = note.what == Damage::Cut;
        let (path, what) = (note.path.display().to_string(), note.what.to_string());
        let remark = matches!(note.what, Damage::Remark(_));
        DamageNote { path, what, cut, events_max: note.events_max, remark }
    }
}

/// `3 files cut, 2 blocks damaged: at most 8,192 events lost`, or nothing.
pub fn damage_sentence(notes: &[DamageNote]) -> Option<String> {
    let notes: Vec<_> = notes.iter().filter(|note| !note.remark).collect();
    let cut = notes.iter().filter(|note| note.cut).count();
    let known: u64 = notes.iter().filter_map(|note| note.events_max).sum();
    let lost = match notes.iter().all(|note| note.events_max.is_some()) {
        true => format!("at most {} lost", many(known, "event", "events")),
        false => "how many events that cost is not known".into(),
    };
    let many = |n: usize, one: &str, more: &str| many(n as u64, one, more);
    let mut parts = Vec::new();
    if cut > 0 {
        parts.push(many(cut, "file cut", "files cut"));
    }
    if notes.len() > cut {
        parts.push(many(notes.len() - cut, "piece damaged", "pieces damaged"));
    }
    (!parts.is_empty()).then(|| format!("{}: {lost}", parts.join(", ")))
}
