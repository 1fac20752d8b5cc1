//! Why a batch was not there: from the wait, by whoever ended it, back to the work that set the pace.
//!
//! A wait belongs to the message that ended it, and the message to the thread that made it. If that thread worked without a
//! pause, the wait has the composition of its work, because only that work limits the pipeline. If it was starved itself,
//! whoever made it wait is followed. What nobody was seen to end is unknown.

use std::collections::HashMap;

use super::family::{Act, Ender, Family};
use super::parts::{Part, Parts};
use super::timeline::StepKind;

/// Threads on the way from a trainer to the cause of its wait.
const DEPTH_MAX: u8 = 12;

/// Whoever works for less than this passes on what others made.
const RELAY_NS: i64 = 1_000_000;

/// And serializing a message may take so much longer.
const RELAY_NS_PER_BYTE: i64 = 3;

/// What a maker did recently stands for its pace: so many times the wait, and this long at least.
const RUN_WAITS: i64 = 8;
const RUN_MIN_NS: i64 = 160_000_000;

/// A pause of less than this part of an item does not starve anybody: one in so many.
const PAUSE_PART: i64 = 20;

/// A wait, explained.
#[derive(Clone, Copy, Debug)]
pub struct Explained {
    pub parts: Parts,
    /// Who made what ended it, and who set the pace.
    pub maker: Option<usize>,
    pub limiter: Option<usize>,
    pub depth: u8,
}

/// Explains the waits of one trainer.
pub struct Explainer<'f, 'a> {
    pub family: &'f Family<'a>,
    pub trainer: usize,
    /// By process, when it took its first task.
    ready: HashMap<u32, i64>,
}

/// The thread that set the pace for an item.
enum Limiter {
    Thread(Act),
    /// The trainer itself: it asked late.
    Trainer,
    Unknown,
}

impl<'f, 'a> Explainer<'f, 'a> {
    pub fn new(family: &'f Family<'a>, trainer: usize) -> Explainer<'f, 'a> {
        Explainer { family, trainer, ready: HashMap::new() }
    }

    /// The thread that made what another one passed on, and the number of threads between them.
    pub fn maker(&self, mut act: Act) -> (Act, u8) {
        for depth in 0..DEPTH_MAX {
            let Some(before) = self.relayed(act) else { return (act, depth) };
            act = before;
        }
        (act, DEPTH_MAX)
    }

    /// What a relay passed on; `None` where the thread is none.
    fn relayed(&self, act: Act) -> Option<Act> {
        let thread = &self.family.threads[act.thread];
        if thread.is_first || act.thread == self.trainer {
            return None;
        }
        let starved = thread.last_starved(act.at);
        let from = starved.map_or(thread.born, |at| thread.steps[at].end);
        let did = thread.composition(from, act.at);
        let given = &thread.steps[thread.steps.partition_point(|step| step.end < act.at)..];
        let bytes = given.first().filter(|step| step.kind == StepKind::Give).map_or(0, |step| step.amount.max(0));
        let work = thread.worked(from, act.at);
        let fetches = did.get(Part::Storage) + did.get(Part::Network) + did.get(Part::PageFaults) > RELAY_NS / 2;
        if fetches || work > RELAY_NS + RELAY_NS_PER_BYTE * bytes {
            return None;
        }
        match starved.map(|at| self.family.ender(act.thread, at)) {
            Some(Ender::Thread(before)) => Some(before),
            Some(_) => None,
            // It was started for this: by the first thread of its process, as far as anybody knows.
            None => self.family.first_thread(thread.lane.proc).map(|thread| Act { thread, at: from }),
        }
    }

    /// Divides a wait that a thread ended.
    pub fn explain(&mut self, start: i64, end: i64, ended_by: Act) -> Explained {
        let (maker, depth) = self.maker(ended_by);
        if let Some(parts) = self.delivered(start, end, ended_by) {
            return Explained { parts, maker: Some(maker.thread), limiter: None, depth };
        }
        let parts = match self.limiter(ended_by, start, 0) {
            Limiter::Thread(limiter) => {
                let parts = self.by_pace(start, end, limiter);
                return Explained { parts, maker: Some(maker.thread), limiter: Some(limiter.thread), depth };
            }
            Limiter::Trainer => self.by_item(start, end, maker, Part::NotAsked),
            Limiter::Unknown => self.by_item(start, end, maker, Part::Unknown),
        };
        Explained { parts, maker: Some(maker.thread), limiter: None, depth }
    }

    /// Where a thread of another process only delivers what the trainer asks it for, as descriptors of tensors: the pace of that
    /// process, if it works without a pause, else the hand-over.
    fn delivered(&mut self, start: i64, end: i64, act: Act) -> Option<Parts> {
        let family = self.family;
        let thread = &family.threads[act.thread];
        if thread.is_first || thread.lane.proc == family.threads[self.trainer].lane.proc {
            return None;
        }
        let asked = match family.ender(act.thread, thread.last_starved(act.at)?) {
            Ender::Thread(by) => by.thread == self.trainer,
            _ => false,
        };
        let first = family.first_thread(thread.lane.proc).filter(|_| asked)?;
        let works = Act { thread: first, at: end };
        let is_busy = self.starved_since(works, start).is_none();
        Some(if is_busy { self.by_pace(start, end, works) } else { Parts::of(Part::HandOver, end - start) })
    }

