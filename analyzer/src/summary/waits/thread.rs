//! Divides one thread's time: returns its activity between any two timestamps.

use std::collections::BTreeMap;

use dlio_schemas::evidence::Counters;
use serde::{Deserialize, Serialize};

use super::parts::{Part, Parts};
use super::timeline::{Object, OpenedFile, Step, StepKind, ThreadPart};
use crate::batch::Usage;
use crate::summary::time::intervals::{Interval, unite, united};
use crate::summary::tree::LaneId;

/// Minimum duration of a wait. A thread that sleeps and is woken immediately takes about as long.
pub const WAIT_NS: i64 = 10_000;

/// A thread's steps, with its time divided into parts.
pub struct Thread {
    pub lane: LaneId,
    /// `true` for the main thread of the process.
    pub is_first: bool,
    pub born: i64,
    pub last: i64,
    pub steps: Vec<Step>,
    /// Class of each step when it is part of another thread's wait.
    pub class: Vec<Part>,
    /// Time from the thread's birth to the end of each step, by part.
    through: Vec<Parts>,
    /// The last step up to each step in which the thread was starved, plus one; zero if there is none.
    starved: Vec<u32>,
    pub fetches: Vec<Interval>,
    pub loader_starts: Vec<Interval>,
    pub tasks: Vec<Interval>,
    pub reads: Vec<Interval>,
    /// When it saved files: in calls that write or sync, and between opening and closing a file that it wrote.
    pub puts: Vec<Interval>,
    /// The part of it in calls.
    pub put_calls: Vec<Interval>,
    /// Time in calls on stored files, and the part of it in writes.
    pub stored_ns: i64,
    pub written_ns: i64,
    /// Files that it made.
    pub files_made: usize,
    /// Files that it opened first after sleeps, in order of time.
    pub opened: Vec<OpenedFile>,
    /// `true` if the kernel's counters show its CPU time, and until when they do.
    pub is_counted: bool,
    pub counted_until: i64,
    /// `true` if it accepts connections.
    pub accepts: bool,
    /// Page faults of its work on mapped files; `None` if the trace has no counters of the kernel.
    pub faults: Option<Faults>,
    /// Its use of mapped data files, if it is the first thread of its process and maps any.
    pub mapped: Option<Mapped>,
}

/// Use of mapped data files by a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Mapped {
    /// Its first mapping, and its last event.
    pub from_ts: i64,
    pub to_ts: i64,
    /// Page faults that storage served, and the least time that it waited for them after the first mapping.
    pub faults: u64,
    pub fault_ns: i64,
}

impl Mapped {
    /// Returns the share of the time since the first mapping in which it waited for storage, at least.
    pub fn part(&self) -> f64 {
        self.fault_ns as f64 / (self.to_ts - self.from_ts).max(1) as f64
    }
}

/// Page faults.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Faults {
    /// Those for which storage read pages, and those for pages that were in memory or are new.
    pub major: u64,
    pub minor: u64,
}

impl Faults {
    /// Sums the intervals between two readings of the counters in which storage served a fault. The first such interval
    /// includes the start of the thread, whose new memory causes thousands of minor faults.
    fn of(usage: &[Usage]) -> Option<Faults> {
        let served = usage.iter().map(|usage| usage.counters).filter(|counters| counters.major_faults > 0).skip(1);
        let faults = |counters: Counters| Faults { major: counters.major_faults, minor: counters.minor_faults };
        (!usage.is_empty()).then(|| served.map(faults).fold(Faults::default(), |sum, more| sum + more))
    }
}

impl std::ops::Add for Faults {
    type Output = Faults;

    fn add(self, other: Faults) -> Faults {
        Faults { major: self.major + other.major, minor: self.minor + other.minor }
    }
}

/// Returns the messages of a list that came through objects of one kind. Each object is looked at once.
pub fn received_through<'s>(
    messages: impl Iterator<Item = &'s Step>,
    is_meant: impl Fn(u64) -> bool,
) -> impl Iterator<Item = &'s Step> {
    let mut known: BTreeMap<u64, bool> = BTreeMap::new();
    messages.filter(move |step| *known.entry(step.object.id).or_insert_with(|| is_meant(step.object.id)))
}

/// Fewer items show no pattern.
const ITEMS_MIN: usize = 5;

