//! Runs that lie in one folder: which processes ran together.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::{Section, Summary};
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::figures::units::{many, moment, time};
use crate::summary::report::layout::heading;
use crate::summary::tree::{above, parents};

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
        Runs: processes of one command of dlio trace, and trees of processes that overlap in time, or that one \
        parent started within a second. Where a folder holds several they are counted together, unless --run \
        chooses one.";
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

/// A tree of processes: who started its first one, of which traced command it is, and when it ran.
#[derive(Clone, Default)]
struct Tree {
    parent: Option<i32>,
    command: Option<String>,
    start_ts: i64,
    end_ts: i64,
    processes: u64,
}

/// The runs of a trace, earliest first; none where that is not known before it is read.
pub fn runs(trace: &Trace) -> Vec<Run> {
    if !trace.sources.iter().all(|source| source.knows_processes()) {
        return Vec::new();
    }
    united(of_commands(trees(trace)))
}

/// Trees of one traced command are one, however much time lies between them: a daemon's parents end before it begins.
fn of_commands(trees: Vec<Tree>) -> Vec<Tree> {
    let (mut commands, mut all): (BTreeMap<String, Tree>, Vec<Tree>) = Default::default();
    for tree in trees {
        match tree.command.clone() {
            None => all.push(tree),
            Some(command) => match commands.get_mut(&command) {
                None => _ = commands.insert(command, tree),
                Some(before) => {
                    before.start_ts = before.start_ts.min(tree.start_ts);
                    before.end_ts = before.end_ts.max(tree.end_ts);
                    before.processes += tree.processes;
                }
            },
        }
    }
    all.extend(commands.into_values());
    all.sort_by_key(|tree| tree.start_ts);
    all
}

/// Trees that overlap, or follow each other closely where nothing says that they are of several commands.
fn united(trees: Vec<Tree>) -> Vec<Run> {
    let mut runs: Vec<(Run, Tree)> = Vec::new();
    for tree in trees {
        match runs.last_mut() {
            Some((run, last)) if tree.start_ts <= run.end_ts + pause(last, &tree) => {
                run.end_ts = run.end_ts.max(tree.end_ts);
                run.processes += tree.processes;
            }
            _ => {
                let Tree { start_ts, end_ts, processes, .. } = tree;
                runs.push((Run { start_ts, end_ts, processes }, tree));
            }
        }
    }
    runs.into_iter().map(|(run, _)| run).collect()
}

/// The process that takes those whose parent has ended.
const INIT: i32 = 1;

/// The time that may lie between two trees of one run.
fn pause(before: &Tree, after: &Tree) -> i64 {
    let is_close = before.parent == after.parent || after.parent == Some(INIT);
    let is_told = before.command.is_some() && after.command.is_some();
    if is_close && !is_told { PAUSE_NS } else { 0 }
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
        let fresh = Tree { parent: root.ppid, start_ts, end_ts: start_ts, ..Tree::default() };
        let tree = trees.entry(key).or_insert(fresh);
        tree.command = tree.command.take().or_else(|| process.run.clone());
        let last = ends.get(&proc).copied().unwrap_or(start_ts);
        tree.start_ts = tree.start_ts.min(start_ts);
        tree.end_ts = tree.end_ts.max(process.end_ts.unwrap_or(last)).max(last);
        tree.processes += 1;
    }
    let mut trees: Vec<_> = trees.into_values().collect();
    trees.sort_by_key(|tree| tree.start_ts);
    trees
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn tree(parent: i32, command: &str, start: i64, end: i64) -> Tree {
        let command = Some(command.to_string()).filter(|command| !command.is_empty());
        Tree { parent: Some(parent), command, start_ts: start * SECOND / 10, end_ts: end * SECOND / 10, processes: 1 }
    }

    /// The number of processes of each run.
    fn told(trees: &[Tree]) -> Vec<u64> {
        united(of_commands(trees.to_vec())).iter().map(|run| run.processes).collect()
    }

    #[test]
    fn a_traced_command_is_one_run_and_two_are_two() {
        // A daemon began after the process that was traced had ended, and long after.
        assert_eq!(told(&[tree(7, "a", 0, 1), tree(9, "a", 2, 50)]), [2]);
        assert_eq!(told(&[tree(7, "a", 0, 1), tree(1, "a", 90, 99)]), [2]);
        // Two commands, one after the other, even of one parent.
        assert_eq!(told(&[tree(7, "a", 0, 1), tree(7, "b", 2, 3)]), [1, 1]);
        assert_eq!(told(&[tree(7, "a", 0, 1), tree(1, "b", 2, 3), tree(1, "b", 9, 10)]), [1, 2]);
        // Ranks, each started by a command of its own.
        assert_eq!(told(&[tree(7, "a", 0, 9), tree(8, "b", 1, 9), tree(9, "c", 8, 12)]), [3]);
    }

    #[test]
    fn where_no_command_is_told_what_follows_closely_is_one() {
        assert_eq!(told(&[tree(7, "", 0, 1), tree(7, "", 2, 3), tree(8, "", 4, 5)]), [2, 1]);
        // Whose parent has ended may be a daemon of what was just there.
        assert_eq!(told(&[tree(7, "", 0, 1), tree(1, "", 2, 3), tree(1, "", 20, 30)]), [2, 1]);
    }
}
