//! The timeline, in time columns of equal width.

use serde::{Deserialize, Serialize};

use super::{Section, Summary};
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::figures::units::{bytes, time};
use crate::summary::groups::lanes::Track;
use crate::summary::report::gpu_course::{GpuCourse, gpus};
use crate::summary::report::host_course::{self, Columns, HostCourse};
use crate::summary::report::layout::{bars, heading, pairs};
use crate::summary::report::wait_pieces::{TrainerPieces, pieces};
use crate::summary::time::bins::Bins;
use crate::summary::time::intervals::{Interval, Set};
use crate::summary::time::time_series::{LATENCIES, Sum, latency_at};
use crate::summary::tree::LaneId;

/// The section on the timeline. Every list has one element per column.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct Timeline {
    /// The start of the first column, which precedes the first event by less than a column.
    pub start_ts: i64,
    pub column_ns: i64,
    pub bytes_read: Vec<u64>,
    pub bytes_written: Vec<u64>,
    /// File calls.
    pub calls: Vec<u64>,
    /// Time of file calls, summed over threads.
    pub io_ns: Vec<u64>,
    /// Time with at least one call on a file in progress.
    pub busy_ns: Vec<u64>,
    /// Time in which at least one process computed; `null` if no span shows compute.
    pub compute_ns: Option<Vec<u64>>,
    /// Time that trainers waited for batches, summed over trainers; `null` if there is no sign of a training run.
    pub waited_ns: Option<Vec<u64>>,
    pub checkpoint_ns: Option<Vec<u64>>,
    /// Median and 99th percentile of the duration of calls that ended in the column; 0 if there were none.
    pub latency_p50_ns: Vec<u64>,
    pub latency_p99_ns: Vec<u64>,
    /// The individual waits of the trainers that waited longest.
    pub waits: Vec<TrainerPieces>,
    /// Sampled counters of the hosts.
    pub hosts: Vec<HostCourse>,
    /// GPUs of trainers. Without one, the field is absent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuCourse>,
}

/// The largest number of columns.
const COLUMNS: i64 = 1000;

impl Section for Timeline {
    type Values = Self;

    const MEANING: &'static str = "\
        Timeline: activity over time, in at most 1000 columns of equal width. A call's bytes and time are spread \
        evenly over the columns it covers; calls count in the column where they end. The columns add up to the bytes \
        that processes read and wrote, except that MPI-IO calls count the bytes of the calls beneath them. Time in \
        calls is summed over threads, so divided by the width it is the number of calls in flight; busy is the time \
        in which at least one call was active. Computing: the time in which at least one process computed. Waiting: waits of trainers, summed \
        over trainers; inferred waits are the idle time of the trainer's first thread from the start to the end of \
        its training. Latency: median and 99th percentile of the calls that end in a column, within 20 %.";
    const FIELDS: &'static str = "\
        `start_ts` and `column_ns` of columns of equal width, and by column `bytes_read`, `bytes_written`, `calls`, \
        `io_ns` (summed over calls), `busy_ns` (at least one file call active), `compute_ns` (at least one span \
        of compute; `null` if there are none), `waited_ns` and `checkpoint_ns` (summed over trainers; `null` if \
        unknown), `latency_p50_ns` and `latency_p99_ns` (of the calls that ended in it; 0 if none did); `waits` of \
        the four trainers that waited longest, each a list of groups of waits within a thousandth of the run \
        (`start_ts`, `end_ts`, `waits`, `wait_ns`, `causes`; `kind` and `made_by` of the longest); `hosts`, at most \
        four that were sampled: `host`, `cores`, and by column `cpu_busy_ns` (summed over CPUs), `throttled_ns` (of \
        the control group), `refaults`, and of the three `devices` with the most bytes `device`, `read_bytes`, \
        `write_bytes` and `busy_ns` (growth between samples, spread evenly; `null` without samples); `gpus` of the trainers, \
        at most 16 (absent if no GPU was timed): `rank`, `trainer`, `pid`, `device`, and by column `busy_ns` (kernels and \
        copies; upper bounds without kernels) and `collective_ns` (only kernels of communication)";

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        let Some(grid) = Grid::of(analysis, COLUMNS) else { return Timeline::default() };
        let course = &analysis.counted.course.columns;
        let (bands, lanes) = (&analysis.measured.bands, &analysis.measured.lane_bands);
        let of = |sum: Sum| grid.column(course, sum as usize);
        let some = |column: Vec<u64>| column.iter().any(|value| *value > 0).then_some(column);
        let waited = some(grid.column(lanes, Track::Wait as usize));
        Timeline {
            start_ts: grid.start_ts(),
            column_ns: grid.width(),
            bytes_read: of(Sum::Read),
            bytes_written: of(Sum::Written),
            calls: of(Sum::Calls),
            io_ns: of(Sum::Io),
            busy_ns: grid.column(bands, Set::Io as usize),
            compute_ns: some(grid.column(bands, Set::Compute as usize)),
            waited_ns: waited.or_else(|| some(inferred(analysis, trace, &grid))),
            checkpoint_ns: some(grid.column(lanes, Track::Save as usize)),
            latency_p50_ns: grid.latency(analysis, 0.5),
            latency_p99_ns: grid.latency(analysis, 0.99),
            waits: analysis
                .bounds()
                .map_or_else(Vec::new, |bounds| pieces(&analysis.measured.waits, &trace.catalog.processes(), bounds)),
            hosts: host_course::hosts(trace, grid.columns()),
            gpus: gpus(analysis, trace, grid.columns()),
        }
    }

    fn print(summary: &Summary, _top: usize, out: &mut String) {
        let line = &summary.timeline;
        if line.calls.is_empty() {
            return;
        }
        heading("Timeline", out);
        let width = line.column_ns * line.calls.len() as i64;
        let mut rows = vec![(
            "time",
            format!("{} in total, {} per character", time(width as f64), time(width as f64 / SHOWN as f64)),
        )];
        for (name, column) in [("read", &line.bytes_read), ("written", &line.bytes_written)] {
            let columns = gathered(column);
            if let Some(most) = columns.iter().max().filter(|most| **most > 0) {
                let rate = *most as f64 * 1e9 / (width as f64 / SHOWN as f64);
                rows.push((name, format!("|{}| to {}/s", bars(&columns), bytes(rate))));
            }
        }
        let parts =
            [("computing", &line.compute_ns), ("waiting", &line.waited_ns), ("checkpoints", &line.checkpoint_ns)];
        for (name, column) in parts {
            if let Some(column) = column {
                rows.push((name, format!("|{}|", bars(&gathered(column)))));
            }
        }
        pairs(&rows, out);
    }
}

