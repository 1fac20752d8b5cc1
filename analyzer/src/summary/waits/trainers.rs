//! Waits of trainers: which trainer waited, for what, and for how long.
//!
//! With spans, a thread with spans that wait for batches is a trainer. Without spans, a trainer is the main thread of a
//! process whose waits are repeatedly ended by the output of its own threads and children, and which makes nothing for
//! another process.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::explain::Explainer;
use super::family::{Act, Ender, Family, Killed};
use super::parts::{Part, Parts};
use super::pipeline::{Trained, pipeline};
use super::thread::{Faults, WAIT_NS};
use super::timeline::{Object, Step, StepKind, Timelines};
use crate::catalog::Process;
use crate::replay::pipeline::Pipeline;
use crate::summary::time::intervals::{Interval, united};
use crate::summary::tree::{LaneId, is_shell};

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
    /// Number of waits for data after which it worked.
    pub works: u64,
    /// Messages that it received, or waited for.
    pub messages: u64,
    /// Its own thread in calls on stored files during the training.
    pub own_storage: i64,
    /// Page faults of the threads that made its batches, in intervals in which storage served some.
    #[serde(default)]
    pub faults: Option<Faults>,
}

impl TrainerWaits {
    pub fn parts(&self, kind: WaitKind) -> Parts {
        self.waits.iter().filter(|wait| wait.kind == kind).fold(Parts::default(), |sum, wait| sum + wait.parts)
    }

    pub fn ns(&self, kind: WaitKind) -> i64 {
        self.waits.iter().filter(|wait| wait.kind == kind).map(|wait| wait.end - wait.start).sum()
    }

    /// Returns the input for extracting its pipeline.
    /// Returns `true` if its makers read at least as much from storage or a network as it does itself, or are other
    /// processes, and work ahead of it. Threads of a compressor work on request on data that its main thread reads.
    pub fn is_fed(&self) -> bool {
        let data = self.parts(WaitKind::Data);
        let read = [Part::Storage, Part::PageFaults, Part::Network].map(|part| data.get(part)).iter().sum::<i64>();
        let works_ahead = 2 * data.get(Part::NotAsked) < data.sum();
        works_ahead && (read >= self.own_storage || self.makers().keys().any(|lane| lane.proc != self.lane.proc))
    }

    fn trained(&self) -> Trained {
        let is_reader_time =
            |wait: &&Wait| wait.kind == WaitKind::Data && wait.parts.get(Part::Start) > 0 && !self.by_spans;
        let interval = |wait: &Wait| Interval { start: wait.start, end: wait.end };
        let reader_times = self.waits.iter().filter(is_reader_time).map(interval).collect();
        Trained { lane: self.lane, by_spans: self.by_spans, from: self.from, to: self.to, reader_times }
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
    }

    pub fn of(&self, lane: LaneId) -> Option<&TrainerWaits> {
        self.trainers.iter().find(|trainer| trainer.lane == lane)
    }
}

/// Fewer waits than this do not show a loader.
const WAITS_MIN: usize = 3;

/// A thread that works after at least this many waits takes steps.
const STEPS_MIN: u64 = 5;

/// A thread writes the trainer's output if its calls that write files take this many times as long as all others.
const WRITING: i64 = 10;

/// A last look for a message that takes less than this is not a wait for a batch that never came.
const GIVEN_UP_NS: i64 = 1_000_000_000;

/// Less work than this does not separate two waits.
const WORK_NS: i64 = 1_000_000;

/// Time per byte that unpickling may take after a message.
const UNPICKLING_NS_PER_BYTE: i64 = 2;
const LARGE_MESSAGE: i64 = 1 << 16;

/// This many bytes at a time are a chunk of a message and not its start; chunks may be this far apart, depending on the
/// bytes before them, which may have to be copied.
const PIECE: i64 = 1 << 12;
const PIECES_NS: i64 = 20_000_000;
const PIECES_NS_PER_BYTE: i64 = 1;

/// Readers created within this time of each other belong together.
const BETWEEN_FORKS_NS: i64 = 100_000_000;

/// A request after a wait belongs to the awaited item if it takes less than one part in this many of the wait.
const DELIVERY_PART: i64 = 4;

/// A thread does the trainer's own work if it receives its input this shortly before the trainer waits for it, in at
/// least this many of ten waits.
const REPLY_NS: i64 = 1_000_000;
const REPLIES_OF_TEN: u64 = 8;

/// A maker that spends at least one part in this many of its work on files or a network reads for the trainer
/// regardless.
const READING_PART: i64 = 5;

/// Explains the waits of all trainers.
pub fn explained(timelines: Timelines, processes: &[Process]) -> Waits {
    if timelines.is_cut {
        return Waits { is_cut: true, ..Waits::default() };
    }
    let mut steps = timelines.threads.values().flat_map(|thread| &thread.steps);
    let is_known = steps.any(|step| step.object.id != 0 || step.waker != 0);
    let family = Family::new(timelines, processes);
    if !is_known {
        return Waits { killed: family.killed, ..Waits::default() };
    }
    let by_spans: Vec<usize> = (0..family.threads.len()).filter(|&t| !family.threads[t].fetches.is_empty()).collect();
    let mut trainers: Vec<TrainerWaits> = match by_spans.is_empty() {
        false => by_spans.into_iter().filter_map(|thread| Trainer::new(&family, thread).by_spans()).collect(),
        true => by_calls(&family),
    };
    for waits in &mut trainers {
        let makers = waits.makers().into_keys().filter_map(|lane| family.thread_of(lane));
        waits.faults = makers.filter_map(|maker| family.threads[maker].faults).reduce(|a, b| a + b);
    }
    let pipelines = trainers.iter().map(|waits| (waits.lane, pipeline(&family, &waits.trained()))).collect();
    Waits { is_known, is_cut: false, trainers, pipelines, killed: family.killed }
}

/// Finds trainers without spans.
fn by_calls(family: &Family) -> Vec<TrainerWaits> {
    // A shell waits for its commands, and make for its compilers: they do not train.
    let may_train = |thread: &usize| {
        let process = &family.processes[family.threads[*thread].lane.proc as usize];
        process.rank.is_some() || process.program.as_deref().is_none_or(|program| !is_shell(program))
    };
    let firsts = (0..family.threads.len()).filter(|&thread| family.threads[thread].is_first).filter(may_train);
    let found: Vec<TrainerWaits> = firsts
        .filter_map(|first| {
            let takers = || family.takers_from_below(first).into_iter();
            Trainer::new(family, first)
                .by_calls()
                .or_else(|| takers().find_map(|thread| Trainer::new(family, thread).by_calls()))
        })
        .collect();
    let found = if found.is_empty() { beside_first(family, may_train) } else { found };
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
    let serves = |trainer: &TrainerWaits| {
        // Readers have the rank of their trainer. A trainer of another rank is a launcher.
        let is_its = |other: &&TrainerWaits| {
            family.is_below(trainer.lane.proc, other.lane.proc)
                && (!has_rank(trainer.lane) || rank(trainer.lane) == rank(other.lane))
        };
        found.iter().filter(is_its).any(|other| is_served(other, trainer))
    };
    let others: Vec<LaneId> = found.iter().filter(|trainer| serves(trainer)).map(|trainer| trainer.lane).collect();
    // A launcher waits for its ranks.
    let launches = |lane: LaneId| {
        let is_its =
            |other: &TrainerWaits| family.is_below(other.lane.proc, lane.proc) && !others.contains(&other.lane);
        !has_rank(lane) && found.iter().any(is_its)
    };
    let is_one = |trainer: &TrainerWaits| !others.contains(&trainer.lane) && !launches(trainer.lane);
    let are_ones: Vec<bool> = found.iter().map(is_one).collect();
    found.into_iter().zip(are_ones).filter_map(|(trainer, is_one)| is_one.then_some(trainer)).collect()
}

