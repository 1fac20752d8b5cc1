//! Work of a training thread on a batch that it has received from PyTorch's loader: it unpickles the batch, chooses the next samples, and
//! requests them. The request is the last act of the loader in `next()`, so the work before it delays the training.

use std::collections::{BTreeMap, BTreeSet};

use super::super::family::Act;
use super::super::messages::{HEADER, PIPE};
use super::super::parts::{Part, Parts};
use super::super::thread::{Thread, WAIT_NS};
use super::super::timeline::{Step, StepKind};
use super::{Trainer, WORK_NS, Wait, WaitKind};
use crate::summary::time::intervals::{Interval, without};
use crate::summary::tree::LaneId;

/// Fewer batches do not show a pattern.
const BATCHES_MIN: usize = 5;

/// A request follows at least `REQUESTED` out of this many batches. A pass of a loader ends without requests.
const OF_BATCHES: usize = 5;
const REQUESTED: usize = 2;

/// A message with this number of bytes or more is a batch.
const SHORT: i64 = 128;

/// CPU time that unpickling a batch may take: per batch, and per byte if it consists of small objects. Choosing samples takes the rest.
const UNPICKLING_NS: i64 = 2_000_000;
const OBJECTS_NS_PER_BYTE: i64 = 400;

/// A batch that the trainer received, or batches in any order: the object that brought them, and their bytes.
#[derive(Clone, Copy)]
struct Batch {
    start: i64,
    end: i64,
    object: u64,
    bytes: i64,
    /// The last of the messages.
    step: usize,
}

/// A loader: when its readers were made, when it sent requests to them, and when the trainer received their messages, in order of
/// time, and of these the short ones, with which readers of an earlier pass say that they begin another one.
#[derive(Default)]
struct Loader {
    born: Vec<i64>,
    sent: Vec<i64>,
    received: Vec<i64>,
    short: Vec<i64>,
}

/// A request, and the loader that sent it.
struct Request {
    at: i64,
    loader: u64,
}

impl Loader {
    /// Returns `true` if a pass begins with a request: all earlier ones were answered.
    fn begins_with(&self, request: &Request) -> bool {
        let before = |times: &[i64]| times.partition_point(|at| *at < request.at);
        before(&self.sent) <= before(&self.received)
    }

    /// Returns, for each pass, when its readers were ready for requests, and when it had sent the first ones, which precede the
    /// first batch. In this time the sampler chooses the first samples.
    fn first_requests(&self) -> Vec<(i64, i64)> {
        // Messages that are all short are batches.
        let resumes = if OF_BATCHES * self.short.len() < self.received.len() { &self.short[..] } else { &[] };
        let resumed = resumes.chunks_exact(self.born.len().max(1)).filter_map(|all| all.last().copied());
        let ready = self.born.iter().copied().max().into_iter().chain(resumed);
        let requested = |ready: i64| {
            let received = self.received.get(self.received.partition_point(|at| *at <= ready))?;
            let sent =
                self.sent[..self.sent.partition_point(|at| at < received)].last().filter(|sent| **sent > ready)?;
            Some((ready, *sent))
        };
        ready.filter_map(requested).collect()
    }
}

impl Trainer<'_, '_> {
    /// Adds the time from the receipt of each batch until the trainer requested another one to its waits, which are in order of time.
    /// Returns when it requested batches; nothing if its calls do not show that time.
    pub(super) fn add_receipts(&self, waits: &mut Vec<Wait>, readers: &BTreeSet<LaneId>) -> Vec<i64> {
        let (requests, loaders) = self.requests(readers);
        let times: Vec<i64> = requests.iter().map(|request| request.at).collect();
        let batches = if requests.is_empty() { Vec::new() } else { self.received_batches(readers, &times) };
        let worked = self.worked_on(&batches, &requests, &loaders);
        let requested: usize = worked.iter().map(|(_, batches)| batches.len()).sum();
        if batches.len() < BATCHES_MIN || OF_BATCHES * requested < REQUESTED * batches.len() {
            return Vec::new();
        }
        let mut more = Vec::new();
        for (ready, end) in loaders.values().flat_map(Loader::first_requests) {
            let start = self.made_readers(ready, end);
            let first = Batch { start, end: start, object: 0, bytes: 0, step: 0 };
            let waits = self.add_receipt(waits, end, &first);
            more.extend(
                waits.into_iter().map(|wait| Wait { parts: wait.parts.relabel(Part::HandOver, Part::Start), ..wait }),
            );
        }
        worked
            .into_iter()
            .for_each(|(request, batches)| more.extend(self.add_receipt(waits, request, &merged(batches))));
        waits.extend(more);
        waits.sort_by_key(|wait| wait.start);
        times
    }

