//! Waits of a trainer that are inferred from calls.

use std::collections::{BTreeMap, BTreeSet};

use super::super::family::{Act, Ender};
use super::super::parts::{Part, Parts};
use super::super::thread::{Thread, WAIT_NS, received_through};
use super::super::timeline::{BLOCKED_NS, Step, StepKind};
use super::ended::Ended;
use super::roles::Relation;
use super::{Trainer, TrainerWaits, WAITS_MIN, WORK_NS, Wait, WaitKind};
use crate::summary::time::intervals::Interval;
use crate::summary::tree::LaneId;

/// A last look for a message that takes less than this is not a wait for a batch that never came.
const GIVEN_UP_NS: i64 = 1_000_000_000;

/// Another thread of a reader may send a batch this long after the reader has received the next request.
const SENT_LATE_NS: i64 = 50_000_000;

/// Readers created within this time of each other belong together.
const BETWEEN_FORKS_NS: i64 = 100_000_000;

/// An item that was ready earlier than this part of the training may have been taken before it.
const EARLIER_PART: i64 = 20;

/// Start parameters are pickled for each reader within this time.
const PICKLING_NS: i64 = 2_000_000_000;

/// A loader starts threads and requests batches between the creation of its readers and its first wait, in this time.
const REQUESTING_NS: i64 = 20_000_000;

/// Returns the longest time between receipts: the longest step, or pause between passes.
fn longest_gap(receipts: impl Iterator<Item = (i64, i64)>) -> i64 {
    let mut times: Vec<(i64, i64)> = receipts.collect();
    times.sort_unstable();
    let mut end = i64::MAX;
    let gaps = times.iter().map(|&(start, until)| {
        let gap = start.saturating_sub(end);
        end = if end == i64::MAX { until } else { end.max(until) };
        gap
    });
    gaps.max().filter(|gap| *gap > 0).unwrap_or(i64::MAX)
}

/// Returns `true` if a step is outside all waits.
fn is_between(waits: &[Wait], step: &Step) -> bool {
    let next = waits.partition_point(|wait| wait.end <= step.start);
    waits.get(next).is_none_or(|wait| wait.start >= step.end)
}

/// Returns the waits of the training: without those that start before or after it. Waits that are not for data end with the
/// training, and none covers another one: a thread waits only once at a time.
pub(super) fn within(waits: Vec<Wait>, from: i64, to: i64) -> Vec<Wait> {
    let mut waited = from;
    let cut = |wait: Wait| {
        let is_data = wait.kind == WaitKind::Data;
        let (start, end) = if is_data { (wait.start, wait.end) } else { (wait.start.max(waited), wait.end.min(to)) };
        waited = waited.max(end);
        let is_whole = (start, end) == (wait.start, wait.end);
        let parts = if is_whole { Some(wait.parts) } else { wait.parts.scaled(end - start) };
        (start < end).then(|| Wait { start, end, parts: parts.unwrap_or_default(), ..wait })
    };
    let of_training = waits.into_iter().filter(|wait| wait.start >= from && wait.start < to);
    of_training.filter_map(cut).collect()
}

fn is_blocked_send(step: &Step) -> bool {
    step.kind == StepKind::Give && step.object.id != 0 && step.end - step.start >= BLOCKED_NS + 2 * step.copying_ns()
}

/// Returns `true` if a thread waited until it could send.
fn waits_to_send(look: &Step, send: &Step) -> bool {
    look.kind == StepKind::Poll
        && send.kind == StepKind::Give
        && send.object.id != 0
        && send.object.id == look.object.id
        && look.end - look.start >= BLOCKED_NS
}

/// Steps of a training are alike: between two results of readers that prepare data, a trainer works for less than one part
/// in this many of a step.
const PREPARING: i64 = 5;

/// While readers prepare data, a trainer works for less than one part in this many of the time.
const WAITING: i64 = 20;

/// A reader sends this many messages at most before its first batch.
const READY_MAX: usize = 2;

/// Processes greet each other with this many messages at most. Batches have this many times their bytes, and at least this many.
const GREETING_MAX: usize = 4;
const GREETINGS: i64 = 100;
const BATCH_BYTES: i64 = 4_096;

/// A pause after such messages is not a step if it takes this long, and this many times the longest later pause.
const READY_NS: i64 = 100_000_000;
const PAUSES: i64 = 3;

fn median(times: &[i64]) -> i64 {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(0)
}

