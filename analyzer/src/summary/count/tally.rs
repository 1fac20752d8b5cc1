//! Adds the counts that traced programs kept instead of events to the results, as far as counts allow.
//!
//! Counts, sums, minimums and maximums are as exact as those of events. Quantiles are from buckets, and unions of
//! intervals from intervals that may have been merged over short gaps, whose length is in the report.

use dlio_schemas::native::tally::Bin;
use dlio_schemas::ops::{Class, Layer};
use serde::{Deserialize, Serialize};

use super::counted::{self, Counted, FileCount, ProcessCount, ThreadCount, UpperLayerTotals, lengthen};
use super::kinds::{ABOVE, directions, is_io, is_library_call, opens};
use crate::catalog::{Catalog, FILE_NONE, Kind, Origin, span_class};
use crate::filter::{Filter, Sieve};
use crate::load::Trace;
use crate::load::sources::tally::{self, Busy, KindRow, KindShape, Precision, ProcessTally};
use crate::summary::time::intervals::{Interval, Lists, Set};

/// Columns of the activity chart of a run.
const COLUMNS: usize = 60;

/// The numbers that only tallies provide.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub struct Tally {
    pub processes: u64,
    /// Counted events; none of them is an individual row in the tables.
    pub events: u64,
    /// The part of these events that is in no result, because counts cannot be filtered that way.
    pub left_out: u64,
    /// Unions of intervals are inexact by gaps up to this long.
    pub gap_ns: u64,
    /// Counted calls of which only the sum of their times per file is known.
    #[serde(default)]
    pub untimed: u64,
    pub access: Vec<Access>,
    pub activity: Activity,
}

/// How the calls of a function accessed their files.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Access {
    pub name: String,
    /// Calls with a known position.
    pub calls: u64,
    /// Calls that started at or after the end of the previous one on their file.
    pub sequential: u64,
    /// Calls that started exactly there.
    pub consecutive: u64,
}

/// The activity, in time intervals of equal length.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub struct Activity {
    pub start_ts: i64,
    pub column_ns: i64,
    pub events: Vec<u64>,
    pub bytes_read: Vec<u64>,
    pub bytes_written: Vec<u64>,
    /// Time of calls, summed over threads.
    pub io_ns: Vec<u64>,
}

/// The tallies of a trace's processes that a filter accepts.
pub struct Tallies {
    taken: Vec<ProcessTally>,
    found: Option<Tally>,
}

impl Tallies {
    pub fn open(trace: &Trace, filter: &Filter, sieve: &Sieve) -> Tallies {
        let all = trace.sources.iter().filter_map(|source| source.tally(&trace.catalog));
        // Counts of another run are excluded.
        let of_run =
            |tally: &ProcessTally| trace.catalog.is_process(tally.proc, |process| filter.takes_run_of(process));
        let all: Vec<_> = all.filter(of_run).collect();
        let found = Tally {
            processes: all.len() as u64,
            events: all.iter().map(|tally| tally.events).sum(),
            ..Tally::default()
        };
        let found = (!all.is_empty()).then_some(found);
        let takes = |tally: &ProcessTally| !filter.asks_for_single_events() && sieve.takes_proc(tally.proc);
        Tallies { taken: all.into_iter().filter(takes).collect(), found }
    }

    /// Returns the intervals, which are known before those of individual events.
    pub fn intervals(&self) -> Lists {
        let mut lists = Lists::default();
        self.taken.iter().flat_map(|tally| &tally.busy).for_each(|busy| intervals(busy, &mut lists));
        lists
    }

    /// Adds everything else to the counts of events; returns `None` if there are no tallies.
    pub fn add_to(self, counted: &mut Counted, catalog: &Catalog) -> Option<Tally> {
        let mut found = self.found?;
        let kinds = catalog.kinds();
        for tally in &self.taken {
            TallyMerger { kinds: &kinds, counted, found: &mut found }.tally(tally);
        }
        found.left_out = found.events - self.taken.iter().map(|tally| tally.events).sum::<u64>();
        let untimed = self.taken.iter().filter(|tally| tally.precision == Precision::Means);
        found.untimed = untimed.map(|tally| tally.events).sum();
        found.gap_ns = self.taken.iter().flat_map(|tally| &tally.busy).map(|busy| busy.gap_ns).max().unwrap_or(0);
        found.activity = activity(&self.taken);
        Some(found)
    }
}

