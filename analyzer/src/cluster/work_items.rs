//! Divides a trace into work items of whole neighboring files that never separate related processes.
//!
//! The activity of a thread is compared with threads of its own process and of its ancestors, so a work item contains
//! whole process trees: a process, everything it started, and all files with events of them. Files whose processes are
//! unknown before reading form one process tree.

use std::collections::BTreeMap;

use crate::load::Trace;
use crate::summary::count::counter::LENGTHS_MAX;
use crate::summary::partial::PartRequest;
use crate::summary::tree::parents;
use crate::unit::Unit;

/// Work items per worker: more balance better, and lose less when a worker disconnects; each costs a message.
const PIECES_A_WORKER: u64 = 4;

/// A work item with fewer events costs more to assign than to read.
const EVENTS_MIN: u64 = 50_000;

/// Returns the work items of a trace for a number of workers.
pub fn cut(trace: &Trace, workers: usize, units: bool) -> Vec<PartRequest> {
    let families = families(trace);
    let sizes = sizes(trace, |_| true);
    let size = |sources: &[u32]| sources.iter().map(|source| sizes[*source as usize]).sum::<u64>();
    let wanted = (sizes.iter().sum::<u64>() / (workers as u64 * PIECES_A_WORKER).max(1)).max(EVENTS_MIN);
    let lengths = may_keep_lengths(trace);
    let mut pieces = Vec::new();
    let (mut held, mut events) = (Vec::new(), 0);
    let piece = |sources: &mut Vec<u32>| {
        sources.sort_unstable();
        let meets_processes = sources.iter().any(|source| trace.sources[*source as usize].processes().is_none());
        let sources = ranges(&std::mem::take(sources));
        PartRequest { sources, lengths, units, meets_processes }
    };
    for sources in families {
        let more = size(&sources);
        if events > 0 && events + more > wanted + wanted / 4 {
            pieces.push((events, piece(&mut held)));
            events = 0;
        }
        held.extend(sources);
        events += more;
    }
    if !held.is_empty() {
        pieces.push((events, piece(&mut held)));
    }
    // The largest first, so that the last ones finish quickly.
    pieces.sort_by_key(|(events, _)| std::cmp::Reverse(*events));
    pieces.into_iter().map(|(_, piece)| piece).collect()
}

/// Returns `true` if a trace may be so small that the lengths of all events are kept.
fn may_keep_lengths(trace: &Trace) -> bool {
    let is_known = trace.sources.iter().all(|source| source.knows_events());
    !is_known || trace.units.iter().map(|unit| unit.events).sum::<u64>() <= LENGTHS_MAX as u64
}

/// Returns, by source, the number of events in the units that `takes` selects; if unknown, an estimate from their
/// bytes.
pub fn sizes(trace: &Trace, takes: impl Fn(&Unit) -> bool) -> Vec<u64> {
    const BYTES_AN_EVENT: u64 = 16;
    let mut sizes = vec![0; trace.sources.len()];
    for unit in trace.units.iter().filter(|unit| takes(unit)) {
        sizes[unit.source as usize] += unit.events.max(unit.size / BYTES_AN_EVENT).max(1);
    }
    sizes
}

/// Returns the sources of each process tree, in order of its first source.
fn families(trace: &Trace) -> Vec<Vec<u32>> {
    let processes = trace.catalog.processes();
    let (sources, unknown) = (trace.sources.len(), processes.len() + trace.sources.len());
    let mut sets = Sets::of(unknown + 1);
    for (process, parent) in parents(&processes).into_iter().enumerate() {
        parent.iter().for_each(|parent| sets.unite(process, *parent as usize));
    }
    for (source, held) in trace.sources.iter().map(|source| source.processes()).enumerate() {
        let source = processes.len() + source;
        match held {
            Some(held) => held.iter().for_each(|process| sets.unite(source, *process as usize)),
            None => sets.unite(source, unknown),
        }
    }
    let mut families: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for source in 0..sources {
        families.entry(sets.first(processes.len() + source)).or_default().push(source as u32);
    }
    let mut families: Vec<_> = families.into_values().collect();
    families.sort_by_key(|sources| sources[0]);
    families
}

/// Disjoint sets, each represented by its lowest number.
struct Sets(Vec<usize>);

impl Sets {
    fn of(things: usize) -> Sets {
        Sets((0..things).collect())
    }

    fn first(&mut self, of: usize) -> usize {
        let mut first = of;
        while self.0[first] != first {
            self.0[first] = self.0[self.0[first]];
            first = self.0[first];
        }
        first
    }

    fn unite(&mut self, a: usize, b: usize) {
        let (a, b) = (self.first(a), self.first(b));
        self.0[a.max(b)] = a.min(b);
    }
}

/// Returns ascending numbers as ranges.
pub fn ranges(numbers: &[u32]) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, to)) if *to == number => *to += 1,
            _ => ranges.push((number, number + 1)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_side_by_side_are_one_range() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), [(0, 3), (5, 6), (7, 9)]);
        assert_eq!(ranges(&[]), []);
    }

    #[test]
    fn united_sets_have_one_representative() {
        let mut sets = Sets::of(6);
        sets.unite(4, 2);
        sets.unite(5, 4);
        sets.unite(0, 1);
        assert_eq!((0..6).map(|of| sets.first(of)).collect::<Vec<_>>(), [0, 0, 2, 3, 2, 2]);
    }
}
