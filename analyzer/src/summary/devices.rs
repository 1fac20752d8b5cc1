//! GPUs: how much of the waits of trainers their work hides, and how the time of a GPU divides.
//!
//! A host that waits for a batch costs nothing while the GPU still has work: launches return before their work is done. So
//! the part of a wait during which a GPU of the trainer was busy is hidden, and only the rest counts as a wait. Both
//! clocks are those of the trace: the tracer maps the times of a GPU to its own clock.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::count::counted::Counted;
use super::count::device_times::{DeviceId, DeviceTimes, DeviceWork, HostTimes};
use super::time::intervals::{Interval, common, length, shared, unite, united, without};
use super::tree::LaneId;
use super::waits::parts::{Part, Parts};
use super::waits::trainers::{Wait, WaitKind, Waits};
use crate::catalog::Process;

/// The time of a trainer's GPUs during the training. If it has several, they are busy while one of them is, and idle while
/// all are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
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
    /// Calls in which the training thread waited for the GPU, and waits of its process that only a profiler shows.
    pub sync_ns: i64,
    pub syncs: u64,
    /// The waits for data that the times of the GPU cover, and all of them.
    pub timed_wait_ns: i64,
    pub wait_ns: i64,
    /// Each of its GPUs.
    pub each: Vec<OneDevice>,
    /// The idle time by step; `null` if no wait for data shows the steps.
    #[serde(default)]
    pub steps: Option<StepIdle>,
}

/// How long the GPUs of a trainer were idle in a step: from the start of one wait for data to the start of the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StepIdle {
    pub steps: u64,
    pub median_ns: i64,
    /// 95 % of the steps have at most this much.
    pub p95_ns: i64,
    pub longest_ns: i64,
    /// Start of the step with the most.
    pub longest_ts: i64,
}

impl StepIdle {
    /// Divides the idle time by the starts of waits; the last step lasts until `end`.
    fn of(waits: &[Interval], idle: &[Interval], end: i64) -> Option<StepIdle> {
        let mut from = 0;
        let ends = waits.iter().skip(1).map(|next| next.start).chain([end]);
        let mut steps: Vec<(i64, i64)> = Vec::with_capacity(waits.len());
        for (start, end) in waits.iter().map(|wait| wait.start).zip(ends) {
            from += idle[from..].iter().take_while(|idle| idle.end <= start).count();
            let within = idle[from..].iter().take_while(|idle| idle.start < end);
            steps.push((within.map(|idle| idle.end.min(end) - idle.start.max(start)).sum(), start));
        }
        let (longest_ns, longest_ts) = steps.iter().copied().max_by_key(|(ns, start)| (*ns, -start))?;
        steps.sort_unstable();
        let rank = |part: usize| steps[(steps.len() * part).div_ceil(100).max(1) - 1].0;
        Some(StepIdle { steps: steps.len() as u64, median_ns: rank(50), p95_ns: rank(95), longest_ns, longest_ts })
    }
}

/// The time of one GPU.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OneDevice {
    /// Its number, as the process counts its GPUs; `null` if the trace does not contain it.
    pub device: Option<i32>,
    pub busy_ns: i64,
    pub collective_ns: i64,
    pub idle_ns: i64,
    pub kernels: u64,
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
    profiled: BTreeMap<&'a str, Vec<DeviceId>>,
}

