//! Runs that lie in one folder: which processes ran together.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::{Section, Summary};
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::groups::tree::{above, parents};
use crate::summary::layout::heading;
use crate::summary::units::{many, moment, time};

/// Processes that ran together.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    pub start_ts: i64,
    pub end_ts: i64,
    /// Program images.
    pub processes: u64,
}

/// See the module.
pub struct Runs;

impl Section for Runs {
    type Values = Vec<Run>;

    const MEANING: &'static str = "\
        Runs: trees of processes that overlap in time, or that one parent started within a second. Where a \
        folder holds several they are counted together, unless --run chooses one.";
    const FIELDS: &'static str = "\
        a list: `start_ts`, `end_ts`, `processes` (program images) of the runs that lie in one folder and are \
        counted together; empty with filters, and where that is not known before reading";

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        if analysis.filter.is_empty() { runs(trace) } else { Vec::new() }
    }

    fn print(summary: &Summary, top: usize, out: &mut String) {
        if summary.runs.len() < 2 {
            return;
        }
        heading("Runs", out);
        for (run, number) in summary.runs.iter().zip(1..).take(top) {
            let (length, processes) =
                (time((run.end_ts - run.start_ts) as f64), many(run.processes, "program", "programs"));
            let _ = writeln!(out, "  {number}  {}, {length}, {processes}", moment(run.start_ts));
        }
    }
}

/// Trees of processes that one parent started less than this apart belong together: a script's commands, one after another.
const PAUSE_NS: i64 = 1_000_000_000;

/// A tree of processes: who started its first one, and when it ran.
struct Tree {
    parent: Option<i32>,
    start_ts: i64,
    end_ts: i64,
    processes: u64,
}

/// The runs of a trace, earliest first; none where that is not known before it is read.
pub fn runs(trace: &Trace) -> Vec<Run> {
    if !trace.sources.iter().all(|source| source.knows_processes()) {
        return Vec::new();
    }
    let mut runs: Vec<(Run, Option<i32>)> = Vec::new();
    for tree in trees(trace) {
        match runs.last_mut() {
            Some((run, parent)) if tree.start_ts <= run.end_ts + pause(*parent == tree.parent) => {
                run.end_ts = run.end_ts.max(tree.end_ts);
                run.processes += tree.processes;
            }
            _ => {
                let Tree { start_ts, end_ts, processes, parent } = tree;
                runs.push((Run { start_ts, end_ts, processes }, parent));
            }
        }
    }
    runs.into_iter().map(|(run, _)| run).collect()
}

fn pause(of_one_parent: bool) -> i64 {
    if of_one_parent { PAUSE_NS } else { 0 }
}

/// In order of their start.
fn trees(trace: &Trace) -> Vec<Tree> {
    let processes = trace.catalog.processes();
    let parents = parents(&processes);
    let mut ends: BTreeMap<u32, i64> = BTreeMap::new();
    let dated = trace.units.iter().filter(|unit| unit.last_end != i64::MAX);
    for (proc, unit) in dated.filter_map(|unit| Some((unit.proc?, unit))) {
        let end = ends.entry(proc).or_insert(i64::MIN);
        *end = unit.last_end.max(*end);
    }
    let mut trees: BTreeMap<(u32, i32, i64), Tree> = BTreeMap::new();
    for (proc, process) in (0u32..).zip(&processes) {
        let Some(start_ts) = process.start_ts else { continue };
        let root = &processes[above(&parents, proc).last().copied().unwrap_or(proc) as usize];
        // An exec keeps host, process id and start.
        let key = (root.host, root.pid, root.start_ts.unwrap_or(start_ts));
        let fresh = Tree { parent: root.ppid, start_ts, end_ts: start_ts, processes: 0 };
        let tree = trees.entry(key).or_insert(fresh);
        let last = ends.get(&proc).copied().unwrap_or(start_ts);
        tree.start_ts = tree.start_ts.min(start_ts);
        tree.end_ts = tree.end_ts.max(process.end_ts.unwrap_or(last)).max(last);
        tree.processes += 1;
    }
    let mut trees: Vec<_> = trees.into_values().collect();
    trees.sort_by_key(|tree| tree.start_ts);
    trees
}
