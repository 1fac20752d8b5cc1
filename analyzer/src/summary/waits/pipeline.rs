//! The pipeline behind a trainer's waits: which reader made which batch, its work, and when it was requested, sent and
//! received.
//!
//! A batch is a message from a reader that responds to a request of the trainer. Messages on an object are matched by
//! count: the first message sent is the first message received.

use std::collections::{BTreeMap, BTreeSet};

use super::family::Family;
use super::messages::{Messages, PAUSE_NS, PIPE};
use super::parts::{Part, Parts};
use super::passes::{Exchange, PassMade, Production};
use super::thread::Thread;
use super::timeline::{StepKind, is_file_object};
use crate::replay::pipeline::{Batch, Dispatch, Kind, Order, Pass, Pipeline, Start, Work};
use crate::summary::time::intervals::Interval;
use crate::summary::tree::LaneId;

/// Input for extracting a trainer's pipeline.
pub struct Trained {
    pub lane: LaneId,
    pub by_spans: bool,
    /// When the loader requested batches, if it does that before it returns another one.
    pub requests: Vec<i64>,
    pub from: i64,
    pub to: i64,
    /// Waits for readers to start or exit.
    pub reader_times: Vec<Interval>,
}

/// Returns the pipeline of a trainer, or the reason why it is unknown.
pub fn pipeline(family: &Family, waits: &Trained, exchange: &Result<Exchange, String>) -> Result<Pipeline, String> {
    let trainer = family.thread_of(waits.lane).ok_or("the trainer has no timeline")?;
    let Exchange { messages, passes } = exchange.as_ref().map_err(String::clone)?;
    let passes = passes.as_ref().map_err(String::clone)?;
    let is_counted =
        passes.iter().flat_map(|pass| &pass.productions).all(|made| family.threads[made.thread].is_counted);
    let resources = &family.processes[waits.lane.proc as usize].resources;
    let mut found = Pipeline {
        dispatch: if messages.is_shared { Dispatch::Shared } else { Dispatch::RoundRobin },
        cpus: resources.cpus_last().map(f64::from),
        taken_cpus: 0.0,
        quota: resources.cpu_quota,
        is_quota_known: resources.are_groups_known,
        is_counted,
        by_spans: waits.by_spans,
        measured_ns: (waits.to - waits.from) as f64,
        ..Pipeline::default()
    };
    if polls_for_locks(family, passes) {
        return Err("readers sleep until a lock is free, and more or faster readers would change how long".into());
    }
    if polls_for_files(family, passes) {
        return Err("readers sleep until files exist that other threads or programs make, and other readers may have to wait for these, too".into());
    }
    let locks = locks(family, passes);
    let mut walk = Walk { family, waits, trainer, is_counted, locks, usual_hold: 0 };
    let mut holds: Vec<i64> =
        (0..walk.locks.len()).filter_map(|at| Some(walk.release(at)? - walk.locks[at].end)).collect();
    holds.sort_unstable();
    walk.usual_hold = holds.get(holds.len() / 2).copied().unwrap_or(0);
    let starts: Vec<i64> = passes.iter().map(|pass| walk.pass_start(pass)).collect();
    let mut seen = Seen::default();
    for (number, pass) in passes.iter().enumerate() {
        let until = starts.get(number + 1).copied().unwrap_or(waits.to.max(starts[number]));
        found.passes.push(walk.pass(pass, (starts[number], until), &mut seen)?);
    }
    found.channels = channels(messages);
    separate_gil(&mut found.passes, seen.undisturbed);
    if seen.votes[1] > seen.votes[0] {
        found.order = Order::Any;
    }
    let made = || passes.iter().flat_map(|pass| &pass.productions);
    found.mapped = made().filter(|made| walk.composition(made).get(Part::PageFaults) > 0).count();
    let did = |part: Part| made().map(|made| walk.composition(made).get(part)).sum::<i64>() as f64;
    let cpu = did(Part::Cpu) + did(Part::FileCalls);
    found.in_calls = did(Part::FileCalls) / cpu.max(1.0);
    found.starved = did(Part::NoCpu) / (did(Part::NoCpu) + cpu).max(1.0);
    found.served_ns = did(Part::Network) + did(Part::Idle) + did(Part::Child);
    found.reads = reads(family, passes);
    found.wait_ns = found.waited_ns();
    Ok(found)
}