impl Thread {
    pub fn new(lane: LaneId, is_first: bool, mut part: ThreadPart) -> Thread {
        part.steps.sort_by_key(|step| (step.end, step.start));
        part.usage.sort_by_key(|usage| usage.ts);
        part.fetches.sort_by_key(|fetch| fetch.end);
        unite(&mut part.puts);
        let puts = united(vec![part.puts.clone(), part.saves]);
        let born = part.first.unwrap_or(0);
        // A step that starts before the previous one ended is truncated at that end.
        let mut at = born;
        for step in &mut part.steps {
            step.start = step.start.max(at);
            step.end = step.end.max(step.start);
            at = step.end;
        }
        let mut class: Vec<Part> = part.steps.iter().map(class_of).collect();
        name_polls(&mut part.steps);
        let mut last = None;
        for (at, step) in part.steps.iter().enumerate() {
            if matches!(step.kind, StepKind::Take | StepKind::Poll) {
                if class[at] == Part::Idle && last.is_some_and(|last| goes_on(&part.steps[last], step)) {
                    class[at] = Part::HandOver;
                }
                last = Some(at);
            } else if step.kind == StepKind::Give {
                // The next message is a response.
                last = None;
            }
        }
        let from_mapping = part.mapped.filter(|_| is_first);
        let thread = Thread {
            lane,
            is_first,
            born,
            last: at,
            class,
            through: Vec::new(),
            starved: Vec::new(),
            is_counted: !part.usage.is_empty(),
            accepts: part.steps.iter().any(|step| step.kind == StepKind::Accept),
            counted_until: part.usage.last().map_or(born, |usage| usage.ts),
            faults: Faults::of(&part.usage),
            steps: part.steps,
            fetches: part.fetches,
            loader_starts: part.loader_starts,
            tasks: part.tasks,
            reads: part.reads,
            puts,
            put_calls: part.puts,
            stored_ns: part.stored_ns,
            written_ns: part.written_ns,
            files_made: part.made_files.len(),
            opened: part.opened,
            mapped: None,
        }
        .divided(&part.usage, part.mapped);
        Thread { mapped: from_mapping.map(|from| thread.use_of_mappings(from, &part.usage)), ..thread }
    }

    /// Returns its use of mapped files since a timestamp. Faults of a window that starts before may be earlier ones, for
    /// as long as it made no calls then.
    fn use_of_mappings(&self, from: i64, usage: &[Usage]) -> Mapped {
        let (mut found, mut start) = (Mapped { from_ts: from, to_ts: self.last, faults: 0, fault_ns: 0 }, self.born);
        for window in Window::all_of_mappings(usage, Some(from)) {
            if window.end > from && window.reads_mappings {
                let waited = self.composition(start, window.end).get(Part::PageFaults);
                let before = self.composition(start, from.max(start));
                let outside = [Part::PageFaults, Part::Cpu, Part::NoCpu, Part::OutsideCalls];
                let earlier: i64 = outside.iter().map(|part| before.get(*part)).sum();
                found.fault_ns += (window.waits_for_faults(waited) - earlier).max(0);
                found.faults += window.major_faults;
            }
            start = window.end;
        }
        found
    }

    /// Divides the time between steps in advance; `mapped` is the first mapping of a data file.
    fn divided(mut self, usage: &[Usage], mapped: Option<i64>) -> Thread {
        let mut fetches = self.fetches.clone();
        unite(&mut fetches);
        let mut gaps: Vec<Parts> = Vec::with_capacity(self.steps.len());
        let mut at = 0;
        for window in Window::all_of_mappings(usage, mapped) {
            let to = at + self.steps[at..].partition_point(|step| step.end <= window.end + ROUNDING_NS);
            // The loader reads mapped files, not the training.
            let reads_files = mapped.is_some_and(|from| from < window.end);
            self.divide(at..to, Some(&window), (&fetches, reads_files), &mut gaps);
            at = to;
        }
        // Time after the last count has its own proportions, as far as known.
        self.divide(at..self.steps.len(), None, (&fetches, false), &mut gaps);
        self.accumulate(&gaps);
        self
    }

