//! The pipeline behind a trainer's waits: who made which batch, of what, when it was requested, sent and taken.
//!
//! A batch is a message from a reader that answers a request of the trainer. Messages on an object are matched by count: the
//! first one that was sent is the first one that was taken.

use std::collections::BTreeSet;

use super::family::Family;
use super::messages::{Messages, PAUSE_NS, PIPE};
use super::parts::{Part, Parts};
use super::passes::{PassMade, Production, split};
use super::timeline::StepKind;
use crate::replay::pipeline::{Batch, Dispatch, Kind, Order, Pass, Pipeline, Start, Work};
use crate::summary::time::intervals::Interval;
use crate::summary::tree::LaneId;

/// What is known of a trainer before its pipeline is.
pub struct Trained {
    pub lane: LaneId,
    pub by_spans: bool,
    pub from: i64,
    pub to: i64,
    /// Waits for the start or the end of readers.
    pub reader_times: Vec<Interval>,
}

/// The pipeline of a trainer, or why it cannot be known.
pub fn pipeline(family: &Family, waits: &Trained) -> Result<Pipeline, String> {
    let trainer = family.thread_of(waits.lane).ok_or("the trainer has no timeline")?;
    let messages = Messages::between(family, trainer)?;
    let passes = split(family, &messages)?;
    let is_counted =
        passes.iter().flat_map(|pass| &pass.productions).all(|made| family.threads[made.thread].is_counted);
    let resources = &family.processes[waits.lane.proc as usize].resources;
    let mut found = Pipeline {
        dispatch: if messages.is_shared { Dispatch::Shared } else { Dispatch::RoundRobin },
        cpus: resources.cpus_last().map(f64::from),
        quota: resources.cpu_quota,
        is_quota_known: resources.are_groups_known,
        is_counted,
        by_spans: waits.by_spans,
        measured_ns: (waits.to - waits.from) as f64,
        ..Pipeline::default()
    };
    let walk = Walk { family, waits, trainer, is_counted };
    let starts: Vec<i64> = passes.iter().map(|pass| walk.pass_start(pass)).collect();
    let mut votes = [0; 2];
    for (number, pass) in passes.iter().enumerate() {
        let until = starts.get(number + 1).copied().unwrap_or(waits.to.max(starts[number]));
        found.passes.push(walk.pass(pass, (starts[number], until), &mut votes)?);
    }
    if votes[1] > votes[0] {
        found.order = Order::Any;
    }
    let all = passes.iter().flat_map(|pass| &pass.productions);
    found.mapped = all.filter(|made| walk.composition(made).get(Part::PageFaults) > 0).count();
    found.wait_ns = found.waited_ns();
    Ok(found)
}

/// A step of the trainer: its call of `next()`.
#[derive(Clone, Copy, Debug)]
struct Fetch {
    start: i64,
    end: i64,
}

struct Walk<'f, 'a> {
    family: &'f Family<'a>,
    waits: &'f Trained,
    trainer: usize,
    is_counted: bool,
}

impl Walk<'_, '_> {
    fn composition(&self, made: &Production) -> Parts {
        self.family.threads[made.thread].composition(made.begin, made.end)
    }

    /// When the trainer began to start the readers of a pass, or to send its requests.
    fn pass_start(&self, pass: &PassMade) -> i64 {
        let own = &self.family.threads[self.trainer];
        let first = pass.requested_from;
        let born = pass.readers.iter().filter_map(|&proc| self.family.first_thread(proc));
        let born: Vec<i64> = born.map(|thread| self.family.threads[thread].born).collect();
        let fork = || {
            let forks = own.steps.iter().filter(|step| step.kind == StepKind::Fork && step.start < first);
            let mut forks = forks.filter(|fork| {
                let child = self.family.child_made(own.lane.proc, fork.amount as i32, fork.start);
                child.is_some_and(|child| pass.readers.contains(&self.family.threads[child].lane.proc))
            });
            forks.next().map(|fork| fork.start).or_else(|| born.iter().copied().min().filter(|born| *born < first))
        };
        let span = own.loader_starts.iter().filter(|span| span.start < first).map(|span| span.start).max();
        let fork = if pass.is_fresh { fork() } else { None };
        let fetch = own.fetches.iter().map(|fetch| fetch.start).filter(|start| *start <= first).max();
        let near = |at: &i64| first - at < 1_000 * PAUSE_NS && pass.readers.len() > 0;
        let start = match (span, fork) {
            (Some(span), Some(fork)) => span.min(fork),
            (Some(span), None) if near(&span) => span,
            (None, Some(fork)) => fork,
            _ => fetch.filter(|at| first - at < 10 * PAUSE_NS).unwrap_or(first),
        };
        start.min(first)
    }