/// Sleeps before attempts to get a lock, or to find a file, as a share of the time in which batches are made, that a replay cannot
/// ignore.
const POLLED: f64 = 0.05;

/// Returns `true` if readers spend much of their time asleep until a lock is free.
fn polls_for_locks(family: &Family, passes: &[PassMade]) -> bool {
    polls(family, passes, |thread, at| thread.steps[at].kind == StepKind::Sleep && thread.class[at] == Part::Lock)
}

/// Returns `true` if readers spend much of their time asleep until a file exists.
fn polls_for_files(family: &Family, passes: &[PassMade]) -> bool {
    polls(family, passes, |thread, at| {
        let step = &thread.steps[at];
        step.kind == StepKind::Poll && is_file_object(step.object.id)
    })
}

/// Returns `true` if steps of a kind take much of the time in which readers make batches.
fn polls(family: &Family, passes: &[PassMade], is_one: impl Fn(&Thread, usize) -> bool) -> bool {
    let (mut slept, mut made) = (0, 0);
    for production in passes.iter().flat_map(|pass| &pass.productions) {
        let thread = &family.threads[production.thread];
        let from = thread.steps.partition_point(|step| step.end <= production.begin);
        let steps = (from..thread.steps.len()).take_while(|&at| thread.steps[at].start < production.end);
        let sleeps = steps.filter(|&at| is_one(thread, at));
        slept += sleeps.map(|at| thread.steps[at].end - thread.steps[at].start).sum::<i64>();
        made += production.end - production.begin;
    }
    slept as f64 > POLLED * made as f64
}

/// Returns the number of objects through which batches arrived repeatedly.
fn channels(messages: &Messages) -> usize {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    messages.batches.iter().for_each(|batch| *counts.entry(batch.object).or_default() += 1);
    counts.values().filter(|count| **count >= BATCHES_A_CHANNEL).count()
}

/// Fewer messages than this show no channel for batches.
const BATCHES_A_CHANNEL: usize = 3;

/// Observations from all passes.
#[derive(Default)]
struct Seen {
    /// Steps that took batches in order, and in any order.
    votes: [u32; 2],
    /// Durations of receiving a message whose reader had nothing else to do.
    undisturbed: Vec<f64>,
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
    /// Locks that readers took, in the order in which they acquired them, and the usual time a lock is held.
    locks: Vec<Taken>,
    usual_hold: i64,
}

/// A lock that a thread took: from the request to the acquisition.
struct Taken {
    start: i64,
    end: i64,
    thread: usize,
    class: Part,
}

/// A shorter wait for a lock means that it was free; no wait for a lock that is in use exceeds the maximum.
const WAITED_NS: i64 = 50_000;
const HOLD_MAX_NS: i64 = 60_000_000_000;

/// Readers that contend for locks wait for at least one lock in this many.
const CONTENDED: usize = 20;

/// Returns the threads that made the batches of some passes.
fn makers(passes: &[PassMade]) -> BTreeSet<usize> {
    passes.iter().flat_map(|pass| &pass.productions).map(|production| production.thread).collect()
}

/// Returns all locks that the readers of some passes took.
fn locks(family: &Family, passes: &[PassMade]) -> Vec<Taken> {
    let mut found: Vec<Taken> = Vec::new();
    for thread in makers(passes) {
        let own = &family.threads[thread];
        let is_lock = |at: &usize| {
            own.steps[*at].kind == StepKind::FileLock || own.class[*at] == Part::Lock && own.steps[*at].shared
        };
        let taken = (0..own.steps.len()).filter(is_lock).map(|at| {
            let step = &own.steps[at];
            Taken { start: step.start, end: step.end, thread, class: own.class[at] }
        });
        found.extend(taken);
    }
    found.sort_by_key(|lock| lock.end);
    // Shared locks and uncontended locks do not block a reader.
    let waited = found.iter().filter(|lock| lock.end - lock.start >= WAITED_NS).count();
    if CONTENDED * waited < found.len() {
        found.clear();
    }
    found
}

impl Walk<'_, '_> {
    fn composition(&self, made: &Production) -> Parts {
        self.family.threads[made.thread].composition(made.begin, made.end)
    }

