//! A snapshot: the activity of all processes in an interval, as plain values for printing, drawing and export.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use dlio_schemas::ops::{Class, Op};
use serde::Serialize;

use super::counts::Count;
use super::machine::MachineRow;
use super::process::{ACTIVITIES, Activity, Seen, Target};

/// Raise this when the meaning of a field changes or a field is removed; new fields do not need a new version.
pub const VERSION: u32 = 1;

/// The number of files in JSON and on the screen: the busiest by each sort key.
const FILES_KEPT: usize = 100;

/// The order of tables, most first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum Order {
    #[default]
    Bytes,
    Calls,
    Time,
    Name,
}

/// Totals of calls. Estimates from a sample are rounded.
#[derive(Clone, Copy, Default, Debug, PartialEq, Serialize)]
pub struct Sum {
    pub calls: u64,
    pub failed: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Seconds within these calls, over all threads.
    pub call_s: f64,
}

/// Like [`Sum`], before rounding.
#[derive(Clone, Copy, Default, Debug)]
pub struct Amount {
    count: Count,
    read: f64,
    written: f64,
}

impl Amount {
    pub fn add(&mut self, op: Op, count: &Count) {
        self.count.add(count, 1.0);
        // Bytes of HDF5 are moved by calls below it, which are recorded.
        match op.info().filter(|info| !info.layer.is_library()).map(|info| info.class) {
            Some(Class::Read) => self.read += count.bytes,
            Some(Class::Write) => self.written += count.bytes,
            _ => {}
        }
    }

    pub fn sum(&self) -> Sum {
        Sum {
            calls: self.count.calls.round() as u64,
            failed: self.count.failed.round() as u64,
            bytes_read: self.read.round() as u64,
            bytes_written: self.written.round() as u64,
            call_s: self.count.ticks / 1e9,
        }
    }
}

/// One operation, over all processes.
#[derive(Clone, Debug, Serialize)]
pub struct OperationRow {
    pub operation: &'static str,
    /// In the interval.
    #[serde(flatten)]
    pub sum: Sum,
    /// Since the start of the running processes.
    pub total: Sum,
}

/// One file, over all processes.
#[derive(Clone, Debug, Serialize)]
pub struct FileRow {
    pub path: String,
    #[serde(flatten)]
    pub sum: Sum,
    pub processes: u64,
}

/// One process.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ProcessRow {
    pub host: String,
    pub pid: i32,
    pub rank: Option<i32>,
    pub name: String,
    /// `trainer` or `reader`; `null` if unknown.
    pub role: Option<&'static str>,
    pub threads: u64,
    /// Calls, spans, instants and counters since its start.
    pub events: u64,
    /// File calls in the interval.
    #[serde(flatten)]
    pub sum: Sum,
    /// File calls since its start.
    pub total: Sum,
    /// Seconds of the interval in compute spans; `null` if there never were any. Likewise for the fields that follow.
    pub computing_s: Option<f64>,
    pub waiting_s: Option<f64>,
    pub checkpoint_s: Option<f64>,
    /// Seconds in which a GPU waited for the next batch, at least: they become known some steps later.
    pub gpu_waiting_s: Option<f64>,
    /// Seconds in compute spans since its start. Likewise for the fields that follow.
    pub computing_total_s: Option<f64>,
    pub waiting_total_s: Option<f64>,
    pub checkpoint_total_s: Option<f64>,
    pub gpu_waiting_total_s: Option<f64>,
    /// The innermost span that is open now.
    pub now: Option<String>,
    #[serde(skip)]
    pub activity: Option<Activity>,
    pub lost: u64,
    /// Threads whose ring did not fit into the file: their calls appear late, when they are written.
    pub threads_unseen: u64,
    /// `true` if every event of the interval, and every event since its start, was decoded. Otherwise calls by
    /// operation and file are estimated from evenly chosen blocks. `events` is always exact, apart from records that
    /// belong to other events.
    pub exact: bool,
    pub total_exact: bool,
    /// By operation, since its start.
    pub operations: BTreeMap<&'static str, Sum>,
}

/// The state of everything at one point in time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Snapshot {
    pub schema: &'static str,
    pub version: u32,
    pub folder: String,
    /// Unix time in nanoseconds.
    pub ts: i64,
    /// Length of the interval; zero before the first one.
    pub interval_s: f64,
    /// File calls in the interval.
    #[serde(flatten)]
    pub sum: Sum,
    /// `true` if every event of the interval was decoded.
    pub exact: bool,
    pub lost: u64,
    /// The number of process images that have ended.
    pub ended: u64,
    /// Running processes that cannot be sampled, and why.
    pub unreadable: Vec<String>,
    pub operations: Vec<OperationRow>,
    pub files: Vec<FileRow>,
    /// The number of files accessed in the interval, including files that are not listed.
    pub files_touched: u64,
    pub processes: Vec<ProcessRow>,
    /// Hosts on which `dlio trace` runs a command for this directory.
    pub machines: Vec<MachineRow>,
}