    /// Returns the requests that end a call of `next()`, each with the batches of its loader that arrived in that call: the awaited
    /// one comes last, and others may come before it. A pass of a loader begins with a request of another kind.
    fn worked_on<'b>(
        &self,
        batches: &'b [Batch],
        requests: &[Request],
        loaders: &BTreeMap<u64, Loader>,
    ) -> Vec<(i64, &'b [Batch])> {
        let mut worked = Vec::new();
        for (at, request) in requests.iter().enumerate() {
            let since = at.checked_sub(1).map_or(i64::MIN, |before| requests[before].at);
            let received = &batches[..batches.partition_point(|batch| batch.end <= request.at)];
            let is_its = |last: &&Batch| last.start >= since && last.object == request.loader;
            let Some(last) = received.last().filter(is_its) else { continue };
            if loaders[&request.loader].begins_with(request) || self.changes_readers(last.end, request.at) {
                continue;
            }
            let arrived = received.iter().rev().take_while(|batch| batch.start >= since && batch.object == last.object);
            worked.push((request.at, &received[received.len() - arrived.count()..]));
        }
        worked
    }

    /// Returns `true` if the trainer created a process between two timestamps, or waited for the end of one.
    fn changes_readers(&self, from: i64, to: i64) -> bool {
        let steps = &self.family.threads[self.thread].steps;
        let within = steps[steps.partition_point(|step| step.end < from)..].iter().take_while(|step| step.start < to);
        within.into_iter().any(|step| matches!(step.kind, StepKind::Fork | StepKind::Child | StepKind::Join))
    }

    /// Returns when the trainer had made all readers of a loader, which exist since a timestamp, before its first requests.
    fn made_readers(&self, born: i64, sent: i64) -> i64 {
        let steps = &self.family.threads[self.thread].steps;
        let before = &steps[..steps.partition_point(|step| step.end <= sent)];
        let last = before.iter().rfind(|step| step.kind == StepKind::Fork).filter(|step| step.end > born);
        last.map_or(born, |step| step.end)
    }

    /// Returns the processes below the trainer that follow the protocol of PyTorch's loader: they look with a timeout for requests,
    /// which another thread of the trainer's process sends, and answer through a pipe from which the trainer takes batches.
    pub(super) fn loader_workers(&self) -> BTreeSet<u32> {
        let (family, own) = (self.family, self.lane().proc);
        let mut taken: BTreeMap<u64, usize> = BTreeMap::new();
        let takes = family.threads[self.thread].takes().filter(|step| step.object.id >> 56 == PIPE);
        takes.for_each(|step| *taken.entry(step.object.id).or_default() += 1);
        taken.retain(|_, count| *count >= BATCHES_MIN);
        let answers = |proc: u32| taken.keys().any(|object| family.gives(proc, *object));
        let is_requested = |object: u64| {
            let givers = family.givers(object);
            let mut its = givers.into_iter().filter(|giver| family.threads[*giver].lane.proc == own).peekable();
            its.peek().is_some() && its.all(|giver| giver != self.thread)
        };
        let looks = |proc: u32| {
            let first = family.first_thread(proc);
            first.is_some_and(|first| polled(&family.threads[first]).into_iter().any(is_requested))
        };
        let procs = (0..family.processes.len() as u32).filter(|proc| *proc != own && family.is_below(*proc, own));
        procs.filter(|proc| answers(*proc) && looks(*proc)).collect()
    }

    /// Returns when the trainer woke the threads of its process that request batches, each from one reader, with their loaders.
    /// Readers look for requests with a timeout, as only those of PyTorch's loader do.
    fn requests(&self, readers: &BTreeSet<LaneId>) -> (Vec<Request>, BTreeMap<u64, Loader>) {
        let (family, own) = (self.family, self.lane().proc);
        let pipes = self.polled_pipes();
        let results_of = |proc: u32| {
            let its = pipes.iter().filter(|(object, _)| family.gives(proc, **object));
            its.max_by_key(|(_, count)| **count).map(|(object, _)| *object)
        };
        // Per queue of requests, the readers that take them, and their loaders; and the loaders whose readers look for requests.
        let (mut queues, mut looking) = (BTreeMap::<u64, Vec<u64>>::new(), BTreeSet::new());
        let (mut requests, mut loaders) = (Vec::new(), BTreeMap::<u64, Loader>::new());
        for reader in readers.iter().filter(|reader| reader.proc != own) {
            let Some(results) = results_of(reader.proc) else { continue };
            let Some(thread) = family.thread_of(*reader).map(|thread| &family.threads[thread]) else { continue };
            let objects: BTreeSet<u64> = thread.takes().map(|step| step.object.id).collect();
            let polled = polled(thread);
            loaders.entry(results).or_default().born.push(thread.born);
            for object in objects.into_iter().filter(|object| family.gives(own, *object)) {
                queues.entry(object).or_default().push(results);
                looking.extend(polled.contains(&object).then_some(results));
            }
        }
        for (queue, takers) in queues {
            let [results] = takers[..] else { continue };
            if !looking.contains(&results) {
                continue;
            }
            let is_beside = |&feeder: &usize| feeder != self.thread && family.threads[feeder].lane.proc == own;
            for feeder in family.givers(queue).into_iter().filter(is_beside) {
                let is_request =
                    |step: &&Step| step.kind == StepKind::Give && step.object.id == queue && step.amount != HEADER;
                let sent = family.threads[feeder].steps.iter().filter(is_request).map(|step| step.start);
                let sent: Vec<i64> = sent.collect();
                let woken = family.starvation_ends(feeder).filter(|(_, act)| act.thread == self.thread);
                let woken: Vec<i64> = woken.map(|(_, act)| act.at).collect();
                // A thread that is awake sends a request without being woken.
                let until = |ts: i64| woken.partition_point(|at| *at <= ts);
                let unwoken = sent.windows(2).filter(|pair| until(pair[0]) == until(pair[1])).map(|pair| pair[1]);
                let times = unwoken.chain(woken.iter().copied());
                requests.extend(times.map(|at| Request { at, loader: results }));
                loaders.entry(results).or_default().sent.extend(sent);
            }
        }
        for (results, loader) in &mut loaders {
            let taken = family.threads[self.thread].takes();
            let messages = taken.filter(|step| step.object.id == *results && step.amount == HEADER);
            loader.received = messages.map(|step| step.end).collect();
            let bodies = family.threads[self.thread].takes();
            let bodies = bodies.filter(|step| step.object.id == *results && step.amount != HEADER);
            loader.short = bodies.filter(|step| step.amount < SHORT).map(|step| step.end).collect();
            loader.sent.sort_unstable();
        }
        requests.sort_by_key(|request: &Request| request.at);
        requests.dedup_by_key(|request| request.at);
        (requests, loaders)
    }

    /// Returns the pipes from which the trainer takes messages that it looks for with a timeout, and the number of messages. If all
    /// messages were ready, no look took long enough to be recorded: then all its pipes count.
    fn polled_pipes(&self) -> BTreeMap<u64, usize> {
        let polled = polled(&self.family.threads[self.thread]);
        let taken = self.family.threads[self.thread].takes().map(|step| step.object.id);
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        taken.filter(|object| object >> 56 == PIPE).for_each(|object| *counts.entry(object).or_default() += 1);
        if counts.keys().any(|object| polled.contains(object)) {
            counts.retain(|object, _| polled.contains(object));
        }
        counts
    }

    /// Returns the batches that the trainer received from its readers: messages without much work or a request between them.
    fn received_batches(&self, readers: &BTreeSet<LaneId>, requests: &[i64]) -> Vec<Batch> {
        let thread = &self.family.threads[self.thread];
        let mut known: BTreeMap<u64, bool> = BTreeMap::new();
        let mut is_from_reader =
            |step: &Step| *known.entry(step.object.id).or_insert_with(|| self.is_from(readers, step.object.id));
        let mut batches: Vec<Batch> = Vec::new();
        for (at, step) in thread.steps.iter().enumerate() {
            if !step.is_receipt() || !is_from_reader(step) {
                continue;
            }
            let goes_on = |last: &&mut Batch| {
                let requested = requests.partition_point(|request| *request <= last.end);
                // Descriptors of a batch's tensors come through sockets.
                let is_part = step.object.id >> 56 != PIPE || thread.worked(last.end, step.start) < WORK_NS;
                is_part && requests.get(requested).is_none_or(|request| *request > step.start)
            };
            match batches.last_mut().filter(goes_on) {
                Some(last) => (last.end, last.bytes, last.step) = (step.end, last.bytes + step.amount, at),
                None => {
                    let (start, end, object) = (step.start, step.end, step.object.id);
                    batches.push(Batch { start, end, object, bytes: step.amount, step: at });
                }
            }
        }
        batches
    }

    /// Adds the time of one batch that is not part of a wait to the wait for the batch. Returns it as waits if there was none.
    fn add_receipt(&self, waits: &mut [Wait], until: i64, batch: &Batch) -> Vec<Wait> {
        let first = waits.partition_point(|wait| wait.end <= batch.start);
        let around = waits[first.saturating_sub(1)..].iter().take_while(|wait| wait.start < until);
        let around: Vec<Interval> = around.map(|wait| Interval { start: wait.start, end: wait.end }).collect();
        let mut more = Vec::new();
        for piece in without(&[Interval { start: batch.start, end: until }], &around) {
            let ns = piece.end - piece.start;
            let parts = self.receiving(piece, batch.bytes);
            let at = waits.partition_point(|wait| wait.end <= piece.start);
            let before = at.checked_sub(1).map(|last| &mut waits[last]);
            match before.filter(|wait| wait.end == piece.start && wait.kind == WaitKind::Data) {
                Some(wait) => (wait.end, wait.parts) = (piece.end, wait.parts + parts),
                None if ns < WAIT_NS => {}
                None => {
                    let by = self.family.ender(self.thread, batch.step).act();
                    let by = by.unwrap_or(Act { thread: self.thread, at: piece.end });
                    more.push(Wait { parts, ..self.reader_time(piece.start, piece.end, by) });
                }
            }
        }
        more
    }

    /// Returns what the trainer does until it has a batch and has requested another one.
    pub(super) fn receiving(&self, Interval { start, end }: Interval, bytes: i64) -> Parts {
        let did = self.family.threads[self.thread].composition(start, end);
        let did = did.relabel(Part::Idle, Part::HandOver).relabel(Part::Lock, Part::HandOver);
        let unpickling = did.get(Part::Cpu).min(UNPICKLING_NS + OBJECTS_NS_PER_BYTE * bytes);
        let did = did - Parts::of(Part::Cpu, unpickling) + Parts::of(Part::HandOver, unpickling);
        let parts = did.relabel(Part::Cpu, Part::Sampling).relabel(Part::Sleep, Part::Sampling);
        parts.scaled(end - start).unwrap_or(Parts::of(Part::HandOver, end - start))
    }
}