/// Finds trainers that are neither the first thread of their process nor receive from another process: threads that
/// work on what other threads of their process read.
fn beside_first(family: &Family, may_train: impl Fn(&usize) -> bool) -> Vec<TrainerWaits> {
    let firsts = (0..family.threads.len()).filter(|&thread| family.threads[thread].is_first).filter(may_train);
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
    firsts.filter_map(best).collect()
}

/// A wait whose end is known, before it is explained.
struct Ended {
    start: i64,
    end: i64,
    by: Ender,
    /// Bytes received in the meantime, and the start of the thread's next step.
    bytes: i64,
    next: i64,
    /// Object from which it received bytes last.
    object: Object,
}

impl Ended {
    /// Merges a wait that continues this one.
    fn go_on(&mut self, next: Ended) {
        *self = Ended { start: self.start, bytes: self.bytes + next.bytes, ..next };
    }
}

impl Act {
    fn seen(self, family: &Family) -> WaitAct {
        WaitAct { lane: family.threads[self.thread].lane, at: self.at }
    }
}

/// Returns the longest time between waits and receipts: the longest step, or pause between passes.
fn longest_gap(waits: impl Iterator<Item = (i64, i64)>, takes: &[Interval]) -> i64 {
    let mut times: Vec<(i64, i64)> = waits.chain(takes.iter().map(|take| (take.start, take.end))).collect();
    times.sort_unstable();
    let mut end = i64::MAX;
    let gaps = times.iter().map(|&(start, until)| {
        let gap = start.saturating_sub(end);
        end = if end == i64::MAX { until } else { end.max(until) };
        gap
    });
    gaps.max().filter(|gap| *gap > 0).unwrap_or(i64::MAX)
}

struct Trainer<'f, 'a> {
    family: &'f Family<'a>,
    thread: usize,
    explainer: Explainer<'f, 'a>,
}

/// Relation of a maker to the trainer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Relation {
    OwnThread,
    Child,
    Stranger,
}

impl<'f, 'a> Trainer<'f, 'a> {
    fn new(family: &'f Family<'a>, thread: usize) -> Trainer<'f, 'a> {
        Trainer { family, thread, explainer: Explainer::new(family, thread) }
    }

    fn lane(&self) -> LaneId {
        self.family.threads[self.thread].lane
    }

    /// Returns the steps in a time range in which the trainer waits for another thread.
    fn idle_steps(&self, from: i64, to: i64) -> Vec<usize> {
        let thread = &self.family.threads[self.thread];
        let first = thread.steps.partition_point(|step| step.end <= from);
        let steps = (first..thread.steps.len()).take_while(|&at| thread.steps[at].start < to);
        let waits = |&at: &usize| {
            let step = &thread.steps[at];
            // A look for ended children that found none did not wait for one.
            let is_look = step.kind == StepKind::Child && step.amount == 0;
            let is_idle = matches!(thread.class[at], Part::Idle | Part::Gil)
                || matches!(step.kind, StepKind::Child | StepKind::Join | StepKind::Take) && !is_look;
            is_idle && step.end - step.start >= WAIT_NS
        };
        steps.filter(waits).collect()
    }

    /// Returns waits derived from calls: waits separated by little work are merged if both were ended by a thread in the
    /// same role, and an expired timeout starts a new wait.
    fn ended_waits(&self, have_same_role: impl Fn(Act, Act) -> bool) -> Vec<Ended> {
        let thread = &self.family.threads[self.thread];
        let mut found: Vec<Ended> = Vec::new();
        let mut previous = 0;
        for at in self.idle_steps(i64::MIN, i64::MAX) {
            let step = &thread.steps[at];
            let between = &thread.steps[(previous + 1).min(at)..at];
            previous = at;
            let by = self.family.ender(self.thread, at);
            let bytes = if step.kind == StepKind::Take { step.amount } else { 0 };
            // Skip posts, which occur in between.
            let is_other = |next: &&Step| !matches!(next.kind, StepKind::Post | StepKind::Edge);
            let next = thread.steps[at + 1..].iter().find(is_other);
            let next = next.map_or(step.end, |next| next.start);
            let wait = Ended { start: step.start, end: step.end, by, bytes, next, object: step.object };
            // Between chunks of one message, a thread may have to allocate space for it. It does nothing else.
            let is_chunk = |chunk: &Step| chunk.object == step.object && chunk.amount >= PIECE;
            let is_piece = |last: &Ended| step.object == last.object && is_chunk(step) && between.iter().all(is_chunk);
            let pause = |last: &Ended| match is_piece(last) {
                true => (last.bytes * PIECES_NS_PER_BYTE).clamp(WORK_NS, PIECES_NS),
                false => WORK_NS,
            };
            let last = found.last_mut().filter(|last| thread.worked(last.end, step.start) < pause(last));
            match last {
                Some(last) if thread.class[at] == Part::Gil => last.end = step.end,
                Some(last) if self.is_same_delivery(last, &by, step) => last.go_on(Ended { by: last.by, ..wait }),
                Some(last) if self.goes_on(&last.by, &by, &have_same_role) => last.go_on(wait),
                _ if thread.class[at] == Part::Gil => {}
                _ => found.push(wait),
            }
        }
        let unpickles = self.family.is_python(self.lane().proc);
        for wait in found.iter_mut().filter(|wait| unpickles && wait.bytes >= LARGE_MESSAGE) {
            wait.end = (wait.end + wait.bytes * UNPICKLING_NS_PER_BYTE).min(wait.next.max(wait.end));
        }
        found
    }

    /// Returns `true` if a thread only delivers an item that a maker had announced: another thread of the maker's
    /// process, as tensor descriptors, or a thread that responds quickly to a request that the trainer sent in between.
    fn is_same_delivery(&self, last: &Ended, next: &Ender, step: &Step) -> bool {
        let proc_of = |act: &Act| self.family.threads[act.thread].lane.proc;
        match (&last.by, next) {
            (Ender::Thread(_), Ender::Nobody) => step.kind == StepKind::Take,
            (Ender::Thread(maker), Ender::Thread(next)) => {
                let is_other = maker.thread != next.thread && proc_of(next) != self.lane().proc;
                let delivers = !self.family.threads[next.thread].is_first && proc_of(maker) == proc_of(next);
                let is_short = DELIVERY_PART * (step.end - step.start) < last.end - last.start;
                is_other
                    && (delivers
                        || is_short && self.is_asked(next, last.end) && self.source(maker) == self.source(next))
            }
            _ => false,
        }
    }

    /// Returns `true` if a thread acted on a request that the trainer sent after a timestamp.
    fn is_asked(&self, act: &Act, since: i64) -> bool {
        self.family.input_of(*act).is_some_and(|input| input.thread == self.thread && input.at >= since)
    }

    /// Returns `true` if a wait continues in the next one: its timeout expired, or both ends have the same kind of
    /// cause.
    fn goes_on(&self, last: &Ender, next: &Ender, have_same_role: impl Fn(Act, Act) -> bool) -> bool {
        match (last, next) {
            (Ender::Timer, _) => true,
            (Ender::Thread(last), Ender::Thread(next)) => {
                self.source(last) == self.source(next) && have_same_role(*last, *next)
            }
            (Ender::Dead(_), Ender::Dead(_)) => true,
            (Ender::Exit(last), Ender::Exit(next)) => self.reader_of(*last) == self.reader_of(*next),
            (last, next) => last == next,
        }
    }