impl Sum {
    pub fn bytes(&self) -> u64 {
        self.bytes_read + self.bytes_written
    }

    /// Returns the sort key of a row.
    fn weight(&self, order: Order) -> f64 {
        match order {
            Order::Bytes => self.bytes() as f64,
            Order::Calls => self.calls as f64,
            Order::Time => self.call_s,
            Order::Name => 0.0,
        }
    }
}

impl Snapshot {
    /// Sorts all tables; ties are sorted by name.
    pub fn sort(&mut self, order: Order) {
        let by = |a: (&Sum, &str), b: (&Sum, &str)| {
            b.0.weight(order).total_cmp(&a.0.weight(order)).then(b.0.calls.cmp(&a.0.calls)).then_with(|| a.1.cmp(b.1))
        };
        let by_name = order == Order::Name;
        let compare = |a: (&Sum, &str), b: (&Sum, &str)| if by_name { a.1.cmp(b.1) } else { by(a, b) };
        self.operations.sort_by(|a, b| compare((&a.sum, a.operation), (&b.sum, b.operation)));
        self.files.sort_by(|a, b| compare((&a.sum, &a.path), (&b.sum, &b.path)));
        self.processes
            .sort_by(|a, b| compare((&a.sum, &a.name), (&b.sum, &b.name)).then((a.rank, a.pid).cmp(&(b.rank, b.pid))));
    }
}

/// The work of a process since its start.
#[derive(Default)]
pub struct Total {
    pub events: f64,
    pub files: Amount,
    pub by_op: BTreeMap<&'static str, Amount>,
    pub spent: [Option<f64>; ACTIVITIES.len()],
    pub is_estimated: bool,
}

impl Total {
    pub fn add(&mut self, seen: &Seen) {
        self.events += seen.events;
        self.is_estimated |= !seen.is_exact;
        for (op, target, count) in &seen.calls {
            self.by_op.entry(name_of(*op)).or_default().add(*op, count);
            if matches!(target, Target::File(_)) {
                self.files.add(*op, count);
            }
        }
        for (total, spent) in self.spent.iter_mut().zip(seen.spent) {
            *total = spent.map_or(*total, |spent| Some(total.unwrap_or(0.0) + spent));
        }
    }

    /// Returns the row of a process, from its calls. `seen` is its activity in the interval, if there is one.
    pub fn row(&self, seen: Option<&Seen>) -> ProcessRow {
        let mut files = Amount::default();
        for (op, target, count) in seen.iter().flat_map(|seen| &seen.calls) {
            if matches!(target, Target::File(_)) {
                files.add(*op, count);
            }
        }
        let spent = seen.map_or([None; ACTIVITIES.len()], |seen| seen.spent);
        let of = |all: [Option<f64>; ACTIVITIES.len()], activity: Activity| all[activity as usize];
        ProcessRow {
            events: self.events.round() as u64,
            sum: files.sum(),
            total: self.files.sum(),
            computing_s: of(spent, Activity::Computing),
            waiting_s: of(spent, Activity::Waiting),
            checkpoint_s: of(spent, Activity::Saving),
            gpu_waiting_s: of(spent, Activity::Stalling),
            computing_total_s: of(self.spent, Activity::Computing),
            waiting_total_s: of(self.spent, Activity::Waiting),
            checkpoint_total_s: of(self.spent, Activity::Saving),
            gpu_waiting_total_s: of(self.spent, Activity::Stalling),
            exact: seen.is_none_or(|seen| seen.is_exact),
            total_exact: !self.is_estimated,
            operations: self.by_op.iter().map(|(name, amount)| (*name, amount.sum())).collect(),
            ..ProcessRow::default()
        }
    }
}

fn name_of(op: Op) -> &'static str {
    op.info().map_or("(unknown)", |info| info.name)
}

/// Accumulates operations and files over all processes.
#[derive(Default)]
pub struct Board {
    operations: BTreeMap<&'static str, Amount>,
    files: HashMap<Arc<str>, (Amount, u64)>,
    all: Amount,
}

