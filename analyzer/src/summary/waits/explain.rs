//! Explains why a batch was late: it follows a wait from the thread that ended it back to the work that set the pace.
//!
//! A wait belongs to the message that ended it, and the message to the thread that made it. If that thread worked
//! without a pause, the wait has the composition of its work, because only that work limits the pipeline. If the thread
//! itself was starved, the search continues with the thread that it waited for. A wait with an unknown end is unknown.

use std::collections::HashMap;

use super::family::{Act, Ender, Family};
use super::parts::{Part, Parts};
use super::timeline::{BLOCKED_NS, Step, StepKind, is_connection, is_file_object};

/// Maximum number of threads between a trainer and the cause of its wait.
const DEPTH_MAX: u8 = 12;

/// A thread that works for less than this forwards the output of other threads.
const RELAY_NS: i64 = 1_000_000;

/// Extra time allowed for serializing a message.
const RELAY_NS_PER_BYTE: i64 = 3;

/// CPU time that pickling a message or unpickling it takes at least, if it consists of arrays.
const SERIALIZING_NS_PER_BYTE: i64 = 1;

/// CPU time that it takes at most, if it consists of many small objects.
const SERIALIZING_NS_PER_BYTE_MAX: i64 = 100;

/// A maker's recent work represents its pace: work over this multiple of the wait, and at least this long.
const RUN_WAITS: i64 = 8;
const RUN_MIN_NS: i64 = 160_000_000;

/// A thread sets the pace of a wait if it works for at least one part in this many of it.
const PACE_PART: i64 = 4;

/// A pause of less than one part in this many of an item does not starve a thread.
const PAUSE_PART: i64 = 20;

/// Maximum number of steps back through the work of several alternating threads.
const HOPS_MAX: usize = 1_000;

/// A wait with its explanation.
#[derive(Clone, Copy, Debug)]
pub struct Explained {
    pub parts: Parts,
    /// The thread that made the awaited item, and the thread that set the pace.
    pub maker: Option<usize>,
    pub limiter: Option<usize>,
    pub depth: u8,
}

/// Explains the waits of one trainer.
pub struct Explainer<'f, 'a> {
    pub family: &'f Family<'a>,
    pub trainer: usize,
    /// Time at which each process took its first task.
    ready: HashMap<u32, i64>,
    /// The thread that receives from each object on which another one was blocked.
    takers: HashMap<u64, Option<usize>>,
}

/// The thread that set the pace for an item.
enum Limiter {
    Thread(Act),
    /// The trainer itself: its request was late.
    Trainer,
    Unknown,
}

impl<'f, 'a> Explainer<'f, 'a> {
    pub fn new(family: &'f Family<'a>, trainer: usize) -> Explainer<'f, 'a> {
        Explainer { family, trainer, ready: HashMap::new(), takers: HashMap::new() }
    }

    /// Returns the thread that made the item another one forwarded, and the number of threads between them.
    pub fn maker(&self, act: Act) -> (Act, u8) {
        let (depth, maker) = self.acts(act).enumerate().last().unwrap_or((0, act));
        (maker, depth as u8)
    }

    /// Returns the act that ended a wait, those of the relays before it, and that of the maker.
    pub fn acts(&self, act: Act) -> impl Iterator<Item = Act> {
        std::iter::successors(Some(act), |act| self.relayed(*act)).take(DEPTH_MAX as usize + 1)
    }

    /// Returns the input that a relay forwarded; `None` if the thread is not a relay.
    fn relayed(&self, act: Act) -> Option<Act> {
        let thread = &self.family.threads[act.thread];
        if act.thread == self.trainer {
            return None;
        }
        let starved = thread.last_starved(act.at);
        if thread.is_first {
            return self.piped(act, starved?);
        }
        let from = starved.map_or(thread.born, |at| thread.steps[at].end);
        let did = thread.composition(from, act.at);
        let given = &thread.steps[thread.steps.partition_point(|step| step.end < act.at)..];
        let bytes = given.first().filter(|step| step.kind == StepKind::Give).map_or(0, |step| step.amount.max(0));
        let work = thread.worked(from, act.at);
        let fetched = [Part::Storage, Part::FileCalls, Part::Network, Part::PageFaults].map(|part| did.get(part));
        let fetches = fetched.iter().sum::<i64>() > RELAY_NS / 2;
        if fetches || work > RELAY_NS + RELAY_NS_PER_BYTE * bytes {
            return None;
        }
        match starved.map(|at| self.family.ender(act.thread, at)) {
            Some(Ender::Thread(before) | Ender::Exit(before)) => Some(before),
            Some(_) => None,
            // The thread was started for this item, presumably by the main thread of its process.
            None => self.family.first_thread(thread.lane.proc).map(|thread| Act { thread, at: from }),
        }
    }