/// The number of characters in a line of bars.
const SHOWN: usize = 60;

/// Merges columns to the width of a character.
fn gathered(column: &[u64]) -> Vec<u64> {
    let mut wide = vec![0; SHOWN];
    for (at, value) in column.iter().enumerate() {
        wide[at * SHOWN / column.len()] += value;
    }
    wide
}

/// The time columns of a run, wide enough to cover everything that was counted.
pub(super) struct Grid {
    shift: u32,
    range: (i64, i64),
}

impl Grid {
    fn of(analysis: &Analysis, most: i64) -> Option<Grid> {
        let course = &analysis.counted.course.columns;
        let (start, end) = analysis.bounds()?;
        let width = |bins: &Bins<_>| bins.shift();
        let mut shift = course.shift().max(width(&analysis.measured.bands)).max(analysis.measured.lane_bands.shift());
        let range = |shift: u32| {
            let (first, last) = (start >> shift, end.saturating_sub(1).max(start) >> shift);
            let own = course.range().map(|(first, last)| {
                let more = shift - course.shift();
                (first >> more, last >> more)
            });
            own.map_or((first, last), |own| (first.min(own.0), last.max(own.1)))
        };
        while range(shift).1 - range(shift).0 >= most {
            shift += 1;
        }
        Some(Grid { shift, range: range(shift) })
    }

    fn column<const N: usize>(&self, bins: &Bins<N>, sum: usize) -> Vec<u64> {
        let mut bins = bins.clone();
        bins.widen_to(self.shift);
        bins.column(sum, self.shift, self.range)
    }

    /// Returns a quantile of call durations per column.
    fn latency(&self, analysis: &Analysis, part: f64) -> Vec<u64> {
        let mut bins = analysis.counted.course.latencies.clone();
        bins.widen_to(self.shift);
        let counts: Vec<Vec<u64>> = (0..LATENCIES).map(|bucket| bins.column(bucket, self.shift, self.range)).collect();
        let of = |at: usize| counts.iter().map(|bucket| bucket[at]).collect::<Vec<_>>();
        let columns = (self.range.1 - self.range.0 + 1) as usize;
        (0..columns).map(|at| latency_at(&of(at), part).unwrap_or(0.0) as u64).collect()
    }

    fn columns(&self) -> Columns {
        let count = (self.range.1 - self.range.0 + 1) as usize;
        Columns { start_ts: self.start_ts(), width_ns: self.width(), count }
    }

    fn start_ts(&self) -> i64 {
        self.range.0 << self.shift
    }

    fn width(&self) -> i64 {
        1 << self.shift
    }
}

/// Estimates the wait without spans: the idle time of trainers between the start and the end of their training.
fn inferred(analysis: &Analysis, trace: &Trace, grid: &Grid) -> Vec<u64> {
    let mut sum = grid.column(&Bins::<1>::default(), 0);
    for group in super::training::Training::values(analysis, trace).iter().filter(|group| group.inferred) {
        let lane = LaneId { proc: group.proc, tid: group.pid };
        let Some(idle) = analysis.measured.idle.get(&lane) else { continue };
        let trained = Interval { start: group.start_ts, end: group.start_ts + group.trained_ns };
        for (at, ns) in grid.column(idle, 0).into_iter().enumerate() {
            let start = grid.start_ts() + at as i64 * grid.width();
            let within = trained.end.min(start + grid.width()) - trained.start.max(start);
            sum[at] += ns.min(within.max(0) as u64);
        }
    }
    sum
}
