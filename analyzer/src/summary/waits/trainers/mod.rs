//! Waits of trainers: which trainer waited, for what, and for how long.
//!
//! With spans, a thread with spans that wait for batches is a trainer. Without spans, a trainer is the main thread of a
//! process whose waits are repeatedly ended by the output of its own threads and children, and which makes nothing for
//! another process.

mod calls;
mod collected;
mod ended;
mod exchange;
mod last_step;
mod outside;
mod receipts;
mod roles;
mod spans;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::explain::Explainer;
use super::family::{Act, Family, Killed};
use super::first_threads::{FirstThread, first_threads};
use super::loaders::Loaders;
use super::parts::{Part, Parts};
use super::passes::Exchange;
use super::pipeline::{Trained, pipeline};
use super::thread::{Faults, Thread};
use super::timeline::{Step, StepKind, Timelines};
use crate::catalog::Process;
use crate::filter::Filter;
use crate::replay::pipeline::Pipeline;
use crate::summary::time::intervals::Interval;
use crate::summary::tree::{LaneId, is_shell, is_tool};
pub use last_step::Written;

/// Object of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitKind {
    /// A batch.
    Data,
    /// A thread or program that the trainer started and that worked on input it had just received from the trainer, or
    /// that takes the trainer's output.
    OwnWork,
    /// A lock that a thread or program held that makes no batches.
    Lock,
    /// Another rank, or a remote peer.
    Peer,
    /// The trace does not show what ended it.
    Unknown,
}

impl WaitKind {
    /// Returns its name in tables and JSON.
    pub fn name(self) -> &'static str {
        ["data", "own-work", "lock", "peer", "unknown"][self as usize]
    }
}

/// One wait of a trainer. The parts sum to its duration exactly.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wait {
    pub start: i64,
    pub end: i64,
    pub kind: WaitKind,
    /// The thread that made the awaited item, and the thread that set its pace.
    pub maker: Option<LaneId>,
    pub limiter: Option<LaneId>,
    /// Number of threads between maker and trainer.
    pub depth: u8,
    /// The acts that ended it, from the thread that sent to the trainer back to the maker. Empty if unknown.
    #[serde(default)]
    pub acts: Vec<WaitAct>,
    pub parts: Parts,
}

/// State of a thread for a waiting thread at a timestamp: the message it had sent, its post, or its exit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WaitAct {
    pub lane: LaneId,
    pub at: i64,
}

/// All waits of one trainer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TrainerWaits {
    pub lane: LaneId,
    /// `true` if spans show its waits.
    pub by_spans: bool,
    /// Waits in order of time.
    pub waits: Vec<Wait>,
    /// Its training, from its first wait for data until it has processed the last batch.
    pub from: i64,
    pub to: i64,
    /// The end of its last receipt of a batch.
    #[serde(default)]
    pub last: i64,
    /// Its own thread while it wrote files during the training; `None` if that is unknown.
    #[serde(default)]
    pub written: Option<Written>,
    /// Number of waits for data after which it worked.
    pub works: u64,
    /// Messages that it received, or waited for.
    pub messages: u64,
    /// Its own thread in calls on stored files during the training.
    pub own_storage: i64,
    /// Its own thread outside its waits, during the training.
    #[serde(default)]
    pub outside: Parts,
    /// Its own thread before the training.
    #[serde(default)]
    pub before: Parts,
    /// Waits of its process for files that did not exist yet, during the training.
    #[serde(default)]
    pub file_waits: u64,
    /// The longest time, over the processes of its readers, in which one waited for files while it waited for data.
    #[serde(default)]
    pub reader_file_wait_ns: i64,
    /// The process that slept while readers waited for it, if the readers themselves hardly slept.
    #[serde(default)]
    pub sleeper: Option<u32>,
    /// A process that sends its readers much more through pipes and sockets than they send to it: one with data that they share.
    #[serde(default)]
    pub shared_by: Option<u32>,
    /// `true` if batches were ready long before the training that calls show.
    #[serde(default)]
    pub may_start_earlier: bool,
    /// `true` if its makers are processes below it, or threads that read at least as much as it does itself.
    #[serde(default)]
    pub is_supplied: bool,
    /// Page faults of the threads that made its batches, in intervals in which storage served some.
    #[serde(default)]
    pub faults: Option<Faults>,
    /// When it requested batches, if its waits include its own work on batches that it had received.
    #[serde(skip)]
    pub requests: Vec<i64>,
    /// `true` if there are such requests; unlike them, this is stored.
    #[serde(default)]
    pub counts_receipts: bool,
    /// The time of spans in which it received nothing: it made those batches itself.
    #[serde(default)]
    pub own_fetch_ns: i64,
    /// How often it created readers, as calls show it.
    #[serde(default)]
    pub generations: u64,
    /// Its readers, as calls show them, also those that it never waited for.
    #[serde(default)]
    pub readers: Vec<LaneId>,
    /// The loaders that they belong to.
    #[serde(default)]
    pub loaders: Loaders,
    /// `true` if another process does the same work and exchanges messages with it.
    #[serde(default)]
    pub has_twins: bool,
}