    /// Returns `true` if a thread takes the trainer's output, for which it has to make room: another process that receives
    /// messages from the trainer's process and sends none, or a thread that writes files and hardly reads any.
    fn is_consumer(&self, act: Act) -> bool {
        let (own, thread) = (self.lane().proc, &self.family.threads[act.thread]);
        if thread.lane.proc != own {
            return self.family.sends(own, thread.lane.proc) && !self.family.sends(thread.lane.proc, own);
        }
        act.thread != self.thread && WRITING * (thread.stored_ns - thread.written_ns) < thread.written_ns
    }

    /// Returns `true` if an act is one of another rank, or of a thread that communicates with others.
    fn is_peer(&self, act: Act) -> bool {
        self.family.communicators.contains(&act.thread) || self.relation(&act) == Relation::Stranger
    }

    fn relation(&self, act: &Act) -> Relation {
        self.relation_of(self.explainer.maker(*act).0.thread)
    }

    /// Returns the relation of the thread that made an item, or that delivered it at the trainer's request: a batch is
    /// not the response of a thread that the trainer joined before.
    fn source(&self, act: &Act) -> Relation {
        let (maker, _) = self.explainer.maker(*act);
        self.relation_of(if maker.thread == self.thread { act.thread } else { maker.thread })
    }

    fn relation_of(&self, thread: usize) -> Relation {
        let proc = self.family.threads[thread].lane.proc;
        match proc {
            _ if proc == self.lane().proc => Relation::OwnThread,
            _ if self.family.is_below(proc, self.lane().proc) => Relation::Child,
            _ => Relation::Stranger,
        }
    }

    /// Returns `true` if a maker received its input from the trainer just before the trainer started to wait for it.
    fn is_reply(&self, wait: &Ended, maker: Act) -> bool {
        let thread = &self.family.threads[maker.thread];
        let own = &self.family.threads[self.thread];
        let just = |ts: i64| ts <= wait.end && own.worked(ts, wait.start) < REPLY_NS;
        match thread.last_starved(maker.at) {
            Some(at) if just(thread.steps[at].end) => {
                self.family.input_of(maker).is_some_and(|by| self.explainer.maker(by).0.thread == self.thread)
            }
            Some(_) => false,
            None => just(thread.born),
        }
    }

    /// Returns `true` if a maker reads a significant part of its output from files or a network.
    fn reads(&self, maker: Act, since: i64) -> bool {
        let thread = &self.family.threads[maker.thread];
        let from = thread.last_starved(maker.at).map_or(thread.born, |at| thread.steps[at].end);
        let did = thread.composition(from.min(since.max(thread.born)), maker.at);
        let read = [Part::Storage, Part::PageFaults, Part::Network].map(|part| did.get(part)).iter().sum::<i64>();
        READING_PART * read >= did.without(Part::Idle).sum() && read > 0
    }

    /// Returns `true` if a thread of another process delivered an item at the trainer's request without making it.
    fn is_delivery(&self, act: Act, maker: Act) -> bool {
        maker.thread == self.thread && self.family.threads[act.thread].lane.proc != self.lane().proc
    }

    /// Returns the thread that stands for a maker: threads of another process are one maker, whichever of them sends.
    fn maker_key(&self, maker: Act) -> usize {
        let proc = self.family.threads[maker.thread].lane.proc;
        let first = || self.family.first_thread(proc);
        if proc == self.lane().proc { maker.thread } else { first().unwrap_or(maker.thread) }
    }

    /// Returns, per maker, whether it does the trainer's own work. Makers that end few waits are judged together.
    fn own_workers(&self, waits: &[Ended]) -> BTreeMap<Option<usize>, bool> {
        let mut makers: BTreeMap<usize, [u64; 2]> = BTreeMap::new();
        for wait in waits {
            let Some(act) = wait.by.act() else { continue };
            let (maker, _) = self.explainer.maker(act);
            if self.is_delivery(act, maker) {
                continue;
            }
            let is_own = self.is_reply(wait, maker) && !self.reads(maker, wait.start);
            let [all, own] = makers.entry(self.maker_key(maker)).or_default();
            (*all, *own) = (*all + 1, *own + is_own as u64);
        }
        let mut found: BTreeMap<Option<usize>, [u64; 2]> = BTreeMap::new();
        for (maker, [all, own]) in makers {
            let sum = found.entry((all >= WAITS_MIN as u64).then_some(maker)).or_default();
            *sum = [sum[0] + all, sum[1] + own];
        }
        found.into_iter().map(|(maker, [all, own])| (maker, 10 * own >= REPLIES_OF_TEN * all)).collect()
    }

    /// Returns whether a maker does the trainer's own work, judged separately or together with all makers that end few
    /// waits.
    fn is_own_worker(&self, own: &BTreeMap<Option<usize>, bool>, maker: Act) -> bool {
        own.get(&Some(self.maker_key(maker))).or_else(|| own.get(&None)).copied().unwrap_or(false)
    }

    /// Returns the threads alongside the trainer and processes below it that repeatedly make batches.
    fn readers(&self, waits: &[Ended], own: &BTreeMap<Option<usize>, bool>) -> BTreeSet<LaneId> {
        let mut ended: BTreeMap<LaneId, [usize; 2]> = BTreeMap::new();
        for wait in waits {
            let Ender::Thread(act) = wait.by else { continue };
            if self.family.communicators.contains(&act.thread) || self.is_consumer(act) {
                continue;
            }
            let (maker, _) = self.explainer.maker(act);
            let is_own = self.is_own_worker(own, maker);
            let reader = if maker.thread == self.thread { act } else { maker };
            // A thread of the trainer's process that only forwards the trainer's input makes nothing.
            let is_echo =
                reader.thread == self.thread || maker.thread == self.thread && self.relation(&act) != Relation::Child;
            if self.relation(&act) != Relation::Stranger && !is_echo {
                let [all, owns] = ended.entry(self.reader_of(reader)).or_default();
                (*all, *owns) = (*all + 1, *owns + is_own as usize);
            }
        }
        let is_own = |lane: &LaneId| ended.get(lane).is_some_and(|[all, owns]| 2 * owns >= *all);
        let made = ended.iter().filter(|(_, [all, _])| *all >= WAITS_MIN).map(|(lane, _)| *lane);
        made.chain(self.hand_to_trainer()).filter(|lane| !is_own(lane)).collect()
    }

    /// Returns the processes below the trainer that repeatedly send it messages.
    fn hand_to_trainer(&self) -> BTreeSet<LaneId> {
        let mut taken: BTreeMap<u64, usize> = BTreeMap::new();
        let takes = self.family.threads[self.thread].takes();
        takes.for_each(|step| *taken.entry(step.object.id).or_default() += 1);
        let often = taken.into_iter().filter(|(_, count)| *count >= WAITS_MIN);
        let givers = often.flat_map(|(object, _)| self.family.givers(object));
        let lanes = givers.map(|thread| self.reader_of(Act { thread, at: 0 }));
        lanes.filter(|lane| self.family.is_below(lane.proc, self.lane().proc)).collect()
    }

    /// Returns the reader of an act: a thread alongside the trainer, or the main thread of another process, which
    /// represents the process.
    fn reader_of(&self, act: Act) -> LaneId {
        self.reader(self.family.threads[act.thread].lane)
    }