    /// Returns the input that a program of a pipeline passed on, such as `cat`: it waited for that input for longer than it
    /// worked on it.
    fn piped(&self, act: Act, starved: usize) -> Option<Act> {
        let family = self.family;
        let thread = &family.threads[act.thread];
        let waited = &thread.steps[starved];
        let Ender::Thread(before) = family.ender(act.thread, starved) else { return None };
        let is_short = thread.worked(waited.end, act.at) <= waited.end - waited.start;
        let is_piped = || family.are_in_pipeline(thread.lane.proc, family.threads[before.thread].lane.proc);
        let is_slow = || self.is_held_up(before.thread, act.thread, act.at - RUN_MIN_NS, act.at);
        (is_short && is_piped() && !is_slow()).then_some(before)
    }

    /// Returns `true` if a thread spent most of a time in sending to another process that works: that one takes it too slowly and
    /// sets the pace, even if it waits for a moment.
    fn is_held_up(&self, thread: usize, taker: usize, from: i64, to: i64) -> bool {
        let (sender, next) = (&self.family.threads[thread], &self.family.threads[taker]);
        let from = from.max(sender.born);
        let trainer = self.family.threads[self.trainer].lane.proc;
        let is_between = next.lane.proc != trainer && next.lane.proc != sender.lane.proc;
        if !is_between || PACE_PART * next.worked(from, to) < to - from {
            return false;
        }
        let first = sender.steps.partition_point(|step| step.end <= from);
        let sent = sender.steps[first..].iter().take_while(|step| step.start < to);
        let sent = sent.filter(|step| step.kind == StepKind::Give && self.family.takes(next.lane.proc, step.object.id));
        let blocked = |step: &Step| {
            let within = step.end.min(to) - step.start.max(from);
            (within - step.copying_ns()).max(0)
        };
        2 * sent.map(blocked).sum::<i64>() > to - from
    }

    /// Explains a wait that a thread ended.
    pub fn explain(&mut self, start: i64, end: i64, ended_by: Act) -> Explained {
        let (maker, depth) = self.maker(ended_by);
        if let Some((parts, maker)) = self.delivered(start, end, ended_by) {
            return Explained { parts, maker: Some(maker), limiter: None, depth };
        }
        let parts = match self.limiter(ended_by, start, 0) {
            Limiter::Thread(limiter) if self.works(limiter.thread, start, end) => {
                let parts = self.by_pace(start, end, limiter);
                return Explained { parts, maker: Some(maker.thread), limiter: Some(limiter.thread), depth };
            }
            Limiter::Trainer => self.by_item(start, end, maker),
            Limiter::Thread(_) | Limiter::Unknown => self.by_path(start, end, ended_by),
        };
        Explained { parts, maker: Some(maker.thread), limiter: None, depth }
    }

    /// Returns `true` if a thread lived for only a part of a wait, or worked for a good part of it: otherwise, it did not
    /// set the pace alone, such as an event loop that wakes others in turn.
    fn works(&self, thread: usize, start: i64, end: i64) -> bool {
        let thread = &self.family.threads[thread];
        let worked = thread.composition(start, end).without(Part::Idle).sum();
        thread.born > start || thread.last < end || PACE_PART * worked >= end - start
    }