impl TrainerWaits {
    pub fn parts(&self, kind: WaitKind) -> Parts {
        self.waits.iter().filter(|wait| wait.kind == kind).fold(Parts::default(), |sum, wait| sum + wait.parts)
    }

    pub fn ns(&self, kind: WaitKind) -> i64 {
        self.waits.iter().filter(|wait| wait.kind == kind).map(|wait| wait.end - wait.start).sum()
    }

    /// Returns the part of it inside the window of a filter; `None` if it did not train then.
    fn within(self, filter: &Filter, family: &Family) -> Option<TrainerWaits> {
        let (from, to) = filter.within(self.from, self.to);
        let is_inside = from < to;
        let part = |wait: Wait| {
            let (start, end) = filter.within(wait.start, wait.end);
            let parts = wait.parts.scaled(end - start).unwrap_or_default();
            (start < end).then_some(Wait { start, end, parts, ..wait })
        };
        let waits = self.waits.into_iter().filter_map(part).collect();
        let thread = &family.threads[family.thread_of(self.lane)?];
        let own_storage = thread.composition(from, to).get(Part::Storage);
        let found = TrainerWaits { waits, from, to, own_storage, ..self };
        is_inside.then(|| TrainerWaits { written: Written::of(family, &found), ..found })
    }

    /// Returns `true` if its makers supply it with data and work ahead of it. Threads of a compressor work on request on
    /// data that its main thread reads.
    pub fn is_fed(&self) -> bool {
        let data = self.parts(WaitKind::Data);
        self.is_supplied && 2 * data.get(Part::NotAsked) < data.sum()
    }

    /// Returns `true` if it hardly does anything but wait for data.
    fn only_waits(&self) -> bool {
        let waited: i64 = self.waits.iter().map(|wait| wait.end - wait.start).sum();
        self.works < STEPS_MIN && ONLY_WAITS * (self.to - self.from - waited) < self.to - self.from
    }

    /// Returns `true` if nothing shows that it takes batches: threads of its process ended a few waits, as those of a library do
    /// when it starts.
    fn is_unsure(&self) -> bool {
        let data = || self.waits.iter().filter(|wait| wait.kind == WaitKind::Data);
        let is_own = |wait: &Wait| wait.maker.is_none_or(|maker| maker.proc == self.lane.proc) && !wait.acts.is_empty();
        let few = self.works < STEPS_MIN && self.messages <= data().count() as u64;
        self.readers.is_empty() && few && data().all(is_own)
    }

    /// Returns `true` if it took many batches of readers and never waited for one.
    pub fn finds_data_ready(&self) -> bool {
        let waits_for_data = self.waits.iter().any(|wait| wait.kind == WaitKind::Data);
        !self.readers.is_empty() && !waits_for_data && self.messages >= BATCHES_MANY
    }

    /// Returns the input for extracting its pipeline.
    fn trained(&self) -> Trained {
        let is_reader_time =
            |wait: &&Wait| wait.kind == WaitKind::Data && wait.parts.get(Part::Start) > 0 && !self.by_spans;
        let interval = |wait: &Wait| Interval { start: wait.start, end: wait.end };
        let reader_times = self.waits.iter().filter(is_reader_time).map(interval).collect();
        Trained {
            lane: self.lane,
            by_spans: self.by_spans,
            requests: self.requests.clone(),
            from: self.from,
            to: self.to,
            reader_times,
        }
    }

    /// Returns the threads that made its batches, with the number of waits that each ended.
    pub fn makers(&self) -> BTreeMap<LaneId, u64> {
        let mut makers = BTreeMap::new();
        for wait in self.waits.iter().filter(|wait| wait.kind == WaitKind::Data) {
            wait.maker.into_iter().for_each(|maker| *makers.entry(maker).or_default() += 1);
        }
        makers
    }
}

/// The waits of all trainers of a trace.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub struct Waits {
    /// `true` if the trace shows what ended waits: the pipes and semaphores they were on, and the thread that posted.
    pub is_known: bool,
    /// `true` if the trace has more waits and messages than the limit: then waits are not explained.
    #[serde(default)]
    pub is_cut: bool,
    pub trainers: Vec<TrainerWaits>,
    /// The pipeline of each trainer, or the reason why it is unknown.
    #[serde(default)]
    pub pipelines: Vec<(LaneId, Result<Pipeline, String>)>,
    /// Processes killed by a signal, as reported to their parents.
    #[serde(default)]
    pub killed: Vec<Killed>,
    /// First threads that slept or mapped data files.
    #[serde(default)]
    pub first_threads: Vec<(LaneId, FirstThread)>,
}

