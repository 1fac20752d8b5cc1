//! Capacity of a loader and demand of its trainer, by queueing theory.
//!
//! Readers that work in parallel deliver C = readers / time to make a batch. A trainer that never waits consumes N = 1
//! / compute time per batch. If C is less than N, the trainer waits for 1 - C/N of its time, and only more or faster
//! readers change that. Any additional wait results from batches that take unequally long.

use std::collections::BTreeMap;

use super::rule_context::{Case, EVIDENCE_MAX, part};
use crate::summary::figures::units::{grouped, time};
use crate::summary::training::{RankGroup, ReaderUse};

/// Loader and trainer, aggregated over all ranks.
pub struct Loader {
    pub readers: usize,
    /// C / N.
    pub capacity: f64,
    /// Mean time that a reader was busy with a batch, and the trainer with a step.
    pub make_ns: f64,
    pub compute_ns: f64,
}

/// Returns the loader; `None` if there are no spans, or if trainers read themselves.
pub fn loader(case: &Case) -> Option<Loader> {
    let groups = &case.summary.training;
    let batches: u64 = groups.iter().map(|group| group.batches).sum();
    let computed: Option<i64> = groups.iter().map(|group| group.computed_ns).sum();
    let readers: Vec<usize> = groups.iter().map(RankGroup::readers_at_once).collect();
    let is_own = |group: &RankGroup| group.readers.iter().any(|reader| is_own(group, reader));
    if batches == 0 || readers.contains(&0) || groups.iter().any(is_own) || case.reads_itself() {
        return None;
    }
    let busy: i64 = groups.iter().flat_map(|group| &group.readers).map(busy_ns).sum();
    let (make_ns, compute_ns) = (busy as f64 / batches as f64, computed? as f64 / batches as f64);
    let mean = readers.iter().sum::<usize>() as f64 / readers.len() as f64;
    let capacity = part(mean * compute_ns, make_ns)?;
    Some(Loader { readers: readers.iter().sum(), capacity, make_ns, compute_ns })
}

impl Loader {
    /// Returns the share of its time that the trainer waits because readers are too few or too slow.
    pub fn shortage(&self) -> f64 {
        (1.0 - self.capacity).max(0.0)
    }
}

/// Returns `true` for the trainer itself.
pub fn is_own(group: &RankGroup, reader: &ReaderUse) -> bool {
    (reader.proc, reader.tid) == (group.proc, group.tid)
}

/// Returns the time a reader did not block, minus its start during its trainer's wait.
pub fn busy_ns(reader: &ReaderUse) -> i64 {
    (reader.last_ts - reader.first_ts - reader.idle_ns - reader.wait_start_ns).max(0)
}

/// Returns the time a reader was busy during its trainer's wait, minus its start.
pub fn busy_meanwhile(reader: &ReaderUse) -> i64 {
    (reader.wait_alive_ns - reader.wait_idle_ns - reader.wait_start_ns).max(0)
}

/// A reader that is busy for less than this share of a wait is idle.
const IDLE: f64 = 0.2;

/// Returns `true` if most readers were idle while their trainers waited: additional readers would also be idle.
pub fn mostly_idle(case: &Case) -> bool {
    let readers = || case.summary.training.iter().flat_map(|group| &group.readers);
    let is_idle = |reader: &&ReaderUse| {
        let alive = reader.wait_alive_ns - reader.wait_start_ns;
        alive > 0 && (busy_meanwhile(reader) as f64) < IDLE * alive as f64
    };
    2 * readers().filter(is_idle).count() > readers().count()
}

/// A reader slot of a loader. If readers are restarted for each epoch or evaluation, it contains all readers that had
/// this number.
pub struct Numbered<'a> {
    /// Readers in order of time, one per start.
    pub readers: Vec<&'a ReaderUse>,
    pub busy_ns: i64,
}

/// Readers of one start begin within this time of each other, and within one part in this many of their lifetimes.
const BIRTHS_APART_NS: i64 = 2_000_000_000;
const BIRTHS_APART_OF_LIFE: i64 = 10;

/// Returns the readers of a trainer grouped by start, each group in order of process and thread ids.
fn starts(group: &RankGroup) -> Vec<Vec<&ReaderUse>> {
    let mut readers: Vec<_> = group.readers.iter().filter(|reader| !is_own(group, reader)).collect();
    readers.sort_by_key(|reader| (reader.first_ts, reader.pid, reader.tid));
    let life = |reader: &ReaderUse| reader.last_ts - reader.first_ts;
    let belongs = |reader: &ReaderUse, start: &[&ReaderUse]| {
        let (first, last) = (start[0], start[start.len() - 1]);
        let longer = life(reader).max(life(first));
        let together = reader.last_ts.min(first.last_ts) - reader.first_ts;
        let apart = reader.first_ts - last.first_ts;
        // The workers of one PyTorch loader share a pipe.
        let is_other = group.torch && reader.channel.zip(first.channel).is_some_and(|(own, other)| own != other);
        !is_other && 2 * together >= longer.max(1) && apart <= BIRTHS_APART_NS.min(longer / BIRTHS_APART_OF_LIFE)
    };
    let mut starts: Vec<Vec<&ReaderUse>> = Vec::new();
    for reader in readers {
        match starts.iter_mut().rev().find(|start| belongs(reader, start)) {
            Some(start) => start.push(reader),
            None => starts.push(vec![reader]),
        }
    }
    starts.iter_mut().for_each(|start| start.sort_by_key(|reader| (reader.pid, reader.tid)));
    starts
}