    /// If a thread of another process only delivers objects that the trainer requests, such as tensor descriptors,
    /// returns the composition of that process's work if it works without a pause, or else hand-over, and its main
    /// thread.
    fn delivered(&mut self, start: i64, end: i64, act: Act) -> Option<(Parts, usize)> {
        let family = self.family;
        let thread = &family.threads[act.thread];
        if thread.is_first || thread.lane.proc == family.threads[self.trainer].lane.proc {
            return None;
        }
        family.input_of(act).filter(|input| input.thread == self.trainer)?;
        let first = family.first_thread(thread.lane.proc)?;
        let works = Act { thread: first, at: end };
        let idle = family.threads[first].composition(start, end).get(Part::Idle);
        let worked = end - start - idle;
        match self.limiter(works, start, 0) {
            // It waits for a program that it started and that works.
            Limiter::Thread(other) if self.is_program_of(other.thread, thread.lane.proc) => {
                return Some((self.by_pace(start, end, other), first));
            }
            Limiter::Thread(own) if own.thread == first && PACE_PART * worked >= end - start => {
                return Some((self.by_pace(start, end, works), first));
            }
            _ => {}
        }
        // Use whatever delays the delivery, such as the interpreter lock, if it takes most of the wait.
        let kept = thread.composition(start, end).without(Part::Idle).relabel(Part::Cpu, Part::HandOver);
        let parts = kept.scaled(end - start).filter(|_| 2 * kept.sum() >= end - start);
        Some((parts.unwrap_or(Parts::of(Part::HandOver, end - start)), first))
    }

    /// Returns the first upstream thread that has not been starved since before the wait started.
    fn limiter(&self, act: Act, since: i64, depth: u8) -> Limiter {
        if act.thread == self.trainer {
            return Limiter::Trainer;
        }
        let thread = &self.family.threads[act.thread];
        let Some(starved) = self.starved_during(act, since) else {
            // A thread that started during the wait was started by another one, for an item that the other thread had
            // made, unless it worked for most of the wait itself, as threads do that serve one request each.
            let creator = self.family.first_thread(thread.lane.proc);
            let is_new = !thread.is_first && thread.born > since && depth < DEPTH_MAX;
            let is_new = is_new && 2 * thread.worked(thread.born, act.at) < act.at - since;
            return match creator.filter(|_| is_new) {
                Some(creator) => self.limiter(Act { thread: creator, at: thread.born }, since, depth + 1),
                None => Limiter::Thread(act),
            };
        };
        match self.family.ender(act.thread, starved) {
            Ender::Thread(_) | Ender::Exit(_) if depth >= DEPTH_MAX => Limiter::Unknown,
            Ender::Thread(by) if self.is_held_up(by.thread, act.thread, since, act.at) => Limiter::Thread(act),
            Ender::Thread(by) | Ender::Exit(by) => {
                let by = Act { at: by.at.min(thread.steps[starved].end), ..by };
                self.limiter(by, since, depth + 1)
            }
            _ => Limiter::Unknown,
        }
    }

    /// Returns the last step before an act in which the thread was starved, if it ended after `since`.
    fn starved_since(&self, act: Act, since: i64) -> Option<usize> {
        self.starvations(act, since).next()
    }

    /// Returns the last such step that explains why the thread was late: a short pause at the end of a long wait does
    /// not explain it unless there are many.
    fn starved_during(&self, act: Act, since: i64) -> Option<usize> {
        let thread = &self.family.threads[act.thread];
        let since_born = since.max(thread.born);
        self.starvations(act, since).find(|&at| {
            let step = &thread.steps[at];
            let from = since_born.min(step.start);
            PAUSE_PART * (step.end - step.start) >= act.at - since_born
                || 2 * thread.composition(from, act.at).get(Part::Idle) >= act.at - from
        })
    }

    /// Returns the steps before an act in which the thread was starved and that ended after `since`, last one first.
    fn starvations(&self, act: Act, since: i64) -> impl Iterator<Item = usize> {
        let thread = &self.family.threads[act.thread];
        let before = |&at: &usize| thread.last_starved(thread.steps[at].start);
        let all = std::iter::successors(thread.last_starved(act.at), before);
        let since_then = all.take_while(move |&at| thread.steps[at].end > since);
        since_then.filter(move |&at| {
            let step = &thread.steps[at];
            PAUSE_PART * (step.end - step.start) >= act.at - step.start && !self.starts_thread(act.thread, at)
        })
    }