    /// Returns the time at which the trainer began to start the readers of a pass, or to send its requests.
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
        let near = |at: &i64| first - at < 1_000 * PAUSE_NS;
        let start = match (span, fork) {
            (Some(span), Some(fork)) => span.min(fork),
            (Some(span), None) if near(&span) => span,
            (None, Some(fork)) => fork,
            _ => fetch.filter(|at| first - at < 10 * PAUSE_NS).unwrap_or(first),
        };
        let start = start.min(first);
        // Another process, such as a fork server, starts the readers, and the trainer waits for it.
        let reaches = |wait: &&Interval| wait.start < start && wait.end >= start - 100 * PAUSE_NS;
        let waits = self.waits.reader_times.iter().filter(|_| pass.is_fresh).filter(reaches);
        waits.map(|wait| wait.start).min().unwrap_or(start)
    }

    fn pass(&self, made: &PassMade, (from, until): (i64, i64), seen: &mut Seen) -> Result<Pass, String> {
        let productions = &made.productions;
        let requests_from = productions.iter().map(|made| made.asked.0).min().unwrap_or(from).max(from);
        let first_taken = productions.iter().map(|made| made.taken.1).min().unwrap_or(i64::MAX);
        let requested = productions.iter().filter(|made| made.asked.0 < first_taken).count();
        let delivered: Vec<i64> = productions.iter().map(|made| self.delivered(made.taken.1)).collect();
        let able = able(productions, &delivered);
        let fetches = match self.waits.by_spans {
            true => self.fetches_by_spans(productions, (from, until))?,
            false => self.fetches_by_calls(productions, &delivered, (requested, requests_from), until, &mut seen.votes),
        };
        let steps = fetches.len().min(productions.len());
        if productions.len() > steps + requested.max(1) {
            return Err(format!("a pass has {} batches and {steps} steps", productions.len()));
        }
        if self.waits.by_spans {
            self.vote(productions, &fetches, &mut seen.votes);
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
        let last = last_delivered(&fetches[..steps], productions, &delivered);
        for (number, production) in productions.iter().take(steps).enumerate() {
            let fetch = fetches[number];
            let fetch =
                if number == 0 { Fetch { start: fetch.start.min(requests_from.max(from)), ..fetch } } else { fetch };
            let next = fetches[..steps].get(number + 1).map_or(end.0, |next| next.start);
            let mut batch = self.batch(production, made);
            if let Some(take) = self.take(production, (&fetches[..steps], able[number], delivered[number])) {
                batch.take_ns = (take.1 - take.0).max(0) as f64;
                let near = productions.iter().skip(number + 1).take(4 * made.readers.len());
                let mut own = near.filter(|other| other.reader == production.reader);
                let is_disturbed = own.any(|other| other.begin < take.1 && other.end > take.0);
                seen.undisturbed.extend((!is_disturbed).then_some(batch.take_ns));
            }
            batch.wait_ns = (fetch.end - fetch.start).max(0) as f64;
            if self.waits.by_spans || !self.waits.requests.is_empty() {
                batch.return_ns = (fetch.end - fetch.start.max(last[number])) as f64;
            }
            let trigger = if number < requested { requests_from } else { fetches[number - requested].end };
            batch.ask_ns = (production.asked.1 - trigger).max(0) as f64;
            self.think(&mut batch, fetch.end, next);
            pass.batches.push(batch);
        }
        Ok(pass)
    }

    /// Returns the start of each reader: its work until it could take a request.
    fn starts(&self, made: &PassMade, from: i64) -> Vec<Start> {
        let start = |proc: &u32| {
            let first = made.productions.iter().filter(|made| made.reader == *proc).min_by_key(|made| made.begin);
            let thread = self.family.first_thread(*proc).map(|thread| &self.family.threads[thread]);
            let (Some(first), Some(thread)) = (first.filter(|_| made.is_fresh), thread) else {
                return Start::default();
            };
            let created = self.created(*proc).unwrap_or(thread.born).clamp(from, thread.born.max(from));
            let did = thread.composition(created, first.idle.max(created));
            // Before its first call, a reader imports modules.
            let did = did + Parts::of(Part::Cpu, (thread.born - created).max(0));
            let first_ns = self.prepares(made, first);
            Start { created_ns: (created - from) as f64, work: work(&did, self.is_counted), first_ns }
        };
        made.readers.iter().map(start).collect()
    }

    /// Returns the CPU time with which a reader that was created for a pass prepares, if it does so in this production.
    fn prepares(&self, made: &PassMade, production: &Production) -> f64 {
        let mut own = made.productions.iter().filter(|other| other.reader == production.reader);
        let is_first = made.is_fresh && own.all(|other| other.begin >= production.begin);
        let prepares = || self.family.prepares(production.reader, production.begin) as f64;
        let computed = || work(&self.composition(production), self.is_counted)[Kind::Cpu as usize];
        if is_first { prepares().min(computed()) } else { 0.0 }
    }

    /// Returns the time at which the trainer had created a process.
    fn created(&self, proc: u32) -> Option<i64> {
        let own = &self.family.threads[self.trainer];
        let pid = self.family.processes[proc as usize].pid as i64;
        let forks = own.steps.iter().filter(|step| step.kind == StepKind::Fork && step.amount == pid);
        let is_it = |fork: &&super::timeline::Step| {
            let child = self.family.child_made(own.lane.proc, fork.amount as i32, fork.start);
            child.is_some_and(|child| self.family.threads[child].lane.proc == proc)
        };
        forks.into_iter().find(is_it).map(|fork| fork.end)
    }

    /// Returns a batch with its production and shipping.
    fn batch(&self, production: &Production, made: &PassMade) -> Batch {
        let reader = made.readers.iter().position(|proc| *proc == production.reader).unwrap_or(0) as u32;
        let did = self.composition(production);
        let lasted = production.end - production.begin;
        let did = did.scaled(lasted).unwrap_or(Parts::of(Part::OutsideCalls, lasted));
        // The sender waits until the trainer has received the message of another reader.
        let sending = self.family.threads[production.sender].composition(production.end, production.sent);
        let blocked = if production.sender == production.thread { 0 } else { sending.get(Part::Lock) };
        let (held, held_ns) = self.held(production);
        let mut work = work(&(did - held), self.is_counted);
        work[Kind::Lock as usize] = held_ns as f64;
        work[Kind::Cpu as usize] = (work[Kind::Cpu as usize] - self.prepares(made, production)).max(0.0);
        Batch {
            reader,
            work,
            made_ns: lasted as f64,
            turn_ns: (production.begin - production.idle.max(production.asked.1).min(production.begin)) as f64,
            ship_ns: (production.sent - production.end - blocked).max(0) as f64,
            ..Batch::default()
        }
    }

    /// Returns a reader's work while it held a lock in a production, including the waits for the lock, and how long it
    /// held it.
    fn held(&self, production: &Production) -> (Parts, i64) {
        let thread = &self.family.threads[production.thread];
        let from = self.locks.partition_point(|lock| lock.end <= production.begin);
        let (mut held, mut ns, mut until) = (Parts::default(), 0, i64::MIN);
        for (at, lock) in self.locks.iter().enumerate().skip(from).take_while(|(_, lock)| lock.end < production.end) {
            if lock.thread != production.thread || lock.start < until {
                continue;
            }
            until = self.release(at).unwrap_or(lock.end + self.usual_hold).min(production.end);
            held += Parts::of(lock.class, lock.end - lock.start.max(production.begin));
            held += thread.composition(lock.end, until);
            ns += until - lock.end;
        }
        (held, ns)
    }

    /// Returns the time at which a lock was released: its holder takes it again without waiting, or another thread that
    /// waited for it acquires it.
    fn release(&self, at: usize) -> Option<i64> {
        let (own, next) = (&self.locks[at], self.locks.get(at + 1)?);
        match own.thread == next.thread {
            true => Some(next.start).filter(|_| next.end - next.start < WAITED_NS),
            false => {
                Some(next.end).filter(|_| next.start < next.end - WAITED_NS && next.start >= own.start - HOLD_MAX_NS)
            }
        }
    }

    /// Returns from when until when the trainer received a complete message.
    fn take(&self, made: &Production, (fetches, able, delivered): (&[Fetch], i64, i64)) -> Option<(i64, i64)> {
        let at = fetches.partition_point(|fetch| fetch.end < made.taken.1);
        let fetch = fetches.get(at)?;
        // Spans show when `next()` returned; calls show when the last part of the message was received.
        let end = if self.waits.by_spans { delivered.min(fetch.end) } else { delivered };
        Some((made.sent.max(fetch.start).max(able), end))
    }

    /// Returns the end of the delivery of a message whose descriptors the trainer requests one by one.
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

    /// Counts evidence on batch order: several messages in one `next()` show that batches are stored until their turn.
    fn vote(&self, made: &[Production], fetches: &[Fetch], votes: &mut [u32; 2]) {
        let in_fetch = |at: i64| fetches.partition_point(|fetch| fetch.end < at);
        for (early, next) in early_ones(made) {
            votes[(in_fetch(made[early].taken.1) != in_fetch(made[next].taken.1)) as usize] += 1;
        }
    }

    /// Returns steps derived from the messages that the trainer received and requested, if no span shows the steps.
    fn fetches_by_calls(
        &self,
        made: &[Production],
        delivered: &[i64],
        (requested, from): (usize, i64),
        until: i64,
        votes: &mut [u32; 2],
    ) -> Vec<Fetch> {
        let order = by_arrival(made);
        // A trainer that stores a batch until its turn receives the next message immediately.
        for (early, next) in early_ones(made) {
            votes[(made[next].taken.0 - delivered[early] >= PAUSE_NS) as usize] += 1;
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
                    // A stored batch: the next request shows when it was used.
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
        let returned = made.len().saturating_sub(requested);
        return_with_requests(&mut fetches, &self.waits.requests, returned);
        fetches
    }

    /// Returns the interval in which the trainer found that the pass had ended.
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
        let on_cpu = [Part::Cpu, Part::FileCalls, Part::NoCpu].map(|part| did.get(part)).iter().sum();
        let cpu: i64 = if own.is_counted { on_cpu } else { 0 };
        let all = (to - from).max(0);
        batch.think_cpu_ns = cpu.min(all) as f64;
        batch.think_ns = (all - cpu.min(all)) as f64;
        let own = OWN.iter().map(|part| did.get(*part)).sum::<i64>();
        batch.own_ns = (own as f64).clamp(0.0, batch.think_ns);
    }
}