/// Returns the readers of a trainer's busiest loader by number; empty if it has fewer than two. Starts with the same
/// number of readers are attributed to one loader. If they belong to two loaders, each adds the same amount to every
/// number, so no reader appears slower because of it.
pub fn numbered(group: &RankGroup) -> Vec<Numbered<'_>> {
    let is_known = group.readers.iter().any(|reader| busy_meanwhile(reader) > 0);
    let busy = if is_known { busy_meanwhile } else { busy_ns };
    let mut loaders: BTreeMap<usize, Vec<Numbered>> = BTreeMap::new();
    for start in starts(group).into_iter().filter(|start| start.len() > 1) {
        let none = || (0..start.len()).map(|_| Numbered { readers: Vec::new(), busy_ns: 0 }).collect();
        let loader = loaders.entry(start.len()).or_insert_with(none);
        for (numbered, reader) in loader.iter_mut().zip(start) {
            numbered.busy_ns += busy(reader);
            numbered.readers.push(reader);
        }
    }
    let all = |loader: &Vec<Numbered>| loader.iter().map(|numbered| numbered.busy_ns).sum::<i64>();
    loaders.into_values().max_by_key(all).unwrap_or_default()
}

/// Returns `true` if a trainer's readers were started more than once: then round-robin order restarts each time.
pub fn starts_anew(case: &Case) -> bool {
    case.summary.training.iter().any(|group| numbered(group).iter().any(|numbered| numbered.readers.len() > 1))
}

/// Returns the busiest reader's share of the work of all readers of its loader during the trainer's wait; the largest
/// share over trainers.
pub fn largest_load(case: &Case) -> Option<f64> {
    let load = |group: &RankGroup| {
        let numbered = numbered(group);
        let busy = || numbered.iter().map(|numbered| numbered.busy_ns);
        part(busy().max()? as f64, busy().sum::<i64>() as f64)
    };
    case.summary.training.iter().filter_map(load).max_by(f64::total_cmp)
}

/// Returns the largest share of all waiting in the steps of one reader's turn; the largest over trainers.
pub fn largest_turn(case: &Case) -> Option<f64> {
    let turns = case.summary.steps.iter().filter(|row| row.readers > 1).filter_map(|row| row.largest_turn);
    turns.max_by(f64::total_cmp)
}

/// Returns the busiest readers as rows of evidence.
pub fn busiest(case: &Case) -> Vec<String> {
    let mut readers: Vec<_> = case.summary.training.iter().flat_map(|group| &group.readers).collect();
    readers.sort_by_key(|reader| std::cmp::Reverse(busy_ns(reader)));
    let row = |reader: &&ReaderUse| {
        let [busy, io] = [busy_ns(reader), reader.io_ns].map(|ns| time(ns as f64));
        format!("{} ({}), over its lifetime: busy for {busy}, in I/O for {io}", reader.name, reader.pid)
    };
    readers.iter().take(EVIDENCE_MAX).map(row).collect()
}

/// The rule that detects more readers than CPUs can run, and its limit.
pub const CROWDED: &str = "too-many-readers";
pub const PER_CORE: &str = "per-core";

/// Returns the readers per CPU on the host with the most, with a description; `None` without training.
pub fn readers_a_core(case: &Case) -> Option<(f64, String)> {
    let groups = &case.summary.training;
    let readers = |host: &str| -> usize {
        groups.iter().filter(|group| group.host == host).map(RankGroup::readers_at_once).sum()
    };
    let loads = case.summary.hosts.iter().filter_map(|host| {
        let machine = case.summary.machine.iter().find(|machine| machine.host == host.host);
        let allowed = machine.and_then(|machine| machine.cpus.map(|cpus| cpus as i32)).or(host.cores);
        let (cores, readers) = (allowed.filter(|cores| *cores > 0)?, readers(&host.host));
        let says = format!("{} readers on {} share {cores} CPUs", grouped(readers as u64), host.host);
        Some((readers as f64 / cores as f64, says))
    });
    loads.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|_| !groups.is_empty())
}

/// Returns `true` if additional readers would not get a CPU.
pub fn is_crowded(case: &Case) -> bool {
    let of_rule = Case { rule: CROWDED, ..*case };
    of_rule.at_least(PER_CORE, readers_a_core(case).map(|(ratio, _)| ratio)).holds() == Some(true)
}