    /// Returns `true` if a thread waits in a step for a thread that it starts.
    fn starts_thread(&self, thread: usize, at: usize) -> bool {
        let (family, own) = (self.family, &self.family.threads[thread]);
        let is_new = |by: Act| {
            let new = &family.threads[by.thread];
            new.lane.proc == own.lane.proc && !new.is_first && new.born >= own.steps[at].start
        };
        matches!(family.ender(thread, at), Ender::Thread(by) if is_new(by))
    }

    /// Returns the composition of the work that set the pace, scaled to the wait.
    fn by_pace(&mut self, start: i64, end: i64, act: Act) -> Parts {
        // Before a thread other than the trainer started it, that thread did the work.
        let thread = &self.family.threads[act.thread];
        let creator = self.family.parents[thread.lane.proc as usize];
        let trainer = self.family.threads[self.trainer].lane.proc;
        if let Some(creator) = creator.filter(|&parent| parent != trainer && (start..end).contains(&thread.born))
            && let Some(first) = self.family.first_thread(creator).filter(|_| self.family.is_below(creator, trainer))
        {
            let born = thread.born;
            // One program after another: the reader waited for the earlier ones too, and took their output.
            if self.is_program_of(act.thread, creator) {
                let did = self.family.threads[first].composition(start, born);
                let did = did.relabel(Part::Idle, Part::Child).relabel(Part::HandOver, Part::Child);
                let did = did + self.work_of_programs(first, start, born);
                let before = did.scaled(born - start).unwrap_or(Parts::of(Part::Child, born - start));
                return before + self.by_pace_since(born, end, act);
            }
            return self.by_pace(start, born, Act { thread: first, at: born }) + self.by_pace_since(born, end, act);
        }
        self.by_pace_since(start, end, act)
    }

    /// Returns what programs did in file calls and in page faults while the thread that had started them waited for their ends,
    /// less the same time of its wait.
    fn work_of_programs(&self, thread: usize, from: i64, to: i64) -> Parts {
        let (family, own) = (self.family, &self.family.threads[thread]);
        let first = own.steps.partition_point(|step| step.end <= from);
        let within = (first..own.steps.len()).take_while(|&at| own.steps[at].start < to);
        let waits = within.filter(|&at| own.steps[at].kind == StepKind::Child && own.class[at] == Part::Child);
        let mut sum = Parts::default();
        for at in waits {
            let Ender::Exit(act) = family.ender(thread, at) else { continue };
            let step = &own.steps[at];
            let (from, to) = (step.start.max(from), step.end.min(to));
            let did = family.threads[act.thread].composition(from, to) + self.work_of_programs(act.thread, from, to);
            for part in [Part::Storage, Part::PageFaults, Part::Network, Part::NoCpu] {
                let ns = did.get(part);
                sum = sum + Parts::of(part, ns) - Parts::of(Part::Child, ns);
            }
        }
        sum
    }

    fn by_pace_since(&mut self, start: i64, end: i64, act: Act) -> Parts {
        let ready = self.ready(act);
        let begun = ready.clamp(start, end);
        let mut parts = self.starting(act.thread, start, begun);
        let thread = &self.family.threads[act.thread];
        let recent = act.at - (RUN_WAITS * (end - start)).max(RUN_MIN_NS);
        let before = Act { at: start.min(act.at), ..act };
        let starved = self.starved_since(before, recent).map_or(thread.born, |at| thread.steps[at].end);
        let from = starved.max(recent).max(ready.min(act.at));
        let run = self.work(act.thread, from, act.at);
        let held = Parts::of(Part::HandOver, self.held_up(act.thread, from, act.at).min(run.get(Part::HandOver)));
        let run = if run.sum() > held.sum() { run - held } else { run };
        parts += run.scaled(end - begun).unwrap_or(Parts::of(Part::HandOver, end - begun));
        parts
    }

