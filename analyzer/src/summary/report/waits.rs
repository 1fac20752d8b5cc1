//! The longest waits of trainers, each with whoever made what it waited for, and its causes.

use serde::{Deserialize, Serialize};

use super::{Section, Summary};
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::figures::units::{share, time};
use crate::summary::report::layout::{heading, more};
use crate::summary::tree::{LaneId, names};
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
    /// The threads that made what was waited for, and that set its pace; `null` where nobody was seen.
    pub maker: Option<Maker>,
    pub limiter: Option<Maker>,
    /// The number of threads that passed it on.
    pub relays: u8,
    pub causes: Parts,
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Maker {
    pub proc: u32,
    pub pid: i32,
    pub tid: i32,
    pub name: String,
}

/// Waits that the report lists. The table `waits` has all.
pub const LISTED: usize = 100;

/// See the module.
pub struct Waits;

impl Section for Waits {
    type Values = Vec<WaitRow>;

    const MEANING: &'static str = "\
        Waits: the longest waits of trainers. A wait belongs to the message that ended it, and the message to the \
        thread that made it: whoever only passes it on (a feeder or result thread) is a relay. If the maker worked \
        without a pause since before the wait began, the wait has the composition of its recent work; if it was \
        starved itself, that of whoever made it wait. The parts of a wait add up to it. Kinds: data (a batch), \
        own-work (a thread or program that worked on what the trainer had just given it), peer (another rank, or \
        somebody behind a network), unknown (nobody was seen to end it).";
    const FIELDS: &'static str = "\
        a list, the longest first, at most 100: `proc`, `tid` (of the trainer), `start_ts`, `wait_ns`, `kind`, `maker` \
        and `limiter` (`proc`, `pid`, `tid`, `name`; who made what was waited for, and who set its pace; `null` where \
        nobody was seen), `relays` (threads between maker and trainer), `causes` (nanoseconds by cause)";

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        let processes = trace.catalog.processes();
        let names = names(&processes);
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
            causes: wait.parts,
        };
        all.into_iter().take(LISTED).map(row).collect()
    }

    fn print(summary: &Summary, top: usize, out: &mut String) {
        let rows = &summary.waits;
        if rows.is_empty() {
            return;
        }
        heading("Longest waits of trainers", out);
        let mut grid = Grid::new(&["at", "waited", "<for", "<made by", "relays", "<paced by", "<causes"]);
        let start = summary.time.start_ts;
        for row in rows.iter().take(top) {
            let name = |maker: &Option<Maker>| maker.as_ref().map_or("-".into(), called);
            grid.row(vec![
                time((row.start_ts - start) as f64),
                time(row.wait_ns as f64),
                row.kind.name().into(),
                name(&row.maker),
                row.relays.to_string(),
                name(&row.limiter),
                causes(&row.causes),
            ]);
        }
        grid.print(out);
        more(rows.len(), top, out);
    }
}

fn called(maker: &Maker) -> String {
    match maker.pid == maker.tid {
        true => format!("{} ({})", maker.name, maker.pid),
        false => format!("{} ({}, thread {})", maker.name, maker.pid, maker.tid),
    }
}

/// The causes of a wait, the largest first.
fn causes(parts: &Parts) -> String {
    let mut found: Vec<_> = Part::CAUSES.into_iter().map(|part| (parts.get(part), part)).collect();
    found.retain(|(ns, _)| 100 * ns >= parts.sum() && *ns > 0);
    found.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    found.iter().map(|(ns, part)| format!("{} {}", part.name(), share(*ns, parts.sum()))).collect::<Vec<_>>().join(", ")
}