/// Extends each `next()` until it requests another batch, as far as requests are known. Those after the first `asking` ones, at the end of
/// a pass, request none: they last as long as usual.
fn return_with_requests(fetches: &mut [Fetch], requests: &[i64], asking: usize) {
    let starts: Vec<i64> = fetches.iter().skip(1).map(|next| next.start).chain([i64::MAX]).collect();
    let mut lengths = Vec::new();
    for (fetch, next) in fetches.iter_mut().zip(&starts).take(asking) {
        let at = requests.get(requests.partition_point(|at| *at < fetch.end));
        if let Some(at) = at.filter(|at| *at <= next) {
            lengths.push(at - fetch.end);
            fetch.end = *at;
        }
    }
    lengths.sort_unstable();
    let usual = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
    for (fetch, next) in fetches.iter_mut().zip(&starts).skip(asking) {
        fetch.end = (fetch.end + usual).min(*next);
    }
}

/// Returns, per step, when the last message received in it had been delivered.
fn last_delivered(fetches: &[Fetch], made: &[Production], delivered: &[i64]) -> Vec<i64> {
    let mut last = vec![i64::MIN; fetches.len()];
    for (made, delivered) in made.iter().zip(delivered) {
        let at = fetches.partition_point(|fetch| fetch.end < made.taken.1);
        if let Some((last, fetch)) = last.get_mut(at).zip(fetches.get(at)) {
            *last = (*last).max((*delivered).min(fetch.end));
        }
    }
    last
}