/// Returns batches as one.
fn merged(batches: &[Batch]) -> Batch {
    let (first, last) = (batches[0], batches[batches.len() - 1]);
    Batch { start: first.start, bytes: batches.iter().map(|batch| batch.bytes).sum(), ..last }
}

/// Returns the objects on which a thread looks for messages with a timeout.
fn polled(thread: &Thread) -> BTreeSet<u64> {
    thread.steps.iter().filter(|step| step.kind == StepKind::Poll).map(|step| step.object.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Process;
    use crate::summary::waits::family::Family;
    use crate::summary::waits::timeline::{ThreadPart, Timelines};

    #[test]
    fn a_request_to_another_loader_does_not_end_the_receipt_of_a_batch() {
        let (lane, mut timelines) = (LaneId { proc: 0, tid: 1 }, Timelines::default());
        timelines.threads.insert(lane, ThreadPart::default());
        let processes = [Process { pid: 1, ..Process::default() }];
        let family = Family::new(timelines, &processes);
        let trainer = Trainer::new(&family, 0);
        let batch = |at: i64, object: u64| Batch { start: at, end: at + 1, object, bytes: 100, step: 0 };
        let batches = [batch(10, 7), batch(20, 8), batch(80, 7)];
        // The step of the training lies between the second batch and the request for more of the first loader.
        let requests = [(15, 7), (85, 7)].map(|(at, loader)| Request { at, loader });
        let loader = || Loader { sent: vec![1, 2], ..Loader::default() };
        let loaders = BTreeMap::from([(7, loader()), (8, loader())]);
        let worked = |batches: &[Batch]| -> Vec<(i64, usize)> {
            let worked = trainer.worked_on(batches, &requests, &loaders);
            worked.iter().map(|(at, batches)| (*at, batches.len())).collect()
        };
        assert_eq!(worked(&batches), [(15, 1), (85, 1)]);
        assert_eq!(worked(&batches[..2]), [(15, 1)]);
    }

    #[test]
    fn the_sampler_chooses_between_the_start_of_a_pass_and_its_first_batch() {
        // Two readers with two requests each; the readers of the second pass answer that they begin it.
        let loader = |short: Vec<i64>| Loader {
            born: vec![10, 20],
            sent: vec![60, 61, 62, 63, 100, 140, 141],
            received: vec![70, 80, 90, 95, 96, 97, 105, 106, 150, 151, 152, 153],
            short,
        };
        assert_eq!(loader(vec![105, 106]).first_requests(), [(20, 63), (106, 141)]);
        assert_eq!(loader(vec![]).first_requests(), [(20, 63)]);
        // If all messages are short, they are batches.
        assert_eq!(loader(loader(vec![]).received).first_requests(), [(20, 63)]);
    }
}