    fn divide(
        &self,
        steps: std::ops::Range<usize>,
        window: Option<&Window>,
        (fetches, reads_mapped): (&[Interval], bool),
        gaps: &mut Vec<Parts>,
    ) {
        let from = |i: usize| if i == 0 { self.born } else { self.steps[i - 1].end };
        let length = |i: usize| self.steps[i].start - from(i);
        let calls = |i: usize| {
            let (storage, memory) = (self.steps[i].storage, self.steps[i].memory);
            let room = length(i).max(0);
            (storage.min(room), memory.min(room - storage.min(room)))
        };
        let outside = |i: usize| length(i).max(0) - calls(i).0 - calls(i).1;
        let total: i64 = steps.clone().map(outside).sum();
        let stored: i64 = steps.clone().map(|i| calls(i).0).sum();
        let fetches_data = |i: usize| {
            let middle = from(i) + length(i) / 2;
            let span = fetches.get(fetches.partition_point(|span| span.end <= middle));
            span.is_some_and(|span| span.start <= middle)
        };
        let shares = window.map(|window| {
            let (all, of_calls) = window.shares(total, stored);
            let is_fetch = |&i: &usize| reads_mapped && fetches_data(i);
            let fetched: i64 = steps.clone().filter(is_fetch).map(outside).sum();
            let in_fetches = window.in_fetches(all, fetched);
            (all - in_fetches, in_fetches, of_calls)
        });
        for i in steps {
            let (storage, memory) = calls(i);
            let mut gap = Parts::of(Part::HandOver, memory);
            match &shares {
                Some((others, in_fetches, of_calls)) => {
                    let gaps_of = if reads_mapped && fetches_data(i) { in_fetches } else { others };
                    gap += gaps_of.scaled(outside(i)).unwrap_or(Parts::of(Part::OutsideCalls, outside(i)));
                    gap += of_calls.scaled(storage).unwrap_or(Parts::of(Part::Storage, storage));
                }
                None => gap += Parts::of(Part::OutsideCalls, outside(i)) + Parts::of(Part::Storage, storage),
            }
            gaps.push(self.handing_over(i, outside(i), gap));
        }
    }

    /// Counts filling a batch's shared memory as hand-over: the CPU time after the first call on that memory.
    fn handing_over(&self, step: usize, outside: i64, gap: Parts) -> Parts {
        let step = &self.steps[step];
        let Some(from) = step.memory_from.filter(|_| outside > 0) else { return gap };
        let part = (step.start - from).clamp(0, outside) as i128;
        let filling = (gap.get(Part::Cpu) as i128 * part / outside as i128) as i64;
        gap - Parts::of(Part::Cpu, filling) + Parts::of(Part::HandOver, filling)
    }

    fn accumulate(&mut self, gaps: &[Parts]) {
        let mut sum = Parts::default();
        // Reserved exactly: most of 100,000 threads have one step.
        self.through = Vec::with_capacity(self.steps.len());
        for ((step, class), gap) in self.steps.iter().zip(&self.class).zip(gaps) {
            sum += *gap;
            sum.add(*class, step.end - step.start);
            self.through.push(sum);
        }
        self.starved = vec![0; self.steps.len()];
        self.find_starved(0);
    }

    /// Records the steps in which the thread was starved, starting with `first`.
    fn find_starved(&mut self, first: usize) {
        let mut last = first.checked_sub(1).map_or(0, |before| self.starved[before]);
        for at in first..self.steps.len() {
            if self.is_starved(at) {
                last = at as u32 + 1;
            }
            self.starved[at] = last;
        }
    }

    /// Changes the class of steps, given in ascending order.
    pub fn reclassify(&mut self, changed: &[(usize, Part)]) {
        let Some(&(first, _)) = changed.first() else { return };
        let (mut moved, mut next) = (Parts::default(), changed.iter().peekable());
        for at in first..self.steps.len() {
            while let Some(&(_, part)) = next.next_if(|(step, _)| *step == at) {
                let ns = self.steps[at].end - self.steps[at].start;
                moved += Parts::of(part, ns) - Parts::of(self.class[at], ns);
                self.class[at] = part;
            }
            self.through[at] += moved;
        }
        self.find_starved(first);
    }