/// Returns the numbers of batches in the order in which the trainer received them.
fn by_arrival(made: &[Production]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..made.len()).collect();
    order.sort_by_key(|&number| made[number].taken.1);
    order
}

/// Returns, per batch, when the trainer had processed the previous message.
fn able(made: &[Production], delivered: &[i64]) -> Vec<i64> {
    let order = by_arrival(made);
    let mut able = vec![i64::MIN; made.len()];
    order.windows(2).for_each(|pair| able[pair[1]] = delivered[pair[0]]);
    able
}

/// Returns batches that were received before one that had been requested earlier, each with the next batch received.
fn early_ones(made: &[Production]) -> Vec<(usize, usize)> {
    let order = by_arrival(made);
    let mut arrived = vec![false; made.len()];
    let (mut needed, mut found) = (0, Vec::new());
    for pair in order.windows(2) {
        if pair[0] > needed {
            found.push((pair[0], pair[1]));
        }
        arrived[pair[0]] = true;
        while arrived.get(needed) == Some(&true) {
            needed += 1;
        }
    }
    found
}

/// Causes of a trainer's waits in a step that are not I/O devices.
const OWN: [Part; 7] =
    [Part::Idle, Part::Child, Part::Storage, Part::PageFaults, Part::Network, Part::Lock, Part::HandOver];