    fn reader(&self, lane: LaneId) -> LaneId {
        let first = self.family.processes.get(lane.proc as usize).map_or(lane.tid, |process| process.pid);
        if lane.proc == self.lane().proc { lane } else { LaneId { tid: first, ..lane } }
    }

    fn by_calls(mut self) -> Option<TrainerWaits> {
        let maker = |act: Act| self.explainer.maker(act).0;
        let by_maker = self.ended_waits(|a, b| self.maker_key(maker(a)) == self.maker_key(maker(b)));
        let own = self.own_workers(&by_maker);
        let is_own = |act: Act| self.is_consumer(act) || self.is_own_worker(&own, maker(act));
        let ended = self.ended_waits(|a, b| is_own(a) == is_own(b));
        let readers = self.readers(&ended, &own);
        let mut waits = Vec::new();
        let mut stops = BTreeSet::new();
        for wait in &ended {
            let kind = match wait.by {
                Ender::Timer => continue,
                Ender::Dead(act) => {
                    waits.push(self.dead_time(wait.start, wait.end, act));
                    continue;
                }
                Ender::Nobody => WaitKind::Unknown,
                Ender::Remote => WaitKind::Peer,
                Ender::Thread(act) | Ender::Exit(act) if self.is_peer(act) => WaitKind::Peer,
                Ender::Exit(act) if readers.contains(&self.reader_of(act)) => {
                    waits.push(self.reader_time(wait.start, wait.end, act));
                    stops.insert(wait.end);
                    continue;
                }
                Ender::Thread(act) | Ender::Exit(act) => {
                    let (maker, _) = self.explainer.maker(act);
                    let only_ends = matches!(wait.by, Ender::Exit(_)) && !self.reads(maker, wait.start);
                    let is_delivery = self.is_delivery(act, maker) && readers.contains(&self.reader_of(act));
                    let is_own = self.is_consumer(act) || !is_delivery && self.is_own_worker(&own, maker);
                    if only_ends || is_own { WaitKind::OwnWork } else { WaitKind::Data }
                }
            };
            waits.push(self.explain(wait.start, wait.end, kind, wait.by));
        }
        waits.extend(self.locked(&waits, &readers));
        waits.extend(self.given_up(&ended, &readers));
        waits.sort_by_key(|wait| wait.start);
        let made = self.readers_made(&readers);
        // A loader that has readers for each epoch stops them within the epoch. Others are stopped after the training.
        let stops_are_waits = made.len() > 1;
        for made in made {
            self.add_start(&mut waits, made);
        }
        let data = || waits.iter().filter(|wait| wait.kind == WaitKind::Data);
        let takes = self.takes(&readers);
        let messages = data().count().max(takes.len());
        if messages < WAITS_MIN {
            return None;
        }
        let messages = messages as u64;
        // A program that sends a single ready message makes no batches.
        let by_reader =
            |wait: &&Wait| readers.is_empty() || wait.maker.is_some_and(|maker| readers.contains(&self.reader(maker)));
        let from = data().filter(by_reader).map(|wait| wait.start).chain(takes.iter().map(|take| take.start)).min()?;
        let ends = data().filter(by_reader).map(|wait| wait.end).filter(|end| stops_are_waits || !stops.contains(end));
        let last = ends.chain(takes.iter().map(|take| take.end)).max()?;
        let works =
            data().zip(data().skip(1)).filter(|(wait, next)| self.computes(wait.end, next.start)).count() as u64;
        // A trainer stops its readers when it has processed the last batch.
        let step_max = longest_gap(data().filter(by_reader).map(|wait| (wait.start, wait.end)), &takes);
        let to = if stops.contains(&last) { last } else { self.done(last).min(last.saturating_add(step_max)) };
        // Drop waits before and after the training.
        waits.retain(|wait| wait.start >= from && wait.start < to.max(last));
        let own_storage = self.family.threads[self.thread].composition(from, to).get(Part::Storage);
        let faults = None;
        Some(TrainerWaits { lane: self.lane(), by_spans: false, waits, from, to, works, messages, own_storage, faults })
    }

    /// Returns the last wait if it was for a batch that never came: looks for messages of the readers, after all other
    /// messages, that ended with their timeout.
    fn given_up(&mut self, ended: &[Ended], readers: &BTreeSet<LaneId>) -> Option<Wait> {
        let giver = |object: u64| {
            let lanes = self.family.givers(object).into_iter().map(|thread| self.family.threads[thread].lane);
            let mut others = lanes.filter(|lane| lane.proc != self.lane().proc).map(|lane| self.reader(lane));
            others.find(|lane| readers.contains(lane))
        };
        let after = ended.iter().rposition(|wait| matches!(wait.by, Ender::Thread(_))).map_or(0, |last| last + 1);
        let looks = || {
            let timed_out = ended[after..].iter().filter(|wait| matches!(wait.by, Ender::Timer));
            timed_out.filter_map(|wait| Some((wait, giver(wait.object.id)?)))
        };
        let ((first, maker), (last, _)) = looks().next().zip(looks().next_back())?;
        let (start, end) = (first.start, last.end);
        let wait = self.explain(start, end, WaitKind::Data, Ender::Nobody);
        (end - start >= GIVEN_UP_NS).then_some(Wait { maker: Some(maker), ..wait })
    }

    /// Returns the waits for locks that other threads than its readers held, with the work of those threads.
    fn locked(&self, waits: &[Wait], readers: &BTreeSet<LaneId>) -> Vec<Wait> {
        let own = &self.family.threads[self.thread];
        let is_between = |step: &Step| {
            let next = waits.partition_point(|wait| wait.end <= step.start);
            waits.get(next).is_none_or(|wait| wait.start >= step.end)
        };
        let locks = (0..own.steps.len()).filter(|&at| own.class[at] == Part::Lock);
        let locked = locks.filter_map(|at| {
            let (step, holder) = (&own.steps[at], self.family.ender(self.thread, at).act()?);
            let is_other = !readers.contains(&self.reader_of(holder)) && self.relation(&holder) != Relation::Stranger;
            let ns = step.end - step.start;
            let did =
                self.family.threads[holder.thread].composition(step.start, step.end).relabel(Part::Idle, Part::Lock);
            let parts = did.scaled(ns).unwrap_or(Parts::of(Part::Lock, ns));
            (is_other && ns >= WAIT_NS && is_between(step)).then(|| Wait {
                kind: WaitKind::Lock,
                parts,
                ..self.reader_time(step.start, step.end, holder)
            })
        });
        locked.collect()
    }

    /// Returns `true` if the trainer works between two timestamps on something other than files.
    fn computes(&self, from: i64, to: i64) -> bool {
        let own = &self.family.threads[self.thread];
        own.worked(from, to) - own.composition(from, to).get(Part::Storage) >= WORK_NS
    }

    /// Returns when the trainer created its readers: consecutively, with short gaps.
    fn readers_made(&self, readers: &BTreeSet<LaneId>) -> Vec<(Interval, usize)> {
        let steps = self.family.threads[self.thread].steps.iter();
        let forks = steps.filter(|step| step.kind == StepKind::Fork);
        let mut found: Vec<(Interval, usize)> = Vec::new();
        for fork in forks {
            let child = self.family.child_made(self.lane().proc, fork.amount as i32, fork.start);
            let Some(child) = child.filter(|&child| readers.contains(&self.reader_of(Act { thread: child, at: 0 })))
            else {
                continue;
            };
            match found.last_mut().filter(|(last, _)| fork.start - last.end < BETWEEN_FORKS_NS) {
                Some((last, _)) => last.end = fork.end,
                None => found.push((Interval { start: fork.start, end: fork.end }, child)),
            }
        }
        found
    }

