//! Divides the input of a query into splits: units that may contain matching events, of whole neighboring files.
//!
//! Rows do not depend on related processes, so a file with known positions of events is divided evenly; another file is
//! read by one worker.

use crate::filter::Filter;
use crate::load::Trace;
use crate::tables::split::Split;

/// Splits per worker: more balance better, and lose less when a worker disconnects; each costs a message.
const SPLITS_PER_WORKER: u64 = 4;

/// A split with fewer events costs more to assign than to read; the rows of a larger one would fill a disk before the
/// first of them is used.
const EVENTS: std::ops::RangeInclusive<u64> = 50_000..=8_000_000;

/// Bytes per event, if the number of events is unknown.
const EVENT_BYTES: u64 = 16;

/// Returns the splits of the events that pass a filter, the largest first, so that the last ones finish quickly. With
/// `whole`, files are not divided.
pub fn splits(trace: &Trace, filter: &Filter, workers: usize, whole: bool) -> Vec<Split> {
    let sieve = trace.sieve(filter);
    let mut units = vec![Vec::new(); trace.sources.len()];
    for unit in trace.units.iter().filter(|unit| sieve.may_take(unit)) {
        units[unit.source as usize].push((unit.index, unit.events.max(unit.size / EVENT_BYTES).max(1)));
    }
    let events = units.iter().flatten().map(|(_, events)| events).sum::<u64>();
    let wanted = (events / (workers as u64 * SPLITS_PER_WORKER).max(1)).clamp(*EVENTS.start(), *EVENTS.end());
    let mut splits = SplitBuilder { wanted, done: Vec::new(), held: Vec::new(), events: 0 };
    for ((number, source), mut units) in (0u32..).zip(&trace.sources).zip(units) {
        units.sort_unstable();
        let events = units.iter().map(|(_, events)| events).sum::<u64>();
        if !whole && source.knows_events() && source.processes().is_some() && events > wanted {
            units.iter().for_each(|(index, events)| splits.add(&[(number, *index)], *events));
        } else {
            splits.add(&units.iter().map(|(index, _)| (number, *index)).collect::<Vec<_>>(), events);
        }
    }
    splits.end();
    splits.done.sort_by_key(|(events, _)| std::cmp::Reverse(*events));
    splits.done.into_iter().map(|(_, split)| split).collect()
}

struct SplitBuilder {
    wanted: u64,
    done: Vec<(u64, Split)>,
    held: Vec<(u32, u32)>,
    events: u64,
}

impl SplitBuilder {
    /// Adds units that stay together.
    fn add(&mut self, units: &[(u32, u32)], events: u64) {
        if self.events > 0 && self.events + events > self.wanted + self.wanted / 4 {
            self.end();
        }
        self.held.extend_from_slice(units);
        self.events += events;
    }

    fn end(&mut self) {
        if !self.held.is_empty() {
            self.done.push((self.events, Split::of(std::mem::take(&mut self.held))));
        }
        self.events = 0;
    }
}