    /// Returns the start of a maker. Sleeps in it are sleeps if it sleeps for as long later, as before each item.
    fn starting(&self, thread: usize, from: i64, to: i64) -> Parts {
        let thread = &self.family.threads[thread];
        let slept = thread.composition(from, to).get(Part::Sleep).min(to - from);
        let later = || thread.composition(to, thread.last).get(Part::Sleep);
        let slept = if slept > 0 && later() >= slept { slept } else { 0 };
        Parts::of(Part::Start, to - from - slept) + Parts::of(Part::Sleep, slept)
    }

    /// Returns the time in which the first thread of a process could not send, because the trainer's process did not receive: it
    /// is ahead of the trainer then, and does not pass anything on.
    fn held_up(&mut self, thread: usize, from: i64, to: i64) -> i64 {
        let (family, own) = (self.family, &self.family.threads[thread]);
        if !own.is_first {
            return 0;
        }
        let trainer = family.threads[self.trainer].lane.proc;
        let first = own.steps.partition_point(|step| step.end <= from);
        let within = own.steps[first..].iter().take_while(|step| step.start < to);
        let sent = within
            .filter(|step| step.kind == StepKind::Give && step.object.id != 0 && step.end - step.start >= BLOCKED_NS);
        let held = sent.filter_map(|step| {
            let taker = self.takers.entry(step.object.id);
            let taker = *taker.or_insert_with(|| family.taker(step.object.id, own.lane.proc));
            let taker = taker.map(|taker| &family.threads[taker]).filter(|taker| taker.lane.proc == trainer)?;
            let (start, end) = (step.start.max(from), step.end.min(to));
            let taking = taker.steps[taker.steps.partition_point(|take| take.end <= start)..].iter();
            let taking = taking.take_while(|take| take.start < end).filter(|take| take.object.id == step.object.id);
            let received: i64 = taking.map(|take| take.end.min(end) - take.start.max(start)).sum();
            Some((end - start - received - step.copying_ns()).max(0))
        });
        held.sum()
    }

    /// Returns the work that other threads of a reader's process did while a thread of it waited for them.
    fn work_of_helpers(&self, thread: usize, from: i64, to: i64) -> Parts {
        let (family, own) = (self.family, &self.family.threads[thread]);
        if own.lane.proc == family.threads[self.trainer].lane.proc {
            return Parts::default();
        }
        let first = own.steps.partition_point(|step| step.end <= from);
        let within = (first..own.steps.len()).take_while(|&at| own.steps[at].end <= to);
        let helped = within.filter(|&at| own.is_starved(at)).filter_map(|at| {
            let by = family.ender(thread, at).act()?;
            let helper = &family.threads[by.thread];
            let (start, end) = (own.steps[at].start.max(from), own.steps[at].end);
            let is_beside = by.thread != thread && helper.lane.proc == own.lane.proc;
            is_beside.then(|| helper.composition(start, end).without(Part::Idle))
        });
        helped.fold(Parts::default(), |sum, did| sum + did)
    }

    /// Returns the work of a thread, without its waits for input.
    fn work(&self, thread: usize, from: i64, to: i64) -> Parts {
        let family = self.family;
        let run = family.threads[thread].composition(from, to).without(Part::Idle);
        let run = run + self.work_of_helpers(thread, from, to) + self.work_of_programs(thread, from, to);
        let serializing = self.serializing(thread, from, to).min(run.get(Part::Cpu));
        let run = run - Parts::of(Part::Cpu, serializing) + Parts::of(Part::HandOver, serializing);
        // A thread that only forwards items serializes them: its CPU time counts as hand-over.
        let passes_on = family.threads[thread].passes_on() || self.sends_for_others(Act { thread, at: to });
        let run =
            if passes_on { run.relabel(Part::Cpu, Part::HandOver).relabel(Part::Lock, Part::HandOver) } else { run };
        // Work of a child program counts as the program's, unless it reads files. One that lasts is a reader itself.
        let parent = self.family.parents[self.family.threads[thread].lane.proc as usize];
        let proc = family.threads[thread].lane.proc;
        match parent.is_some_and(|parent| !family.lasts(proc) && self.is_program_of(thread, parent)) {
            true => [Part::Cpu, Part::OutsideCalls, Part::HandOver]
                .into_iter()
                .fold(run, |run, part| run.relabel(part, Part::Child)),
            false => run,
        }
    }

