//! GPUs: how much of the waits of trainers their work hides, and how the time of a GPU divides.
//!
//! A host that waits for a batch costs nothing while the GPU still has work: launches return before their work is done. So
//! the part of a wait during which a GPU of the trainer was busy is hidden, and only the rest counts as a wait. Both
//! clocks are those of the trace: the tracer maps the times of a GPU to its own clock.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::count::counted::Counted;
use super::count::device_times::{DeviceTimes, DeviceWork, HostTimes};
use super::time::intervals::{Interval, common, length, shared, unite, united, without};
use super::tree::LaneId;
use super::waits::parts::{Part, Parts};
use super::waits::trainers::{Wait, WaitKind, Waits};
use crate::catalog::Process;

/// The time of a trainer's GPU during the training.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeviceUse {
    /// `true` if kernels were recorded. Otherwise events at the loader's calls delimit the steps, and a step contains the
    /// pauses between its kernels: the time that the GPU was busy is then an upper bound.
    pub by_kernels: bool,
    /// Kernels and copies, without those in which ranks communicate.
    pub busy_ns: i64,
    /// Kernels in which ranks communicate and wait for one another, without others at the same time.
    pub collective_ns: i64,
    /// Copies without a kernel at the same time, and copies of memory that was not pinned.
    pub copy_ns: i64,
    pub pageable_ns: i64,
    pub kernels: u64,
    /// Waits for data while the GPU was busy: they cost nothing.
    pub hidden_ns: i64,
    /// The time that the GPU was idle: in waits for data, while the trainer saved, and the rest, in which the host had not
    /// launched work.
    pub idle_ns: i64,
    pub idle_data_ns: i64,
    pub idle_save_ns: i64,
    pub idle_rest_ns: i64,
    /// Calls in which the training thread waited for the GPU.
    pub sync_ns: i64,
    pub syncs: u64,
    /// The waits for data that the times of the GPU cover, and all of them.
    pub timed_wait_ns: i64,
    pub wait_ns: i64,
}

/// A share of the waits below this is not covered: the times of the GPU describe the training.
const COVERED: f64 = 0.9;

impl DeviceUse {
    /// Returns `true` if the GPU was timed during most waits.
    pub fn is_covered(&self) -> bool {
        self.timed_wait_ns as f64 >= COVERED * self.wait_ns as f64
    }
}

/// The GPUs of a trace, related to the processes that use them.
pub struct Devices<'a> {
    times: &'a DeviceTimes,
    processes: &'a [Process],
    /// The devices that a profile shows as processes, by its path.
    profiled: BTreeMap<&'a str, Vec<u32>>,
}

/// Separates the waits of trainers that the work of a GPU hides from those that cost time.
pub fn hide(waits: &mut Waits, counted: &Counted, processes: &[Process]) {
    if counted.devices.work.is_empty() {
        return;
    }
    let devices = Devices::new(counted, processes);
    for trainer in &mut waits.trainers {
        let busy = in_use(&devices.work(trainer.lane.proc));
        if !busy.is_empty() {
            trainer.waits.iter_mut().filter(|wait| wait.kind == WaitKind::Data).for_each(|wait| hide_one(wait, &busy));
        }
    }
}

fn hide_one(wait: &mut Wait, busy: &[Interval]) {
    let whole = wait.end - wait.start;
    let hidden = shared(&[Interval { start: wait.start, end: wait.end }], busy);
    let exposed = wait.parts.scaled(whole - hidden);
    wait.parts = exposed.unwrap_or_default() + Parts::of(Part::Hidden, hidden);
}