impl Waits {
    pub fn merge(&mut self, other: Waits) {
        self.is_known |= other.is_known;
        self.is_cut |= other.is_cut;
        self.trainers.extend(other.trainers);
        self.pipelines.extend(other.pipelines);
        self.trainers.sort_by_key(|trainer| trainer.lane);
        self.killed.extend(other.killed);
        self.killed.sort_by_key(|killed| killed.proc);
        self.first_threads.extend(other.first_threads);
        self.first_threads.sort_by_key(|(lane, _)| *lane);
    }

    pub fn of(&self, lane: LaneId) -> Option<&TrainerWaits> {
        self.trainers.iter().find(|trainer| trainer.lane == lane)
    }
}

/// This many batches show a loader in any program.
const BATCHES_MANY: u64 = 20;

/// Fewer waits than this do not show a loader.
const WAITS_MIN: usize = 3;

/// A thread that works after at least this many waits takes steps.
const STEPS_MIN: u64 = 5;

/// A thread that does anything but wait for less than one part in this many of its time takes no steps.
const ONLY_WAITS: i64 = 20;

/// A program that writes more than this in a millisecond writes data, not a log.
const LOG_BYTES_PER_MS: i64 = 512;

/// Less work than this does not separate two waits.
const WORK_NS: i64 = 1_000_000;

/// Time per byte that unpickling may take after a message.
const UNPICKLING_NS_PER_BYTE: i64 = 2;
const LARGE_MESSAGE: i64 = 1 << 16;
/// It takes at most this many tenths of the time for which the message was read from its pipe.
const UNPICKLING_OF_TEN: i64 = 7;

/// Explains the waits of all trainers.
pub fn explained(timelines: Timelines, processes: &[Process]) -> Waits {
    explained_within(timelines, processes, &Filter::default())
}

/// Explains the waits of all trainers by all events, and limits them to the window of a filter.
pub fn explained_within(timelines: Timelines, processes: &[Process], filter: &Filter) -> Waits {
    if timelines.is_cut {
        return Waits { is_cut: true, ..Waits::default() };
    }
    let is_known = are_ends_known(&timelines);
    let family = Family::new(timelines, processes);
    if !is_known {
        let first_threads = first_threads(&family, |_| 0);
        return Waits { killed: family.killed, first_threads, ..Waits::default() };
    }
    let by_spans: Vec<usize> = (0..family.threads.len()).filter(|&t| !family.threads[t].fetches.is_empty()).collect();
    let mut trainers: Vec<TrainerWaits> = match by_spans.is_empty() {
        false => with_spans(&family, &by_spans),
        true => by_calls(&family),
    };
    let exchange = |waits: &TrainerWaits| {
        let thread = family.thread_of(waits.lane).ok_or("the trainer has no timeline")?;
        Exchange::of(&family, thread)
    };
    let exchanges: Vec<Result<Exchange, String>> = trainers.iter().map(exchange).collect();
    for (waits, exchange) in trainers.iter_mut().zip(&exchanges) {
        let makers = waits.makers().into_keys().filter_map(|lane| family.thread_of(lane));
        waits.faults = makers.filter_map(|maker| family.threads[maker].faults).reduce(|a, b| a + b);
        let file_waits = family.file_waits(waits.lane.proc);
        waits.file_waits = file_waits.filter(|step| step.start < waits.to && step.end > waits.from).count() as u64;
        waits.reader_file_wait_ns = reader_file_wait_ns(&family, waits);
        waits.sleeper = sleeper(&family, waits);
        waits.shared_by = shared_by(&family, waits);
        waits.is_supplied = is_supplied(&family, waits);
        waits.loaders = exchange.as_ref().map(|exchange| Loaders::of(&family, exchange)).unwrap_or_default();
        waits.outside = outside(&family, waits);
        waits.before = before(&family, waits);
        waits.written = Written::of(&family, waits);
    }
    if filter.cuts_runs() {
        let limited = trainers.into_iter().filter_map(|waits| waits.within(filter, &family));
        let trainers = limited.collect();
        // Their times are not limited to the window.
        return Waits { is_known, trainers, killed: family.killed, ..Waits::default() };
    }
    let pipeline = |(waits, exchange): (&TrainerWaits, &Result<Exchange, String>)| {
        let found = match waits.loaders.has_phases {
            true => Err("two loaders are used in turns for many batches each, as for training and validation".into()),
            false => pipeline(&family, &waits.trained(), exchange),
        };
        (waits.lane, found)
    };
    let pipelines = trainers.iter().zip(&exchanges).map(pipeline).collect();
    let batches = |lane: LaneId| trainers.iter().find(|waits| waits.lane == lane).map_or(0, |waits| waits.messages);
    let first_threads = first_threads(&family, batches);
    Waits { is_known, is_cut: false, trainers, pipelines, killed: family.killed, first_threads }
}

