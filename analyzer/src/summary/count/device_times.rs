//! Times of GPUs, collected while a trace is read: the work of each device by its own clock, and the times of the threads
//! that use it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::kinds::DeviceSpan;
use crate::summary::time::intervals::{Interval, unite};
use crate::summary::tree::LaneId;

/// Lists of intervals, which each thread that reads a trace extends.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub struct DeviceTimes {
    pub work: BTreeMap<DeviceId, DeviceWork>,
    /// The threads that wait for batches, for devices, or save.
    pub threads: BTreeMap<LaneId, HostTimes>,
    /// First start and last end of spans of a profiler, by process.
    pub profiled: BTreeMap<u32, (i64, i64)>,
}

/// A device that a process used. A profile has a separate process per device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct DeviceId {
    pub proc: u32,
    /// Its number, as the process counts devices; `None` if spans do not name it.
    pub device: Option<i32>,
}

/// The work of a device. The lists are disjoint and ascending once they are united.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub struct DeviceWork {
    pub kernels: Vec<Interval>,
    pub collectives: Vec<Interval>,
    pub copies: Vec<Interval>,
    /// Copies from or to memory that the host has not pinned.
    pub pageable: Vec<Interval>,
    /// Whole steps, between two events on the stream.
    pub steps: Vec<Interval>,
    /// Waits of threads for the device, according to a profiler. Calls may show them, too.
    pub syncs: Vec<Interval>,
    /// Number of waits for a batch that events on the stream timed, and number of kernels.
    pub timed_waits: u64,
    pub kernel_count: u64,
    /// Number of all spans of the device.
    pub spans: u64,
}

/// Times of a thread of the host.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub struct HostTimes {
    /// Waits for batches, according to spans.
    pub fetches: Vec<Interval>,
    /// Spans in which it writes a checkpoint.
    pub saves: Vec<Interval>,
    /// Calls in which it waits for a device.
    pub syncs: Vec<Interval>,
    pub sync_count: u64,
}

impl DeviceTimes {
    /// Adds a span of a device.
    pub fn span(&mut self, id: DeviceId, span: DeviceSpan, interval: Interval) {
        let work = self.work.entry(id).or_default();
        work.spans += 1;
        work.kernel_count += u64::from(matches!(span, DeviceSpan::Kernel | DeviceSpan::Collective));
        match span {
            DeviceSpan::Kernel => work.kernels.push(interval),
            DeviceSpan::Collective => work.collectives.push(interval),
            DeviceSpan::Copy => work.copies.push(interval),
            DeviceSpan::PageableCopy => {
                work.copies.push(interval);
                work.pageable.push(interval);
            }
            DeviceSpan::Step => work.steps.push(interval),
            DeviceSpan::Sync => work.syncs.push(interval),
            DeviceSpan::DataWait => work.timed_waits += 1,
            DeviceSpan::Annotation => {}
        }
    }

    pub fn profiled(&mut self, proc: u32, interval: Interval) {
        let (from, to) = self.profiled.entry(proc).or_insert((interval.start, interval.end));
        (*from, *to) = ((*from).min(interval.start), (*to).max(interval.end));
    }

    pub fn fetch(&mut self, lane: LaneId, interval: Interval) {
        self.threads.entry(lane).or_default().fetches.push(interval);
    }

    pub fn save(&mut self, lane: LaneId, interval: Interval) {
        self.threads.entry(lane).or_default().saves.push(interval);
    }

    pub fn sync(&mut self, lane: LaneId, interval: Interval) {
        let thread = self.threads.entry(lane).or_default();
        thread.syncs.push(interval);
        thread.sync_count += 1;
    }

    /// Makes all lists disjoint and ascending, which shortens them.
    pub fn unite(&mut self) {
        for work in self.work.values_mut() {
            work.lists().into_iter().for_each(unite);
        }
        for thread in self.threads.values_mut() {
            thread.lists().into_iter().for_each(unite);
        }
    }

    pub fn merge(&mut self, other: DeviceTimes) {
        for (id, mut theirs) in other.work {
            let work = self.work.entry(id).or_default();
            work.timed_waits += theirs.timed_waits;
            work.kernel_count += theirs.kernel_count;
            work.spans += theirs.spans;
            work.lists().into_iter().zip(theirs.lists()).for_each(|(mine, theirs)| mine.append(theirs));
        }
        for (proc, (from, to)) in other.profiled {
            self.profiled(proc, Interval { start: from, end: to });
        }
        for (lane, mut theirs) in other.threads {
            let thread = self.threads.entry(lane).or_default();
            thread.sync_count += theirs.sync_count;
            thread.lists().into_iter().zip(theirs.lists()).for_each(|(mine, theirs)| mine.append(theirs));
        }
    }
}

impl DeviceWork {
    /// Returns `true` if the device did anything.
    pub fn is_some(&self) -> bool {
        [&self.kernels, &self.collectives, &self.copies, &self.steps].iter().any(|list| !list.is_empty())
    }

    fn lists(&mut self) -> [&mut Vec<Interval>; 6] {
        let DeviceWork { kernels, collectives, copies, pageable, steps, syncs, .. } = self;
        [kernels, collectives, copies, pageable, steps, syncs]
    }
}

impl HostTimes {
    fn lists(&mut self) -> [&mut Vec<Interval>; 3] {
        [&mut self.fetches, &mut self.saves, &mut self.syncs]
    }
}