    /// Adds the time in which readers were created, without other waits in it.
    fn add_start(&self, waits: &mut Vec<Wait>, (made, reader): (Interval, usize)) {
        waits.retain(|wait| wait.start < made.start || wait.end > made.end);
        let end = waits.iter().map(|wait| wait.start).filter(|start| (made.start..made.end).contains(start)).min();
        let start = waits.iter().map(|wait| wait.end).filter(|end| (made.start..made.end).contains(end)).max();
        let (start, end) = (start.unwrap_or(made.start), end.unwrap_or(made.end));
        if start < end {
            let wait = self.reader_time(start, end, Act { thread: reader, at: end });
            let at = waits.partition_point(|wait| wait.start < start);
            waits.insert(at, wait);
        }
    }

    /// Returns the messages that it receives from its readers, or from any process below it if no readers are known.
    fn takes(&self, readers: &BTreeSet<LaneId>) -> Vec<Interval> {
        let (family, lane) = (self.family, self.lane());
        let is_from_reader = |object: u64| match readers.is_empty() {
            true => family.is_given_below(object, lane.proc),
            false => family.givers(object).into_iter().any(|thread| {
                let giver = family.threads[thread].lane;
                giver.proc != lane.proc && readers.contains(&self.reader(giver))
            }),
        };
        let mut known: BTreeMap<u64, bool> = BTreeMap::new();
        let takes = family.threads[self.thread].takes();
        let from_readers =
            takes.filter(|step| *known.entry(step.object.id).or_insert_with(|| is_from_reader(step.object.id)));
        from_readers.map(|step| Interval { start: step.start, end: step.end }).collect()
    }

    /// Returns the time at which the trainer had processed the last batch: it waits for another thread, stops its
    /// readers, or exits.
    fn done(&self, last: i64) -> i64 {
        let thread = &self.family.threads[self.thread];
        let after = thread.steps.iter().zip(&thread.class).filter(|(step, _)| step.start >= last);
        let ends = |(step, class): &(&Step, &Part)| {
            let waits = **class == Part::Idle && step.end - step.start >= WAIT_NS;
            let gives = step.kind == StepKind::Give && step.start - last >= WORK_NS;
            waits || gives || matches!(step.kind, StepKind::Child | StepKind::Join)
        };
        let mut after = after;
        after.find(ends).map_or(thread.last.max(last), |(step, _)| step.start)
    }

    /// Returns a wait for a reader to start or exit.
    fn reader_time(&self, start: i64, end: i64, reader: Act) -> Wait {
        let maker = Some(self.family.threads[reader.thread].lane);
        let parts = Parts::of(Part::Start, end - start);
        let acts = vec![reader.seen(self.family)];
        Wait { start, end, kind: WaitKind::Data, maker, limiter: None, depth: 0, acts, parts }
    }

    /// Returns a wait for the output of a process that had ended, or that ended during the wait.
    fn dead_time(&self, start: i64, end: i64, last: Act) -> Wait {
        let died = last.at.clamp(start, end);
        let parts = Parts::of(Part::Unknown, died - start) + Parts::of(Part::Dead, end - died);
        Wait { parts, ..self.reader_time(start, end, last) }
    }

    fn explain(&mut self, start: i64, end: i64, kind: WaitKind, by: Ender) -> Wait {
        let family = self.family;
        let lane = |thread: usize| family.threads[thread].lane;
        let acts = by.act().into_iter().flat_map(|act| self.explainer.acts(act));
        let acts = acts.map(|act| act.seen(family)).collect();
        match (kind, by) {
            (WaitKind::Data | WaitKind::OwnWork, Ender::Thread(act) | Ender::Exit(act)) => {
                let found = self.explainer.explain(start, end, act);
                let (maker, limiter) = (found.maker.map(lane), found.limiter.map(lane));
                Wait { start, end, kind, maker, limiter, depth: found.depth, acts, parts: found.parts }
            }
            (_, by) => {
                let maker = by.act().map(|act| lane(self.explainer.maker(act).0.thread));
                let part = if kind == WaitKind::Peer { Part::Network } else { Part::Unknown };
                Wait { start, end, kind, maker, limiter: None, depth: 0, acts, parts: Parts::of(part, end - start) }
            }
        }
    }

    /// Returns the waits that its spans show.
    fn by_spans(mut self) -> Option<TrainerWaits> {
        let fetches = united(vec![self.family.threads[self.thread].fetches.clone()]);
        let (from, to) = (fetches.first()?.start, fetches.last()?.end);
        let has_makers = fetches.iter().any(|fetch| self.ender_of(fetch).act().is_some());
        let mut waits: Vec<Wait> = fetches.iter().map(|fetch| self.fetch(fetch, has_makers)).collect();
        for made in united(vec![self.family.threads[self.thread].loader_starts.clone()]) {
            self.add_start(&mut waits, (made, self.thread));
        }
        let from = waits.first().map_or(from, |wait| wait.start.min(from));
        let works = waits.iter().zip(waits.iter().skip(1)).filter(|(a, b)| b.start - a.end >= WORK_NS).count() as u64;
        let messages = waits.len() as u64;
        let own_storage = self.family.threads[self.thread].composition(from, to).get(Part::Storage);
        let faults = None;
        Some(TrainerWaits { lane: self.lane(), by_spans: true, waits, from, to, works, messages, own_storage, faults })
    }

    /// Returns the maker of the item that a span waited for: the last thread to end a wait in the span other than by
    /// delivery only.
    fn ender_of(&self, fetch: &Interval) -> Ender {
        let thread = &self.family.threads[self.thread];
        let (mut last, mut dead): (Option<Ended>, Option<Act>) = (None, None);
        let steps = self.idle_steps(fetch.start, fetch.end).into_iter();
        for at in steps.filter(|&at| thread.class[at] != Part::Gil) {
            let (step, by) = (&thread.steps[at], self.family.ender(self.thread, at));
            let start = last.as_ref().map_or(step.start, |last| last.start);
            match &mut last {
                Some(last) if self.is_same_delivery(last, &by, step) => last.end = step.end,
                _ if by.act().is_none() => dead = if let Ender::Dead(act) = by { Some(act) } else { dead },
                _ => last = Some(Ended { start, end: step.end, by, bytes: 0, next: step.end, object: step.object }),
            }
        }
        match last {
            Some(last) => last.by,
            None => dead.map_or(Ender::Nobody, Ender::Dead),
        }
    }

    /// Explains one span: its waits belong to the last message, the rest is the trainer's own work.
    /// Counts the time that receiving a batch takes at most as hand-over: for its bytes, and for its tensors in shared
    /// memory. The rest is other work on the batch, such as sampling.
    fn unpickled(&self, did: Parts, from: i64, to: i64) -> Parts {
        let steps = &self.family.threads[self.thread].steps;
        let steps = &steps[steps.partition_point(|step| step.end < from)..];
        let taken = steps.iter().take_while(|step| step.start <= to).filter(|step| step.kind == StepKind::Take);
        let bytes: i64 = taken.map(|step| step.amount.max(0)).sum();
        let mut left = WORK_NS + bytes * UNPICKLING_NS_PER_BYTE;
        [Part::Cpu, Part::OutsideCalls].into_iter().fold(did, |did, part| {
            let moved = did.get(part).min(left);
            left -= moved;
            did - Parts::of(part, moved) + Parts::of(Part::HandOver, moved)
        })
    }