/// Returns `true` if the trace shows what ended waits: objects or wakers, or threads wait for nothing but the ends of others.
fn are_ends_known(timelines: &Timelines) -> bool {
    use StepKind::{Join, Poll, Sleep, Take, TimedWait, Wait};
    let steps = || timelines.threads.values().flat_map(|thread| &thread.steps);
    let is_shown = |step: &Step| step.kind != Sleep && step.object.id != 0 || step.waker != 0;
    let is_for_others = |step: &Step| matches!(step.kind, Wait | TimedWait | Take | Poll);
    steps().any(is_shown) || steps().any(|step| step.kind == Join) && !steps().any(is_for_others)
}

/// Explains the waits of threads that mark them with spans. If such a thread only takes batches from a loader and passes them
/// on to another one, that one is the trainer, as calls show it.
fn with_spans(family: &Family, fetching: &[usize]) -> Vec<TrainerWaits> {
    let proc_of = |thread: usize| family.threads[thread].lane.proc;
    let computes = |thread: &usize| !family.threads[*thread].tasks.is_empty();
    let fed_in = |proc: u32| {
        let is_other = |thread: &usize| !fetching.contains(thread);
        let computing = family.threads_of(proc).filter(|thread| is_other(thread) && computes(thread));
        let computing = computing.max_by_key(|thread| family.threads[*thread].tasks.len());
        let other = computing.or(family.first_thread(proc).filter(is_other))?;
        let trainer = Trainer::new(family, other).by_calls()?;
        let makers: BTreeSet<LaneId> = trainer.makers().into_keys().chain(trainer.readers.iter().copied()).collect();
        let takes = fetching.iter().any(|thread| makers.contains(&family.threads[*thread].lane));
        (takes || computing.is_some()).then_some(trainer)
    };
    let passing: BTreeSet<u32> =
        fetching.iter().filter(|thread| !computes(thread)).map(|thread| proc_of(*thread)).collect();
    let fed: BTreeMap<u32, TrainerWaits> = passing.into_iter().filter_map(|proc| Some((proc, fed_in(proc)?))).collect();
    let by_spans = fetching.iter().filter(|thread| computes(thread) || !fed.contains_key(&proc_of(**thread)));
    let trainers: Vec<_> = by_spans.filter_map(|thread| Trainer::new(family, *thread).by_spans()).collect();
    trainers.into_iter().chain(fed.into_values()).collect()
}

/// Returns the activity of a trainer's own thread outside its waits.
fn outside(family: &Family, trainer: &TrainerWaits) -> Parts {
    let Some(thread) = family.thread_of(trainer.lane).map(|thread| &family.threads[thread]) else {
        return Parts::default();
    };
    let (mut at, mut sum) = (trainer.from, Parts::default());
    for wait in &trainer.waits {
        sum += thread.composition(at, wait.start.min(trainer.to));
        at = at.max(wait.end);
    }
    sum += thread.composition(at, trainer.to);
    // The kernel's counters end before the last steps, which are probably like the others.
    let from = thread.counted_until.clamp(trainer.from, trainer.to);
    let unknown = thread.composition(from, trainer.to).get(Part::OutsideCalls).min(sum.get(Part::OutsideCalls));
    let works = [Part::Cpu, Part::NoCpu, Part::PageFaults].map(|part| Parts::of(part, sum.get(part)));
    let known = works.into_iter().fold(Parts::default(), |all, part| all + part);
    match known.scaled(unknown).filter(|_| trainer.to - from <= from - trainer.from) {
        Some(likely) => sum - Parts::of(Part::OutsideCalls, unknown) + likely,
        None => sum,
    }
}

/// Returns the activity of a trainer's own thread before its training.
fn before(family: &Family, trainer: &TrainerWaits) -> Parts {
    let thread = family.thread_of(trainer.lane).map(|thread| &family.threads[thread]);
    let did = thread.map(|thread| thread.composition(thread.born, trainer.from)).unwrap_or_default();
    did.relabel(Part::Idle, Part::Unknown)
}

fn reader_file_wait_ns(family: &Family, waits: &TrainerWaits) -> i64 {
    let data = waits.waits.iter().filter(|wait| wait.kind == WaitKind::Data);
    let within: Vec<Interval> = data.map(|wait| Interval { start: wait.start, end: wait.end }).collect();
    let lanes = waits.makers().into_keys().chain(waits.readers.iter().copied());
    let procs: BTreeSet<u32> = lanes.map(|lane| lane.proc).filter(|proc| *proc != waits.lane.proc).collect();
    procs.into_iter().map(|proc| family.file_wait_ns(proc, &within)).max().unwrap_or(0)
}

