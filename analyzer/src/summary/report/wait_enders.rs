//! The threads and programs that a trainer waited for, with their names.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::main_programs::MainPrograms;
use crate::catalog::Process;
use crate::summary::analysis::Analysis;
use crate::summary::figures::units::{grouped, share};
use crate::summary::training::{RankGroup, WaitedFor};
use crate::summary::tree::LaneId;
use crate::summary::waits::parts::{Part, Parts};
use crate::summary::waits::service_children::{HELPER, HELPERS};
use crate::summary::waits::trainers::{Wait, WaitKind};

/// The number of names per kind of wait.
const NAMED: usize = 2;

/// A name is worth a sentence if it stands for this share of the waits of its kind.
const MOST: f64 = 0.6;

/// Work below this share of a wait is not mentioned.
const WORK: f64 = 0.1;

/// Adds the names of those that ended the waits of trainers.
pub fn name_enders(groups: &mut [RankGroup], analysis: &Analysis, processes: &[Process]) {
    let names = if groups.is_empty() { Vec::new() } else { analysis.measured.waits.names(processes) };
    let programs = MainPrograms::new(if groups.is_empty() { &[] } else { processes });
    for group in groups {
        let trainer = LaneId { proc: group.proc, tid: group.tid };
        let waits = analysis.measured.waits.of(trainer).map_or(&[][..], |of| &of.waits);
        group.waited_for = waited_for(waits, trainer, processes, &names, &programs);
    }
}

/// Returns the thread that ended a wait: for a batch, the one that set the pace; for work on the trainer's own input, the one
/// that did it.
fn ender(wait: &Wait, trainer: LaneId) -> Option<LaneId> {
    let ender = match wait.kind {
        WaitKind::Data => wait.limiter.or(wait.maker),
        _ => wait.maker.filter(|lane| *lane != trainer).or(wait.acts.first().map(|act| act.lane)),
    };
    ender.filter(|lane| *lane != trainer)
}

/// Waits of one kind that were ended by one name, and by one thread if it is of the trainer's process: zero stands for all
/// threads that end few waits.
type Key<'a> = (u8, &'a str, Option<i32>);

/// Returns the name of a reader or a rank without its number: unlike those that make batches, they are named together.
fn kind_of(name: &str) -> &str {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    name.rsplit_once(' ').filter(|(_, number)| is_number(number)).map_or(name, |(kind, _)| kind)
}

/// A thread of the trainer's process that ends fewer waits than this is not named: programs start a thread for each task.
const FEW: u64 = 3;

fn waited_for(
    waits: &[Wait],
    trainer: LaneId,
    processes: &[Process],
    names: &[String],
    programs: &MainPrograms,
) -> Vec<WaitedFor> {
    let mut ended: BTreeMap<(u8, LaneId), u64> = BTreeMap::new();
    for (wait, lane) in waits.iter().filter_map(|wait| Some((wait, ender(wait, trainer)?))) {
        *ended.entry((wait.kind as u8, lane)).or_default() += 1;
    }
    let mut found: BTreeMap<Key, (WaitedFor, BTreeSet<LaneId>)> = BTreeMap::new();
    let mut mains: BTreeMap<u32, u32> = BTreeMap::new();
    for wait in waits {
        let Some(lane) = ender(wait, trainer) else { continue };
        let main = *mains.entry(lane.proc).or_insert_with(|| programs.of(lane.proc, trainer.proc));
        let (Some(name), Some(process)) = (names.get(main as usize), processes.get(main as usize)) else {
            continue;
        };
        let is_named = ended[&(wait.kind as u8, lane)] >= FEW;
        let tid = (lane.proc == trainer.proc).then_some(if is_named { lane.tid } else { 0 });
        let none = || WaitedFor {
            kind: wait.kind,
            name: name.clone(),
            processes: 0,
            pid: process.pid,
            tid: tid.filter(|tid| *tid != 0),
            threads: 0,
            waits: 0,
            wait_ns: 0,
            causes: Parts::default(),
        };
        let name = if wait.kind == WaitKind::Data { name } else { kind_of(name) };
        let (row, lanes) = found.entry((wait.kind as u8, name, tid)).or_insert_with(|| (none(), BTreeSet::new()));
        lanes.insert(lane);
        row.waits += 1;
        row.wait_ns += wait.end - wait.start;
        row.causes += wait.parts;
    }
    let rows = found.into_values().map(|(row, lanes)| {
        let procs: BTreeSet<u32> = lanes.iter().map(|lane| lane.proc).collect();
        let is_own = procs.contains(&trainer.proc) && row.tid.is_none();
        let threads = if is_own { lanes.len() as u64 } else { 0 };
        // One thread has its number, however few waits it ended.
        let tid = row.tid.or(lanes.first().filter(|_| threads == 1).map(|lane| lane.tid));
        let name = match kind_of(&row.name) {
            kind if procs.len() > 1 && kind != row.name => format!("{kind}s"),
            HELPER if procs.len() > 1 => HELPERS.into(),
            _ => row.name,
        };
        WaitedFor { processes: procs.len() as u64, threads, tid, name, ..row }
    });
    let mut rows: Vec<WaitedFor> = rows.collect();
    rows.sort_by_key(|row| (Reverse(row.wait_ns), row.pid, row.tid));
    let mut kept = [0; 5];
    rows.retain(|row| {
        kept[row.kind as usize] += 1;
        kept[row.kind as usize] <= NAMED
    });
    rows
}

