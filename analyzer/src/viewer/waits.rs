//! Draws the waits of trainers in an export: next to the events, with arrows from the threads that produced the awaited
//! data.

use std::collections::{BTreeMap, BTreeSet};

use dlio_schemas::export::{DrawnAct, DrawnWait, ProcessId};
use dlio_schemas::native::fields::key;
use dlio_schemas::native::names::NameKind;
use dlio_schemas::objects::Object;
use dlio_schemas::ops::{Arg, Op};

use crate::catalog::{Catalog, Host, Process};
use crate::filter::Filter;
use crate::load::recorded::Recorded;
use crate::summary::figures::units::share;
use crate::summary::report::waits::called;
use crate::summary::tree::{LaneId, names};
use crate::summary::waits::parts::Part;
use crate::summary::waits::trainers::{Wait, WaitKind, Waits};

/// The maximum number of waits drawn: the longest.
const WAITS_MAX: usize = 100_000;

/// Returns `true` if the events that pass a filter may contain all the evidence for waits. Single files, categories or
/// long events do not.
pub(super) fn may_draw(filter: &Filter) -> bool {
    filter.files.is_empty() && !filter.asks_for_kinds() && filter.min_dur_ns <= 0
}

/// Returns `true` if a process has names that distinguish pipes or sockets: then it is known who ended a wait on one of
/// them.
pub(super) fn names_objects(process: &Recorded) -> bool {
    let is_one = |text: &[u8]| std::str::from_utf8(text).is_ok_and(|name| Object::parse(name).is_some());
    process.names.iter().any(|(_, kind, text)| kind == NameKind::Object && is_one(text))
}

/// Returns `true` if a call contains who ended it.
pub(super) fn has_waker(op: u16, b: i64) -> bool {
    b != 0 && Op(op).info().is_some_and(|info| info.b == Arg::Waker)
}

/// A wait whose threads are given by indexes among the processes of an export.
pub(super) struct PlacedWait {
    at: usize,
    /// The producer's is first.
    acts: Vec<(usize, DrawnAct)>,
    wait: DrawnWait,
}

/// Finds the processes of waits among the exported ones.
pub(super) fn placed(waits: &Waits, catalog: &Catalog, processes: &[Recorded]) -> Vec<PlacedWait> {
    let (known, hosts) = (catalog.processes(), catalog.hosts());
    let all = || waits.trainers.iter().flat_map(|trainer| trainer.waits.iter().map(move |wait| (trainer.lane, wait)));
    let lanes = all().flat_map(|(lane, wait)| wait.acts.iter().map(|act| act.lane).chain([lane]));
    let used: BTreeSet<u32> = lanes.map(|lane| lane.proc).collect();
    let found = |proc: u32| Some((proc, place(known.get(proc as usize)?, &hosts, processes)?));
    let places: BTreeMap<u32, usize> = used.into_iter().filter_map(found).collect();
    let place = |lane: LaneId| places.get(&lane.proc).copied();
    let names = names(&known);
    let name = |lane: LaneId| {
        let pid = known.get(lane.proc as usize).map_or(0, |process| process.pid);
        called(names.get(lane.proc as usize).map_or("", String::as_str), pid, lane.tid)
    };
    let offset = |lane: LaneId| {
        let host = known.get(lane.proc as usize).and_then(|process| hosts.get(process.host as usize));
        host.map_or(0, |host| host.clock_offset_ns)
    };
    let boot = |lane: LaneId, ts: i64| ts.saturating_sub(offset(lane)).max(0) as u64;
    let mut all: Vec<(LaneId, &Wait)> = all().filter(|(lane, _)| place(*lane).is_some()).collect();
    if all.len() > WAITS_MAX {
        all.sort_by_key(|(lane, wait)| (std::cmp::Reverse(wait.end - wait.start), wait.start, *lane));
        all.truncate(WAITS_MAX);
        all.sort_by_key(|(lane, wait)| (*lane, wait.start));
    }
    let placed = |(lane, wait): (LaneId, &Wait)| {
        let acts = wait.acts.iter().rev().filter_map(|act| {
            let name = if Some(act.lane) == wait.maker { "made" } else { "passed on" };
            let (process, tid) = (ProcessId::default(), act.lane.tid as u32);
            Some((place(act.lane)?, DrawnAct { process, tid, at: boot(act.lane, act.at), name }))
        });
        let acts = acts.collect();
        let (begin, end) = (boot(lane, wait.start), boot(lane, wait.end));
        Some(PlacedWait { at: place(lane)?, acts, wait: drawn(lane.tid, (begin, end), wait, name) })
    };
    all.into_iter().filter_map(placed).collect()
}

/// Returns the index of a process image: its host, number and start are those of its process, its end is its own.
fn place(process: &Process, hosts: &[Host], exported: &[Recorded]) -> Option<usize> {
    let host = hosts.get(process.host as usize)?;
    let unix = |boot_ns: i64| boot_ns.saturating_add(host.clock_offset_ns);
    let is_it = |other: &Recorded| {
        let fields = &other.fields;
        fields.number(key::PID) == Some(process.pid)
            && fields.get(key::HOST).unwrap_or_default() == host.name
            && fields.number(key::START_BOOT_NS).map(unix) == process.start_ts
    };
    let images = || (0..exported.len()).filter(|&at| is_it(&exported[at]));
    let ends = |at: &usize| exported[*at].fields.number(key::END_BOOT_NS).map(unix) == process.end_ts;
    images().find(ends).or_else(|| images().next_back())
}

fn drawn(tid: i32, (begin, end): (u64, u64), wait: &Wait, name: impl Fn(LaneId) -> String) -> DrawnWait {
    let mut texts = vec![("kind", wait.kind.name().to_string())];
    texts.extend(wait.maker.map(|maker| ("made_by", name(maker))));
    texts.extend(wait.limiter.map(|limiter| ("paced_by", name(limiter))));
    let mut numbers = vec![("relays".to_string(), wait.depth as i64)];
    let parts = Part::CAUSES.into_iter().map(|part| (part, wait.parts.get(part))).filter(|(_, ns)| *ns > 0);
    numbers.extend(parts.map(|(part, ns)| (format!("{}_ns", part.name().replace('-', "_")), ns)));
    DrawnWait {
        process: ProcessId::default(),
        tid: tid as u32,
        begin,
        end,
        name: title(wait),
        texts,
        numbers,
        acts: Vec::new(),
    }
}

/// Returns the title of a wait, its largest cause, so that a viewer gives equal causes one color.
fn title(wait: &Wait) -> String {
    let largest = wait.parts.largest();
    let part = share(wait.parts.get(largest), wait.parts.sum());
    let cause = largest.name().replace('-', " ");
    match wait.kind {
        WaitKind::Data => format!("waits: {cause} {part}"),
        WaitKind::OwnWork => format!("waits for own work: {cause} {part}"),
        WaitKind::Lock => format!("waits for a lock, held for: {cause} {part}"),
        WaitKind::Peer => "waits for a peer".into(),
        WaitKind::Unknown => "waits: unknown".into(),
    }
}

/// Returns the waits whose trainers are among the written processes, with their numbers.
pub(super) fn of_written(placed: &[PlacedWait], number: impl Fn(usize) -> Option<ProcessId>) -> Vec<DrawnWait> {
    let written = |placed: &PlacedWait| {
        let acts = placed.acts.iter().filter_map(|(at, act)| Some(DrawnAct { process: number(*at)?, ..*act }));
        Some(DrawnWait { process: number(placed.at)?, acts: acts.collect(), ..placed.wait.clone() })
    };
    placed.iter().filter_map(written).collect()
}