/// Returns the process, other than a reader, that slept for at least half of the time in which waits for data were for sleeps. `None`
/// if readers slept for as long.
fn sleeper(family: &Family, waits: &TrainerWaits) -> Option<u32> {
    let data = waits.waits.iter().filter(|wait| wait.kind == WaitKind::Data);
    let awaited: i64 = data.map(|wait| wait.parts.get(Part::Sleep)).sum();
    let lanes = waits.makers().into_keys().chain(waits.readers.iter().copied()).chain([waits.lane]);
    let own: BTreeSet<u32> = lanes.map(|lane| lane.proc).collect();
    let (mut by_readers, mut by_others) = (0, BTreeMap::<u32, i64>::new());
    for thread in family.threads.iter().filter(|thread| awaited > 0 && thread.lane != waits.lane) {
        let slept = thread.composition(waits.from, waits.to).get(Part::Sleep);
        match own.contains(&thread.lane.proc) {
            true => by_readers += slept,
            false => *by_others.entry(thread.lane.proc).or_default() += slept,
        }
    }
    let (proc, most) = by_others.into_iter().max_by_key(|(_, ns)| *ns)?;
    (2 * most >= awaited && 2 * by_readers < awaited && by_readers < most).then_some(proc)
}

/// Readers share data that another process keeps if they receive at least this many bytes from it, and this many times as many as the
/// trainer receives, in answers to this many requests.
const SHARED_BYTES: i64 = 20_000_000;
const SHARED_PART: i64 = 4;
const SHARED_REQUESTS: usize = 50;

/// Returns the process that sends other readers most data through pipes and sockets, at their request, if passing on takes most of
/// the wait for data: it may be the manager of a dictionary that they share.
fn shared_by(family: &Family, waits: &TrainerWaits) -> Option<u32> {
    if waits.parts(WaitKind::Data).largest() != Part::HandOver {
        return None;
    }
    let lanes = waits.makers().into_keys().chain(waits.readers.iter().copied());
    let readers: BTreeSet<u32> = lanes.map(|lane| lane.proc).filter(|proc| *proc != waits.lane.proc).collect();
    let mut senders: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
    // The number of messages that a process receives from each other one, and their bytes.
    let mut received = |proc: u32| {
        let mut found = BTreeMap::<u32, (usize, i64)>::new();
        for step in family.threads_of(proc).flat_map(|thread| family.threads[thread].takes()) {
            let proc_of = |thread: usize| family.threads[thread].lane.proc;
            let find = || family.givers(step.object.id).into_iter().map(proc_of).collect();
            for from in senders.entry(step.object.id).or_insert_with(find).iter().filter(|from| **from != proc) {
                let (count, bytes) = found.entry(*from).or_default();
                (*count, *bytes) = (*count + 1, *bytes + step.amount.max(0));
            }
        }
        found
    };
    let is_reader = |(from, _): &(u32, (usize, i64))| readers.contains(from);
    let to_trainer: i64 = received(waits.lane.proc).into_iter().filter(is_reader).map(|(_, (_, bytes))| bytes).sum();
    let mut sent = BTreeMap::<u32, i64>::new();
    for reader in &readers {
        let others = received(*reader).into_iter().filter(|(from, _)| *from != waits.lane.proc);
        others.for_each(|(from, (_, bytes))| *sent.entry(from).or_default() += bytes);
    }
    let (proc, most) = sent.into_iter().max_by_key(|(_, bytes)| *bytes)?;
    let requests: usize = received(proc).into_iter().filter(is_reader).map(|(_, (count, _))| count).sum();
    let is_most = most >= SHARED_BYTES && most >= SHARED_PART * to_trainer;
    (is_most && requests >= SHARED_REQUESTS).then_some(proc)
}

/// The thread that writes a compressor's output writes for at least one part in this many of the time in which its data is read.
const WRITING_PART: i64 = 4;

