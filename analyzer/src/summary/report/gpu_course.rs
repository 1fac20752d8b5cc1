//! GPUs over time, in the columns of the timeline.

use serde::{Deserialize, Serialize};

use super::host_course::Columns;
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::devices::{DeviceSpans, Devices};
use crate::summary::time::intervals::Interval;
use crate::summary::training::{RankGroup, rank_groups};

/// A GPU of a trainer.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct GpuCourse {
    pub rank: Option<i32>,
    pub trainer: String,
    pub pid: i32,
    /// Its number, as the process counts its GPUs; `null` if the trace does not contain it.
    pub device: Option<i32>,
    /// Time in each column with kernels or copies, and with kernels of communication only.
    pub busy_ns: Vec<u64>,
    pub collective_ns: Vec<u64>,
}

/// The largest number of GPUs.
const GPUS_MAX: usize = 16;

/// Returns the GPUs of the trainers, in the order of the trainers.
pub fn gpus(analysis: &Analysis, trace: &Trace, columns: Columns) -> Vec<GpuCourse> {
    if analysis.counted.devices.work.is_empty() {
        return Vec::new();
    }
    let processes = trace.catalog.processes();
    let devices = Devices::new(&analysis.counted, processes.as_slice());
    let groups = rank_groups(&trace.catalog, analysis);
    let window = Interval { start: columns.start_ts, end: columns.start_ts + columns.width_ns * columns.count as i64 };
    let of_group = |group: &RankGroup| {
        let (rank, trainer, pid) = (group.rank, group.trainer.clone(), group.pid);
        let course = move |(device, spans): (Option<i32>, DeviceSpans)| GpuCourse {
            rank,
            trainer: trainer.clone(),
            pid,
            device,
            busy_ns: lengths(&spans.busy, columns),
            collective_ns: lengths(&spans.collectives, columns),
        };
        devices.spans(group.proc, window).into_iter().map(course)
    };
    groups.iter().flat_map(of_group).take(GPUS_MAX).collect()
}

/// Returns the length of disjoint intervals in each column.
fn lengths(list: &[Interval], columns: Columns) -> Vec<u64> {
    let mut sums = vec![0; columns.count];
    for interval in list {
        let (from, to) = (interval.start - columns.start_ts, interval.end - columns.start_ts);
        let first = (from.max(0) / columns.width_ns) as usize;
        let touched = ((to.max(0) / columns.width_ns + 1) as usize).saturating_sub(first);
        for (at, sum) in sums.iter_mut().enumerate().skip(first).take(touched) {
            let begin = at as i64 * columns.width_ns;
            *sum += (to.min(begin + columns.width_ns) - from.max(begin)).max(0) as u64;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_divided_among_the_columns_that_they_touch() {
        let columns = Columns { start_ts: 100, width_ns: 10, count: 3 };
        let list = [(90, 103), (108, 125), (128, 150)].map(|(start, end)| Interval { start, end });
        assert_eq!(lengths(&list, columns), [3 + 2, 10, 5 + 2]);
        assert_eq!(lengths(&[Interval { start: 110, end: 120 }], columns), [0, 10, 0]);
    }
}