    /// Returns the CPU time that a thread of a Python program spends at least on the messages that it receives and sends.
    fn serializing(&self, thread: usize, from: i64, to: i64) -> i64 {
        let thread = &self.family.threads[thread];
        if !self.family.is_python(thread.lane.proc) {
            return 0;
        }
        let steps = &thread.steps[thread.steps.partition_point(|step| step.start < from)..];
        let messages = steps.iter().take_while(|step| step.start <= to).filter(|step| {
            matches!(step.kind, StepKind::Take | StepKind::Give) && step.object.id != 0 && !step.object.network
        });
        messages.map(|step| step.amount.max(0)).sum::<i64>() * SERIALIZING_NS_PER_BYTE
    }

    /// Returns `true` if a thread belongs to another program that a reader started.
    fn is_program_of(&self, thread: usize, reader: u32) -> bool {
        let (family, trainer) = (self.family, self.family.threads[self.trainer].lane.proc);
        family.is_program_of(family.threads[thread].lane.proc, reader) && family.is_below(reader, trainer)
    }

    /// Returns `true` if a thread of another process sends items that other threads of that process made: its work is then
    /// serialization. A thread that works on request gives its result to a thread of its own process, or works longer than
    /// serializing takes, as the threads of a server do.
    fn sends_for_others(&self, act: Act) -> bool {
        let (family, thread) = (self.family, &self.family.threads[act.thread]);
        if thread.is_first || thread.lane.proc == family.threads[self.trainer].lane.proc {
            return false;
        }
        let sent = thread.steps.get(thread.steps.partition_point(|step| step.end < act.at));
        let sends =
            sent.is_some_and(|step| step.kind == StepKind::Give && family.leaves(thread.lane.proc, step.object.id));
        let beside = |by: Act| by.thread != act.thread && family.threads[by.thread].lane.proc == thread.lane.proc;
        // The threads of another runtime wake each other when they start. One that makes items itself is not woken for them.
        let is_for_item = |by: Act| family.is_python(thread.lane.proc) || thread.has_sent(by.at);
        sends && family.input_of(act).is_some_and(|by| beside(by) && is_for_item(by)) && self.only_serializes(act)
    }

    /// Returns `true` unless a thread worked between its last input and an act for longer than serializing what it sent may take.
    /// The contents of messages to the same host may be in shared memory: their length shows nothing.
    fn only_serializes(&self, act: Act) -> bool {
        let thread = &self.family.threads[act.thread];
        let from = thread.last_starved(act.at).map_or(thread.born, |at| thread.steps[at].end);
        let since = &thread.steps[thread.steps.partition_point(|step| step.end <= from)..];
        // The message that is the act may end later.
        let sent = since.iter().take_while(|step| step.start <= act.at).filter(|step| step.kind == StepKind::Give);
        let sent: Vec<&Step> = sent.collect();
        if !sent.iter().any(|step| is_connection(step.object.id)) {
            return true;
        }
        let bytes: i64 = sent.iter().map(|step| step.amount.max(0)).sum();
        thread.worked(from, act.at) <= RELAY_NS + SERIALIZING_NS_PER_BYTE_MAX * bytes
    }

    /// Returns the production of the awaited item, if its maker was starved for it.
    fn by_item(&mut self, start: i64, end: i64, act: Act) -> Parts {
        let ready = self.ready(act);
        let begun = ready.clamp(start, end);
        let thread = &self.family.threads[act.thread];
        let starved = self.starved_during(act, start);
        // It had a request, but a file was still missing.
        if starved.is_some_and(|at| is_file_object(thread.steps[at].object.id)) {
            return self.by_path(start, end, act);
        }
        let asked = starved.map_or(begun, |at| thread.steps[at].end).clamp(begun, end);
        let made = act.at.clamp(asked, end);
        let mut parts = self.starting(act.thread, start, begun) + Parts::of(Part::NotAsked, asked - begun);
        let run = self.work(act.thread, asked.min(act.at), act.at);
        parts += run.scaled(made - asked).unwrap_or(Parts::of(Part::OutsideCalls, made - asked));
        parts + Parts::of(Part::HandOver, end - made)
    }