fn is_supplied(family: &Family, waits: &TrainerWaits) -> bool {
    let thread = |lane: LaneId| family.thread_of(lane).map(|thread| &family.threads[thread]);
    let fetched = |lane: LaneId| thread(lane).map_or(0, Thread::fetched);
    let makers = waits.makers();
    let own = fetched(waits.lane);
    let by_makers: i64 = makers.keys().map(|lane| fetched(*lane)).sum();
    let are_others = makers.keys().any(|lane| family.is_below(lane.proc, waits.lane.proc));
    // A thread that decodes gets its data from another thread, which set the pace of some waits.
    let limiters: BTreeSet<LaneId> = waits.waits.iter().filter_map(|wait| wait.limiter).collect();
    let by_limiters: i64 = limiters.iter().filter(|lane| **lane != waits.lane).map(|lane| fetched(*lane)).sum();
    // One that never has to wait for data wakes the threads that read for it when it makes room.
    let wakes = |act: Act| makers.contains_key(&family.threads[act.thread].lane);
    let feeds = |thread: &usize| family.starvation_ends(*thread).filter(|(_, act)| wakes(*act)).count() >= WAITS_MIN;
    let is_other = |thread: &usize| family.threads[*thread].lane != waits.lane;
    let feeders = family.threads_of(waits.lane.proc).filter(is_other).filter(feeds);
    let by_feeders: i64 = feeders.map(|thread| family.threads[thread].fetched()).sum();
    let by_others = by_limiters.max(by_feeders);
    let written = thread(waits.lane).map_or(0, |thread| thread.written_ns);
    let through_others = WRITING_PART * written < by_others && by_others >= own;
    are_others || by_makers > 0 && by_makers >= own || through_others
}

/// Finds trainers without spans.
fn by_calls(family: &Family) -> Vec<TrainerWaits> {
    // A shell waits for its commands, make for its compilers, and xz for its threads: they do not train.
    let may_train = |thread: &usize| {
        let process = &family.processes[family.threads[*thread].lane.proc as usize];
        process.rank.is_some()
            || process.program.as_deref().is_none_or(|program| !is_shell(program) && !is_tool(program))
    };
    let found: Vec<TrainerWaits> = firsts_of(family, may_train)
        .filter_map(|first| {
            let takers = || family.takers_from_below(first).into_iter();
            let beside = |thread: usize| {
                let found = Trainer::new(family, thread).by_calls()?;
                if !passes_batches_on(family, &found, first) {
                    return Some(found);
                }
                Some(with_waits_of(&found, Trainer::new(family, first).behind(thread).by_calls()?))
            };
            let collected = |thread: usize| Trainer::new(family, first).beside_collector(thread);
            // A rank that reads its data itself waits for other ranks only.
            let has_data = |found: &TrainerWaits| !found.has_twins || found.works > 0 || !found.readers.is_empty();
            Trainer::new(family, first)
                .by_calls()
                .filter(has_data)
                .or_else(|| takers().find_map(collected))
                .or_else(|| takers().find_map(beside))
                .or_else(|| Trainer::new(family, first).by_exchange())
        })
        .collect();
    let found = if found.is_empty() { beside_first(family, may_train) } else { found };
    // A launcher only waits for its children, which may wait for other programs.
    let found = match found.iter().all(|trainer| trainer.works < STEPS_MIN) {
        true => {
            let is_new = |first: &usize| found.iter().all(|trainer| trainer.lane != family.threads[*first].lane);
            let others = firsts_of(family, may_train).filter(is_new);
            let others = others.filter_map(|first| Trainer::new(family, first).by_messages_from_outside());
            let others: Vec<_> = others.collect();
            found.into_iter().chain(others).collect()
        }
        false => found,
    };
    // A thread that only collects results, such as that of an executor, leaves the work on them to other threads.
    let only_collects = |waits: &TrainerWaits| {
        let is_first = family.thread_of(waits.lane).is_some_and(|thread| family.threads[thread].is_first);
        !is_first && waits.only_waits()
    };
    let is_unsure = |waits: &TrainerWaits| {
        let thread = family.thread_of(waits.lane).filter(|_| waits.is_unsure());
        thread.is_some_and(|thread| family.takers_from_below(thread).is_empty())
    };
    without_makers(family, found).into_iter().filter(|waits| !only_collects(waits) && !is_unsure(waits)).collect()
}

/// Returns `true` if a thread takes batches and passes them on to the first thread of its process: most of its waits end when
/// that one makes room for the next batch, and last because that one works.
fn passes_batches_on(family: &Family, taker: &TrainerWaits, first: usize) -> bool {
    let own = &family.threads[first];
    let data = || taker.waits.iter().filter(|wait| wait.kind == WaitKind::Data && wait.parts.get(Part::Start) == 0);
    let by_first = |wait: &&Wait| wait.acts.first().is_some_and(|act| act.lane == own.lane);
    let length = |wait: &Wait| wait.end - wait.start;
    let all: i64 = data().map(length).sum();
    let waited: i64 = data().filter(by_first).map(length).sum();
    let busy = |wait: &Wait| {
        let did = own.composition(wait.start, wait.end);
        did.without(Part::Idle).without(Part::HandOver).without(Part::Lock).sum()
    };
    let worked: i64 = data().filter(by_first).map(busy).sum();
    data().filter(by_first).count() >= WAITS_MIN && 2 * waited > all && 2 * worked > waited
}