    /// The first thread upstream that was not starved since before the wait began.
    fn limiter(&self, act: Act, since: i64, depth: u8) -> Limiter {
        if act.thread == self.trainer {
            return Limiter::Trainer;
        }
        let thread = &self.family.threads[act.thread];
        let Some(starved) = self.starved_since(act, since) else {
            // A thread that began meanwhile was started by another one, for what that had made.
            let creator = self.family.first_thread(thread.lane.proc);
            return match creator.filter(|_| !thread.is_first && thread.born > since && depth < DEPTH_MAX) {
                Some(creator) => self.limiter(Act { thread: creator, at: thread.born }, since, depth + 1),
                None => Limiter::Thread(act),
            };
        };
        match self.family.ender(act.thread, starved) {
            Ender::Thread(_) if depth >= DEPTH_MAX => Limiter::Unknown,
            Ender::Thread(by) => {
                let by = Act { at: by.at.min(thread.steps[starved].end), ..by };
                self.limiter(by, since, depth + 1)
            }
            _ => Limiter::Unknown,
        }
    }

    /// The last step in which a thread was starved for what it had done by a moment, if it ended after another one.
    fn starved_since(&self, act: Act, since: i64) -> Option<usize> {
        let thread = &self.family.threads[act.thread];
        let mut by = act.at;
        while let Some(at) = thread.last_starved(by) {
            let step = &thread.steps[at];
            if step.end <= since {
                return None;
            }
            if PAUSE_PART * (step.end - step.start) >= act.at - step.start {
                return Some(at);
            }
            by = step.start;
        }
        None
    }

    /// The composition of the work that set the pace, in the size of the wait.
    fn by_pace(&mut self, start: i64, end: i64, act: Act) -> Parts {
        let ready = self.ready(act);
        let begun = ready.clamp(start, end);
        let mut parts = Parts::of(Part::Start, begun - start);
        let thread = &self.family.threads[act.thread];
        let starved = thread.last_starved(act.at).map_or(thread.born, |at| thread.steps[at].end);
        let recent = act.at - (RUN_WAITS * (end - start)).max(RUN_MIN_NS);
        let from = starved.max(recent).max(ready.min(act.at));
        let run = self.work(act.thread, from, act.at);
        parts += run.scaled(end - begun).unwrap_or(Parts::of(Part::HandOver, end - begun));
        parts
    }

    /// The work of a thread: without what it waited for input.
    fn work(&self, thread: usize, from: i64, to: i64) -> Parts {
        let run = self.family.threads[thread].composition(from, to).without(Part::Idle);
        // A thread that only passes on serializes: its CPU time is that of the hand-over.
        let passes_on = self.family.threads[thread].passes_on() || self.sends_for_others(Act { thread, at: to });
        if passes_on { run.relabel(Part::Cpu, Part::HandOver).relabel(Part::Lock, Part::HandOver) } else { run }
    }

    /// True if a thread of another process sends what threads beside it made, and fetches nothing itself: what it does meanwhile is
    /// to serialize.
    fn sends_for_others(&self, act: Act) -> bool {
        let (family, thread) = (self.family, &self.family.threads[act.thread]);
        if thread.is_first || thread.lane.proc == family.threads[self.trainer].lane.proc {
            return false;
        }
        let beside = |by: Act| by.thread != act.thread && family.threads[by.thread].lane.proc == thread.lane.proc;
        let starved = thread.last_starved(act.at);
        starved.is_some_and(|at| matches!(family.ender(act.thread, at), Ender::Thread(by) if beside(by)))
    }

    /// The production of the item that was waited for, where its maker was starved for it.
    fn by_item(&mut self, start: i64, end: i64, act: Act, starved_for: Part) -> Parts {
        let ready = self.ready(act);
        let begun = ready.clamp(start, end);
        let thread = &self.family.threads[act.thread];
        let asked = self.starved_since(act, start).map_or(begun, |at| thread.steps[at].end).clamp(begun, end);
        let made = act.at.clamp(asked, end);
        let mut parts = Parts::of(Part::Start, begun - start) + Parts::of(starved_for, asked - begun);
        let run = self.work(act.thread, asked.min(act.at), act.at);
        parts += run.scaled(made - asked).unwrap_or(Parts::of(Part::OutsideCalls, made - asked));
        parts + Parts::of(Part::HandOver, end - made)
    }

    /// When the process of a maker took its first task, or was there, if nobody gives it any.
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
            let takes = || {
                first.steps.iter().filter(|step| step.kind == StepKind::Take && step.amount > 0 && step.object.id != 0)
            };
            // It may be told more than its tasks: how it is to start, above all.
            let tasks = takes().rfind(|step| step.end <= act.at && family.gives(trainer.lane.proc, step.object.id));
            let begins = tasks.and_then(|task| takes().find(|step| step.object.id == task.object.id));
            begins.map_or_else(|| family.begins_to_make(proc, first.born), |step| step.end)
        })
    }
}