/// Returns the number of events that processes counted and did not record, among the processes that a filter accepts:
/// they have no rows.
pub fn unrecorded(trace: &Trace, filter: &Filter) -> u64 {
    let sieve = trace.sieve(filter);
    let tallies = trace.sources.iter().filter_map(|source| source.tally(&trace.catalog));
    tallies.filter(|tally| sieve.takes_proc(tally.proc)).map(|tally| tally.events).sum()
}

/// Adds busy intervals as a substitute for the exact ones: each as long as it was busy, from its start.
fn intervals(busy: &Busy, lists: &mut Lists) {
    let set = match &busy.category {
        None => Some(Set::Io),
        Some(category) => match span_class(category) {
            Class::Compute => Some(Set::Compute),
            Class::Read | Class::Write => Some(Set::AppIo),
            _ => None,
        },
    };
    if let Some(set) = set {
        let shortened = busy.intervals.iter().map(|&(start, _, length)| Interval { start, end: start + length });
        lists[set as usize].extend(shortened);
    }
}

struct TallyMerger<'a> {
    kinds: &'a [Kind],
    counted: &'a mut Counted,
    found: &'a mut Tally,
}

impl TallyMerger<'_> {
    fn tally(&mut self, tally: &ProcessTally) {
        let mut process = ProcessCount { events: tally.events, ..ProcessCount::default() };
        tally.rows.iter().for_each(|row| self.row(row, tally.proc, &mut process));
        // Older tables lack the process of a span, so it may have been any thread.
        let is_said = tally.threads.iter().any(|thread| !thread.categories.is_empty());
        let anybody = process.compute_ns > 0 && !is_said;
        let threads = tally.threads.iter().map(|thread| {
            let computes = anybody || thread.categories.iter().any(|cat| span_class(cat) == Class::Compute);
            let (events, does_io) = (thread.events, thread.does_io);
            (thread.tid, Box::new(ThreadCount { events, does_io, computes, ..ThreadCount::default() }))
        });
        process.threads = threads.collect();
        tally.shapes.iter().for_each(|shape| self.shape(shape, tally));
        lengthen(&mut self.counted.processes, tally.proc as usize + 1);
        self.counted.processes[tally.proc as usize].merge(process);
        self.course(tally);
    }

    fn course(&mut self, tally: &ProcessTally) {
        let tally::Activity { start_ts, bin_ns, ns_a_tick, bins } = &tally.activity;
        let width = *bin_ns as i64;
        self.counted.course.begin(tally.proc);
        for (bin, at) in bins.iter().zip(0i64..).filter(|(bin, _)| **bin != Bin::default()) {
            let start = start_ts.saturating_add(width.saturating_mul(at));
            let io_ns = ((bin.read_ticks + bin.write_ticks + bin.other_ticks) as f64 * ns_a_tick) as u64;
            let interval = Interval { start, end: start.saturating_add(width) };
            self.counted.course.add_sums(interval, [bin.bytes_read, bin.bytes_written, bin.events, io_ns, 0]);
        }
        self.counted.course.flush();
    }

    fn row(&mut self, row: &KindRow, proc: u32, process: &mut ProcessCount) {
        let kind = &self.kinds[row.kind as usize];
        let counts = &row.row;
        // Calls on sockets are not I/O on files, and those of libraries make file calls that are counted.
        let is_net = kind.origin == Origin::Call && *kind.cat == *Layer::Net.name() || is_library_call(kind);
        let (read, written) = directions(kind.class, if is_net { 0 } else { counts.bytes });
        lengthen(&mut self.counted.kinds, 2 * self.kinds.len());
        let of_kind = &mut self.counted.kinds[counted::row(row.kind, false) as usize];
        of_kind.failed += counts.failed;
        of_kind.sized += counts.sized;
        of_kind.bytes += counts.bytes as u128;
        process.first_ts = process.first_ts.min(row.first_ts);
        process.last_ts = process.last_ts.max(row.last_ts);
        process.failed += if kind.class == Class::Wait { 0 } else { counts.failed };
        if kind.origin == Origin::Call && *kind.cat == *ABOVE {
            let ns = directions(kind.class, row.time_ns);
            let events = matches!(kind.class, Class::Read | Class::Write) as u64 * counts.count;
            let more = UpperLayerTotals { bytes: (read, written), ns, events };
            return self.counted.add_above((row.file as u64) << 32 | proc as u64, more);
        }
        process.bytes_read += read;
        process.bytes_written += written;
        match kind.origin {
            Origin::Call if !is_net => process.time_ns[kind.class as usize] += row.time_ns,
            Origin::Span if kind.class == Class::Compute => process.compute_ns += row.time_ns,
            _ => {}
        }
        if kind.origin == Origin::Call && row.file != FILE_NONE && !is_library_call(kind) {
            self.file(row, kind, proc, (read, written));
            self.access(row, kind);
        }
    }

    fn file(&mut self, row: &KindRow, kind: &Kind, proc: u32, moved: (u64, u64)) {
        let counts = &row.row;
        let opened = kind.class == Class::Metadata && opens(&kind.name);
        lengthen(&mut self.counted.files, row.file as usize + 1);
        self.counted.files[row.file as usize].merge(&FileCount {
            events: if is_io(kind) { counts.count } else { 0 },
            opens: row.opens.unwrap_or(if opened { counts.count - counts.failed } else { 0 }),
            // As for events: starting a program is not I/O on its file, nor is waiting for a lock.
            time_ns: if is_io(kind) { row.time_ns } else { 0 },
            asked_ns: if kind.class == Class::Metadata { row.time_ns } else { 0 },
            bytes_read: moved.0,
            bytes_written: moved.1,
            first_ts: row.first_ts,
            last_ts: row.last_ts,
            size: counts.reached as i64,
        });
        let user = (row.file as u64) << 32 | proc as u64;
        self.counted.users.insert(user);
        if moved != (0, 0) {
            self.counted.movers.insert(user);
        }
    }

    fn access(&mut self, row: &KindRow, kind: &Kind) {
        let counts = &row.row;
        if counts.placed == 0 {
            return;
        }
        let at = self.found.access.iter().position(|access| *access.name == *kind.name).unwrap_or_else(|| {
            let fresh = Access { name: kind.name.to_string(), calls: 0, sequential: 0, consecutive: 0 };
            self.found.access.push(fresh);
            self.found.access.len() - 1
        });
        let access = &mut self.found.access[at];
        access.calls += counts.placed;
        access.sequential += counts.sequential;
        access.consecutive += counts.consecutive;
    }

    fn shape(&mut self, shape: &KindShape, tally: &ProcessTally) {
        let sum = tally.rows.iter().filter(|row| row.kind == shape.kind).map(|row| row.time_ns).sum();
        // A kind has one distribution, for calls on all objects.
        let row = counted::row(shape.kind, false);
        let durations = &mut self.counted.kinds[row as usize].durations;
        durations.add_steps(&shape.durations, sum, (shape.shortest_ns, shape.longest_ns));
        self.counted.sizes.add_steps(row, &shape.sizes);
    }
}