/// Returns a trainer with the causes of its relay's waits in the time in which the relay itself was idle.
fn with_waits_of(relay: &TrainerWaits, mut trainer: TrainerWaits) -> TrainerWaits {
    let own = trainer.lane;
    for wait in &mut trainer.waits {
        let during = relay.waits.iter().filter(|other| other.maker != Some(own)).filter_map(|other| {
            let ns = other.end.min(wait.end) - other.start.max(wait.start);
            other.parts.scaled(ns)
        });
        let sum = during.fold(Parts::default(), |sum, parts| sum + parts);
        if let Some(parts) = sum.scaled(wait.parts.get(Part::NotAsked)) {
            wait.parts = wait.parts.without(Part::NotAsked) + parts;
        }
    }
    trainer
}

/// Returns `true` if a trainer that supplies another one is supplied by it, too, in several steps: ranks that pass gradients around a
/// ring each supply the next one.
fn are_in_ring(family: &Family, found: &[TrainerWaits], first: &TrainerWaits, next: &TrainerWaits) -> bool {
    let (mut reached, mut from) = (BTreeSet::new(), vec![next.lane.proc]);
    while let Some(proc) = from.pop().filter(|proc| *proc != first.lane.proc) {
        let others = found.iter().map(|other| other.lane.proc).filter(|to| *to != proc && family.supplies(proc, *to));
        from.extend(others.filter(|to| reached.insert(*to)));
    }
    reached.contains(&first.lane.proc)
}

/// Returns trainers without those that make data for another one, serve it or launch it.
fn without_makers(family: &Family, found: Vec<TrainerWaits>) -> Vec<TrainerWaits> {
    // A process below another trainer makes items for it, even if it receives items from other processes in turn.
    let rank = |lane: LaneId| family.processes[lane.proc as usize].rank;
    let has_rank = |lane: LaneId| rank(lane).is_some();
    // A parent that receives a few results from its descendants is a launcher; one that works after most of them is
    // not.
    let is_served = |trainer: &TrainerWaits, by: &TrainerWaits| {
        let works = trainer.messages >= STEPS_MIN && 2 * trainer.works >= trainer.messages;
        works
            || 4 * trainer.messages >= by.messages
            || family.is_asked_by(by.lane.proc, trainer.lane.proc, trainer.messages)
    };
    // A program without readers may take the messages of one that has them: a launcher, or a program that keeps its log.
    let takes_log = |trainer: &TrainerWaits, by: &TrainerWaits| {
        let is_fed_by_it = |lane: &LaneId| lane.proc == trainer.lane.proc;
        let (makers, own) = (by.makers(), trainer.makers());
        let has_readers = own.keys().chain(&trainer.readers).any(|lane| *lane != trainer.lane);
        let (_, bytes) = family.received_from(trainer.lane.proc, by.lane.proc);
        has_readers
            && makers.keys().chain(&by.readers).all(is_fed_by_it)
            && family.are_of_two_programs(trainer.lane.proc, by.lane.proc)
            && bytes < LOG_BYTES_PER_MS * (trainer.to - trainer.from) / 1_000_000
    };
    let serves = |trainer: &TrainerWaits| {
        // Readers have the rank of their trainer. A trainer of another rank is a launcher.
        let is_its = |other: &&TrainerWaits| {
            family.is_below(trainer.lane.proc, other.lane.proc)
                && !family.are_twins(trainer.lane, other.lane)
                && (!has_rank(trainer.lane) || rank(trainer.lane) == rank(other.lane))
        };
        found.iter().filter(is_its).any(|other| is_served(other, trainer) && !takes_log(trainer, other))
    };
    let serving: BTreeSet<LaneId> =
        found.iter().filter(|trainer| serves(trainer)).map(|trainer| trainer.lane).collect();
    // A program that only makes data for another program does not train, unless that one takes its results.
    let others_of = |own: u32| found.iter().filter(move |other| other.lane.proc != own);
    let supplies = |trainer: &TrainerWaits| {
        let is_its = |other: &&TrainerWaits| !serving.contains(&other.lane) && !takes_log(trainer, other);
        let its = others_of(trainer.lane.proc).filter(is_its);
        let mut its = its.filter(|other| family.supplies(trainer.lane.proc, other.lane.proc));
        !has_rank(trainer.lane) && its.any(|other| !are_in_ring(family, &found, trainer, other))
    };
    let keeps_log = |trainer: &TrainerWaits| {
        let own = trainer.lane.proc;
        others_of(own).any(|other| family.supplies(other.lane.proc, own) && takes_log(other, trainer))
    };
    // A server does not train, if there is another trainer.
    let is_server = |trainer: &TrainerWaits| {
        let own = trainer.lane.proc;
        !has_rank(trainer.lane) && found.iter().any(|other| other.lane.proc != own) && family.answers(own)
    };
    let makes = |trainer: &&TrainerWaits| {
        serving.contains(&trainer.lane) || supplies(trainer) || is_server(trainer) || keeps_log(trainer)
    };
    let others: Vec<LaneId> = found.iter().filter(makes).map(|trainer| trainer.lane).collect();
    // A launcher waits for its ranks.
    let launches = |lane: LaneId| {
        let is_its = |other: &TrainerWaits| {
            family.is_below(other.lane.proc, lane.proc)
                && !others.contains(&other.lane)
                && !family.are_twins(lane, other.lane)
        };
        !has_rank(lane) && found.iter().any(is_its)
    };
    let is_one = |trainer: &TrainerWaits| !others.contains(&trainer.lane) && !launches(trainer.lane);
    let are_ones: Vec<bool> = found.iter().map(is_one).collect();
    found.into_iter().zip(are_ones).filter_map(|(trainer, is_one)| is_one.then_some(trainer)).collect()
}