    fn fetch(&mut self, fetch: &Interval, has_makers: bool) -> Wait {
        let Interval { start, end } = *fetch;
        let family = self.family;
        let thread = &family.threads[self.thread];
        let steps = self.idle_steps(start, end);
        let ends = steps.first().zip(steps.last());
        let waited =
            ends.map(|(&first, &last)| (thread.steps[first].start.max(start), thread.steps[last].end.min(end)));
        let own = |from: i64, to: i64| {
            let did = thread.composition(from, to);
            let did = did.scaled(to - from).unwrap_or(Parts::of(Part::OutsideCalls, to - from));
            did.relabel(Part::Idle, Part::Unknown)
        };
        let own = |from: i64, to: i64| if has_makers { self.unpickled(own(from, to), from, to) } else { own(from, to) };
        let Some((from, to)) = waited else {
            return Wait { parts: own(start, end), ..self.explain(start, end, WaitKind::Data, Ender::Nobody) };
        };
        let rest = own(start, from) + own(to, end);
        let by = self.ender_of(fetch);
        let mut wait = match by {
            Ender::Exit(act) if act.thread != self.thread && self.relation(&act) == Relation::Child => {
                self.reader_time(from, to, act)
            }
            Ender::Thread(_) | Ender::Exit(_) => self.explain(from, to, WaitKind::Data, by),
            Ender::Dead(act) => self.dead_time(from, to, act),
            _ => {
                let did = own(from, to);
                Wait { parts: did, ..self.explain(from, to, WaitKind::Data, by) }
            }
        };
        (wait.start, wait.end) = (start, end);
        wait.parts += rest;
        wait
    }
}

#[cfg(test)]
mod tests {
    use dlio_schemas::evidence::Counters;

    use super::*;
    use crate::batch::Usage;
    use crate::summary::waits::timeline::{STEPS_MAX, ThreadPart, TimelinePart};

    const MS: i64 = 1_000_000;
    const TRAINER: LaneId = LaneId { proc: 0, tid: 1 };
    const READER: LaneId = LaneId { proc: 1, tid: 2 };
    const FEEDER: LaneId = LaneId { proc: 1, tid: 3 };
    const PIPE: Object = Object { id: 7, network: false };

    /// Threads from this number start with their first step, all others at the start of the trace.
    const STARTED_LATER: i32 = 100;

    fn step(kind: StepKind, object: Object, start: i64, end: i64) -> Step {
        Step { start: start * MS, end: end * MS, kind, object, amount: 100, ..Step::NOTHING }
    }

    fn woken(start: i64, end: i64, waker: LaneId) -> Step {
        let object = Object { id: 0x1000, network: false };
        Step { waker: waker.tid, woken: 1_000, ..step(StepKind::Wait, object, start, end) }
    }

    /// Returns the waits of a trainer and its child, given the steps of their threads from timestamp zero.
    fn waits(threads: Vec<(LaneId, Vec<Step>, Vec<Usage>)>) -> Waits {
        let mut timelines = Timelines::default();
        for (lane, steps, usage) in threads {
            let first = steps.iter().map(|step| step.start).min().unwrap_or(0);
            let first = if lane.tid >= STARTED_LATER { first } else { first.min(0) };
            let part = ThreadPart { steps, usage, first: Some(first), ..ThreadPart::default() };
            timelines.threads.insert(lane, part);
        }
        let process = |pid, ppid| Process { pid, ppid, ..Process::default() };
        explained(timelines, &[process(1, None), process(2, Some(1)), process(STARTED_LATER, Some(1))])
    }

    /// Returns the trainer's waits for five batches, 30 ms each, with steps of 10 ms.
    fn trainer() -> Vec<Step> {
        (0..5).map(|i| step(StepKind::Take, PIPE, 40 * i, 40 * i + 30)).collect()
    }

    /// Returns a reader that sends a batch every 40 ms and reads for `storage` of that time.
    fn reader(storage: i64) -> Vec<Step> {
        let give = |i: i64| Step { storage: storage * MS, ..step(StepKind::Give, PIPE, 40 * i + 30, 40 * i + 30) };
        (0..5).map(give).collect()
    }

    #[track_caller]
    fn only(waits: &Waits) -> &TrainerWaits {
        let [trainer] = &waits.trainers[..] else { panic!("{:?}", waits.trainers) };
        assert_eq!(trainer.lane, TRAINER);
        for wait in &trainer.waits {
            assert_eq!(wait.parts.sum(), wait.end - wait.start, "{wait:?}");
        }
        trainer
    }

    #[test]
    fn more_steps_than_there_is_room_for_are_said_to_be_unexplained() {
        let piece = || {
            let mut part = TimelinePart::default();
            part.begin(LaneId { proc: 0, tid: 1 }, 0);
            part.step(Step { start: 0, end: 10, kind: StepKind::Wait, ..Step::NOTHING });
            part
        };
        let waits = |before: usize| {
            let mut all = Timelines { steps: before, ..Timelines::default() };
            all.take(piece());
            explained(all, &[])
        };
        assert!(!waits(STEPS_MAX - 1).is_cut && waits(STEPS_MAX).is_cut);
        // Parts measured on several hosts.
        let mut both = Waits::default();
        both.merge(waits(STEPS_MAX));
        both.merge(waits(0));
        assert!(both.is_cut && both.trainers.is_empty());
    }

    #[test]
    fn a_wait_has_the_composition_of_its_makers_work() {
        let usage = (0..5).map(|i| Usage {
            ts: (40 * i + 30) * MS,
            counters: Counters { cpu_us: 10_000, run_delay_us: Some(0), ..Counters::default() },
        });
        let found = waits(vec![(TRAINER, trainer(), Vec::new()), (READER, reader(30), usage.collect())]);
        let parts = only(&found).parts(WaitKind::Data);
        assert_eq!(parts.largest(), Part::Storage);
        assert!(parts.get(Part::Cpu) > 20 * MS && parts.get(Part::Storage) > 90 * MS, "{parts:?}");
        assert_eq!(only(&found).ns(WaitKind::Data), 150 * MS);
        assert_eq!(only(&found).makers().into_keys().collect::<Vec<_>>(), [READER]);
    }

    #[test]
    fn a_thread_that_passes_a_batch_on_is_not_its_maker() {
        let mut feeder = Vec::new();
        for i in 0..5 {
            feeder.push(woken(40 * i, 40 * i + 30, READER));
            feeder.push(step(StepKind::Give, PIPE, 40 * i + 30, 40 * i + 30));
        }
        let edges =
            |i: i64| Step { storage: 35 * MS, ..step(StepKind::Edge, Object::default(), 40 * i + 30, 40 * i + 30) };
        let reader: Vec<Step> = (0..5).map(edges).collect();
        let threads = vec![(TRAINER, trainer(), vec![]), (READER, reader, vec![]), (FEEDER, feeder, vec![])];
        let found = waits(threads);
        assert_eq!(only(&found).makers().into_keys().collect::<Vec<_>>(), [READER]);
        assert_eq!(only(&found).parts(WaitKind::Data).largest(), Part::Storage);
    }

