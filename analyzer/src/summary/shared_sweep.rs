//! One sweep over the intervals of all threads: parts of the trace are read at once and handed over in order.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::bins::Bins;
use super::groups::beside::Beside;
use super::groups::lanes::{LaneMeasure, LanePart, LaneSweep, Lanes, SPAN_TRACKS};
use super::groups::tree::{Ancestry, LaneId};
use super::intervals::{Lists, SETS, unite};
use super::sweep::{Measures, Sweep, Swept};
use crate::catalog::Catalog;

/// The sweep that all threads feed. Parts that come early wait for those before them.
pub struct SharedSweep(Mutex<Queue>);

struct Queue {
    arrived: BTreeMap<usize, (Lists, LanePart, i64)>,
    next: usize,
    sweep: Sweep,
    lanes: LaneSweep,
}

/// Everything the sweep measured.
pub struct Measured {
    pub measures: Measures,
    pub lanes: BTreeMap<LaneId, LaneMeasure>,
    /// By group of processes, I/O beside compute.
    pub beside: BTreeMap<u32, Beside>,
    /// Intervals that came too late to be counted in full, and how much of them is missing.
    pub late: u64,
    pub late_ns: i64,
    /// The time of each set in each column.
    pub bands: Bins<SETS>,
    /// The same of what lanes did, summed over them, and of the time others let them wait.
    pub lane_bands: Bins<SPAN_TRACKS>,
    pub idle: BTreeMap<LaneId, Bins<1>>,
}

impl Queue {
    fn due(&mut self) -> Option<(Lists, LanePart, i64)> {
        let due = self.arrived.remove(&self.next)?;
        self.next += 1;
        Some(due)
    }
}

impl SharedSweep {
    pub fn new(catalog: &Catalog) -> SharedSweep {
        let lanes = LaneSweep::new(Ancestry::new(catalog));
        SharedSweep(Mutex::new(Queue { arrived: BTreeMap::new(), next: 0, sweep: Sweep::default(), lanes }))
    }

    pub(super) fn deliver(&self, part: usize, lists: Lists, lanes: LanePart, horizon: i64) {
        let mut queue = self.0.lock().expect("lists of intervals");
        queue.arrived.insert(part, (lists, lanes, horizon));
        while let Some((lists, lanes, horizon)) = queue.due() {
            queue.sweep.take(lists, horizon);
            queue.lanes.take(lanes, horizon);
        }
    }

    /// Intervals that are known as a whole before the parts arrive, or apart from them.
    pub fn add(&self, mut lists: Lists) {
        lists.iter_mut().for_each(unite);
        self.0.lock().expect("lists of intervals").sweep.take(lists, i64::MAX);
    }

    pub fn finish(self) -> Measured {
        let queue = self.0.into_inner().expect("lists of intervals");
        let Swept { measures, bands, late, late_ns } = queue.sweep.finish();
        let Lanes { measures: lanes, beside, bands: lane_bands, idle } = queue.lanes.finish();
        Measured { measures, lanes, beside, late, late_ns, bands, lane_bands, idle }
    }
}
