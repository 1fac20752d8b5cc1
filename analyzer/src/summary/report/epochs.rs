//! Comparison of epochs.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::{Section, Summary};
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::count::epochs::EpochCount;
use crate::summary::figures::units::{bytes, grouped, time};
use crate::summary::report::layout::{heading, more};
use crate::summary::time::bins::{Bins, before};
use crate::summary::time::intervals::Interval;
use crate::summary::time::time_series::{SUMS, Sum};
use crate::text_table::Grid;

/// One epoch, over all trainers.
#[derive(Serialize, Deserialize, Debug, Clone, Default)]
#[serde(default)]
pub struct EpochUse {
    pub epoch: i32,
    pub start_ts: i64,
    pub total_ns: i64,
    pub batches: u64,
    /// Summed over spans, so trainers add up.
    pub wait_ns: i64,
    pub compute_ns: i64,
    /// Time from its start until a trainer had its first batch.
    pub first_batch_ns: Option<i64>,
    /// Bytes read by any process during the epoch.
    pub bytes_read: u64,
}

/// The section on epochs.
pub struct Epochs;

impl Section for Epochs {
    type Values = Vec<EpochUse>;

    const MEANING: &'static str = "\
        Epochs: one row per epoch numbered by spans, from the first start to the last end of the spans with its \
        number. Waits for batches and compute are summed over its spans, and therefore over trainers. First batch: the \
        time from the start of the epoch until a trainer had a batch. Bytes read by any process during the epoch are \
        taken from the timeline's columns (1000 per run); bytes prefetched before the first epoch, between epochs or \
        after the last one belong to no epoch. An epoch that reads much less than the first one gets its data from \
        memory.";
    const FIELDS: &'static str = "\
        a list, one row per epoch numbered by spans (the lowest 4096): `epoch`, `start_ts`, `total_ns` (to the last \
        end of a span with its number), `batches`, `wait_ns` and `compute_ns` (summed over its spans), \
        `first_batch_ns` (until a trainer had one; `null` if no span waits for one), `bytes_read` (by any process \
        during the epoch; by timeline columns)";
    const SQL: Option<&'static str> = Some(include_str!("../../../sql/epochs.sql"));

    fn values(analysis: &Analysis, _trace: &Trace) -> Self::Values {
        let course = &analysis.counted.course.columns;
        let row = |(epoch, count): (i32, &EpochCount)| EpochUse {
            epoch,
            start_ts: count.start,
            total_ns: count.end.saturating_sub(count.start),
            batches: count.batches,
            wait_ns: count.wait_ns,
            compute_ns: count.compute_ns,
            first_batch_ns: count.first_batch_ts.map(|ts| ts.saturating_sub(count.start)),
            bytes_read: within(course, Interval { start: count.start, end: count.end }),
        };
        analysis.counted.epochs.iter().map(row).collect()
    }

    fn print(summary: &Summary, top: usize, out: &mut String) {
        if summary.epochs.is_empty() {
            return;
        }
        heading("Epochs", out);
        let mut grid = Grid::new(&["epoch", "took", "batches", "t(wait)", "t(compute)", "first batch", "read"]);
        for row in summary.epochs.iter().take(top) {
            let first = row.first_batch_ns.map_or("-".into(), |ns| time(ns as f64));
            let times = [row.wait_ns, row.compute_ns].map(|ns| time(ns as f64));
            let head = [row.epoch.to_string(), time(row.total_ns as f64), grouped(row.batches)];
            grid.row(head.into_iter().chain(times).chain([first, bytes(row.bytes_read as f64)]).collect());
        }
        grid.print(out);
        more(summary.epochs.len(), top, out);
        if let Some(note) = outside(summary) {
            let _ = writeln!(out, "  {note}");
        }
    }
}

/// Describes the time outside epochs, if it is significant.
fn outside(summary: &Summary) -> Option<String> {
    const WORTH: f64 = 0.01;
    let within: u64 = summary.epochs.iter().map(|row| row.bytes_read).sum();
    let all = summary.dataset.bytes_read;
    let is_worth = all.saturating_sub(within) as f64 > WORTH * all as f64;
    is_worth.then(|| {
        format!(
            "Epochs read {} of {}: bytes prefetched before the first epoch, between epochs or after the last one \
             belong to no epoch.",
            bytes(within as f64),
            bytes(all as f64)
        )
    })
}

/// Returns the bytes read in an interval; columns at its ends count in proportion.
fn within(course: &Bins<SUMS>, time: Interval) -> u64 {
    let Some(range) = course.range() else { return 0 };
    let shift = course.shift();
    let part = |(at, read): (i64, u64)| {
        let start = (range.0 + at) << shift;
        let column = Interval { start, end: start.saturating_add(1 << shift) };
        before(read, column, time.end) - before(read, column, time.start)
    };
    (0i64..).zip(course.column(Sum::Read as usize, shift, range)).map(part).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_at_the_ends_are_shared_out() {
        let mut course = Bins::<SUMS>::default();
        let mut add = |start: i64, read: u64| {
            let mut sums = [0; SUMS];
            sums[Sum::Read as usize] = read;
            course.add(Interval { start, end: start + 1024 }, sums);
        };
        add(0, 1000);
        add(1024, 600);
        add(2048, 80);
        let of = |start, end| within(&course, Interval { start, end });
        assert_eq!((of(0, 3072), of(512, 1024), of(512, 2048), of(5000, 6000)), (1680, 500, 1100, 0));
    }
}