    #[test]
    fn a_wait_that_nobody_was_seen_to_end_is_unknown() {
        let mut unseen = trainer();
        unseen.push(step(StepKind::Wait, Object::default(), 200, 290));
        unseen.push(step(StepKind::Take, PIPE, 300, 330));
        let mut gives = reader(30);
        gives.push(step(StepKind::Give, PIPE, 330, 330));
        let found = waits(vec![(TRAINER, unseen, Vec::new()), (READER, gives, Vec::new())]);
        assert_eq!(only(&found).ns(WaitKind::Unknown), 90 * MS);
        assert_eq!(only(&found).ns(WaitKind::Data), 180 * MS);
    }

    #[test]
    fn a_thread_that_answers_at_once_does_the_trainers_own_work() {
        let own = LaneId { proc: 0, tid: 9 };
        let asks = |i: i64| woken(40 * i, 40 * i + 30, own);
        let answers = |i: i64| woken(40 * i - 10, 40 * i, TRAINER);
        let loader = (0..5).map(|i| step(StepKind::Take, PIPE, 40 * i + 38, 40 * i + 38));
        let mut steps: Vec<Step> = (0..5).map(asks).chain(loader).collect();
        steps.sort_by_key(|step| step.start);
        let threads = vec![
            (TRAINER, steps, Vec::new()),
            (own, (1..5).map(answers).collect(), Vec::new()),
            (READER, reader(1), Vec::new()),
        ];
        let found = waits(threads);
        assert_eq!(only(&found).ns(WaitKind::Data), 0);
        assert!(only(&found).ns(WaitKind::OwnWork) >= 100 * MS);
    }

    /// Returns the steps of a trainer in two passes, which made a reader for each or one for both, and of the readers.
    fn passes(readers: [LaneId; 2]) -> Vec<(LaneId, Vec<Step>, Vec<Usage>)> {
        let nowhere = Object::default();
        let mut steps = Vec::new();
        let mut threads: Vec<(LaneId, Vec<Step>, Vec<Usage>)> = Vec::new();
        for (pass, reader) in (0..).zip(readers) {
            let at = 400 * pass;
            let late = |step: &Step| Step { start: step.start + at * MS, end: step.end + at * MS, ..*step };
            let is_new = pass == 0 || readers[0] != reader;
            if is_new {
                steps.push(Step { amount: reader.tid as i64, ..step(StepKind::Fork, nowhere, at - 20, at - 8) });
            }
            steps.extend(trainer().iter().map(late));
            if pass == 1 || readers[0] != readers[1] {
                steps.push(step(StepKind::Poll, Object { id: 99, network: false }, at + 210, at + 290));
                steps.push(Step { amount: reader.tid as i64, ..step(StepKind::Child, nowhere, at + 290, at + 290) });
            }
            let mut made: Vec<Step> = self::reader(30).iter().map(late).collect();
            made.push(step(StepKind::Edge, nowhere, at + 289, at + 289));
            match threads.last_mut() {
                Some((_, before, _)) if !is_new => before.extend(made),
                _ => threads.push((reader, made, Vec::new())),
            }
        }
        threads.push((TRAINER, steps, Vec::new()));
        threads
    }

    /// A loader with readers for each pass waits for their end within the pass; readers of several passes end after
    /// the training.
    #[test]
    fn making_readers_is_the_time_of_their_start_and_so_is_their_end_within_a_pass() {
        let second = LaneId { proc: 2, tid: STARTED_LATER };
        let renewed = waits(passes([READER, second]));
        let kept = waits(passes([READER, READER]));
        for (found, made) in [(&renewed, 2 * (12 + 80)), (&kept, 12)] {
            let trainer = only(found);
            assert!(trainer.parts(WaitKind::Data).get(Part::Start) >= made * MS, "{trainer:?}");
            assert_eq!((trainer.ns(WaitKind::Data), trainer.ns(WaitKind::Unknown)), ((300 + made) * MS, 0));
        }
        let trained = [&renewed, &kept].map(|found| only(found).to - only(found).from);
        assert_eq!(trained, [(400 + 290 + 20) * MS, (400 + 210 + 20) * MS]);
    }

    /// Messages larger than a pipe arrive in chunks. The next message begins with its length, after the trainer's step.
    #[test]
    fn chunks_of_two_messages_are_two_waits() {
        let take = |from: i64, took_us: i64, bytes: i64| {
            let start = from * 1_000;
            Step { start, end: start + took_us * 1_000, amount: bytes, ..step(StepKind::Take, PIPE, 0, 0) }
        };
        // Each message waits 10 ms for its length, or finds it there; its chunks follow within 20 us each.
        let message = |i: i64| {
            let (from, waited) = (40_000 * i, if i % 2 == 0 { 10_000 } else { 2 });
            let at = from + waited;
            let sleep = Step { amount: 0, ..step(StepKind::Sleep, Object::default(), 0, 0) };
            let sleep = Step { start: (at + 60) * 1_000, end: (at + 10_060) * 1_000, ..sleep };
            [take(from, waited, 4), take(at + 10, 20, 65_536), take(at + 35, 20, 36_864), sleep]
        };
        let steps: Vec<Step> = (0..10).flat_map(message).collect();
        let gives = (0..10).map(|i| Step { storage: 30 * MS, ..step(StepKind::Give, PIPE, 40 * i + 5, 40 * i + 5) });
        let found = waits(vec![(TRAINER, steps, Vec::new()), (READER, gives.collect(), Vec::new())]);
        let trainer = only(&found);
        let longest = trainer.waits.iter().map(|wait| wait.end - wait.start).max();
        assert!(longest < Some(11 * MS) && trainer.ns(WaitKind::Data) < 60 * MS, "{trainer:?}");
    }

    /// PyTorch waits for a batch with a timeout, and looks for ended workers after it.
    #[test]
    fn a_look_for_ended_readers_divides_no_wait() {
        let mut steps = trainer();
        let looked = 250 * MS + 20_000;
        steps.extend([
            Step { timed_out: true, amount: 0, ..step(StepKind::Poll, PIPE, 200, 250) },
            Step { end: looked, amount: 0, ..step(StepKind::Child, Object::default(), 250, 250) },
            Step { start: looked, ..step(StepKind::Take, PIPE, 250, 290) },
        ]);
        let mut made = reader(30);
        made.push(Step { storage: 90 * MS, ..step(StepKind::Give, PIPE, 290, 290) });
        let found = waits(vec![(TRAINER, steps, Vec::new()), (READER, made, Vec::new())]);
        assert_eq!((only(&found).ns(WaitKind::Data), only(&found).ns(WaitKind::Unknown)), ((150 + 90) * MS, 0));
    }

    /// A trainer starts a thread for each step and joins it; then a reader delivers the batch that the trainer
    /// requests.
    #[test]
    fn a_joined_thread_and_the_delivery_after_it_are_two_waits() {
        let (asks, answers) = (Object { id: 8, network: false }, Object { id: 9, network: false });
        let (mut own, mut server, mut threads) = (Vec::new(), Vec::new(), Vec::new());
        for i in 0..6 {
            let worker = LaneId { proc: 0, tid: STARTED_LATER + i as i32 };
            own.push(Step { is_lock: true, ..woken(40 * i, 40 * i + 30, worker) });
            own.push(step(StepKind::Give, asks, 40 * i + 30, 40 * i + 30));
            own.push(step(StepKind::Take, answers, 40 * i + 30, 40 * i + 31));
            server.push(step(StepKind::Take, asks, 40 * i - 9, 40 * i + 30));
            server.push(step(StepKind::Give, answers, 40 * i + 31, 40 * i + 31));
            let edge = |at: i64| step(StepKind::Edge, Object::default(), at, at);
            threads.push((worker, vec![edge(40 * i), edge(40 * i + 30)], Vec::new()));
        }
        threads.extend([(TRAINER, own, Vec::new()), (FEEDER, server, Vec::new()), (READER, reader(1), Vec::new())]);
        let found = waits(threads);
        assert!(only(&found).ns(WaitKind::Data) <= 6 * MS, "{:?}", only(&found));
    }

