//! How each trainer spent its steps.

use serde::{Deserialize, Serialize};

use super::{Section, Summary};
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::figures::units::{grouped, share, time};
use crate::summary::groups::steps::{CHECKPOINT, COMMUNICATION, COMPUTE, Column, IO, WAIT};
use crate::summary::report::layout::{heading, more};
use crate::summary::training::rank_groups;
use crate::summary::tree::LaneId;
use crate::text_table::Grid;

/// The steps of one trainer.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub struct StepUse {
    /// Key into the table of processes.
    pub proc: u32,
    pub rank: Option<i32>,
    pub trainer: String,
    /// The sum of all steps.
    pub sum: StepPart,
    pub median_ns: f64,
    pub readers: u64,
    /// The largest share of all waiting in the steps of one turn, if readers take turns; `null` if there are too many
    /// readers.
    pub largest_turn: Option<f64>,
    /// Columns with equal numbers of steps, in order of time.
    pub columns: Vec<StepPart>,
}

/// Consecutive steps. The parts add up to the whole.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, Default, PartialEq)]
#[serde(default)]
pub struct StepPart {
    pub steps: u64,
    pub start_ts: i64,
    pub total_ns: i64,
    pub compute_ns: i64,
    pub communication_ns: i64,
    pub checkpoint_ns: i64,
    pub wait_ns: i64,
    pub io_ns: i64,
    pub other_ns: i64,
    pub shortest_ns: i64,
    pub longest_ns: i64,
}

impl StepPart {
    fn of(column: &Column) -> StepPart {
        let parts = column.parts;
        StepPart {
            steps: column.steps,
            start_ts: column.start_ts,
            total_ns: column.total_ns,
            compute_ns: parts[COMPUTE],
            communication_ns: parts[COMMUNICATION],
            checkpoint_ns: parts[CHECKPOINT],
            wait_ns: parts[WAIT],
            io_ns: parts[IO],
            other_ns: column.total_ns - parts.iter().sum::<i64>(),
            shortest_ns: column.shortest_ns,
            longest_ns: column.longest_ns,
        }
    }
}

/// The number of trainers with columns: those that waited most. With thousands of trainers, columns would dominate the
/// report.
const WITH_COLUMNS: usize = 8;

fn keep_columns(rows: &mut [StepUse]) {
    let mut waits: Vec<_> =
        rows.iter().zip(0usize..).map(|(row, at)| (std::cmp::Reverse(row.sum.wait_ns), at)).collect();
    waits.sort_unstable();
    waits.iter().skip(WITH_COLUMNS).for_each(|&(_, at)| rows[at].columns.clear());
}

/// The section on steps.
pub struct Steps;

impl Section for Steps {
    type Values = Vec<StepUse>;

    const MEANING: &'static str = "\
        Steps: a step lasts from the start of a wait for a batch to the start of the next one, in the training thread; \
        the last step ends with the thread's last span. Each instant counts for the first of these that was active in \
        that thread: compute, communication (spans whose category begins with comm), checkpoint, wait for data, other \
        I/O; the rest is other. The parts add up to the step. Without spans that show waits, steps are not measured. \
        In JSON, each of at most 500 columns contains the same number of steps, for the eight trainers that waited \
        most; shortest and longest are single steps.";
    const FIELDS: &'static str = "\
        a list, one row per trainer whose spans show when it waits for batches: `proc`, `rank`, `trainer`, `sum` (of \
        all steps: `steps`, `start_ts`, `total_ns`, and its parts `compute_ns`, `communication_ns`, `checkpoint_ns`, \
        `wait_ns`, `io_ns`, `other_ns`; `shortest_ns`, `longest_ns` of single steps), `median_ns` (within 0.4 %), \
        `readers` (at the same time), `largest_turn` (the largest share of all waiting that falls on every n-th step, \
        where n is the number of readers), `columns` (a list of at most 500, each as `sum`; for the eight trainers \
        that waited most, otherwise empty)";

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        let groups = rank_groups(&trace.catalog, analysis);
        let row = |group: crate::summary::training::RankGroup| {
            let readers = group.readers_at_once();
            let steps = &analysis.measured.lanes.get(&LaneId { proc: group.proc, tid: group.tid })?.steps;
            Some(StepUse {
                proc: group.proc,
                rank: group.rank,
                trainer: group.trainer,
                sum: StepPart::of(&steps.sum()?),
                median_ns: steps.lengths.quantiles()?.median,
                readers: readers as u64,
                largest_turn: steps.largest_turn(readers),
                columns: steps.columns().iter().map(StepPart::of).collect(),
            })
        };
        let mut rows: Vec<_> = groups.into_iter().filter_map(row).collect();
        keep_columns(&mut rows);
        rows
    }

    fn print(summary: &Summary, top: usize, out: &mut String) {
        if summary.steps.is_empty() {
            return;
        }
        heading("Steps", out);
        let heads =
            ["<trainer", "rank", "steps", "median", "compute", "communication", "checkpoint", "wait", "I/O", "other"];
        let mut grid = Grid::new(&heads);
        for row in summary.steps.iter().take(top) {
            let sum = &row.sum;
            let parts = [sum.compute_ns, sum.communication_ns, sum.checkpoint_ns, sum.wait_ns, sum.io_ns, sum.other_ns];
            let rank = row.rank.map_or("-".into(), |rank| rank.to_string());
            let head = [row.trainer.clone(), rank, grouped(sum.steps), time(row.median_ns)];
            grid.row(head.into_iter().chain(parts.map(|part| share(part, sum.total_ns))).collect());
        }
        grid.print(out);
        more(summary.steps.len(), top, out);
        out.push_str(
            "  Shares are of the time of the steps; a wait during which its thread computed counts as \
            compute.\n",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_told_of_those_that_waited_most() {
        let row = |wait_ns: i64| StepUse {
            proc: 0,
            rank: None,
            trainer: String::new(),
            sum: StepPart { wait_ns, ..StepPart::default() },
            median_ns: 0.0,
            readers: 0,
            largest_turn: None,
            columns: vec![StepPart::default()],
        };
        let mut rows: Vec<_> = (0..20).map(|at| row(at * 7 % 20)).collect();
        keep_columns(&mut rows);
        let mut told: Vec<_> = rows.iter().filter(|row| !row.columns.is_empty()).map(|row| row.sum.wait_ns).collect();
        told.sort_unstable();
        assert_eq!(told, (12..20).collect::<Vec<_>>());
    }
}