/// Returns the first threads of the processes that may train.
fn firsts_of<'f>(family: &'f Family, may_train: impl Fn(&usize) -> bool + 'f) -> impl Iterator<Item = usize> + 'f {
    (0..family.threads.len()).filter(|&thread| family.threads[thread].is_first).filter(may_train)
}

/// Finds trainers that are neither the first thread of their process nor receive from another process: threads that
/// work on what other threads of their process read.
fn beside_first(family: &Family, may_train: impl Fn(&usize) -> bool) -> Vec<TrainerWaits> {
    let best = |first: usize| {
        let first = family.threads[first].lane;
        let others = family.threads_of(first.proc).filter(|&thread| family.threads[thread].lane != first);
        let trainers = others.filter_map(|thread| Trainer::new(family, thread).by_calls());
        // A reader that waits for a full queue to be emptied reads itself. A thread of a pool gets its tasks from the
        // first thread.
        let is_fed = |waits: &TrainerWaits| {
            let makers = waits.makers();
            let is_reader = |lane: &LaneId| lane.proc == first.proc && *lane != first;
            let data = waits.parts(WaitKind::Data);
            let reads = [Part::Storage, Part::PageFaults].iter().any(|part| data.get(*part) > waits.own_storage);
            waits.works >= STEPS_MIN && reads && makers.keys().any(is_reader) && !makers.contains_key(&first)
        };
        trainers.filter(is_fed).max_by_key(|waits| waits.works)
    };
    firsts_of(family, may_train).filter_map(best).collect()
}

impl Act {
    fn seen(self, family: &Family) -> WaitAct {
        WaitAct { lane: family.threads[self.thread].lane, at: self.at }
    }
}

struct Trainer<'f, 'a> {
    family: &'f Family<'a>,
    thread: usize,
    /// A thread of its process that passes batches on to it.
    relay: Option<usize>,
    explainer: Explainer<'f, 'a>,
}

impl<'f, 'a> Trainer<'f, 'a> {
    fn new(family: &'f Family<'a>, thread: usize) -> Trainer<'f, 'a> {
        Trainer { family, thread, relay: None, explainer: Explainer::new(family, thread) }
    }

    /// Returns the trainer that takes its batches from a thread of its process.
    fn behind(self, relay: usize) -> Trainer<'f, 'a> {
        Trainer { relay: Some(relay), ..self }
    }

    fn lane(&self) -> LaneId {
        self.family.threads[self.thread].lane
    }

    /// Returns the trainer in this time, without its waits.
    fn trained(&self, by_spans: bool, from: i64, to: i64) -> TrainerWaits {
        let own_storage = self.family.threads[self.thread].composition(from, to).get(Part::Storage);
        let (waits, readers, faults) = (Vec::new(), Vec::new(), None);
        let (lane, works, messages, is_supplied) = (self.lane(), 0, 0, false);
        let (outside, before) = (Parts::default(), Parts::default());
        TrainerWaits {
            lane,
            by_spans,
            waits,
            from,
            to,
            last: to,
            written: None,
            works,
            messages,
            own_storage,
            outside,
            before,
            file_waits: 0,
            reader_file_wait_ns: 0,
            sleeper: None,
            shared_by: None,
            may_start_earlier: false,
            is_supplied,
            faults,
            requests: Vec::new(),
            counts_receipts: false,
            own_fetch_ns: 0,
            generations: 0,
            readers,
            loaders: Loaders::default(),
            has_twins: self.family.threads[self.thread].is_first && self.family.communicators.contains(&self.thread),
        }
    }
}

#[cfg(test)]
mod tests;