    /// A thread of the reader responds to the trainer's requests, like the PyTorch thread that passes descriptors.
    #[test]
    fn what_is_delivered_on_request_is_no_work_of_the_trainers_own() {
        let (asks, answers) = (Object { id: 8, network: false }, Object { id: 9, network: false });
        let (mut own, mut server) = (Vec::new(), Vec::new());
        for i in 0..5 {
            own.push(step(StepKind::Take, PIPE, 40 * i, 40 * i));
            own.push(step(StepKind::Give, asks, 40 * i, 40 * i));
            own.push(step(StepKind::Take, answers, 40 * i, 40 * i + 20));
            server.push(step(StepKind::Take, asks, 40 * i - 19, 40 * i + 20));
            server.push(step(StepKind::Give, answers, 40 * i + 20, 40 * i + 20));
        }
        let given = (0..5).map(|i| step(StepKind::Give, PIPE, 40 * i - 1, 40 * i - 1)).collect();
        let found = waits(vec![(TRAINER, own, Vec::new()), (READER, given, Vec::new()), (FEEDER, server, Vec::new())]);
        assert_eq!(only(&found).ns(WaitKind::OwnWork), 0);
        assert_eq!(only(&found).ns(WaitKind::Data), 100 * MS);
    }

    /// Three threads of a reader alternate on each item, a millisecond at a time.
    #[test]
    fn an_item_that_several_make_in_turn_is_explained_step_by_step() {
        let [second, third] = [4, 5].map(|tid| LaneId { proc: 1, tid });
        let (mut main, mut reads, mut computes) = (Vec::new(), Vec::new(), Vec::new());
        for i in 0..70 {
            main.push(woken(3 * i + 1, 3 * i + 3, third));
            reads.push(Step { storage: MS, ..woken(3 * i - 1, 3 * i + 1, READER) });
            computes.push(woken(3 * i, 3 * i + 2, second));
        }
        for i in 0..5 {
            main.push(step(StepKind::Give, PIPE, 40 * i + 30, 40 * i + 30));
        }
        main.sort_by_key(|step| (step.end, step.start));
        let threads = [(TRAINER, trainer()), (READER, main), (second, reads), (third, computes)];
        let found = waits(threads.map(|(lane, steps)| (lane, steps, Vec::new())).into());
        let parts = only(&found).parts(WaitKind::Data);
        assert!(parts.get(Part::Unknown) < 10 * MS, "{parts:?}");
        assert!(parts.get(Part::Storage) > 30 * MS && parts.get(Part::OutsideCalls) > 60 * MS, "{parts:?}");
    }

    /// A loader, and a program that answers after 30 ms, to which the trainer sends each batch. The training ends with the
    /// last batch.
    #[test]
    fn waits_for_readers_and_for_a_program_that_answers_are_not_merged() {
        let (device, asks, answers) =
            (LaneId { proc: 2, tid: STARTED_LATER }, Object { id: 8, ..PIPE }, Object { id: 9, ..PIPE });
        let (mut own, mut works, mut reads) = (Vec::new(), Vec::new(), Vec::new());
        for i in 0..6 {
            let at = 40 * i;
            reads.push(step(StepKind::Give, PIPE, at + 4, at + 4));
            own.push(step(StepKind::Take, PIPE, at + 1, at + 5));
            own.push(step(StepKind::Give, asks, at + 5, at + 5));
            works.push(step(StepKind::Take, asks, at - 5, at + 5));
            works.push(step(StepKind::Give, answers, at + 35, at + 35));
            own.push(step(StepKind::Take, answers, at + 5, at + 35));
        }
        let found = waits(vec![(TRAINER, own, vec![]), (READER, reads, vec![]), (device, works, vec![])]);
        let found = only(&found);
        assert_eq!((found.ns(WaitKind::Data), found.ns(WaitKind::OwnWork)), (6 * 4 * MS, 5 * 30 * MS));
    }

    #[test]
    fn a_lock_that_another_thread_holds_is_no_wait_for_data() {
        let holder = LaneId { proc: 0, tid: 9 };
        let mut own = Vec::new();
        for i in 0..5 {
            own.push(step(StepKind::Take, PIPE, 40 * i, 40 * i + 5));
            own.push(Step { is_lock: true, ..woken(40 * i + 10, 40 * i + 30, holder) });
        }
        let reads = (0..5).map(|i| step(StepKind::Give, PIPE, 40 * i + 5, 40 * i + 5)).collect();
        let saves =
            |i: i64| Step { storage: 30 * MS, ..step(StepKind::Edge, Object::default(), 40 * i + 35, 40 * i + 35) };
        let threads =
            vec![(TRAINER, own, vec![]), (holder, (0..5).map(saves).collect(), vec![]), (READER, reads, vec![])];
        let found = waits(threads);
        let found = only(&found);
        assert_eq!((found.ns(WaitKind::Data), found.ns(WaitKind::Lock)), (5 * 5 * MS, 5 * 20 * MS));
        assert_eq!(found.parts(WaitKind::Lock).largest(), Part::Storage);
    }

    #[test]
    fn room_in_an_output_queue_is_no_data() {
        let output = Object { id: 8, ..PIPE };
        let room = Object { id: 0x1000, network: false };
        let writer = LaneId { proc: 2, tid: STARTED_LATER };
        let (mut own, mut writes) = (Vec::new(), Vec::new());
        for i in 0..5 {
            own.push(step(StepKind::Take, PIPE, 40 * i, 40 * i + 5));
            own.push(Step { shared: true, ..step(StepKind::Wait, room, 40 * i + 6, 40 * i + 30) });
            own.push(step(StepKind::Give, output, 40 * i + 30, 40 * i + 30));
            writes.push(step(StepKind::Post, room, 40 * i + 30, 40 * i + 30));
            writes.push(step(StepKind::Take, output, 40 * i + 30, 40 * i + 31));
        }
        let reads = (0..5).map(|i| step(StepKind::Give, PIPE, 40 * i + 5, 40 * i + 5)).collect();
        let found = waits(vec![(TRAINER, own, vec![]), (READER, reads, vec![]), (writer, writes, vec![])]);
        let found = only(&found);
        assert_eq!((found.ns(WaitKind::Data), found.ns(WaitKind::OwnWork)), (5 * 5 * MS, 4 * 24 * MS));
    }

    #[test]
    fn a_batch_that_never_came_is_waited_for() {
        let mut own = trainer();
        for i in 0..2 {
            own.push(Step { timed_out: true, ..step(StepKind::Poll, PIPE, 200 + 5000 * i, 5200 + 5000 * i) });
        }
        let found = waits(vec![(TRAINER, own, vec![]), (READER, reader(30), vec![])]);
        let found = only(&found);
        assert_eq!(
            (found.ns(WaitKind::Data), found.parts(WaitKind::Data).get(Part::Unknown)),
            (10_150 * MS, 10_000 * MS)
        );
    }

    #[test]
    fn a_trace_without_evidence_explains_nothing() {
        let steps = (0..5).map(|i| step(StepKind::Take, Object::default(), 40 * i, 40 * i + 30)).collect();
        assert!(!waits(vec![(TRAINER, steps, Vec::new())]).is_known);
    }
}
