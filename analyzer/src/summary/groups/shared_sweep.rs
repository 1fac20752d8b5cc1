//! One sweep over the intervals of all threads: parts of the trace are read concurrently and delivered in order.

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use super::io_compute_overlap::Beside;
use super::lanes::{LaneMeasure, LanePart, LaneSweep, Lanes, SPAN_TRACKS};
use crate::catalog::Catalog;
use crate::filter::Filter;
use crate::summary::time::bins::Bins;
use crate::summary::time::intervals::{Lists, SETS, unite};
use crate::summary::time::sweep::{Measures, Sweep, SweepResult};
use crate::summary::time::unordered::Part;
use crate::summary::tree::{Ancestry, LaneId};
use crate::summary::waits::timeline::{TimelinePart, Timelines};
use crate::summary::waits::trainers::{Waits, explained, explained_within};

/// The sweep that all threads feed. Parts that arrive early wait for earlier parts.
pub struct SharedSweep(Mutex<Queue>);

struct Queue {
    arrived: BTreeMap<usize, (Lists, LanePart, i64)>,
    next: usize,
    sweep: Sweep,
    lanes: LaneSweep,
    timelines: Timelines,
}

/// All results of the sweep.
pub struct Measured {
    pub measures: Measures,
    pub lanes: BTreeMap<LaneId, LaneMeasure>,
    /// I/O that overlaps compute, per process group.
    pub beside: BTreeMap<u32, Beside>,
    /// Number of intervals that arrived too late to be counted in full, and the missing time.
    pub late: u64,
    pub late_ns: i64,
    /// Time of each set in each column.
    pub bands: Bins<SETS>,
    /// Time per column in which lanes were in spans, summed over lanes, and in which they waited for others.
    pub lane_bands: Bins<SPAN_TRACKS>,
    pub idle: BTreeMap<LaneId, Bins<1>>,
    /// Waits of trainers, and the cause of each.
    pub waits: Waits,
}

impl Queue {
    fn due(&mut self) -> Option<(Lists, LanePart, i64)> {
        let due = self.arrived.remove(&self.next)?;
        self.next += 1;
        Some(due)
    }
}

/// Result of the sweep over a part of a trace. Its lanes belong to complete process trees and are final.
#[derive(Serialize, Deserialize)]
pub struct PartMeasured {
    /// United lists that are swept together with those of the other parts.
    pub parts: Vec<Part>,
    pub lanes: Lanes,
    #[serde(default)]
    pub waits: Waits,
    pub late: u64,
    pub late_ns: i64,
}

impl SharedSweep {
    pub fn new(catalog: &Catalog) -> SharedSweep {
        SharedSweep::with(Sweep::default(), catalog)
    }

    /// Creates a sweep over a part of a trace; [`SharedSweep::finish_part`] ends it.
    pub fn of_a_part(catalog: &Catalog) -> SharedSweep {
        SharedSweep::with(Sweep::of_a_part(), catalog)
    }

    fn with(sweep: Sweep, catalog: &Catalog) -> SharedSweep {
        let lanes = LaneSweep::new(Ancestry::new(catalog));
        SharedSweep(Mutex::new(Queue {
            arrived: BTreeMap::new(),
            next: 0,
            sweep,
            lanes,
            timelines: Timelines::default(),
        }))
    }

    pub(in crate::summary) fn deliver(
        &self,
        part: usize,
        (lists, lanes, timelines): (Lists, LanePart, TimelinePart),
        horizon: i64,
    ) {
        let mut queue = self.0.lock().expect("lists of intervals");
        queue.timelines.take(timelines);
        queue.arrived.insert(part, (lists, lanes, horizon));
        while let Some((lists, lanes, horizon)) = queue.due() {
            queue.sweep.take(lists, horizon);
            queue.lanes.take(lanes, horizon);
        }
    }

    /// Adds intervals that are known in full before the parts arrive, or independently of them.
    pub fn add(&self, mut lists: Lists) {
        lists.iter_mut().for_each(unite);
        self.0.lock().expect("lists of intervals").sweep.take(lists, i64::MAX);
    }

    pub fn finish(self, catalog: &Catalog) -> Measured {
        let queue = self.0.into_inner().expect("lists of intervals");
        let waits = explained(queue.timelines, &catalog.processes());
        Measured::of(queue.sweep.finish(), queue.lanes.finish(), waits)
    }

    /// Returns only the waits, those in the window of a filter.
    pub fn finish_waits(self, catalog: &Catalog, filter: &Filter) -> Waits {
        let queue = self.0.into_inner().expect("lists of intervals");
        explained_within(queue.timelines, &catalog.processes(), filter)
    }

    pub fn finish_part(self, catalog: &Catalog) -> PartMeasured {
        let queue = self.0.into_inner().expect("lists of intervals");
        let waits = explained(queue.timelines, &catalog.processes());
        let SweepResult { parts, late, late_ns, .. } = queue.sweep.finish();
        PartMeasured { parts, lanes: queue.lanes.finish(), waits, late, late_ns }
    }
}

/// The sweep over the results of the parts of a trace.
#[derive(Default)]
pub struct PartsSweep {
    sweep: Sweep,
    lanes: Lanes,
    waits: Waits,
    late: u64,
    late_ns: i64,
}

impl PartsSweep {
    /// Adds intervals that no part contains.
    pub fn add(&mut self, mut lists: Lists) {
        lists.iter_mut().for_each(unite);
        self.sweep.take(lists, i64::MAX);
    }

    pub fn take(&mut self, part: PartMeasured) {
        part.parts.into_iter().for_each(|part| self.sweep.take_part(part));
        self.lanes.merge(part.lanes);
        self.waits.merge(part.waits);
        self.late += part.late;
        self.late_ns += part.late_ns;
    }

    pub fn finish(self) -> Measured {
        let swept = self.sweep.finish();
        let (late, late_ns) = (self.late + swept.late, self.late_ns + swept.late_ns);
        Measured::of(SweepResult { late, late_ns, ..swept }, self.lanes, self.waits)
    }
}

impl Measured {
    fn of(swept: SweepResult, lanes: Lanes, waits: Waits) -> Measured {
        let SweepResult { measures, bands, late, late_ns, .. } = swept;
        let Lanes { measures: lanes, beside, bands: lane_bands, idle } = lanes;
        Measured { measures, lanes, beside, late, late_ns, bands, lane_bands, idle, waits }
    }
}
