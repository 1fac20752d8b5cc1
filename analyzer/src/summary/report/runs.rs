//! The runs in one directory: which processes ran together.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::{Section, Summary};
use crate::filter::Filter;
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::figures::units::{grouped, many, moment, time};
use crate::summary::report::layout::heading;
use crate::summary::tree::{above, parents};

/// Processes that ran together.
#[derive(Serialize, Deserialize, Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Run {
    pub start_ts: i64,
    pub end_ts: i64,
    /// The number of process images.
    pub processes: u64,
    /// `true` if the report covers this run.
    #[serde(default)]
    pub reported: bool,
    /// The number of jobs, as numbered by a batch system; zero if unknown.
    #[serde(default)]
    pub jobs: u64,
    /// How far apart the processes of its hosts ran, by their clocks; zero if they overlap.
    #[serde(default)]
    pub apart_ns: i64,
}

/// The section on runs.
pub struct Runs;

impl Section for Runs {
    type Values = Vec<Run>;

    const MEANING: &'static str = "\
        Runs: a run is the processes of one dlio trace command, or process trees that overlap in time or were started \
        by one parent within a second. The ranks of a job are one run even if the clocks of their hosts differ. If a \
        directory contains several runs, the report covers the last one. --run N selects another, --run all combines \
        them.";
    const FIELDS: &'static str = "\
        a list of the runs in one directory: `start_ts`, `end_ts`, `processes` (program images), `reported` (whether \
        the report covers this run: one, or with `--run all` each), `jobs` (of a batch system; 0 if unknown), \
        `apart_ns` (how far apart the processes of its hosts ran, by their clocks; 0 if they overlap); empty if \
        processes or times were selected without a run, and if runs are not known before reading";

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        let filter = &analysis.filter;
        let is_known = filter.run.is_some() || filter.is_empty();
        let reported = |run: Run| Run { reported: is_of(&run, filter), ..run };
        if is_known { runs(trace).into_iter().map(reported).collect() } else { Vec::new() }
    }

    fn print(summary: &Summary, top: usize, out: &mut String) {
        if summary.runs.len() < 2 {
            return;
        }
        heading("Runs", out);
        for (run, number) in summary.runs.iter().zip(1..).take(top) {
            let (length, processes) =
                (time((run.end_ts - run.start_ts) as f64), many(run.processes, "program", "programs"));
            let mark = if run.reported { ", in this report" } else { "" };
            let _ = writeln!(out, "  {number}  {}, {length}, {processes}{mark}", moment(run.start_ts));
        }
    }
}

fn is_of(run: &Run, filter: &Filter) -> bool {
    filter.run.is_none_or(|(from, to)| (from..to).contains(&run.start_ts))
}

