//! The longest waits of trainers, each with its causes and the thread that ended it.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::{Section, Summary};
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::figures::units::{share, time};
use crate::summary::report::layout::{heading, more};
use crate::summary::tree::LaneId;
use crate::summary::waits::parts::{Part, Parts};
use crate::summary::waits::trainers::{Wait, WaitKind};
use crate::text_table::Grid;

/// One wait.
#[derive(Serialize, Deserialize, Debug)]
pub struct WaitRow {
    pub proc: u32,
    pub tid: i32,
    pub start_ts: i64,
    pub wait_ns: i64,
    pub kind: WaitKind,
    /// The thread that made the awaited message, and the thread that set its pace; `null` if unknown.
    pub maker: Option<Maker>,
    pub limiter: Option<Maker>,
    /// The number of threads that passed it on, and their names; the thread that reached the trainer is first.
    pub relays: u8,
    #[serde(default)]
    pub passed_on_by: Vec<String>,
    pub causes: Parts,
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Maker {
    pub proc: u32,
    pub pid: i32,
    pub tid: i32,
    pub name: String,
}

/// The number of waits in the report. The table `waits` has all of them.
pub const LISTED: usize = 100;

/// The section on waits.
pub struct Waits;

impl Section for Waits {
    type Values = Vec<WaitRow>;

    const MEANING: &'static str = "\
        Waits: the longest waits of trainers. Each wait is attributed to the message that ended it, and the message to \
        the thread that produced it, its maker: a thread that only forwards messages (a feeder or result thread) is a \
        relay. If the maker worked all along, the wait is divided like its recent work; if it was itself \
        waiting, like the work of the thread for which it waited. The parts add up to the wait. Kinds: data (a batch), own-work (a thread or program that worked on a task from the trainer), \
        lock (one that another thread held, divided like the work of that thread during the wait), \
        peer (another rank, or a remote host), unknown (the trace does not show what ended it). The chain goes from \
        the trainer back to the maker, and to the thread that set the pace if that is a different one. The table \
        `waits` contains all waits.";
    const FIELDS: &'static str = "\
        a list, the longest first, at most 100: `proc`, `tid` (of the trainer), `start_ts`, `wait_ns`, `kind`, \
        `maker` and `limiter` (`proc`, `pid`, `tid`, `name`; the thread that made the awaited message, and the thread \
        that set its pace; `null` if unknown), `relays` (threads between maker and trainer), `passed_on_by` (their \
        names, the trainer's direct sender first), `causes` (nanoseconds by cause)";
    const ROWS: usize = 20;

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        let processes = trace.catalog.processes();
        let names = analysis.measured.waits.names(&processes);
        let maker = |lane: LaneId| Maker {
            proc: lane.proc,
            pid: processes.get(lane.proc as usize).map_or(0, |process| process.pid),
            tid: lane.tid,
            name: names.get(lane.proc as usize).cloned().unwrap_or_default(),
        };
        let trainers = &analysis.measured.waits.trainers;
        let all = trainers.iter().flat_map(|trainer| trainer.waits.iter().map(move |wait| (trainer.lane, wait)));
        let mut all: Vec<(LaneId, &Wait)> = all.collect();
        all.sort_by_key(|(lane, wait)| (std::cmp::Reverse(wait.end - wait.start), wait.start, *lane));
        let row = |(lane, wait): (LaneId, &Wait)| WaitRow {
            proc: lane.proc,
            tid: lane.tid,
            start_ts: wait.start,
            wait_ns: wait.end - wait.start,
            kind: wait.kind,
            maker: wait.maker.map(maker),
            limiter: wait.limiter.map(maker),
            relays: wait.depth,
            passed_on_by: passed_on(wait).map(|lane| maker(lane).called()).collect(),
            causes: wait.parts,
        };
        all.into_iter().take(LISTED).map(row).collect()
    }

    fn print(summary: &Summary, top: usize, out: &mut String) {
        let rows = &summary.waits;
        if rows.is_empty() && !summary.allocation.waits_unexplained {
            return;
        }
        heading("Longest waits of trainers", out);
        if summary.allocation.waits_unexplained {
            let listed = if rows.is_empty() { "None" } else { "Not all" };
            let _ =
                writeln!(out, "  {listed}: the trace has too many waits and messages to compute the causes of each.");
        }
        if rows.is_empty() {
            return;
        }
        let mut grid = Grid::new(&["at", "waited", "<for", "<causes"]);
        let start = summary.time.start_ts;
        for row in rows.iter().take(top) {
            let at = time((row.start_ts - start) as f64);
            grid.row(vec![at, time(row.wait_ns as f64), row.kind.name().into(), causes(&row.causes)]);
        }
        let mut table = String::new();
        grid.print(&mut table);
        let width = table.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        let chains = rows.iter().map(|row| chain(row, summary));
        for (line, chain) in table.lines().zip([HEAD.to_string()].into_iter().chain(chains)) {
            let _ = writeln!(out, "{line:<width$}  {chain}");
        }
        more(rows.len(), top, out);
    }
}

/// The head of the column of chains.
const HEAD: &str = "trainer <- relays <- maker <- pacemaker, if different";

/// Returns the chain of threads between a trainer and the thread that set the pace.
fn chain(row: &WaitRow, summary: &Summary) -> String {
    let trainer = summary.processes.iter().find(|process| process.proc == row.proc);
    let unnamed = || format!("process {}", row.proc);
    let trainer = trainer.map_or_else(unnamed, |process| called(&process.called, process.pid, row.tid));
    let Some(maker) = &row.maker else {
        // If the trainer's own work explains the time, there is no other thread.
        let is_unknown = row.causes.largest() == Part::Unknown;
        return if is_unknown { format!("{trainer} <- unknown") } else { trainer };
    };
    let limiter = row.limiter.as_ref().filter(|limiter| *limiter != maker).map(Maker::called);
    let links = row.passed_on_by.iter().cloned().chain([maker.called()]).chain(limiter);
    links.fold(trainer, |chain, link| chain + " <- " + &link)
}

/// Returns the threads through which the trainer heard from the maker.
fn passed_on(wait: &Wait) -> impl Iterator<Item = LaneId> {
    wait.acts.iter().map(|act| act.lane).take_while(|lane| Some(*lane) != wait.maker)
}

/// Returns the name of a thread.
pub fn called(name: &str, pid: i32, tid: i32) -> String {
    match pid == tid {
        true => format!("{name} ({pid})"),
        false => format!("{name} ({pid}, thread {tid})"),
    }
}

impl Maker {
    fn called(&self) -> String {
        called(&self.name, self.pid, self.tid)
    }
}

/// Returns the causes of a wait, largest first.
pub fn causes(parts: &Parts) -> String {
    let mut found: Vec<_> = Part::CAUSES.into_iter().map(|part| (parts.get(part), part)).collect();
    found.retain(|(ns, _)| 100 * ns >= parts.sum() && *ns > 0);
    found.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    found.iter().map(|(ns, part)| format!("{} {}", part.name(), share(*ns, parts.sum()))).collect::<Vec<_>>().join(", ")
}