    /// Returns the time from its birth to a timestamp, by part.
    fn until(&self, ts: i64) -> Parts {
        let at = self.steps.partition_point(|step| step.end <= ts);
        let before = if at == 0 { Parts::default() } else { self.through[at - 1] };
        let from = if at == 0 { self.born } else { self.steps[at - 1].end };
        let Some(step) = self.steps.get(at) else {
            return before + Parts::of(Part::OutsideCalls, (ts - from).max(0));
        };
        if ts <= from {
            return before;
        }
        let gap = (self.through[at] - before) - Parts::of(self.class[at], step.end - step.start);
        let within = (ts.min(step.start) - from).max(0);
        let gap = gap.scaled(within).unwrap_or(Parts::of(Part::OutsideCalls, within));
        before + gap + Parts::of(self.class[at], (ts - step.start).max(0))
    }

    /// Returns its activity between two timestamps; the sum is the time it was alive in that interval.
    pub fn composition(&self, from: i64, to: i64) -> Parts {
        if to <= from { Parts::default() } else { self.until(to) - self.until(from) }
    }

    /// Returns the time between two timestamps in which it was not kept waiting by another thread or for a CPU.
    pub fn worked(&self, from: i64, to: i64) -> i64 {
        let did = self.composition(from, to);
        let kept = [Part::Idle, Part::HandOver, Part::Gil, Part::NoCpu, Part::Lock].map(|part| did.get(part));
        did.sum() - kept.iter().sum::<i64>()
    }

    /// Returns `true` if it mostly serializes and forwards the output of other threads.
    pub fn passes_on(&self) -> bool {
        let all = self.through.last().copied().unwrap_or_default().without(Part::Idle);
        let (sum, hands) = (all.sum(), all.get(Part::HandOver));
        !self.is_first && 10 * hands > sum && 2 * (hands + all.get(Part::Lock)) > sum && 10 * all.fetched() < sum
    }

    /// Returns the time it read files, received from a network, or read mapped files, in all its life.
    pub fn fetched(&self) -> i64 {
        let all = self.through.last().copied().unwrap_or_default();
        self.stored_ns - self.written_ns + all.get(Part::Network) + all.get(Part::PageFaults)
    }

    /// Returns `true` if it reads files after most of its waits for input, or messages, at least `ITEMS_MIN` times, and hardly
    /// writes any.
    pub fn reads_items(&self) -> bool {
        let (mut items, mut read, mut waited, mut last) = (0, 0, false, i64::MIN);
        for (at, step) in self.steps.iter().enumerate() {
            // A message may take several calls.
            let is_message = || step.kind == StepKind::Take && step.amount > 0 && step.start - last >= REST_NS;
            if self.is_starved(at) || is_message() {
                (items, waited, last) = (items + 1, true, step.end);
            } else if waited && step.storage > 0 {
                (read, waited) = (read + 1, false);
            }
        }
        read >= ITEMS_MIN && 2 * read >= items && 2 * self.written_ns < self.stored_ns
    }

    /// Returns the last step that ended by a timestamp and in which it was blocked for input for a significant time.
    pub fn last_starved(&self, by: i64) -> Option<usize> {
        let to = self.steps.partition_point(|step| step.end <= by);
        (self.starved[..to].last().copied().unwrap_or(0) as usize).checked_sub(1)
    }

    /// Returns the messages that it received.
    pub fn takes(&self) -> impl DoubleEndedIterator<Item = &Step> {
        self.steps.iter().filter(|step| step.is_receipt())
    }

    /// Returns `true` if it had sent a message by a timestamp.
    pub fn has_sent(&self, by: i64) -> bool {
        let mut before = self.steps.iter().take_while(|step| step.start <= by);
        before.any(|step| step.kind == StepKind::Give && step.object.id != 0)
    }

    pub fn is_starved(&self, at: usize) -> bool {
        self.class[at] == Part::Idle && self.steps[at].end - self.steps[at].start >= WAIT_NS
    }
}

/// Assigns an object to waits for several objects: the object of the thread's next receive.
fn name_polls(steps: &mut [Step]) {
    let mut next: Option<(i64, Object)> = None;
    for step in steps.iter_mut().rev() {
        match step.kind {
            StepKind::Take => next = Some((step.start, step.object)),
            StepKind::Poll => {
                let soon = next.take().filter(|(start, _)| !step.timed_out && start - step.end < REST_NS);
                if let Some((_, object)) = soon.filter(|_| step.object.id == 0) {
                    step.object = object;
                }
            }
            _ => {}
        }
    }
}