    fn pass(&self, made: &PassMade, (from, until): (i64, i64), votes: &mut [u32; 2]) -> Result<Pass, String> {
        let family = self.family;
        let productions = &made.productions;
        let requests_from = productions.iter().map(|made| made.asked.0).min().unwrap_or(from).max(from);
        let first_taken = productions.iter().map(|made| made.taken.1).min().unwrap_or(i64::MAX);
        let requested = productions.iter().filter(|made| made.asked.0 < first_taken).count();
        let delivered: Vec<i64> = productions.iter().map(|made| self.delivered(made.taken.1)).collect();
        let fetches = match self.waits.by_spans {
            true => self.fetches_by_spans(productions, (from, until))?,
            false => self.fetches_by_calls(productions, &delivered, (requested, requests_from), until, votes),
        };
        let steps = fetches.len().min(productions.len());
        if productions.len() > steps + requested.max(1) {
            return Err(format!("a pass has {} batches and {steps} steps", productions.len()));
        }
        if self.waits.by_spans {
            self.vote(productions, &fetches, votes);
        }
        let end = self.pass_end(fetches[..steps].last().map_or(from, |fetch| fetch.end), until, &fetches[steps..]);
        let mut pass = Pass {
            starts: self.starts(made, from),
            is_fresh: made.is_fresh,
            requested,
            lead_ns: (requests_from - from) as f64,
            tail_ns: (end.1 - end.0) as f64,
            gap_ns: (until - end.1).max(0) as f64,
            batches: Vec::with_capacity(steps),
        };
        for (number, production) in productions.iter().take(steps).enumerate() {
            let fetch = fetches[number];
            let fetch =
                if number == 0 { Fetch { start: fetch.start.min(requests_from.max(from)), ..fetch } } else { fetch };
            let next = fetches[..steps].get(number + 1).map_or(end.0, |next| next.start);
            let mut batch = self.batch(production, made);
            self.take(&mut batch, production, (&fetches[..steps], delivered[number]));
            batch.wait_ns = (fetch.end - fetch.start).max(0) as f64;
            let trigger = if number < requested { requests_from } else { fetches[number - requested].end };
            batch.ask_ns = (production.asked.1 - trigger).max(0) as f64;
            self.think(&mut batch, fetch.end, next);
            pass.batches.push(batch);
        }
        beside(&mut pass, productions);
        separate_gil(&mut pass);
        let _ = family;
        Ok(pass)
    }

    /// The start of each reader: its work until it could take a request.
    fn starts(&self, made: &PassMade, from: i64) -> Vec<Start> {
        let start = |proc: &u32| {
            let first = made.productions.iter().filter(|made| made.reader == *proc).min_by_key(|made| made.begin);
            let thread = self.family.first_thread(*proc).map(|thread| &self.family.threads[thread]);
            let (Some(first), Some(thread)) = (first.filter(|_| made.is_fresh), thread) else {
                return Start::default();
            };
            let born = thread.born.max(from);
            let work = work(&thread.composition(born, first.idle.max(born)), self.is_counted);
            Start { created_ns: (born - from) as f64, work, first_ns: 0.0 }
        };
        made.readers.iter().map(start).collect()
    }

    /// Production and shipping of a batch.
    fn batch(&self, production: &Production, made: &PassMade) -> Batch {
        let reader = made.readers.iter().position(|proc| *proc == production.reader).unwrap_or(0) as u32;
        let did = self.composition(production);
        let lasted = production.end - production.begin;
        let did = did.scaled(lasted).unwrap_or(Parts::of(Part::OutsideCalls, lasted));
        Batch {
            reader,
            work: work(&did, self.is_counted),
            made_ns: lasted as f64,
            turn_ns: (production.begin - production.idle.max(production.asked.1).min(production.begin)) as f64,
            ship_ns: (production.sent - production.end).max(0) as f64,
            ..Batch::default()
        }
    }

    /// What it took to take a message that was complete.
    fn take(&self, batch: &mut Batch, made: &Production, (fetches, delivered): (&[Fetch], i64)) {
        let at = fetches.partition_point(|fetch| fetch.end < made.taken.1);
        let Some(fetch) = fetches.get(at) else { return };
        // Spans show when `next()` returned, calls when the last part of the message was taken.
        let end = if self.waits.by_spans { delivered.min(fetch.end) } else { delivered };
        let from = made.sent.max(fetch.start).max(made.able);
        batch.take_ns = (end - from).max(0) as f64;
        if self.waits.by_spans {
            batch.return_ns = 0.0;
        }
    }