impl Board {
    pub fn add(&mut self, seen: &Seen) {
        let mut own: HashMap<&Arc<str>, Amount> = HashMap::new();
        for (op, target, count) in &seen.calls {
            self.operations.entry(name_of(*op)).or_default().add(*op, count);
            if let Target::File(path) = target {
                own.entry(path).or_default().add(*op, count);
                self.all.add(*op, count);
            }
        }
        for (path, amount) in own {
            let (all, processes) = self.files.entry(path.clone()).or_default();
            all.count.add(&amount.count, 1.0);
            all.read += amount.read;
            all.written += amount.written;
            *processes += 1;
        }
    }

    pub fn sum(&self) -> Sum {
        self.all.sum()
    }

    /// Returns every operation that any process ever called.
    pub fn operations<'t>(&self, totals: impl Iterator<Item = &'t Total>) -> Vec<OperationRow> {
        let mut all: BTreeMap<&'static str, Amount> = BTreeMap::new();
        for (name, amount) in totals.flat_map(|total| &total.by_op) {
            let sum = all.entry(name).or_default();
            sum.count.add(&amount.count, 1.0);
            sum.read += amount.read;
            sum.written += amount.written;
        }
        let recent = |name: &str| self.operations.get(name).map_or(Sum::default(), Amount::sum);
        all.iter()
            .map(|(name, total)| OperationRow { operation: name, sum: recent(name), total: total.sum() })
            .collect()
    }

    /// Returns the number of files, and the busiest files by each key.
    pub fn files(&self) -> (u64, Vec<FileRow>) {
        let mut rows: Vec<FileRow> = self
            .files
            .iter()
            .map(|(path, (amount, processes))| FileRow {
                path: path.to_string(),
                sum: amount.sum(),
                processes: *processes,
            })
            .collect();
        let touched = rows.len() as u64;
        let mut kept = rows.len().min(FILES_KEPT);
        if rows.len() > FILES_KEPT {
            // Move the files that lead by any key to the front.
            kept = 0;
            for order in [Order::Bytes, Order::Calls, Order::Time] {
                rows[kept..].sort_by(|a, b| b.sum.weight(order).total_cmp(&a.sum.weight(order)));
                kept += FILES_KEPT.min(rows.len() - kept);
            }
        }
        rows.truncate(kept);
        (touched, rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(calls: &[(Op, Option<&str>, f64, f64)]) -> Seen {
        let call = |&(op, file, calls, bytes): &(Op, Option<&str>, f64, f64)| {
            let target = file.map_or(Target::Other, |file| Target::File(file.into()));
            (op, target, Count { calls, bytes, failed: 0.0, ticks: calls * 1e9 })
        };
        Seen { is_exact: true, calls: calls.iter().map(call).collect(), ..Seen::default() }
    }

    #[test]
    fn what_goes_through_pipes_is_no_file_but_an_operation() {
        let seen =
            seen(&[(Op::READ, Some("/a"), 2.0, 10.0), (Op::READ, None, 5.0, 100.0), (Op::WRITE, Some("/b"), 1.0, 3.0)]);
        let (mut board, mut total) = (Board::default(), Total::default());
        board.add(&seen);
        total.add(&seen);
        let sum = board.sum();
        assert_eq!((sum.calls, sum.bytes_read, sum.bytes_written, sum.call_s), (3, 10, 3, 3.0));
        let operations = board.operations([&total].into_iter());
        let rows: Vec<_> = operations.iter().map(|row| (row.operation, row.sum.calls, row.total.calls)).collect();
        assert_eq!(rows, [("read", 7, 7), ("write", 1, 1)]);
        assert_eq!(total.row(Some(&seen)).sum, sum);
    }

    #[test]
    fn files_of_several_processes_are_one_and_the_busiest_are_kept() {
        let mut board = Board::default();
        board.add(&seen(&[(Op::READ, Some("/a"), 1.0, 1.0)]));
        board.add(&seen(&[(Op::READ, Some("/a"), 1.0, 1.0), (Op::OPEN, Some("/a"), 1.0, 0.0)]));
        for i in 0..1000 {
            board.add(&seen(&[(Op::READ, Some(&format!("/many/{i}")), 1.0, i as f64)]));
        }
        let (touched, files) = board.files();
        let a = files.iter().find(|row| row.path == "/a").expect("three calls are among the most");
        assert_eq!((touched, files.len(), a.sum.calls, a.processes), (1001, 3 * FILES_KEPT, 3, 2));
        assert!(files.iter().any(|row| row.path == "/many/999") && files.iter().all(|row| row.path != "/many/0"));
    }
}