/// Separates the waits of trainers that the work of a GPU hides from those that cost time.
pub fn hide(waits: &mut Waits, counted: &Counted, processes: &[Process]) {
    if counted.devices.work.is_empty() {
        return;
    }
    let devices = Devices::new(counted, processes);
    for trainer in &mut waits.trainers {
        let busy = in_use(&devices.of(trainer.lane.proc));
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
        let (times, mut profiled) = (&counted.devices, BTreeMap::<&str, Vec<DeviceId>>::new());
        // Nothing but the device is on the track of one.
        let is_device = |proc: u32| {
            let spans: u64 = own(times, proc).map(|(_, work)| work.spans).sum();
            counted.processes.get(proc as usize).is_some_and(|it| it.events == spans)
        };
        for &id in times.work.keys() {
            if let Some(process) = processes.get(id.proc as usize).filter(|_| is_device(id.proc)) {
                profiled.entry(&process.source).or_default().push(id);
            }
        }
        Devices { times, processes, profiled }
    }

    /// Returns the records of the devices that a process uses: its own, and those in a profile of it.
    fn known(&self, proc: u32) -> Vec<(Option<i32>, &'a DeviceWork)> {
        let Some(this) = self.processes.get(proc as usize) else { return Vec::new() };
        let is_its = |source: &str| source == this.source || this.profile.as_deref() == Some(source);
        let found = self.profiled.iter().filter(|(source, _)| is_its(source)).flat_map(|(_, devices)| devices);
        let found = found.filter(|id| id.proc != proc).filter_map(|id| {
            // The number of the process is that of the device.
            let number = self.processes.get(id.proc as usize).map(|process| process.pid);
            Some((id.device.or(number), self.times.work.get(id)?))
        });
        own(self.times, proc).map(|(id, work)| (id.device, work)).chain(found).collect()
    }

    /// Returns the devices that worked for a process.
    fn of(&self, proc: u32) -> DeviceList<'a> {
        let mut list = DeviceList::new();
        for (device, work) in self.known(proc).into_iter().filter(|(_, work)| work.is_some()) {
            list.entry(device).or_default().push(work);
        }
        list
    }

    /// Returns the waits for devices that no recorded call of any thread of a process shows.
    fn unseen_syncs(&self, proc: u32) -> Vec<Interval> {
        let told = united(self.known(proc).into_iter().map(|(_, work)| work.syncs.clone()).collect());
        let threads = LaneId { proc, tid: i32::MIN }..=LaneId { proc, tid: i32::MAX };
        let called = self.times.threads.range(threads).map(|(_, thread)| thread.syncs.clone());
        // The record of a call covers less than the call.
        let called = united(called.collect());
        told.into_iter().filter(|sync| shared(&[*sync], &called) == 0).collect()
    }

    /// Returns when each device of a process worked, within a window.
    pub fn spans(&self, proc: u32, window: Interval) -> Vec<(Option<i32>, DeviceSpans)> {
        let devices = self.of(proc);
        let by_kernels = has_kernels(&devices);
        let spans = |work: &[&DeviceWork]| {
            let active = Activity::of(work, by_kernels, window);
            let collectives = without(&active.collectives, &active.busy);
            DeviceSpans { busy: active.busy, collectives }
        };
        devices.iter().map(|(device, work)| (*device, spans(work))).collect()
    }

    /// Returns the time in which a profiler was active; `None` if the process itself recorded its devices all the time.
    fn timed_in(&self, proc: u32, used: &[Interval]) -> Option<Interval> {
        if own(self.times, proc).next().is_some() {
            return None;
        }
        let (start, end) = self.times.profiled.get(&proc).copied().unwrap_or((i64::MAX, i64::MIN));
        Some(Interval { start: start.min(used.first()?.start), end: end.max(used.last()?.end) })
    }

    /// Returns the time of a trainer's devices from `from` to `to`; `None` if nothing timed one. `waits` are its waits for
    /// data, if they are known from calls.
    pub fn used(&self, trainer: LaneId, (from, to): (i64, i64), waits: Option<Vec<Interval>>) -> Option<DeviceUse> {
        let devices = self.of(trainer.proc);
        let window = [Interval { start: from, end: to }];
        let by_kernels = has_kernels(&devices);
        let active: Vec<Activity> = devices.values().map(|work| Activity::of(work, by_kernels, window[0])).collect();
        let each = devices.iter().zip(&active).map(|((device, work), active)| OneDevice {
            device: *device,
            busy_ns: length(&active.busy),
            collective_ns: length(&without(&active.collectives, &active.busy)),
            idle_ns: to - from - length(&active.used),
            kernels: work.iter().map(|work| work.kernel_count).sum(),
        });
        let each: Vec<OneDevice> = each.collect();
        let all = Activity::of_all(active);
        all.used.first()?;
        let timed_in = self.timed_in(trainer.proc, &all.used).unwrap_or(window[0]);
        const NOTHING: &HostTimes =
            &HostTimes { fetches: Vec::new(), saves: Vec::new(), syncs: Vec::new(), sync_count: 0 };
        let host = self.times.threads.get(&trainer).unwrap_or(NOTHING);
        let mut waits = waits.unwrap_or_else(|| host.fetches.clone());
        unite(&mut waits);
        let waits = common(&waits, &window);
        let covered = common(&waits, &[timed_in]);
        let unseen_syncs = self.unseen_syncs(trainer.proc);
        let idle = without(&window, &all.used);
        let (idle_data, saves) = (shared(&idle, &waits), without(&host.saves, &waits));
        let idle_save = shared(&idle, &saves);
        Some(DeviceUse {
            by_kernels,
            busy_ns: length(&all.busy),
            collective_ns: length(&without(&all.collectives, &all.busy)),
            copy_ns: length(&without(&all.copies, &all.own)),
            pageable_ns: length(&all.pageable),
            kernels: each.iter().map(|device| device.kernels).sum(),
            hidden_ns: length(&waits) - idle_data,
            idle_ns: length(&idle),
            idle_data_ns: idle_data,
            idle_save_ns: idle_save,
            idle_rest_ns: length(&idle) - idle_data - idle_save,
            sync_ns: shared(&host.syncs, &window) + shared(&unseen_syncs, &window),
            syncs: host.sync_count + unseen_syncs.len() as u64,
            timed_wait_ns: timed(&devices, host, length(&covered)),
            wait_ns: length(&waits),
            each,
            steps: StepIdle::of(&waits, &idle, to),
        })
    }
}