    /// The end of the delivery of a message whose descriptors the trainer requests one by one.
    fn delivered(&self, taken: i64) -> i64 {
        let steps = &self.family.threads[self.trainer].steps;
        let from = steps.partition_point(|step| step.start < taken);
        let mut end = taken;
        for step in &steps[from..] {
            let goes_on = matches!(step.kind, StepKind::Take | StepKind::Give | StepKind::Connect);
            let passes = matches!(step.kind, StepKind::TimedWait | StepKind::Post | StepKind::Edge);
            if step.start - end >= PAUSE_NS || !(goes_on && step.object.id >> 56 != PIPE || passes) {
                break;
            }
            if goes_on {
                end = step.end;
            }
        }
        end
    }

    fn fetches_by_spans(&self, made: &[Production], (from, until): (i64, i64)) -> Result<Vec<Fetch>, String> {
        let all = self.family.threads[self.trainer].fetches.iter();
        let mut found: Vec<Fetch> = all
            .filter(|fetch| fetch.start >= from && fetch.start < until)
            .map(|fetch| Fetch { start: fetch.start, end: fetch.end })
            .collect();
        found.sort_by_key(|fetch| fetch.start);
        found.dedup_by(|inner, outer| inner.end <= outer.end);
        if found.len() > made.len() + 1 {
            return Err(format!("a pass has {} steps and {} batches", found.len(), made.len()));
        }
        Ok(found)
    }

    /// Messages in one `next()` show that batches are kept in order.
    fn vote(&self, made: &[Production], fetches: &[Fetch], votes: &mut [u32; 2]) {
        let mut next = 0;
        let mut order: Vec<usize> = (0..made.len()).collect();
        order.sort_by_key(|&number| made[number].taken.1);
        let in_fetch = |at: i64| fetches.partition_point(|fetch| fetch.end < at);
        for pair in order.windows(2) {
            if pair[0] > next {
                votes[(in_fetch(made[pair[0]].taken.1) != in_fetch(made[pair[1]].taken.1)) as usize] += 1;
            } else {
                next = pair[0] + 1;
            }
        }
    }

    /// Steps by what the trainer took and requested, where no span shows them.
    fn fetches_by_calls(
        &self,
        made: &[Production],
        delivered: &[i64],
        (requested, from): (usize, i64),
        until: i64,
        votes: &mut [u32; 2],
    ) -> Vec<Fetch> {
        let mut order: Vec<usize> = (0..made.len()).collect();
        order.sort_by_key(|&number| made[number].taken.1);
        // A batch that is taken before its turn: whoever keeps it takes the next message at once.
        let mut next = 0;
        for pair in order.windows(2) {
            if pair[0] > next {
                votes[(made[pair[1]].taken.0 - delivered[pair[0]] >= PAUSE_NS) as usize] += 1;
            } else {
                next = pair[0] + 1;
            }
        }
        let in_order = votes[0] >= votes[1];
        let mut arrived = BTreeSet::new();
        let mut fetches: Vec<Fetch> = Vec::new();
        let mut start: Option<i64> = None;
        for (place, &number) in order.iter().enumerate() {
            arrived.insert(number);
            let began = *start.get_or_insert(made[number].taken.0.max(from));
            let end = delivered[number].max(began);
            let mut is_first = true;
            while fetches.len() < made.len()
                && (!in_order && fetches.len() <= place || in_order && arrived.contains(&fetches.len()))
            {
                let own = match is_first {
                    true => Fetch { start: began, end },
                    // A stored batch: the next request shows when it was taken.
                    false => {
                        let trigger = made.get(fetches.len() + requested).map(|made| made.asked.0);
                        let upto = order.get(place + 1).map_or(until, |&next| made[next].taken.0);
                        let at = trigger.filter(|at| (end..=upto).contains(at)).unwrap_or(i64::MIN);
                        Fetch { start: at, end: at }
                    }
                };
                fetches.push(own);
                is_first = false;
                start = None;
            }
        }
        spread_unknown(&mut fetches, until);
        fetches
    }