    /// Returns the activity step by step, from the message that ended a wait back through the threads that each thread
    /// waited for. This is used if no single thread set the pace, for example if several threads alternate on an item.
    fn by_path(&mut self, start: i64, end: i64, act: Act) -> Parts {
        let begun = self.ready(self.maker(act).0).clamp(start, end);
        let mut act = Act { at: act.at.clamp(begun, end), ..act };
        let maker = self.maker(act).0.thread;
        let mut parts = self.starting(maker, start, begun) + Parts::of(Part::HandOver, end - act.at);
        for _ in 0..HOPS_MAX {
            if act.at <= begun {
                return parts;
            }
            if act.thread == self.trainer {
                return parts + Parts::of(Part::NotAsked, act.at - begun);
            }
            let (worked, before) = self.hop(begun, act);
            parts += worked;
            act = before;
        }
        parts + Parts::of(Part::Unknown, act.at - begun)
    }

    /// Returns the work of a thread before an act since it was last starved, plus that starvation, and the act that
    /// ended it.
    fn hop(&self, since: i64, act: Act) -> (Parts, Act) {
        let family = self.family;
        let thread = &family.threads[act.thread];
        let starved = thread.last_starved(act.at);
        let from = starved.map_or(thread.born, |at| thread.steps[at].end).clamp(since, act.at);
        let did = self.work(act.thread, from, act.at);
        let worked = did.scaled(act.at - from).unwrap_or(Parts::of(Part::OutsideCalls, act.at - from));
        let Some(at) = starved.filter(|_| from > since) else {
            let creator = family.first_thread(thread.lane.proc).filter(|_| from > since && !thread.is_first);
            let before = creator.map(|thread| Act { thread, at: from });
            let unknown = Parts::of(Part::Unknown, from - since);
            return before.map_or((worked + unknown, Act { at: since, ..act }), |before| (worked, before));
        };
        let begins = thread.steps[at].start.clamp(since, from);
        let ender = family.ender(act.thread, at);
        match ender.act() {
            Some(by) if self.is_held_up(by.thread, act.thread, since, act.at) => {
                (worked + Parts::of(Part::HandOver, from - begins), Act { at: begins, ..act })
            }
            Some(by) if by.thread != act.thread => {
                let by = Act { at: by.at.clamp(begins, from), ..by };
                (worked + Parts::of(Part::HandOver, from - by.at), by)
            }
            _ => {
                let part = match () {
                    () if is_file_object(thread.steps[at].object.id) => Part::NoFile,
                    // A wait that times out is a sleep.
                    () if ender == Ender::Timer && thread.steps[at].timed_out => Part::Sleep,
                    () => Part::Unknown,
                };
                (worked + Parts::of(part, from - begins), Act { at: begins, ..act })
            }
        }
    }

    /// Returns the time at which a maker's process took its first task, or its start if it receives no tasks.
    fn ready(&mut self, act: Act) -> i64 {
        let (family, trainer) = (self.family, &self.family.threads[self.trainer]);
        let maker = &family.threads[act.thread];
        let proc = maker.lane.proc;
        if proc == trainer.lane.proc {
            return maker.born;
        }
        *self.ready.entry(proc).or_insert_with(|| {
            let Some(first) = family.first_thread(proc) else { return maker.born };
            let first = &family.threads[first];
            // Not every message is a task: the first ones contain its start parameters, above all.
            let is_task = |step: &&Step| step.end <= act.at && family.gives(trainer.lane.proc, step.object.id);
            // A process that only takes before it sends for the first time has no tasks.
            let sent = family.first_given(proc);
            let goes_on = |object: u64| {
                let mut takes = first.takes().filter(|step| step.object.id == object);
                sent.is_none_or(|sent| takes.any(|step| step.end > sent))
            };
            let is_spawned = family.is_spawned(proc);
            let tasks = first.takes().rfind(is_task).filter(|task| !is_spawned || goes_on(task.object.id));
            let begins = tasks.and_then(|task| first.takes().find(|step| step.object.id == task.object.id));
            match begins {
                Some(task) => task.end + family.prepares(proc, task.end),
                None => family.begins_to_make(proc, first.born),
            }
        })
    }
}