/// Returns which of several runs a report covers, and what is wrong with it; `None` if there is only one without faults,
/// or if runs are unknown.
pub fn scope(runs: &[Run]) -> Option<String> {
    let faults = runs.iter().filter(|run| run.reported).filter_map(fault);
    let sentences: Vec<_> = which(runs).into_iter().chain(faults).collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// Says why the times or ranks of a run cannot be compared.
fn fault(run: &Run) -> Option<String> {
    let jobs = (run.jobs > 1).then(|| {
        format!(
            "{} jobs ran at the same time and are one run here, so their ranks are mixed: record each job into its own \
             directory.",
            grouped(run.jobs)
        )
    });
    let apart = (run.apart_ns > 0).then(|| {
        format!(
            "The ranks of this job ran at least {} apart by the clocks of their hosts: either a clock is wrong, or some \
             ranks started after others had ended. Times of different hosts cannot be compared.",
            time(run.apart_ns as f64)
        )
    });
    Some(jobs.into_iter().chain(apart).collect::<Vec<_>>().join(" ")).filter(|text| !text.is_empty())
}

fn which(runs: &[Run]) -> Option<String> {
    let number = runs.len();
    if number < 2 {
        return None;
    }
    let all = grouped(number as u64);
    let mut reported = runs.iter().zip(1..).filter(|(run, _)| run.reported);
    Some(match (reported.next(), reported.next()) {
        (Some((run, at)), None) => format!(
            "This trace contains {all} runs; this report covers {}. --run 1 to {all} selects one, --run all combines \
             them.",
            described(run, at, number)
        ),
        _ => format!(
            "This trace contains {all} runs, and this report combines them: shares of the time include the pauses \
             between runs. --run last, or --run 1 to {all}, selects one."
        ),
    })
}

/// Like [`scope`], for a table: `run 2 of 3`, or `3 runs combined`.
pub fn label(runs: &[Run]) -> Option<String> {
    let number = runs.len();
    let mut reported = runs.iter().zip(1..).filter(|(run, _)| run.reported);
    (number > 1).then(|| match (reported.next(), reported.next()) {
        (Some((_, at)), None) => format!("run {at} of {number}"),
        _ => format!("{number} runs combined"),
    })
}

/// Describes a run: `the last one, which started 2026-11-25 09:12:03 UTC and took 41 s`; `at` counts from 1.
fn described(run: &Run, at: usize, number: usize) -> String {
    let which = if at == number { "the last one".into() } else { format!("run {}", grouped(at as u64)) };
    let (began, took) = (moment(run.start_ts), time((run.end_ts - run.start_ts) as f64));
    let (day_and_time, zone) = (&began[..SECONDS], &began[SECONDS + MILLISECONDS..]);
    format!("{which}, which started {day_and_time}{zone} and took {took}")
}

/// The lengths of parts of a timestamp: up to the second, and the milliseconds with their point.
const SECONDS: usize = "2026-11-25 09:12:03".len();
const MILLISECONDS: usize = ".123".len();

/// Returns the time range in which the processes of a run start. It ends at the start of the next run, because the
/// recorded end of a killed run may be too early.
pub fn births(runs: &[Run], at: usize) -> Option<(i64, i64)> {
    let run = runs.get(at)?;
    Some((run.start_ts, runs.get(at + 1).map_or(i64::MAX, |next| next.start_ts)))
}

/// Process trees that one parent started within this pause belong together, such as consecutive commands of a script.
const PAUSE_NS: i64 = 1_000_000_000;

/// A process tree: the parent of its root, its traced command, its place in a job, and its time range. Also several of
/// them.
#[derive(Clone, Default)]
struct Tree {
    parent: Option<i32>,
    command: Option<String>,
    hosts: BTreeSet<u32>,
    jobs: BTreeSet<String>,
    ranks: BTreeSet<i32>,
    start_ts: i64,
    end_ts: i64,
    processes: u64,
    /// The pause between those of different hosts.
    apart_ns: i64,
}

impl Tree {
    fn take(&mut self, other: Tree) {
        self.hosts.extend(other.hosts);
        self.jobs.extend(other.jobs);
        self.ranks.extend(other.ranks);
        self.start_ts = self.start_ts.min(other.start_ts);
        self.end_ts = self.end_ts.max(other.end_ts);
        self.processes += other.processes;
        self.apart_ns = self.apart_ns.max(other.apart_ns);
    }
}

/// Returns the runs of a trace, earliest first; empty if they are unknown until the trace is read.
pub fn runs(trace: &Trace) -> Vec<Run> {
    // Logs of many jobs are an archive: all of them are reported.
    let is_archive = trace.sources.iter().any(|source| source.job().is_some());
    if is_archive || !trace.sources.iter().all(|source| source.knows_processes()) {
        return Vec::new();
    }
    runs_of(trees(trace))
}

fn runs_of(trees: Vec<Tree>) -> Vec<Run> {
    let run = |tree: Tree| Run {
        start_ts: tree.start_ts,
        end_ts: tree.end_ts,
        processes: tree.processes,
        reported: true,
        jobs: tree.jobs.len() as u64,
        apart_ns: tree.apart_ns,
    };
    united(of_jobs(of_commands(trees))).into_iter().map(run).collect()
}

/// Merges the trees of each traced command, regardless of the time between them: the parents of a daemon end before it
/// starts.
fn of_commands(trees: Vec<Tree>) -> Vec<Tree> {
    let (mut commands, mut all): (BTreeMap<String, Tree>, Vec<Tree>) = Default::default();
    for tree in trees {
        match tree.command.clone() {
            None => all.push(tree),
            Some(command) => match commands.get_mut(&command) {
                None => _ = commands.insert(command, tree),
                Some(before) => before.take(tree),
            },
        }
    }
    all.extend(commands.into_values());
    all.sort_by_key(|tree| tree.start_ts);
    all
}

/// Merges what ran on different hosts as other ranks of one job: if the clocks of the hosts differ, it does not overlap.
fn of_jobs(trees: Vec<Tree>) -> Vec<Tree> {
    let (mut on_hosts, mut all): (BTreeMap<_, Vec<Tree>>, Vec<Tree>) = Default::default();
    for tree in trees {
        let (job, host) = (tree.jobs.first().cloned(), tree.hosts.first().copied());
        match job.zip(host).filter(|_| !tree.ranks.is_empty()) {
            Some(place) => on_hosts.entry(place).or_default().push(tree),
            None => all.push(tree),
        }
    }
    let mut parts: Vec<Tree> = on_hosts.into_values().flat_map(united).collect();
    parts.sort_by_key(|part| part.start_ts);
    let mut launches: Vec<Tree> = Vec::new();
    for part in parts {
        // A rank that comes again belongs to the next launch of the job.
        let is_its = |launch: &&mut Tree| {
            launch.jobs == part.jobs && launch.hosts.is_disjoint(&part.hosts) && launch.ranks.is_disjoint(&part.ranks)
        };
        match launches.iter_mut().find(is_its) {
            Some(launch) => {
                launch.apart_ns = launch.apart_ns.max(part.start_ts - launch.end_ts);
                launch.take(part);
            }
            None => launches.push(part),
        }
    }
    all.extend(launches);
    all.sort_by_key(|tree| tree.start_ts);
    all
}

/// Merges trees that overlap, or follow each other closely without evidence of separate commands.
fn united(trees: Vec<Tree>) -> Vec<Tree> {
    let mut runs: Vec<(Tree, Tree)> = Vec::new();
    for tree in trees {
        match runs.last_mut() {
            Some((run, last)) if tree.start_ts <= run.end_ts + pause(last, &tree) => run.take(tree),
            _ => runs.push((tree.clone(), tree)),
        }
    }
    runs.into_iter().map(|(run, _)| run).collect()
}

/// The process that adopts orphans.
const INIT: i32 = 1;

/// Returns the longest pause between two trees of one run.
fn pause(before: &Tree, after: &Tree) -> i64 {
    let is_close = before.parent == after.parent || after.parent == Some(INIT);
    let is_told = before.command.is_some() && after.command.is_some();
    if is_close && !is_told { PAUSE_NS } else { 0 }
}

/// Returns the process trees by start time.
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
        // An exec keeps host, process id and start time.
        let key = (root.host, root.pid, root.start_ts.unwrap_or(start_ts));
        let fresh = Tree { parent: root.ppid, start_ts, end_ts: start_ts, ..Tree::default() };
        let tree = trees.entry(key).or_insert(fresh);
        tree.hosts.insert(process.host);
        tree.jobs.extend(process.job.clone());
        tree.ranks.extend(process.rank);
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
        let (start_ts, end_ts) = (start * SECOND / 10, end * SECOND / 10);
        Tree { parent: Some(parent), command, start_ts, end_ts, processes: 1, ..Tree::default() }
    }

    /// A rank of a job on a host.
    fn rank(job: &str, host: u32, rank: i32, start: i64, end: i64) -> Tree {
        let (hosts, jobs, ranks) = ([host].into(), [job.to_string()].into(), [rank].into());
        Tree { hosts, jobs, ranks, ..tree(7, &format!("{job} {rank} {start}"), start, end) }
    }

    /// Returns the number of processes per run.
    fn told(trees: &[Tree]) -> Vec<u64> {
        runs_of(trees.to_vec()).iter().map(|run| run.processes).collect()
    }

    #[test]
    fn a_traced_command_is_one_run_and_two_are_two() {
        // A daemon that started long after the traced process had ended.
        assert_eq!(told(&[tree(7, "a", 0, 1), tree(9, "a", 2, 50)]), [2]);
        assert_eq!(told(&[tree(7, "a", 0, 1), tree(1, "a", 90, 99)]), [2]);
        // Two consecutive commands, even of one parent.
        assert_eq!(told(&[tree(7, "a", 0, 1), tree(7, "b", 2, 3)]), [1, 1]);
        assert_eq!(told(&[tree(7, "a", 0, 1), tree(1, "b", 2, 3), tree(1, "b", 9, 10)]), [1, 2]);
        // Ranks, each started by a separate command.
        assert_eq!(told(&[tree(7, "a", 0, 9), tree(8, "b", 1, 9), tree(9, "c", 8, 12)]), [3]);
    }

    #[test]
    fn ranks_of_a_job_are_one_run_on_hosts_whose_clocks_differ() {
        // Host 1 is five minutes late.
        let one = |job: &str, at: i64| [0, 1].map(|n| rank(job, 0, n, at, at + 90)).to_vec();
        let other = |job: &str, at: i64| [2, 3].map(|n| rank(job, 1, n, at, at + 90)).to_vec();
        let runs = runs_of([one("a", 0), other("a", 3000)].concat());
        assert_eq!(
            runs.iter().map(|run| (run.processes, run.apart_ns, run.jobs)).collect::<Vec<_>>(),
            [(4, 291 * SECOND, 1)]
        );
        let said = scope(&runs).unwrap();
        assert!(said.contains("at least 4 min 51 s apart") && said.contains("cannot be compared"), "{said}");
        // The next launch of the job has the same ranks. Both are one run, because a time range cannot separate them.
        assert_eq!(told(&[one("a", 0), one("a", 200), other("a", 3000), other("a", 3200)].concat()), [8]);
        assert_eq!(told(&[one("a", 0), other("a", 2), one("a", 200), other("a", 202)].concat()), [4, 4]);
        // Ranks of a host that ran one after another are two commands, as before.
        assert_eq!(told(&[rank("a", 0, 0, 0, 9), rank("a", 0, 1, 20, 29)]), [1, 1]);
        // Clocks that agree.
        let runs = runs_of([one("a", 0), other("a", 2)].concat());
        assert_eq!((runs.len(), runs[0].apart_ns, scope(&runs)), (1, 0, None));
    }

    #[test]
    fn jobs_at_the_same_time_are_said() {
        let runs = runs_of(vec![rank("a", 0, 0, 0, 9), rank("b", 0, 0, 1, 9)]);
        assert!(
            runs.len() == 1 && scope(&runs).unwrap().starts_with("2 jobs ran at the same time"),
            "{:?}",
            scope(&runs)
        );
        assert_eq!(told(&[rank("a", 0, 0, 0, 9), rank("b", 0, 0, 10, 19)]), [1, 1]);
    }

    #[test]
    fn a_report_says_which_of_several_runs_it_is_about() {
        let run = |start: i64, reported| Run {
            start_ts: start * SECOND,
            end_ts: (start + 41) * SECOND,
            processes: 1,
            reported,
            ..Run::default()
        };
        assert_eq!(scope(&[run(0, true)]), None);
        let last = scope(&[run(0, false), run(100, false), run(1_795_226_887, true)]).unwrap();
        let about =
            "this report covers the last one, which started 2026-11-21 02:08:07 UTC and took 41.0 s. --run 1 to 3";
        assert!(last.starts_with("This trace contains 3 runs; ") && last.contains(about), "{last}");
        assert!(
            scope(&[run(0, true), run(100, false)])
                .unwrap()
                .contains("covers run 1, which started 1970-01-01 00:00:00")
        );
        assert!(scope(&[run(0, true), run(100, true)]).unwrap().contains("combines them"));
        let labels = [label(&[run(0, false), run(100, true)]), label(&[run(0, true), run(100, true)]), label(&[])];
        assert_eq!(labels, [Some("run 2 of 2".into()), Some("2 runs combined".into()), None]);
        // An older report does not mark any run.
        assert!(scope(&[run(0, false), run(100, false)]).unwrap().contains("combines them"));
    }

    #[test]
    fn a_run_takes_the_processes_that_begin_before_the_next_one() {
        let run = |start_ts, end_ts| Run { start_ts, end_ts, processes: 1, reported: true, ..Run::default() };
        let runs = [run(10, 20), run(50, 60)];
        assert_eq!((births(&runs, 0), births(&runs, 1)), (Some((10, 50)), Some((50, i64::MAX))));
        assert_eq!(births(&runs, 2), None);
    }

    #[test]
    fn where_no_command_is_told_what_follows_closely_is_one() {
        assert_eq!(told(&[tree(7, "", 0, 1), tree(7, "", 2, 3), tree(8, "", 4, 5)]), [2, 1]);
        // An orphan may be a daemon of the run that has just ended.
        assert_eq!(told(&[tree(7, "", 0, 1), tree(1, "", 2, 3), tree(1, "", 20, 30)]), [2, 1]);
    }
}