/// Returns `true` if a call receives a message, or the rest of one, that has already arrived.
fn goes_on(before: &Step, step: &Step) -> bool {
    let same = before.object.id == step.object.id && step.object.id != 0;
    let is_ready = before.kind == StepKind::Take || before.kind == StepKind::Poll && !before.timed_out;
    is_ready
        && step.kind == StepKind::Take
        && same
        && step.start - before.end < REST_NS
        && step.end - step.start < REST_NS
}

/// The rest of a message arrives within this time.
pub const REST_NS: i64 = 1_000_000;

/// Returns the class of a step when it is part of another thread's wait.
fn class_of(step: &Step) -> Part {
    match step.kind {
        StepKind::LookUp => Part::Network,
        StepKind::Connect if step.object.network => Part::Network,
        StepKind::Connect | StepKind::Pair => Part::HandOver,
        StepKind::Take | StepKind::Wait | StepKind::Poll if step.object.network => Part::Network,
        StepKind::Wait | StepKind::TimedWait if step.is_lock => Part::Lock,
        StepKind::Take | StepKind::Wait | StepKind::Poll | StepKind::TimedWait => Part::Idle,
        StepKind::Join | StepKind::Accept => Part::Idle,
        StepKind::Give if step.object.network => Part::Network,
        StepKind::Give | StepKind::Post => Part::HandOver,
        StepKind::Child => Part::Child,
        StepKind::Device => Part::Device,
        StepKind::Fork | StepKind::Kill => Part::Cpu,
        StepKind::Sleep if step.is_lock => Part::Lock,
        StepKind::Sleep => Part::Sleep,
        StepKind::FileLock => Part::Lock,
        StepKind::Edge => Part::OutsideCalls,
    }
}

/// Counters between two timestamps at which the run delay was sampled.
struct Window {
    end: i64,
    cpu: i64,
    run_delay: i64,
    /// The thread was preempted, and the duration was not sampled.
    is_preempted: bool,
    major_faults: u64,
    /// Its faults are those of reads through mappings, not those of a program that starts.
    reads_mappings: bool,
    /// Number of times that the thread blocked; `None` if it is unknown.
    blocked: Option<u64>,
}

const US: i64 = 1_000;

/// CPU time of the kernel for a page fault that storage serves: it submits the read, switches to another thread and back. 24 to
/// 44 us were measured in a virtual machine.
const FAULT_NS: i64 = 20 * US;

/// Storage serves a fault in this time or longer.
const SERVED_NS: i64 = 50 * US;

/// Larger numbers of switches do not fit into a record of counters.
const SWITCHES_MAX: u64 = (1 << 12) - 1;

/// Fewer such faults are those of a program that starts: they do not show that it reads mapped files, unless this many windows
/// since its first mapping of a data file have some.
const FAULTS_MIN: u64 = 10;
const RECURRING: usize = 8;

/// A thread that reads mapped files may block this many times for each fault that storage serves: also for pages that are being
/// read ahead.
const BLOCKS_A_FAULT: u64 = 8;

/// Faults that took more time than all spans that wait for batches, by more than one part in this many, were those of other work
/// too.
const ROOM_FOR_FAULTS: i64 = 4;

/// Timestamps are converted separately, so counters may appear older than the end of the call at which they were read.
const ROUNDING_NS: i64 = 100;

impl Window {
    fn all(usage: &[Usage]) -> Vec<Window> {
        let mut windows: Vec<Window> = Vec::new();
        let mut open: Option<Window> = None;
        let knows_delay = usage.iter().any(|usage| usage.counters.run_delay_us.is_some());
        for usage in usage {
            let window = open.get_or_insert(Window {
                end: 0,
                cpu: 0,
                run_delay: 0,
                is_preempted: false,
                major_faults: 0,
                reads_mappings: false,
                blocked: Some(0),
            });
            window.end = usage.ts;
            let counters = usage.counters;
            window.cpu += counters.cpu_us as i64 * US;
            window.run_delay += counters.run_delay_us.unwrap_or(0) as i64 * US;
            window.major_faults += counters.major_faults;
            let is_counted = counters.voluntary < SWITCHES_MAX;
            window.blocked = window.blocked.filter(|_| is_counted).map(|blocked| blocked + counters.voluntary);
            window.is_preempted |= !knows_delay && counters.involuntary > 0;
            if counters.run_delay_us.is_some() || !knows_delay {
                windows.extend(open.take());
            }
        }
        windows.extend(open);
        windows
    }