/// Spreads steps with unknown times evenly between their neighbors.
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

/// Returns the work by kind.
fn work(did: &Parts, is_counted: bool) -> Work {
    let of = |parts: &[Part]| parts.iter().map(|part| did.get(*part)).sum::<i64>().max(0) as f64;
    let mut work: Work = Default::default();
    work[Kind::Io as usize] = of(&[Part::Storage, Part::PageFaults]);
    work[Kind::Hand as usize] = of(&[Part::HandOver]);
    let outside = of(&[Part::OutsideCalls]);
    work[Kind::Cpu as usize] =
        of(&[Part::Cpu, Part::FileCalls, Part::NoCpu, Part::Gil]) + if is_counted { 0.0 } else { outside };
    let known: f64 = work.iter().sum();
    work[Kind::Fixed as usize] = (did.sum() as f64 - known).max(0.0);
    work
}

/// Maximum number of calls used to measure how storage slows down under load.
const READS_MAX: usize = 20_000;

/// Returns, per storage call of any reader, the mean number of concurrent reader calls, and the duration.
fn reads(family: &Family, passes: &[PassMade]) -> Vec<(f64, f64)> {
    let mut all: Vec<Interval> =
        makers(passes).into_iter().flat_map(|thread| family.threads[thread].reads.iter().copied()).collect();
    all.sort_by_key(|read| (read.start, read.end));
    let mut edges: Vec<(i64, f64)> = all.iter().flat_map(|read| [(read.start, 1.0), (read.end, -1.0)]).collect();
    edges.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    // Integrate the number of calls at each edge.
    let (mut active, mut integral, mut last) = (0.0, 0.0, 0);
    let mut course: Vec<(i64, f64, f64)> = Vec::with_capacity(edges.len());
    for (at, change) in edges {
        integral += active * (at - last) as f64;
        active += change;
        last = at;
        course.push((at, integral, active));
    }
    let until = |at: i64| {
        let before = course[..course.partition_point(|(edge, ..)| *edge <= at)].last();
        before.map_or(0.0, |(edge, integral, active)| integral + active * (at - edge) as f64)
    };
    // Skip much shorter calls: they were served from memory.
    let mut lengths: Vec<i64> = all.iter().map(|read| read.end - read.start).collect();
    lengths.sort_unstable();
    let least = lengths.get(lengths.len() / 2).map_or(0, |median| median / 10);
    let stride = all.len().div_ceil(READS_MAX).max(1);
    let some = all.iter().step_by(stride).filter(|read| read.end - read.start > least);
    some.map(|read| {
        let lasted = (read.end - read.start) as f64;
        ((until(read.end) - until(read.start)) / lasted, lasted)
    })
    .collect()
}