    /// From when to when the trainer found that the pass has ended.
    fn pass_end(&self, last: i64, until: i64, vain: &[Fetch]) -> (i64, i64) {
        if let Some(vain) = vain.first() {
            return (vain.start.max(last), vain.end.clamp(vain.start.max(last), until.max(vain.start.max(last))));
        }
        let ends = self.waits.reader_times.iter().filter(|wait| wait.start >= last && wait.start < until);
        let ends: Vec<_> = ends.collect();
        match (ends.first(), ends.last()) {
            (Some(first), Some(last)) => (first.start, last.end.min(until).max(first.start)),
            _ => (until.max(last), until.max(last)),
        }
    }

    fn think(&self, batch: &mut Batch, from: i64, to: i64) {
        let own = &self.family.threads[self.trainer];
        let did = own.composition(from, to.max(from));
        let cpu = if own.is_counted { did.get(Part::Cpu) + did.get(Part::NoCpu) } else { 0 };
        let all = (to - from).max(0);
        batch.think_cpu_ns = cpu.min(all) as f64;
        batch.think_ns = (all - cpu.min(all)) as f64;
    }
}

/// Steps whose time nothing shows divide the time around them.
fn spread_unknown(fetches: &mut [Fetch], until: i64) {
    let mut at = 0;
    while at < fetches.len() {
        if fetches[at].start != i64::MIN {
            at += 1;
            continue;
        }
        let to = (at..fetches.len()).find(|&i| fetches[i].start != i64::MIN).unwrap_or(fetches.len());
        let before = at.checked_sub(1).map_or(until, |before| fetches[before].end);
        let after = fetches.get(to).map_or(until, |next| next.start).max(before);
        let step = (after - before) / (to - at + 1) as i64;
        for (number, fetch) in fetches[at..to].iter_mut().enumerate() {
            let own = before + step * (number as i64 + 1);
            *fetch = Fetch { start: own, end: own };
        }
        at = to;
    }
}

/// Work by kind.
fn work(did: &Parts, is_counted: bool) -> Work {
    let of = |parts: &[Part]| parts.iter().map(|part| did.get(*part)).sum::<i64>().max(0) as f64;
    let mut work: Work = Default::default();
    work[Kind::Io as usize] = of(&[Part::Storage, Part::PageFaults]);
    work[Kind::Lock as usize] = of(&[Part::Lock]);
    work[Kind::Hand as usize] = of(&[Part::HandOver]);
    let outside = of(&[Part::OutsideCalls]);
    work[Kind::Cpu as usize] = of(&[Part::Cpu, Part::NoCpu, Part::Gil]) + if is_counted { 0.0 } else { outside };
    let known: f64 = work.iter().sum();
    work[Kind::Fixed as usize] = (did.sum() as f64 - known).max(0.0);
    work
}

/// Notes, by batch, beside how many readers in storage calls it was read.
fn beside(pass: &mut Pass, made: &[Production]) {
    let mut order: Vec<usize> = (0..pass.batches.len()).collect();
    order.sort_by_key(|&number| made[number].begin);
    let reach = 2 * pass.starts.len().max(1);
    let share = |batch: &Batch| batch.work[Kind::Io as usize] / batch.made_ns.max(1.0);
    let shares: Vec<f64> = pass.batches.iter().map(share).collect();
    for place in 0..order.len() {
        let own = &made[order[place]];
        let others = order[place.saturating_sub(reach)..(place + reach + 1).min(order.len())].iter();
        let overlap = |&other: &usize| {
            let other_made = &made[other];
            let ns = other_made.end.min(own.end) - other_made.begin.max(own.begin);
            if other_made.reader == own.reader { 0.0 } else { ns.max(0) as f64 * shares[other] }
        };
        let others: f64 = others.map(overlap).sum();
        pass.batches[order[place]].beside = 1.0 + others / ((own.end - own.begin) as f64).max(1.0);
    }
}

/// What taking a message costs beyond the usual is waiting for the interpreter of a reader that computes.
fn separate_gil(pass: &mut Pass) {
    let mut takes: Vec<f64> = pass.batches.iter().map(|batch| batch.take_ns).collect();
    if takes.is_empty() {
        return;
    }
    takes.sort_by(f64::total_cmp);
    let usual = takes[takes.len() / 5];
    for batch in &mut pass.batches {
        let computes = batch.work[Kind::Cpu as usize] > 0.2 * batch.made_ns;
        let extra = (batch.take_ns - usual).max(0.0);
        if computes && extra > 0.0 {
            (batch.take_ns, batch.gil_ns) = (usual, extra);
        }
    }
}