    /// Returns all windows, and which of them show reads through mappings; `from` is the first mapping of a data file.
    fn all_of_mappings(usage: &[Usage], from: Option<i64>) -> Vec<Window> {
        let mut windows = Window::all(usage);
        let faults_since = |window: &Window| window.major_faults > 0 && from.is_some_and(|from| window.end > from);
        let recur = windows.iter().filter(|window| faults_since(window)).count() >= RECURRING;
        for window in &mut windows {
            window.reads_mappings = window.major_faults >= FAULTS_MIN || recur && faults_since(window);
        }
        windows
    }

    /// Returns the least part of a time off the CPU in which storage served faults: the thread may have blocked for other
    /// reasons, as often as it blocked without such a fault.
    fn waits_for_faults(&self, off_cpu: i64) -> i64 {
        let faults = self.major_faults as i64;
        match self.blocked.map(|blocked| blocked as i64) {
            Some(blocked) if blocked <= faults => off_cpu,
            Some(blocked) if blocked < 2 * faults => (off_cpu as i128 * faults as i128 / blocked as i128) as i64,
            _ => off_cpu.min(faults * SERVED_NS),
        }
    }

    /// Returns the part of a time off the CPU that is probably for faults that storage served: all of it, unless the thread blocked
    /// many times as often.
    fn time_of_faults(&self, off_cpu: i64) -> i64 {
        let faults = self.major_faults;
        match self.blocked {
            Some(blocked) if blocked > BLOCKS_A_FAULT * faults => {
                (off_cpu as i128 * (BLOCKS_A_FAULT * faults) as i128 / blocked as i128) as i64
            }
            _ if faults == 0 => 0,
            _ => off_cpu,
        }
    }

    /// Returns the composition of the time in spans that wait for batches, outside calls: `fetched` is this time, and `all` the
    /// composition of all time outside calls. The loader reads mapped files in these spans, if they are long enough for it; other
    /// activities are as in all of the time.
    fn in_fetches(&self, all: Parts, fetched: i64) -> Parts {
        let waited = self.waits_for_faults(all.get(Part::PageFaults));
        let is_known = self.reads_mappings && ROOM_FOR_FAULTS * waited <= (ROOM_FOR_FAULTS + 1) * fetched;
        let waited = if is_known { waited.min(fetched) } else { 0 };
        let others = all - Parts::of(Part::PageFaults, waited);
        Parts::of(Part::PageFaults, waited) + others.scaled(fetched - waited).unwrap_or_default()
    }