/// Returns the one that ended most of a trainer's waits of a kind, with its share of their time.
pub fn most(group: &RankGroup, kind: WaitKind, whole: i64) -> Option<(&WaitedFor, f64)> {
    let row = group.waited_for.iter().find(|row| row.kind == kind)?;
    let part = row.wait_ns as f64 / whole.max(1) as f64;
    (part >= MOST).then_some((row, part.min(1.0)))
}

impl WaitedFor {
    /// Returns text such as `thread 15015 of train.py`, `20 threads of train.py`, `worker 1 (15016)` or `gzip (12 processes)`.
    pub fn named(&self) -> String {
        match (self.tid, self.processes) {
            (Some(tid), _) => format!("thread {tid} of {}", self.name),
            (None, _) if self.threads > 1 => format!("{} threads of {}", grouped(self.threads), self.name),
            (None, 1) => format!("{} ({})", self.name, self.pid),
            (None, several) => format!("{} ({} processes)", self.name, grouped(several)),
        }
    }

    /// Returns `it` or `they`.
    pub fn pronoun(&self) -> &'static str {
        if self.threads.max(self.processes) > 1 { "they" } else { "it" }
    }

    /// Returns `true` if it slept for most of that time.
    pub fn sleeps(&self) -> bool {
        2 * self.causes.get(Part::Sleep) > self.causes.sum()
    }

    /// Returns its work in the meantime, such as `spent 56 % of that time in file calls, 38 % on the CPU`. `None` if
    /// that is unknown.
    pub fn work(&self) -> Option<String> {
        let whole = self.causes.sum();
        let mut parts: Vec<_> = Part::CAUSES.into_iter().map(|part| (part, self.causes.get(part))).collect();
        parts.retain(|(part, ns)| {
            !matches!(part, Part::Unknown | Part::NotAsked) && *ns as f64 >= WORK * whole as f64 && *ns > 0
        });
        parts.sort_by_key(|(_, ns)| Reverse(*ns));
        let (first, rest) = parts.split_first()?;
        let part = |(part, ns): &(Part, i64)| format!(", {} {}", share(*ns, whole), doing(*part));
        let rest: String = rest.iter().map(part).collect();
        Some(format!("spent {} of that time {}{rest}", share(first.1, whole), doing(first.0)))
    }
}

/// Returns the activity of a thread that others wait for.
fn doing(part: Part) -> &'static str {
    match part {
        Part::Storage => "in file calls",
        Part::PageFaults => "in page faults of mapped files",
        Part::Network => "waiting for the network",
        Part::Cpu => "on the CPU",
        Part::FileCalls => "on the CPU in file calls",
        Part::NoCpu => "waiting for a CPU",
        Part::Gil => "waiting for the interpreter lock",
        Part::Lock => "waiting for locks",
        Part::Sleep => "asleep",
        Part::Child => "waiting for a program",
        Part::HandOver => "passing data on",
        Part::Sampling => "choosing samples",
        Part::Start => "starting",
        Part::Dead => "after its end",
        Part::NeverSent => "without any call",
        Part::NoFile => "waiting for files that did not exist yet",
        Part::NotAsked => "without a request",
        Part::Device => "waiting for a GPU",
        Part::Hidden => "while the GPU computed",
        Part::OutsideCalls => "outside traced calls (computing, for example)",
        Part::Unknown | Part::Idle => "unknown",
    }
}