impl<'a> Devices<'a> {
    pub fn new(counted: &'a Counted, processes: &'a [Process]) -> Devices<'a> {
        let (times, mut profiled) = (&counted.devices, BTreeMap::<&str, Vec<u32>>::new());
        // Nothing but the device is on the track of one.
        let is_device = |proc: u32, work: &DeviceWork| {
            counted.processes.get(proc as usize).is_some_and(|it| it.events == work.spans)
        };
        for (&proc, work) in &times.work {
            if let Some(process) = processes.get(proc as usize).filter(|_| is_device(proc, work)) {
                profiled.entry(&process.source).or_default().push(proc);
            }
        }
        Devices { times, processes, profiled }
    }

    /// Returns the work of the devices that a process uses: its own, and that in a profile of the same process.
    fn work(&self, proc: u32) -> Vec<&'a DeviceWork> {
        let Some(this) = self.processes.get(proc as usize) else { return Vec::new() };
        let is_its = |source: &str| source == this.source || this.profile.as_deref() == Some(source);
        let found =
            self.profiled.iter().flat_map(|(source, devices)| devices.iter().map(move |device| (*source, device)));
        let found = found.filter(|(source, device)| **device != proc && is_its(source));
        let found = found.filter_map(|(_, device)| self.times.work.get(device));
        self.times.work.get(&proc).into_iter().chain(found).collect()
    }

    /// Returns the time in which a profiler was active; `None` if the process itself recorded its devices all the time.
    fn timed_in(&self, proc: u32, used: &[Interval]) -> Option<Interval> {
        if self.times.work.contains_key(&proc) {
            return None;
        }
        let (start, end) = self.times.profiled.get(&proc).copied().unwrap_or((i64::MAX, i64::MIN));
        Some(Interval { start: start.min(used.first()?.start), end: end.max(used.last()?.end) })
    }

    /// Returns the time of a trainer's devices from `from` to `to`; `None` if nothing timed one. `waits` are its waits for
    /// data, if they are known from calls.
    pub fn used(&self, trainer: LaneId, (from, to): (i64, i64), waits: Option<Vec<Interval>>) -> Option<DeviceUse> {
        let work = self.work(trainer.proc);
        let window = [Interval { start: from, end: to }];
        let limited = |of: fn(&DeviceWork) -> &Vec<Interval>| {
            let all = united(work.iter().map(|work| of(work).clone()).collect());
            common(&all, &window)
        };
        let by_kernels = has_kernels(&work);
        let (own, copies) = (limited(computing(by_kernels)), limited(|work| &work.copies));
        let collectives = limited(|work| &work.collectives);
        let busy = united(vec![own.clone(), copies.clone()]);
        let used = common(&in_use(&work), &window);
        used.first()?;
        let timed_in = self.timed_in(trainer.proc, &used).unwrap_or(window[0]);
        const NOTHING: &HostTimes =
            &HostTimes { fetches: Vec::new(), saves: Vec::new(), syncs: Vec::new(), sync_count: 0 };
        let host = self.times.threads.get(&trainer).unwrap_or(NOTHING);
        let mut waits = waits.unwrap_or_else(|| host.fetches.clone());
        unite(&mut waits);
        let waits = common(&waits, &window);
        let covered = common(&waits, &[timed_in]);
        let idle = without(&window, &used);
        let (idle_data, saves) = (shared(&idle, &waits), without(&host.saves, &waits));
        let idle_save = shared(&idle, &saves);
        Some(DeviceUse {
            by_kernels,
            busy_ns: length(&busy),
            collective_ns: length(&without(&collectives, &busy)),
            copy_ns: length(&without(&copies, &own)),
            pageable_ns: length(&limited(|work| &work.pageable)),
            kernels: work.iter().map(|work| work.kernel_count).sum(),
            hidden_ns: length(&waits) - idle_data,
            idle_ns: length(&idle),
            idle_data_ns: idle_data,
            idle_save_ns: idle_save,
            idle_rest_ns: length(&idle) - idle_data - idle_save,
            sync_ns: shared(&host.syncs, &window),
            syncs: host.sync_count,
            timed_wait_ns: timed(&work, host, length(&covered)),
            wait_ns: length(&waits),
        })
    }
}

/// Returns the part of covered waits that was timed: events on a stream may be missing for some of them.
fn timed(work: &[&DeviceWork], host: &HostTimes, covered_ns: i64) -> i64 {
    let timed: u64 = work.iter().map(|work| work.timed_waits).sum();
    let all = host.fetches.len() as u64;
    let by_events = !has_kernels(work) && all > 0;
    if by_events { (covered_ns as i128 * timed.min(all) as i128 / all as i128) as i64 } else { covered_ns }
}

fn has_kernels(work: &[&DeviceWork]) -> bool {
    work.iter().any(|work| work.kernel_count > 0)
}

/// Returns the list of the work itself: the kernels, or the steps if kernels were not recorded.
fn computing(by_kernels: bool) -> fn(&DeviceWork) -> &Vec<Interval> {
    if by_kernels { |work| &work.kernels } else { |work| &work.steps }
}

/// Returns the intervals in which one of the devices was in use.
fn in_use(work: &[&DeviceWork]) -> Vec<Interval> {
    let computing = computing(has_kernels(work));
    united(work.iter().flat_map(|work| [computing(work), &work.copies, &work.collectives]).cloned().collect())
}

impl std::ops::Add for DeviceUse {
    type Output = DeviceUse;

    fn add(self, other: DeviceUse) -> DeviceUse {
        DeviceUse {
            by_kernels: self.by_kernels && other.by_kernels,
            busy_ns: self.busy_ns + other.busy_ns,
            collective_ns: self.collective_ns + other.collective_ns,
            copy_ns: self.copy_ns + other.copy_ns,
            pageable_ns: self.pageable_ns + other.pageable_ns,
            kernels: self.kernels + other.kernels,
            hidden_ns: self.hidden_ns + other.hidden_ns,
            idle_ns: self.idle_ns + other.idle_ns,
            idle_data_ns: self.idle_data_ns + other.idle_data_ns,
            idle_save_ns: self.idle_save_ns + other.idle_save_ns,
            idle_rest_ns: self.idle_rest_ns + other.idle_rest_ns,
            sync_ns: self.sync_ns + other.sync_ns,
            syncs: self.syncs + other.syncs,
            timed_wait_ns: self.timed_wait_ns + other.timed_wait_ns,
            wait_ns: self.wait_ns + other.wait_ns,
        }
    }
}
