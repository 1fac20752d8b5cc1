//! The table of times on the first screen: the run, its phases, and the parts of the training.

use super::Summary;
use super::verdict::training_waits;
use crate::summary::figures::units::{grouped, many};
use crate::summary::training::{RankGroup, told};
use crate::summary::wording::Wording;

/// A time, and the wholes that contain it. A sum that may exceed a whole is not a part of it.
pub struct TimeRow {
    pub name: String,
    pub ns: i64,
    pub run: Option<i64>,
    pub training: Option<i64>,
}

/// Phases and parts below this share of their whole do not get a row.
const WORTH: i64 = 100;

/// Returns the rows of a report.
pub fn rows(summary: &Summary) -> Vec<TimeRow> {
    let spent = &summary.time;
    let of_run = |name: &str, ns: i64| TimeRow { name: name.into(), ns, run: Some(spent.total_ns), training: None };
    let mut rows = vec![of_run("whole run", spent.total_ns)];
    rows.extend(trained(summary));
    let io = spent.io_ns.filter(|_| summary.knows_calls() && summary.knows_times());
    rows.extend(io.map(|ns| of_run("file I/O", ns)));
    if summary.training.is_empty() {
        rows.extend(spent.compute_ns.map(|ns| of_run("compute", ns)));
        let saved = summary.checkpoints.span_ns as i64;
        let spans = many(summary.checkpoints.spans, "span", "spans");
        rows.extend((saved > 0).then(|| match saved <= spent.total_ns {
            true => of_run(&format!("checkpoints, {spans}"), saved),
            false => TimeRow { run: None, ..of_run(&format!("checkpoints, summed over {spans}"), saved) },
        }));
    }
    rows
}

/// Returns means over trainers: the phases of the run, which add up to it, and the parts of the training.
fn trained(summary: &Summary) -> Vec<TimeRow> {
    let waits = training_waits(summary);
    // If most trainers wait for one, the sentences are about that one.
    let groups = match waits.as_ref().map(|waits| waits.groups.as_slice()) {
        Some([one]) => vec![*one],
        _ => told(&summary.training),
    };
    let sum = |of: fn(&RankGroup) -> Option<i64>| groups.iter().map(|group| of(group)).sum::<Option<i64>>();
    let trained: i64 = groups.iter().map(|group| group.trained_ns).sum();
    if trained == 0 {
        return Vec::new();
    }
    let (ranks, run) = (groups.len() as i64, summary.time.total_ns);
    let training = trained / ranks;
    let part =
        |name: &str, sum: i64| TimeRow { name: name.into(), ns: sum / ranks, run: Some(run), training: Some(training) };
    let phase = |name: &str, sum: i64| TimeRow { training: None, ..part(name, sum) };
    let wording = Wording::of(groups.iter().copied());
    let over = match ranks {
        1 if summary.training.len() > 1 => groups[0].rank.map_or(String::new(), |rank| format!(", rank {rank}")),
        1 => String::new(),
        ranks => format!(", mean of {} {}", grouped(ranks as u64), wording.processes()),
    };
    let [before, after] = around(summary, &groups);
    let name = wording.row();
    let is_worth = |ns: &i64| *ns > trained / WORTH;
    let is_worth_a_phase = |ns: &i64| *ns > ranks * run / WORTH;
    // Communication during compute is not a part that adds up to the whole.
    let stood = |group: &RankGroup| group.held_ns.map(|_| group.communicated_ns);
    let communicated: Option<i64> = groups.iter().map(|group| stood(group)).sum();
    let starting: i64 = groups.iter().filter_map(|group| group.wait_start_ns).sum();
    let written: i64 = groups.iter().filter_map(|group| group.written_ns).sum();
    let others = |of: fn(&RankGroup) -> Option<i64>| groups.iter().filter_map(|group| of(group)).sum::<i64>();
    let worth = |name: &str, ns: i64| is_worth(&ns).then(|| part(name, ns));
    let rows = [
        before.filter(is_worth_a_phase).map(|ns| phase(&format!("before {}", wording.noun()), ns)),
        Some(part(&format!("{name}{over}"), trained)),
        sum(|group| group.waited_ns).map(|ns| part(&format!("  waiting for {}", wording.items()), ns)),
        worth("    readers starting or ending", starting),
        worth("  waiting for own work", others(|group| group.own_work_ns)),
        worth("  waiting for locks", others(|group| group.lock_wait_ns)),
        worth("  waiting for the GIL", others(|group| group.own_gil_ns)),
        worth("  waiting for peers", others(|group| group.peer_wait_ns)),
        worth("  waiting, unknown", others(|group| group.unknown_wait_ns)),
        sum(|group| group.computed_ns).map(|ns| part("  computing", ns)),
        communicated.and_then(|ns| worth("  waiting for each other", ns)),
        worth("  writing files", written),
        after.filter(is_worth_a_phase).map(|ns| phase(&format!("after {}", wording.noun()), ns)),
    ];
    let mut rows: Vec<TimeRow> = rows.into_iter().flatten().collect();
    // Checkpoints may be written during the training or after it, so they do not add up with the other parts.
    let saved = others(|group| group.checkpoint_ns);
    rows.extend((saved > 0).then(|| phase("checkpoints", saved)));
    rows
}

/// Returns the time of the run before each training and after it, summed over trainers. `None` if the selection of
/// events cuts trainings off.
fn around(summary: &Summary, groups: &[&RankGroup]) -> [Option<i64>; 2] {
    let (start, end) = (summary.time.start_ts, summary.time.end_ts);
    let sum = |of: &dyn Fn(&RankGroup) -> i64| {
        let each: Vec<i64> = groups.iter().map(|group| of(group)).collect();
        each.iter().all(|ns| *ns >= 0).then(|| each.iter().sum())
    };
    [sum(&|group| group.start_ts - start), sum(&|group| end - group.start_ts - group.trained_ns)]
}