    /// Returns the composition of the time outside calls, and of the time in file calls. Time off the CPU is assigned
    /// to the calls first; what remains used the CPU, or waited for one, inside and outside calls alike.
    fn shares(&self, outside: i64, calls: i64) -> (Parts, Parts) {
        let cpu = self.cpu.clamp(0, outside + calls);
        let delay = self.run_delay.clamp(0, outside + calls - cpu);
        let blocked = outside + calls - cpu - delay;
        let storage = blocked.min(calls);
        let left = if self.is_preempted { Part::NoCpu } else { Part::OutsideCalls };
        let by_faults = self.time_of_faults(blocked - storage);
        let (served, all) = ((calls - storage) as i128, (cpu + delay).max(1) as i128);
        let [served_cpu, served_delay] = [cpu, delay].map(|ns| (ns as i128 * served / all) as i64);
        let faulted = if self.reads_mappings { (self.major_faults as i64 * FAULT_NS).min(cpu - served_cpu) } else { 0 };
        let gaps = Parts::of(Part::Cpu, cpu - served_cpu - faulted)
            + Parts::of(Part::PageFaults, faulted + by_faults)
            + Parts::of(Part::NoCpu, delay - served_delay)
            + Parts::of(left, blocked - storage - by_faults);
        let calls = Parts::of(Part::FileCalls, served_cpu)
            + Parts::of(Part::NoCpu, served_delay)
            + Parts::of(Part::Storage, storage);
        (gaps, calls)
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn step(kind: StepKind, start: i64, end: i64, storage: i64) -> Step {
        Step { start, end, kind, storage, object: Object { id: 1, network: false }, ..Step::NOTHING }
    }

    fn thread(steps: Vec<Step>, usage: Vec<Usage>) -> Thread {
        let part = ThreadPart { steps, usage, first: Some(0), ..ThreadPart::default() };
        Thread::new(LaneId { proc: 0, tid: 1 }, true, part)
    }

    fn usage(ts: i64, cpu_us: u64, delay_us: u64, major_faults: u64) -> Usage {
        let run_delay_us = Some(delay_us);
        Usage { ts, counters: Counters { cpu_us, run_delay_us, major_faults, ..Counters::default() } }
    }

    #[test]
    fn gaps_divide_by_what_the_kernel_counted() {
        let steps = vec![step(StepKind::Give, 100_000, 101_000, 20_000), step(StepKind::Take, 201_000, 301_000, 0)];
        let thread = thread(steps, vec![usage(101_000, 60, 10, 0), usage(301_000, 30, 0, 3)]);
        let first = thread.composition(0, 100_000);
        assert_eq!((first.get(Part::Cpu), first.get(Part::NoCpu), first.get(Part::Storage)), (60_000, 10_000, 20_000));
        assert_eq!((first.get(Part::OutsideCalls), first.sum()), (10_000, 100_000));
        let second = thread.composition(101_000, 201_000);
        assert_eq!((second.get(Part::Cpu), second.get(Part::PageFaults)), (30_000, 70_000));
        assert_eq!(thread.composition(0, 301_000).get(Part::Idle), 100_000);
        assert_eq!(thread.last_starved(301_000), Some(1));
        assert_eq!(thread.last_starved(300_999), None);
    }

    #[test]
    fn serving_many_faults_takes_cpu_time_of_the_kernel() {
        let thread = thread(vec![step(StepKind::Take, 1_000_000, 1_000_000, 0)], vec![usage(1_000_000, 700, 0, 30)]);
        let did = thread.composition(0, 1_000_000);
        assert_eq!((did.get(Part::Cpu), did.get(Part::PageFaults)), (100_000, 900_000));
    }

    #[test]
    fn faults_after_the_first_mapping_are_waited_for() {
        let counters = |major_faults, voluntary| Counters {
            cpu_us: 2_000,
            run_delay_us: Some(0),
            major_faults,
            voluntary,
            ..Counters::default()
        };
        let mapped = |counters: Counters, from: i64| {
            let steps = vec![step(StepKind::Take, 10_000_000, 10_000_000, 0)];
            let usage = vec![Usage { ts: 10_000_000, counters }];
            let part = ThreadPart { steps, usage, first: Some(0), mapped: Some(from), ..ThreadPart::default() };
            Thread::new(LaneId { proc: 0, tid: 1 }, true, part).mapped.unwrap()
        };
        // Serving them takes some of the CPU time, too.
        let all = mapped(counters(50, 50), 0);
        assert_eq!((all.faults, all.fault_ns, all.to_ts), (50, 9_000_000, 10_000_000));
        // All of them may precede the mapping; then other reasons to block, too many to count, or too few faults.
        assert_eq!(mapped(counters(50, 50), 3_000_000).fault_ns, 6_000_000);
        assert_eq!(mapped(counters(50, 50), 9_500_000).fault_ns, 0);
        assert_eq!(mapped(counters(50, 90), 0).fault_ns, 5_000_000);
        assert_eq!(mapped(counters(50, 900), 0).fault_ns, 2_500_000);
        assert_eq!(mapped(counters(50, SWITCHES_MAX), 0).fault_ns, 2_500_000);
        assert_eq!(mapped(counters(9, 9), 0).fault_ns, 0);
    }

    #[test]
    fn a_few_faults_in_each_step_are_reads_through_mappings() {
        let fault_ns = |windows: i64| {
            let counters =
                Counters { cpu_us: 4_000, run_delay_us: Some(0), major_faults: 6, voluntary: 6, ..Counters::default() };
            let at = |i: i64| (i + 1) * 10_000_000;
            let steps = (0..windows).map(|i| step(StepKind::Take, at(i), at(i), 0)).collect();
            let usage = (0..windows).map(|i| Usage { ts: at(i), counters }).collect();
            let part = ThreadPart { steps, usage, first: Some(0), mapped: Some(0), ..ThreadPart::default() };
            Thread::new(LaneId { proc: 0, tid: 1 }, true, part).mapped.unwrap().fault_ns
        };
        // Serving each fault takes 20 us of CPU time, too.
        assert_eq!((fault_ns(7), fault_ns(8)), (0, 8 * 6_120_000));
    }

    #[test]
    fn without_counters_nobody_knows_what_lies_between_calls() {
        let thread = thread(vec![step(StepKind::Give, 100, 110, 40)], Vec::new());
        let parts = thread.composition(0, 100);
        assert_eq!((parts.get(Part::Storage), parts.get(Part::OutsideCalls)), (40, 60));
    }

    #[test]
    fn a_message_that_is_there_is_not_waited_for() {
        let (pipe, remote) = (Object { id: 1, network: false }, Object { id: 2, network: true });
        let at = |kind, object, start, end| Step { object, ..step(kind, start, end, 0) };
        let thread = thread(
            vec![
                at(StepKind::Poll, pipe, 0, 500_000),
                at(StepKind::Take, pipe, 510_000, 540_000),
                at(StepKind::Poll, Object::default(), 600_000, 900_000),
                at(StepKind::Take, remote, 910_000, 920_000),
            ],
            Vec::new(),
        );
        assert_eq!(thread.class, [Part::Idle, Part::HandOver, Part::Idle, Part::Network]);
        assert_eq!(thread.steps[2].object, remote);
    }

    #[test]
    fn filling_memory_that_is_handed_over_is_a_part_of_that() {
        let filled = Step { memory_from: Some(60_000), ..step(StepKind::Give, 100_000, 101_000, 0) };
        let parts = thread(vec![filled], vec![usage(101_000, 100, 0, 0)]).composition(0, 100_000);
        assert_eq!((parts.get(Part::Cpu), parts.get(Part::HandOver)), (60_000, 40_000));
    }

    #[test]
    fn faults_are_those_of_intervals_in_which_storage_served_some() {
        let usage = |major_faults, minor_faults| Usage {
            ts: 0,
            counters: Counters { major_faults, minor_faults, ..Counters::default() },
        };
        let all = [usage(0, 900), usage(2, 4000), usage(16, 3), usage(0, 500), usage(5, 1)];
        assert_eq!(Faults::of(&all), Some(Faults { major: 21, minor: 4 }));
        assert_eq!((Faults::of(&all[..1]), Faults::of(&[])), (Some(Faults::default()), None));
    }

    #[test]
    fn calls_that_use_the_cpu_were_served_from_memory() {
        let steps = vec![step(StepKind::Give, 100_000, 110_000, 40_000)];
        let parts = thread(steps, vec![usage(110_000, 90, 0, 0)]).composition(0, 100_000);
        let of = [Part::Cpu, Part::FileCalls, Part::Storage].map(|part| parts.get(part));
        assert_eq!(of, [60_000, 30_000, 10_000]);
    }

    #[test]
    fn mapped_files_are_read_in_spans_that_wait_for_batches() {
        let edge = |at: i64| Step { start: at, end: at, ..Step::NOTHING };
        let counters = Counters {
            cpu_us: 5_000,
            run_delay_us: Some(1_000),
            major_faults: 100,
            voluntary: 100,
            ..Counters::default()
        };
        let fetched = |mapped: Option<i64>, from: i64| {
            let part = ThreadPart {
                steps: vec![edge(from), edge(10_000_000)],
                usage: vec![Usage { ts: 10_000_000, counters }],
                fetches: vec![Interval { start: from, end: 10_000_000 }],
                first: Some(0),
                mapped,
                ..ThreadPart::default()
            };
            Thread::new(LaneId { proc: 0, tid: 1 }, true, part).composition(from, 10_000_000)
        };
        assert_eq!(fetched(Some(1), 5_000_000).get(Part::PageFaults), 5_000_000);
        assert!(fetched(None, 5_000_000).get(Part::PageFaults) < 3_100_000);
        // Most of the faults took place elsewhere.
        assert!(fetched(Some(1), 9_000_000).get(Part::PageFaults) < 700_000);
    }
}