impl Trainer<'_, '_> {
    pub(super) fn by_calls(mut self) -> Option<TrainerWaits> {
        let maker = |act: Act| self.explainer.maker(act).0;
        let by_maker = self.ended_waits(|a, b| self.maker_key(maker(a)) == self.maker_key(maker(b)));
        let workers = self.loader_workers();
        let own = self.own_workers(&by_maker, &workers);
        let is_own = |act: Act| self.is_consumer(act) || self.does_own_work(&own, act, maker(act));
        let ended = self.ended_waits(|a, b| is_own(a) == is_own(b));
        let mut readers = self.readers(&ended, &own, &workers);
        let (mut waits, stops) = self.explained(&ended, &own, &readers);
        self.set_brief_programs_apart(&mut waits);
        let locked = self.locked(&waits, &readers);
        let sends = self.blocked_sends(&waits, &readers);
        waits.extend(locked.into_iter().chain(sends));
        let given_up = self.given_up(&ended, &readers);
        let in_vain_until = given_up.as_ref().map(|wait| wait.end);
        readers.extend(given_up.as_ref().and_then(|wait| wait.maker));
        if let Some(wait) = given_up {
            waits.retain(|other: &Wait| other.start < wait.start || other.end > wait.end);
            waits.push(wait);
        }
        waits.sort_by_key(|wait| wait.start);
        let made = self.readers_made(&readers);
        // A loader that has readers for each epoch stops them within the epoch. Others are stopped after the training.
        let (stops_are_waits, generations) = (made.len() > 1, made.len() as u64);
        for made in made {
            self.add_start(&mut waits, made);
        }
        let data = || waits.iter().filter(|wait| wait.kind == WaitKind::Data);
        let takes = self.takes(&readers);
        let messages = data().count().max(takes.len());
        if messages < WAITS_MIN && in_vain_until.is_none() {
            return None;
        }
        let messages = messages as u64;
        let collected = self.with_collected(&readers, data());
        // A program that sends a single ready message makes no batches.
        let is_reader = |lane: LaneId| readers.contains(&self.reader(lane));
        // A reader may get its data from another program.
        let delivers = |wait: &Wait| wait.acts.first().is_some_and(|act| is_reader(act.lane));
        let by_reader = |wait: &&Wait| readers.is_empty() || wait.maker.is_none_or(is_reader) || delivers(wait);
        let from = data().filter(by_reader).map(|wait| wait.start).chain(takes.iter().map(|take| take.start)).min()?;
        let prepared = self.prepared_until(&data().collect::<Vec<_>>());
        let is_receipt = |wait: &&Wait| stops_are_waits || !stops.contains(&wait.end);
        let ready = || self.ready_until(data().filter(is_receipt), &takes, readers.len());
        let from = prepared.or_else(ready).unwrap_or(from);
        let ends = data().filter(by_reader).filter(is_receipt).map(|wait| wait.end);
        let own_last = ends.chain(takes.iter().map(|take| take.end)).max();
        let ready = self.last_passed_on(&collected).max(self.last_made_beside(&readers));
        let last = own_last.max(ready)?;
        let works = self.works_between(data());
        let receipts = data().filter(by_reader).filter(is_receipt).map(|wait| (wait.start, wait.end));
        let receipts = receipts.chain(takes.iter().map(|take| (take.start, take.end)));
        let step_max = longest_gap(receipts.filter(|(start, _)| *start >= from));
        // The trainer takes the batches that are ready by then without a call: their number is unknown, not their use.
        let are_ready = ready > own_last && self.is_busy(last, self.done(last));
        let step_max = if are_ready { i64::MAX } else { step_max };
        let to = if in_vain_until == Some(last) { last } else { self.end(last, step_max, &waits, &stops) };
        if to <= from || data().next().is_none() && !self.trains(&waits, from, to) {
            return None;
        }
        // Readers that are stopped before a last save do not delay the training.
        waits.retain(|wait| stops_are_waits || wait.start < last || !stops.contains(&wait.end));
        let requests = self.add_receipts(&mut waits, &readers);
        let waits = within(waits, from, to.max(last));
        let may_start_earlier = self.may_start_earlier(&readers, from, to);
        let readers = readers.into_iter().collect();
        let found = self.trained(false, from, to);
        let found = TrainerWaits { waits, works, messages, readers, generations, last, may_start_earlier, ..found };
        Some(TrainerWaits { counts_receipts: !requests.is_empty(), requests, ..found })
    }

    /// Returns the end of the loop whose last batch was received at a timestamp.
    fn end(&self, last: i64, step_max: i64, waits: &[Wait], stops: &BTreeSet<i64>) -> i64 {
        // A trainer stops its readers when it has processed the last batch.
        let done = if stops.contains(&last) { last } else { self.last_step(last, step_max, waits) };
        // Batches may have been ready until then.
        let hangs = self.hangs_until(waits, self.done(last).max(last.saturating_add(step_max)));
        hangs.unwrap_or_else(|| self.with_save(last, done, waits, stops))
    }