/// The devices of a process by number, each with the lists of its work.
type DeviceList<'a> = BTreeMap<Option<i32>, Vec<&'a DeviceWork>>;

/// Returns the devices whose work a process recorded itself.
fn own(times: &DeviceTimes, proc: u32) -> impl Iterator<Item = (&DeviceId, &DeviceWork)> {
    times.work.range(DeviceId { proc, device: None }..=DeviceId { proc, device: Some(i32::MAX) })
}

/// When a device worked, and when it did nothing but communicate.
pub struct DeviceSpans {
    pub busy: Vec<Interval>,
    pub collectives: Vec<Interval>,
}

/// When devices worked, in a window.
struct Activity {
    /// The work itself, copies, and both.
    own: Vec<Interval>,
    copies: Vec<Interval>,
    busy: Vec<Interval>,
    collectives: Vec<Interval>,
    pageable: Vec<Interval>,
    used: Vec<Interval>,
}

impl Activity {
    /// Returns the activity of one device.
    fn of(work: &[&DeviceWork], by_kernels: bool, window: Interval) -> Activity {
        let within = |of: fn(&DeviceWork) -> &Vec<Interval>| {
            common(&united(work.iter().map(|work| of(work).clone()).collect()), &[window])
        };
        let (own, copies) = (within(computing(by_kernels)), within(|work| &work.copies));
        let (collectives, pageable) = (within(|work| &work.collectives), within(|work| &work.pageable));
        let busy = united(vec![own.clone(), copies.clone()]);
        let used = united(vec![busy.clone(), collectives.clone()]);
        Activity { own, copies, busy, collectives, pageable, used }
    }

    /// Returns when at least one of several devices was active.
    fn of_all(each: Vec<Activity>) -> Activity {
        let any =
            |of: fn(&Activity) -> &Vec<Interval>| united(each.iter().map(|activity| of(activity).clone()).collect());
        Activity {
            own: any(|it| &it.own),
            copies: any(|it| &it.copies),
            busy: any(|it| &it.busy),
            collectives: any(|it| &it.collectives),
            pageable: any(|it| &it.pageable),
            used: any(|it| &it.used),
        }
    }
}

/// Returns the part of covered waits that was timed: events on a stream may be missing for some of them.
fn timed(devices: &DeviceList, host: &HostTimes, covered_ns: i64) -> i64 {
    let timed: u64 = devices.values().flatten().map(|work| work.timed_waits).sum();
    let all = host.fetches.len() as u64;
    let by_events = !has_kernels(devices) && all > 0;
    if by_events { (covered_ns as i128 * timed.min(all) as i128 / all as i128) as i64 } else { covered_ns }
}

fn has_kernels(devices: &DeviceList) -> bool {
    devices.values().flatten().any(|work| work.kernel_count > 0)
}

/// Returns the list of the work itself: the kernels, or the steps if kernels were not recorded.
fn computing(by_kernels: bool) -> fn(&DeviceWork) -> &Vec<Interval> {
    if by_kernels { |work| &work.kernels } else { |work| &work.steps }
}

/// Returns the intervals in which one of the devices was in use.
fn in_use(devices: &DeviceList) -> Vec<Interval> {
    let (computing, work) = (computing(has_kernels(devices)), devices.values().flatten());
    united(work.flat_map(|work| [computing(work), &work.copies, &work.collectives]).cloned().collect())
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
            each: self.each.into_iter().chain(other.each).collect(),
            steps: [self.steps, other.steps].into_iter().flatten().max_by_key(|steps| steps.longest_ns),
        }
    }
}