/// Separates waits for the interpreter lock: receiving a message from a reader that computes takes longer by this wait
/// than from a reader that has nothing to do, as at the end of a pass. `undisturbed` are durations of the latter.
fn separate_gil(passes: &mut [Pass], mut undisturbed: Vec<f64>) {
    let mut takes: Vec<f64> = passes.iter().flat_map(|pass| &pass.batches).map(|batch| batch.take_ns).collect();
    if takes.is_empty() {
        return;
    }
    takes.sort_by(f64::total_cmp);
    undisturbed.sort_by(f64::total_cmp);
    let usual = undisturbed.get(undisturbed.len() / 2).map_or(f64::INFINITY, |middle| *middle);
    let usual = usual.min(takes[takes.len() / 20]);
    for batch in passes.iter_mut().flat_map(|pass| &mut pass.batches) {
        let computes = batch.work[Kind::Cpu as usize] > 0.2 * batch.made_ns;
        let extra = (batch.take_ns - usual).max(0.0);
        if computes && extra > 0.0 {
            (batch.take_ns, batch.gil_ns) = (usual, extra);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::timeline::{Object, Step, ThreadPart, Timelines};
    use super::super::trainers::{Waits, explained};
    use super::*;
    use crate::catalog::Process;
    use crate::replay::change::Change;
    use crate::replay::predict::prove;

    const MS: i64 = 1_000_000;

    /// The pipe through which readers send batches; those below are for requests.
    const DATA: u64 = 9_999;

    fn pipe(number: u64) -> Object {
        Object { id: PIPE << 56 | number, network: false }
    }

    fn step(kind: StepKind, object: Object, (start, end): (i64, i64), amount: i64) -> Step {
        Step { start, end, kind, object, amount, ..Step::NOTHING }
    }

    fn message(object: Object, (start, end): (i64, i64)) -> [Step; 2] {
        [step(StepKind::Take, object, (start, end), 4), step(StepKind::Take, object, (end, end), 100)]
    }

    /// Returns the steps of the trainer and of the readers in a training run: readers read for 20 ms per batch, a step
    /// takes 5 ms, and two batches per reader are requested ahead.
    fn training(batches: usize, readers: usize) -> Vec<Vec<Step>> {
        let (data, ahead) = (pipe(DATA), 2 * readers);
        let mut steps: Vec<Vec<Step>> = vec![Vec::new(); readers + 1];
        let mut asked: Vec<i64> = Vec::new();
        let request = |number: usize, at: i64, asked: &mut Vec<i64>, trainer: &mut Vec<Step>| {
            if number < batches {
                asked.push(at);
                trainer.push(step(StepKind::Give, pipe((number % readers) as u64), (at, at), 25));
            }
        };
        for number in 0..ahead {
            request(number, number as i64 * 1_000, &mut asked, &mut steps[0]);
        }
        let (mut free, mut now) = (vec![0; readers], MS);
        for number in 0..batches {
            let reader = number % readers;
            let begin = asked[number].max(free[reader]);
            steps[reader + 1].extend(message(pipe(reader as u64), (free[reader], begin)));
            let sent = begin + 20 * MS;
            let give = step(StepKind::Give, data, (sent, sent), 104);
            steps[reader + 1].push(Step { storage: 20 * MS, ..give });
            free[reader] = sent;
            let taken = sent.max(now);
            steps[0].extend(message(data, (now, taken)));
            request(number + ahead, taken + 1, &mut asked, &mut steps[0]);
            now = taken + 5 * MS;
        }
        steps[0].push(step(StepKind::Edge, Object::default(), (now, now), 0));
        steps
    }

    fn waits(threads: Vec<Vec<Step>>) -> Waits {
        let mut timelines = Timelines::default();
        for (number, mut steps) in threads.into_iter().enumerate() {
            steps.sort_by_key(|step| (step.end, step.start));
            let lane = LaneId { proc: number as u32, tid: number as i32 + 1 };
            timelines.threads.insert(lane, ThreadPart { steps, first: Some(0), ..ThreadPart::default() });
        }
        let ppid = |number: usize| (number > 0).then_some(1);
        let process = |number: usize| Process { pid: number as i32 + 1, ppid: ppid(number), ..Process::default() };
        let processes: Vec<Process> = (0..timelines.threads.len()).map(process).collect();
        explained(timelines, &processes)
    }

    fn only(threads: Vec<Vec<Step>>) -> Result<Pipeline, String> {
        let [(_, found)] = &waits(threads).pipelines[..] else { panic!("one trainer") };
        found.clone()
    }

    #[test]
    fn requests_and_messages_are_a_pipeline_that_replays() {
        let found = only(training(40, 2)).unwrap();
        assert_eq!((found.batches(), found.readers(), found.prefetch()), (40, 2, 2));
        assert_eq!((found.order, found.dispatch), (Order::InOrder, Dispatch::RoundRobin));
        for batch in &found.passes[0].batches {
            assert!((batch.work[Kind::Io as usize] - 20e6).abs() < 1e5, "{batch:?}");
        }
        let proven = prove(&found).unwrap_or_else(|replay| panic!("{:?}", replay.refused));
        let half = proven.predict(&Change::parse("storage=2").unwrap());
        let share = half.time_ns.unwrap() as f64 / found.measured_ns;
        assert!((0.45..0.6).contains(&share), "{half:?}");
    }

    #[test]
    fn readers_that_die_and_loaders_that_are_left_are_no_panic() {
        // A reader dies: it has no further events.
        let mut threads = training(40, 2);
        let half = threads[2].len() / 2;
        threads[2].truncate(half);
        let _ = only(threads);
        // A loader is left early: the trainer receives no further batch.
        let mut threads = training(40, 2);
        let half = threads[0].len() / 2;
        threads[0].truncate(half);
        if let Ok(found) = only(threads) {
            assert!(found.batches() < 40);
        }
        // Messages do not respond to any request.
        let mut threads = training(40, 2);
        threads[1].retain(|step| step.kind != StepKind::Take);
        threads[2].retain(|step| step.kind != StepKind::Take);
        assert!(only(threads).is_err());
    }

    /// Returns the threads of a trainer that takes batches from two loaders in turn, each with these readers.
    fn two_loaders(batches: usize, readers: usize) -> Vec<Vec<Step>> {
        let [first, second] = [training(batches, readers), training(batches, readers)];
        // The second loader has other pipes, and its readers follow those of the first.
        let elsewhere = |mut step: Step| {
            if step.object.id != 0 {
                step.object.id += 1_000;
            }
            step.start += MS;
            step.end += MS;
            step
        };
        let mut threads = first;
        let mut second = second.into_iter().map(|steps| steps.into_iter().map(elsewhere).collect::<Vec<_>>());
        threads[0].extend(second.next().into_iter().flatten());
        threads.extend(second);
        threads
    }

    #[test]
    fn two_interleaved_loaders_are_refused_or_replayed_as_they_were() {
        if let Ok(found) = only(two_loaders(40, 2)) {
            let replayed = prove(&found);
            assert!(replayed.is_err() || found.readers() == 4, "{} readers", found.readers());
        }
    }

    #[test]
    fn times_that_step_back_are_no_panic_and_no_negative_work() {
        let mut threads = training(60, 2);
        for step in threads.iter_mut().flatten().filter(|step| step.end > 200 * MS) {
            step.start -= 150 * MS;
            step.end -= 150 * MS;
        }
        if let Ok(found) = only(threads) {
            let batches = || found.passes.iter().flat_map(|pass| &pass.batches);
            assert!(batches().all(|batch| batch.work.iter().all(|ns| *ns >= 0.0) && batch.wait_ns >= 0.0));
        }
    }

    #[test]
    fn lost_messages_shift_no_batch_to_another_request() {
        // The trainer's receipts of three batches are missing.
        let mut threads = training(60, 2);
        let data = pipe(DATA);
        let mut number = 0;
        threads[0].retain(|step| {
            let takes = step.kind == StepKind::Take && step.object == data;
            number += usize::from(takes);
            !takes || !(40..46).contains(&number)
        });
        if let Ok(found) = only(threads) {
            assert!(prove(&found).is_err() || found.batches() <= 57, "{} batches", found.batches());
        }
    }

    #[test]
    fn one_batch_predicts_nothing() {
        let found = waits(training(1, 1)).pipelines;
        assert!(found.iter().all(|(_, found)| found.as_ref().is_err() || prove(found.as_ref().unwrap()).is_err()));
    }

    #[test]
    fn hundreds_of_readers_are_a_pipeline() {
        let found = only(training(4_000, 200)).unwrap();
        assert_eq!((found.batches(), found.readers()), (4_000, 200));
    }

    #[test]
    fn steps_without_batches_are_no_pipeline() {
        let mut threads = training(40, 1);
        threads[0].retain(|step| step.kind != StepKind::Take);
        assert!(waits(threads).pipelines.iter().all(|(_, found)| found.is_err()));
    }
}