    /// Returns the number of waits after which it works before the next one.
    fn works_between<'w>(&self, mut data: impl Iterator<Item = &'w Wait>) -> u64 {
        let mut last = data.next().map(|wait| wait.end);
        data.filter(|wait| last.replace(wait.end).is_some_and(|end| self.computes(end, wait.start))).count() as u64
    }

    /// Counts waits for programs that the trainer ran once or twice before its first batch, such as uname, as its own work: they
    /// make no batches.
    fn set_brief_programs_apart(&self, waits: &mut [Wait]) {
        let own = self.lane().proc;
        let program = |wait: &Wait| {
            let proc = wait.maker.map(|maker| maker.proc).filter(|_| wait.kind == WaitKind::Data)?;
            self.family.processes[proc as usize].program.clone().filter(|_| self.family.is_program_of(proc, own))
        };
        let mut ended: BTreeMap<String, usize> = BTreeMap::new();
        waits.iter().filter_map(program).for_each(|name| *ended.entry(name).or_default() += 1);
        let is_brief = |wait: &Wait| program(wait).is_some_and(|name| ended[&name] < WAITS_MIN);
        let others = waits.iter().filter(|wait| wait.kind == WaitKind::Data && !is_brief(wait));
        let Some(first) = others.map(|wait| wait.start).min() else { return };
        let before = waits.iter_mut().filter(|wait| wait.end <= first && is_brief(wait));
        before.for_each(|wait| wait.kind = WaitKind::OwnWork);
    }

    /// Returns the start of the training if other readers prepared data before it, such as a pool that converts a data set:
    /// the trainer worked for much less time between their results than between those of later readers.
    fn prepared_until(&self, data: &[&Wait]) -> Option<i64> {
        let others = |wait: &Wait| wait.maker.filter(|maker| *maker != self.lane());
        let reader = |wait: &Wait| others(wait).map(|maker| self.reader(maker));
        let last: BTreeMap<LaneId, usize> =
            data.iter().enumerate().filter_map(|(at, wait)| Some((reader(wait)?, at))).collect();
        let works: Vec<i64> = data.windows(2).map(|pair| self.computed(pair[0].end, pair[1].start)).collect();
        let (mut until, mut start) = (0, None);
        for (at, wait) in data.iter().enumerate() {
            if at > until && at >= WAITS_MIN && at + WAITS_MIN <= works.len() {
                let (before, after) = (&works[..at - 1], &works[at..]);
                let only_waits = WAITING * before.iter().sum::<i64>() < data[at - 1].end - data[0].start;
                let are_unlike = median(after) >= WORK_NS && PREPARING * median(before) < median(after);
                start = if only_waits && are_unlike { Some(wait.start) } else { start };
            }
            until = until.max(reader(wait).map_or(0, |reader| last[&reader]));
        }
        start
    }

    /// Returns the start of the training if readers were created, or said that they were ready, long before it: such messages
    /// come through other objects than batches do, and the pause after them is longer than any step.
    fn ready_until<'w>(&self, data: impl Iterator<Item = &'w Wait>, takes: &[Interval], readers: usize) -> Option<i64> {
        let mut receipts: Vec<Interval> = data.map(|wait| Interval { start: wait.start, end: wait.end }).collect();
        let beside = |take: &&Interval| {
            let next = receipts.partition_point(|wait| wait.end <= take.start);
            receipts.get(next).is_none_or(|wait| wait.start >= take.end)
        };
        let beside: Vec<Interval> = takes.iter().filter(beside).copied().collect();
        receipts.extend(beside);
        receipts.sort_unstable_by_key(|receipt| receipt.start);
        let mut longest = 0;
        for at in (1..receipts.len()).rev() {
            let pause = receipts[at].start - receipts[at - 1].end;
            let is_pause = pause >= READY_NS.max(PAUSES * longest) && at + WAITS_MIN <= receipts.len();
            let (first, others) = receipts.split_at(at);
            let are_ready = || at <= READY_MAX * readers && self.are_unlike(first, others);
            let are_greetings = || at <= GREETING_MAX * readers && self.are_short(first, others);
            if is_pause && (are_ready() || are_greetings()) {
                return Some(receipts[at].start);
            }
            longest = longest.max(pause);
        }
        None
    }

    /// Returns `true` if the first messages are short and most others long, as after a greeting by which processes know each other.
    fn are_short(&self, first: &[Interval], others: &[Interval]) -> bool {
        let bytes = |receipt: &Interval| -> i64 {
            let steps = &self.family.threads[self.thread].steps;
            let steps = &steps[steps.partition_point(|step| step.end < receipt.start)..];
            let taken = steps.iter().take_while(|step| step.end <= receipt.end).filter(|step| step.is_receipt());
            taken.map(|step| step.amount.max(0)).sum()
        };
        let others: Vec<i64> = others.iter().map(bytes).collect();
        let most = first.iter().map(bytes).max().unwrap_or(0);
        most > 0 && median(&others) >= BATCH_BYTES.max(GREETINGS * most)
    }

    /// Returns `true` if the objects of the first messages carried none of the others.
    fn are_unlike(&self, first: &[Interval], others: &[Interval]) -> bool {
        let objects = |receipts: &[Interval]| -> BTreeSet<u64> {
            receipts.iter().flat_map(|receipt| self.objects_in(receipt)).collect()
        };
        // Room that it made for the output of a thread is a batch taken.
        first.iter().all(|receipt| receipt.start < receipt.end) && objects(first).is_disjoint(&objects(others))
    }

    /// Returns the objects through which messages came in an interval. Waits for the interpreter do not count.
    fn objects_in(&self, receipt: &Interval) -> BTreeSet<u64> {
        let steps = &self.family.threads[self.thread].steps;
        let from = steps.partition_point(|step| step.end < receipt.start);
        let within = steps[from..].iter().take_while(|step| step.end <= receipt.end);
        let messages = within.filter(|step| !matches!(step.kind, StepKind::Give | StepKind::TimedWait));
        let ids = messages.map(|step| step.object.id);
        ids.filter(|object| *object != 0).collect()
    }

    /// Returns the waits, each with its kind and causes, and the ends of those for readers to exit.
    fn explained(
        &mut self,
        ended: &[Ended],
        own: &BTreeMap<Option<usize>, bool>,
        readers: &BTreeSet<LaneId>,
    ) -> (Vec<Wait>, BTreeSet<i64>) {
        let mut waits = Vec::new();
        let mut stops = BTreeSet::new();
        for wait in ended {
            let kind = match wait.by {
                Ender::Timer => continue,
                Ender::Nobody if self.lacks_interpreter(wait) => continue,
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
                Ender::Thread(act) | Ender::Exit(act) => self.kind_of(wait, act, own, readers),
            };
            let mut found = self.explain(wait.start, wait.end, kind, wait.by);
            if wait.by.act().is_some_and(|act| self.family.keeps_tensors(self.family.threads[act.thread].lane.proc)) {
                let parts = Parts::of(Part::HandOver, wait.end - wait.start);
                waits.push(Wait { kind: WaitKind::Data, maker: None, limiter: None, parts, ..found });
                continue;
            }
            // A reader does not work for the trainer while it starts.
            let is_reader = found.maker.is_some_and(|maker| readers.contains(&self.reader(maker)));
            let starts = 2 * found.parts.get(Part::Start) > wait.end - wait.start;
            let is_read = |act: Act| !self.is_consumer(act) && self.is_read_for(&found);
            let is_read = matches!(wait.by, Ender::Thread(act) if kind == WaitKind::OwnWork && is_read(act));
            found.kind = match kind {
                WaitKind::OwnWork if is_reader && starts || is_read => WaitKind::Data,
                _ => kind,
            };
            waits.push(found);
        }
        (waits, stops)
    }

    /// Returns `true` for a wait in which the trainer mostly waited for the interpreter: another thread's item was
    /// not missing.
    fn lacks_interpreter(&self, wait: &Ended) -> bool {
        let gil = self.family.threads[self.thread].composition(wait.start, wait.end).get(Part::Gil);
        2 * gil > wait.end - wait.start
    }

    /// Returns the kind of a wait that a thread of the trainer's process, or one below it, ended.
    fn kind_of(
        &self,
        wait: &Ended,
        act: Act,
        own: &BTreeMap<Option<usize>, bool>,
        readers: &BTreeSet<LaneId>,
    ) -> WaitKind {
        let (maker, _) = self.explainer.maker(act);
        let only_ends = matches!(wait.by, Ender::Exit(_)) && !self.reads(maker, wait.start);
        let is_delivery = self.is_delivery(act, maker) && readers.contains(&self.reader_of(act));
        let is_own = self.is_consumer(act) || !is_delivery && self.is_own_worker(own, maker);
        let makes_nothing = !readers.contains(&self.reader_of(maker)) && self.is_helper(maker.thread);
        if only_ends || is_own || makes_nothing { WaitKind::OwnWork } else { WaitKind::Data }
    }

    /// Returns `true` if a trainer that never waits for data works for most of the time, or waits for its own threads: a
    /// program that only uses threads to read is not training.
    fn trains(&self, waits: &[Wait], from: i64, to: i64) -> bool {
        // A rank also waits for other ranks.
        let is_rank = self.family.communicators.contains(&self.thread);
        let own = waits.iter().filter(|wait| match wait.kind {
            WaitKind::OwnWork | WaitKind::Lock => true,
            WaitKind::Peer => is_rank,
            WaitKind::Data | WaitKind::Unknown => false,
        });
        let own = own.filter(|wait| wait.start >= from && wait.end <= to).map(|wait| wait.end - wait.start);
        let thread = &self.family.threads[self.thread];
        // On a busy host, a thread that works waits for a CPU.
        let worked = thread.worked(from, to) + thread.composition(from, to).get(Part::NoCpu);
        2 * (worked + own.sum::<i64>()) >= to - from
    }

    /// Returns the end of a long wait that had begun by a timestamp, and after which the program ended.
    fn hangs_until(&self, waits: &[Wait], by: i64) -> Option<i64> {
        let last = waits.last().filter(|wait| wait.kind == WaitKind::Unknown && wait.start <= by)?;
        let exits = self.family.threads[self.thread].last - last.end < GIVEN_UP_NS;
        (exits && last.end - last.start >= GIVEN_UP_NS).then_some(last.end)
    }

    /// Returns the last wait if it was for a batch that never came: looks for messages of the readers, after all other
    /// messages, that ended with their timeout or were interrupted. Readers that never sent anything are those that
    /// received requests.
    pub(super) fn given_up(&mut self, ended: &[Ended], readers: &BTreeSet<LaneId>) -> Option<Wait> {
        let are_processes = readers.iter().any(|reader| reader.proc != self.lane().proc);
        let silent = if are_processes { None } else { self.silent_reader() };
        let givers = |object: u64| -> BTreeSet<LaneId> {
            let givers = self.family.givers(object);
            let lanes = givers.iter().map(|&thread| self.family.threads[thread].lane);
            let others = lanes.filter(|lane| lane.proc != self.lane().proc).map(|lane| self.reader(lane));
            let silent = silent.filter(|_| givers.is_empty());
            others.filter(|lane| readers.contains(lane)).chain(silent).collect()
        };
        let is_message = |wait: &Ended| {
            let sender = |act: Act| self.family.threads[act.thread].lane.proc;
            matches!(wait.by, Ender::Thread(act) if sender(act) != self.lane().proc)
        };
        let after = ended.iter().rposition(is_message).map_or(0, |last| last + 1);
        let in_vain =
            |wait: &&Ended| matches!(wait.by, Ender::Timer | Ender::Nobody) && !givers(wait.object.id).is_empty();
        let looks = || ended[after..].iter().filter(in_vain);
        let last = looks().next_back()?;
        // One look follows another without work in between.
        let own = &self.family.threads[self.thread];
        let mut start = last.start;
        for look in looks().rev().skip(1).filter(|look| look.object == last.object) {
            if own.worked(look.end, start) >= WORK_NS {
                break;
            }
            start = look.start;
        }
        let end = last.end;
        let makers = givers(last.object.id);
        // If several readers send through one object, the batch of the one that has a request is missing.
        let died =
            |lane: &LaneId| self.family.died(lane.proc).filter(|at| *at <= end).zip(self.family.thread_of(*lane));
        let dead = makers.iter().filter_map(died).map(|(at, thread)| Act { thread, at }).max_by_key(|act| act.at);
        let asked = self.asked_in_vain(&makers, last.object.id);
        let maker = asked.or(makers.first().copied().filter(|_| makers.len() == 1));
        let wait = match (dead, asked.and_then(|lane| self.family.thread_of(lane))) {
            (Some(act), _) => self.dead_time(start, end, act),
            (None, Some(thread)) => self.never_sent(start, end, thread),
            (None, None) => Wait { maker, ..self.explain(start, end, WaitKind::Data, Ender::Nobody) },
        };
        (end - start >= GIVEN_UP_NS).then_some(wait)
    }

    /// Returns the waits for locks with the work of the threads that held them. A reader holds the lock of a queue for a
    /// short time only, and works while it holds another one.
    pub(super) fn locked(&self, waits: &[Wait], readers: &BTreeSet<LaneId>) -> Vec<Wait> {
        let own = &self.family.threads[self.thread];
        let locks = (0..own.steps.len()).filter(|&at| own.class[at] == Part::Lock);
        let locked = locks.filter_map(|at| {
            let (step, holder) = (&own.steps[at], self.family.ender(self.thread, at).act()?);
            let ns = step.end - step.start;
            let did = self.family.threads[holder.thread].composition(step.start, step.end);
            let worked = did.without(Part::Idle).without(Part::Lock).without(Part::HandOver).sum();
            let is_other = !readers.contains(&self.reader_of(holder)) || ns >= WORK_NS && 2 * worked >= ns;
            let is_other = is_other && self.relation(&holder) != Relation::Stranger;
            let did = did.relabel(Part::Idle, Part::Lock);
            let parts = did.scaled(ns).unwrap_or(Parts::of(Part::Lock, ns));
            (is_other && ns >= WAIT_NS && is_between(waits, step)).then(|| Wait {
                kind: WaitKind::Lock,
                parts,
                ..self.reader_time(step.start, step.end, holder)
            })
        });
        locked.collect()
    }

    /// Returns the waits in which it sent something and had to wait until others took it: a program that takes its output,
    /// or a remote end.
    pub(super) fn blocked_sends(&mut self, waits: &[Wait], readers: &BTreeSet<LaneId>) -> Vec<Wait> {
        let own = &self.family.threads[self.thread];
        let mut takers: BTreeMap<u64, Option<usize>> = BTreeMap::new();
        let mut blocked = Vec::new();
        let sent = own.steps.iter().enumerate().filter_map(|(at, step)| match own.steps.get(at + 1) {
            _ if is_blocked_send(step) => Some(*step),
            // A socket with a timeout is looked at until it takes more.
            Some(next) if waits_to_send(step, next) => {
                Some(Step { end: next.end, ..Step { start: step.start, ..*next } })
            }
            _ => None,
        });
        for step in &sent.filter(|step| is_between(waits, step)).collect::<Vec<_>>() {
            let taker = takers.entry(step.object.id);
            let taker = *taker.or_insert_with(|| self.family.taker(step.object.id, self.lane().proc));
            let act = taker.map(|thread| Act { thread, at: step.end });
            let kind = match act {
                // A request, or the input of a reader.
                Some(act) if readers.contains(&self.reader_of(act)) => continue,
                Some(act) if self.is_peer(act) && (step.object.network || self.exchanges_alike(act)) => WaitKind::Peer,
                Some(_) => WaitKind::OwnWork,
                None if step.object.network => WaitKind::Peer,
                None => WaitKind::Unknown,
            };
            blocked.push(self.sending(step, kind, act));
        }
        blocked
    }

    /// Returns a wait until a message was taken, with the work of the thread that took it.
    fn sending(&mut self, step: &Step, kind: WaitKind, by: Option<Act>) -> Wait {
        let nobody = self.explain(step.start, step.end, kind, Ender::Nobody);
        let Some(act) = by else { return nobody };
        let taker = &self.family.threads[act.thread];
        let did = taker.composition(step.start, step.end);
        let did = match kind {
            WaitKind::OwnWork => did.without(Part::Idle).scaled(step.end - step.start),
            WaitKind::Peer if !step.object.network => {
                did.relabel(Part::Idle, Part::Network).scaled(step.end - step.start)
            }
            _ => None,
        };
        let parts = did.unwrap_or(nobody.parts);
        Wait { kind, parts, ..self.reader_time(step.start, step.end, act) }
    }

    /// Returns `true` if the trainer works between two timestamps on something other than files.
    pub(super) fn computes(&self, from: i64, to: i64) -> bool {
        self.computed(from, to) >= WORK_NS
    }

    /// Returns the time between two timestamps in which the trainer works on something other than files.
    fn computed(&self, from: i64, to: i64) -> i64 {
        let own = &self.family.threads[self.thread];
        own.worked(from, to) - own.composition(from, to).get(Part::Storage)
    }

    /// Returns when the trainer created its readers: consecutively, with short gaps. A new process gets its start parameters, such
    /// as a data set, through a pipe: the trainer waits until it has imported its modules and reads them.
    pub(super) fn readers_made(&self, readers: &BTreeSet<LaneId>) -> Vec<(Interval, usize)> {
        let is_reader = |child: usize| readers.contains(&self.reader_of(Act { thread: child, at: 0 }));
        let forked = self.groups_of_forks(is_reader).into_iter().map(|(made, children)| (made, children[0], false));
        let told = self.start_parameters(readers).into_iter().map(|(sent, child)| (sent, child, true));
        let mut all: Vec<(Interval, usize, bool)> = forked.chain(told).collect();
        let has_forks = all.iter().any(|(.., is_told)| !is_told);
        all.sort_by_key(|(made, ..)| made.start);
        let mut found: Vec<(Interval, usize, bool)> = Vec::new();
        for (made, child, is_told) in all {
            let gap = if is_told || found.last().is_some_and(|last| last.2) { PICKLING_NS } else { BETWEEN_FORKS_NS };
            let is_next =
                |last: &Interval| made.start - last.end < gap && !self.receives(readers, last.end, made.start);
            match found.last_mut().filter(|(last, ..)| is_next(last)) {
                Some(last) => (last.0.end, last.2) = (last.0.end.max(made.end), last.2 || is_told),
                // A write after the fork that it belongs to does not start other readers.
                None if is_told && has_forks => {}
                None => found.push((made, child, is_told)),
            }
        }
        found.into_iter().map(|(made, child, _)| (made, child)).collect()
    }

    /// Returns the long writes of start parameters to readers: each ends before the reader sends its first message.
    fn start_parameters(&self, readers: &BTreeSet<LaneId>) -> Vec<(Interval, usize)> {
        let (family, own) = (self.family, self.lane().proc);
        let procs: BTreeSet<u32> = readers.iter().map(|lane| lane.proc).filter(|proc| *proc != own).collect();
        let sent = family.threads[self.thread].steps.iter().filter(|step| is_blocked_send(step));
        let told = sent.filter_map(|step| {
            let mut takers = procs.iter().filter(|proc| family.takes(**proc, step.object.id));
            let (Some(&proc), None) = (takers.next(), takers.next()) else { return None };
            let first = family.first_given(proc).unwrap_or(i64::MAX);
            let child = family.first_thread(proc).filter(|_| step.end <= first)?;
            Some((Interval { start: step.start, end: step.end }, child))
        });
        told.collect()
    }

    /// Returns `true` if the trainer received a message of a reader or learned of the end of a child between two timestamps.
    fn receives(&self, readers: &BTreeSet<LaneId>, from: i64, to: i64) -> bool {
        let steps = &self.family.threads[self.thread].steps;
        let steps = &steps[steps.partition_point(|step| step.end < from)..];
        let mut within = steps.iter().take_while(|step| step.start <= to).filter(|step| step.amount > 0);
        within.any(|step| step.kind == StepKind::Child || step.is_receipt() && self.is_from(readers, step.object.id))
    }

    /// Returns the children that the trainer created consecutively, with short gaps, as far as they are meant.
    pub(super) fn groups_of_forks(&self, is_meant: impl Fn(usize) -> bool) -> Vec<(Interval, Vec<usize>)> {
        let steps = self.family.threads[self.thread].steps.iter();
        let forks = steps.filter(|step| step.kind == StepKind::Fork);
        let mut found: Vec<(Interval, Vec<usize>)> = Vec::new();
        for fork in forks {
            let child = self.family.child_made(self.lane().proc, fork.amount as i32, fork.start);
            let Some(child) = child.filter(|&child| is_meant(child)) else { continue };
            // A program that waits for each child before it starts another one has no readers to start.
            let is_next =
                |last: &Interval| fork.start - last.end < BETWEEN_FORKS_NS && !self.collects(last.end, fork.start);
            match found.last_mut().filter(|(last, _)| is_next(last)) {
                Some((last, children)) => {
                    last.end = fork.end;
                    children.push(child);
                }
                None => found.push((Interval { start: fork.start, end: fork.end }, vec![child])),
            }
        }
        found
    }

    /// Returns `true` if the trainer learned of the end of a child between two timestamps.
    fn collects(&self, from: i64, to: i64) -> bool {
        let steps = &self.family.threads[self.thread].steps;
        let steps = steps[steps.partition_point(|step| step.end < from)..].iter().take_while(|step| step.start <= to);
        steps.into_iter().any(|step| step.kind == StepKind::Child && step.amount > 0)
    }

    /// Adds the time in which readers were created, without other waits in it. It lasts until the first wait for a batch if
    /// that follows soon. Returns its place.
    pub(super) fn add_start(&self, waits: &mut Vec<Wait>, (mut made, reader): (Interval, usize)) -> Option<usize> {
        let next =
            waits.iter().filter(|wait| wait.kind == WaitKind::Data && wait.start >= made.end).map(|wait| wait.start);
        made.end = next.min().filter(|next| next - made.end <= REQUESTING_NS).unwrap_or(made.end);
        waits.retain(|wait| wait.start < made.start || wait.end > made.end);
        let end = waits.iter().map(|wait| wait.start).filter(|start| (made.start..made.end).contains(start)).min();
        let start = waits.iter().map(|wait| wait.end).filter(|end| (made.start..made.end).contains(end)).max();
        let (start, end) = (start.unwrap_or(made.start), end.unwrap_or(made.end));
        (start < end).then(|| {
            let wait = self.reader_time(start, end, Act { thread: reader, at: end });
            let at = waits.partition_point(|wait| wait.start < start);
            waits.insert(at, wait);
            at
        })
    }

    /// Returns the messages that it receives from its readers, or from any process below it if no readers are known, and
    /// the times at which it made room for the output of a thread.
    pub(super) fn takes(&self, readers: &BTreeSet<LaneId>) -> Vec<Interval> {
        let (family, lane) = (self.family, self.lane());
        let is_from_reader = |object: u64| match readers.is_empty() {
            true => family.is_given_below(object, lane.proc),
            false => self.is_from(readers, object),
        };
        let from_readers = received_through(family.threads[self.thread].takes(), is_from_reader);
        let from_readers: Vec<&Step> = from_readers.collect();
        let brief = if readers.is_empty() { self.sent_by_brief_programs(&from_readers) } else { BTreeSet::new() };
        let from_readers = from_readers.iter().filter(|step| !brief.contains(&step.object.id));
        let messages = from_readers.map(|step| Interval { start: step.start, end: step.end });
        let beside = readers.iter().filter(|reader| reader.proc == lane.proc);
        let threads = beside.filter_map(|reader| family.thread_of(*reader));
        let made_room = threads.flat_map(|thread| self.made_room(thread));
        messages.chain(made_room.map(|at| Interval { start: at, end: at })).collect()
    }

    /// Returns the objects of the messages of programs that the trainer ran once or twice, such as uname: they send no batches.
    fn sent_by_brief_programs(&self, messages: &[&Step]) -> BTreeSet<u64> {
        let (family, own) = (self.family, self.lane().proc);
        let program = |object: u64| {
            let procs = family.givers(object).into_iter().map(|giver| family.threads[giver].lane.proc);
            let mut programs = procs.filter(|proc| family.is_program_of(*proc, own));
            programs.next().and_then(|proc| family.processes[proc as usize].program.as_deref())
        };
        let objects: BTreeSet<u64> = messages.iter().map(|step| step.object.id).collect();
        let named: BTreeMap<u64, &str> =
            objects.into_iter().filter_map(|object| Some((object, program(object)?))).collect();
        let mut sent: BTreeMap<&str, usize> = BTreeMap::new();
        let names = messages.iter().filter_map(|step| named.get(&step.object.id));
        names.for_each(|name| *sent.entry(*name).or_default() += 1);
        named.into_iter().filter(|(_, name)| sent[name] < WAITS_MIN).map(|(object, _)| object).collect()
    }

    /// Returns readers with the processes whose messages another thread collects, if some of the same program made a batch.
    fn with_collected<'w>(&self, readers: &BTreeSet<LaneId>, data: impl Iterator<Item = &'w Wait>) -> BTreeSet<LaneId> {
        let collected = self.collected_beside();
        let program = |proc: u32| self.family.processes[proc as usize].program.as_deref();
        let makers = data.filter_map(|wait| wait.maker).map(|maker| maker.proc);
        let programs: BTreeSet<Option<&str>> = makers.filter(|maker| collected.contains(maker)).map(program).collect();
        let alike = collected.iter().filter(|proc| programs.contains(&program(**proc)));
        let lanes = alike.map(|proc| LaneId { proc: *proc, tid: 0 });
        readers.iter().copied().chain(lanes.map(|lane| self.reader(lane))).collect()
    }

    /// Returns when another thread of the trainer's process last received a message of a reader in another process: it passes
    /// batches on, for which the trainer may not have to wait.
    fn last_passed_on(&self, readers: &BTreeSet<LaneId>) -> Option<i64> {
        let beside = self.family.threads_of(self.lane().proc).filter(|&thread| thread != self.thread);
        let takes = beside.flat_map(|thread| self.family.threads[thread].takes());
        received_through(takes, |object| self.is_from(readers, object)).map(|step| step.end).max()
    }

    /// Returns the readers in the trainer's process.
    fn readers_beside<'r>(&'r self, readers: &'r BTreeSet<LaneId>) -> impl Iterator<Item = &'r Thread> {
        let beside = readers.iter().filter(|lane| lane.proc == self.lane().proc);
        beside.filter_map(|lane| self.family.thread_of(*lane)).map(|thread| &self.family.threads[thread])
    }

    /// Returns when a reader in the trainer's process last read or passed an item on.
    fn last_made_beside(&self, readers: &BTreeSet<LaneId>) -> Option<i64> {
        let passed_on = |step: &&Step| matches!(step.kind, StepKind::Give | StepKind::Post);
        let made = self.readers_beside(readers).filter_map(|thread| {
            let read = thread.reads.iter().map(|read| read.end).max();
            read.max(thread.steps.iter().rfind(passed_on).map(|step| step.end))
        });
        made.max()
    }

    /// Returns `true` if a reader in the trainer's process had made an item long before the training that calls show: the trainer may
    /// have taken some without a call.
    pub(super) fn may_start_earlier(&self, readers: &BTreeSet<LaneId>, from: i64, to: i64) -> bool {
        let first =
            self.readers_beside(readers).filter_map(|thread| thread.reads.iter().map(|read| read.end).min()).min();
        first.is_some_and(|first| from - first > READY_NS.max((to - from) / EARLIER_PART))
    }

    /// Returns `true` if the trainer mostly works between two timestamps.
    fn is_busy(&self, from: i64, to: i64) -> bool {
        let did = self.family.threads[self.thread].composition(from, to);
        let works = [Part::Cpu, Part::NoCpu, Part::FileCalls, Part::OutsideCalls, Part::Sleep, Part::Gil];
        2 * works.iter().map(|part| did.get(*part)).sum::<i64>() > to - from
    }

    /// Returns `true` if readers in other processes send through an object.
    pub(super) fn is_from(&self, readers: &BTreeSet<LaneId>, object: u64) -> bool {
        self.family.givers(object).into_iter().any(|thread| {
            let giver = self.family.threads[thread].lane;
            giver.proc != self.lane().proc && readers.contains(&self.reader(giver))
        })
    }

    /// Returns a wait for a reader to start or exit.
    pub(super) fn reader_time(&self, start: i64, end: i64, reader: Act) -> Wait {
        let maker = Some(self.family.threads[reader.thread].lane);
        let parts = Parts::of(Part::Start, end - start);
        let acts = vec![reader.seen(self.family)];
        Wait { start, end, kind: WaitKind::Data, maker, limiter: None, depth: 0, acts, parts }
    }

    /// Returns a wait for the output of a process that had ended, or that ended during the wait.
    pub(super) fn dead_time(&self, start: i64, end: i64, last: Act) -> Wait {
        let died = last.at.clamp(start, end);
        let parts = Parts::of(Part::Unknown, died - start) + Parts::of(Part::Dead, end - died);
        Wait { parts, ..self.reader_time(start, end, last) }
    }

    /// Returns the only one of some readers that received a request and sent nothing through an object after it.
    fn asked_in_vain(&self, readers: &BTreeSet<LaneId>, object: u64) -> Option<LaneId> {
        let only = |delay: i64| {
            let age = |lane: &LaneId| self.family.request_age(lane.proc, self.lane().proc, object);
            let mut asked = readers.iter().filter(|lane| age(lane).is_some_and(|age| age > -delay));
            asked.next().filter(|_| asked.next().is_none()).copied()
        };
        only(0).or_else(|| only(SENT_LATE_NS))
    }

    /// Returns a wait for a batch that a thread never sent: what it did until its last call, and the time after that.
    fn never_sent(&self, start: i64, end: i64, thread: usize) -> Wait {
        let maker = &self.family.threads[thread];
        let last = maker.last.clamp(start, end);
        let did = maker.composition(start, last).relabel(Part::Idle, Part::Unknown);
        let did = did.scaled(last - start).unwrap_or(Parts::of(Part::Unknown, last - start));
        let act = Act { thread, at: last };
        Wait { parts: did + Parts::of(Part::NeverSent, end - last), ..self.reader_time(start, end, act) }
    }

    pub(super) fn explain(&mut self, start: i64, end: i64, kind: WaitKind, by: Ender) -> Wait {
        let family = self.family;
        let lane = |thread: usize| family.threads[thread].lane;
        let acts = by.act().into_iter().flat_map(|act| self.explainer.acts(act));
        let acts = acts.map(|act| act.seen(family)).collect();
        match (kind, by) {
            (WaitKind::Data | WaitKind::OwnWork, Ender::Thread(act) | Ender::Exit(act)) => {
                let found = self.explainer.explain(start, end, act);
                let (maker, limiter) = (found.maker.map(lane), found.limiter.map(lane));
                // The item was there while the trainer itself waited for the interpreter.
                let gil = family.threads[self.thread].composition(start, end).get(Part::Gil);
                let rest = found.parts.scaled(end - start - gil).unwrap_or_default();
                let parts = if gil > 0 { rest + Parts::of(Part::Gil, gil) } else { found.parts };
                Wait { start, end, kind, maker, limiter, depth: found.depth, acts, parts }
            }
            (_, by) => {
                let maker = by.act().map(|act| self.explainer.maker(act).0.thread);
                let part = if kind == WaitKind::Peer { Part::Network } else { Part::Unknown };
                let did = maker.filter(|_| kind == WaitKind::Peer).and_then(|maker| {
                    family.threads[maker].composition(start, end).relabel(Part::Idle, part).scaled(end - start)
                });
                let parts = did.unwrap_or(Parts::of(part, end - start));
                Wait { start, end, kind, maker: maker.map(lane), limiter: None, depth: 0, acts, parts }
            }
        }
    }
}