/// Returns the activity of all processes in columns of equal length.
fn activity(tallies: &[ProcessTally]) -> Activity {
    let used = || tallies.iter().filter(|tally| tally.events > 0).map(|tally| &tally.activity);
    let start_ts = used().map(|activity| activity.start_ts).min().unwrap_or(0);
    let end_ts = |bins: &tally::Activity| {
        let last = bins.bins.iter().rposition(|bin| *bin != Bin::default()).unwrap_or(0);
        bins.start_ts.saturating_add((bins.bin_ns as i64).saturating_mul(last as i64 + 1))
    };
    let end = used().map(end_ts).max().unwrap_or(start_ts);
    let mut columns = [Bin::default(); COLUMNS];
    let column_ns = (end.saturating_sub(start_ts) / COLUMNS as i64).max(1);
    for activity in used() {
        for (bin, i) in activity.bins.iter().zip(0i64..) {
            let middle = activity.start_ts - start_ts + (activity.bin_ns as i64).saturating_mul(2 * i + 1) / 2;
            let column = &mut columns[(middle / column_ns).clamp(0, COLUMNS as i64 - 1) as usize];
            column.events += bin.events;
            column.bytes_read += bin.bytes_read;
            column.bytes_written += bin.bytes_written;
            let share = |ticks: u64| (ticks as f64 * activity.ns_a_tick) as u64;
            column.read_ticks += share(bin.read_ticks + bin.write_ticks + bin.other_ticks);
        }
    }
    let column = |value: fn(&Bin) -> u64| columns.iter().map(value).collect();
    Activity {
        start_ts,
        column_ns,
        events: column(|bin| bin.events),
        bytes_read: column(|bin| bin.bytes_read),
        bytes_written: column(|bin| bin.bytes_written),
        io_ns: column(|bin| bin.read_ticks),
    }
}
