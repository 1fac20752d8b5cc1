//! Roles: which threads make a trainer's batches, do its own work, take its output, or belong to its peers.

use std::collections::{BTreeMap, BTreeSet};

use super::super::family::{Act, Ender};
use super::super::parts::Part;
use super::super::timeline::{Step, StepKind};
use super::ended::Ended;
use super::{Trainer, WAITS_MIN, WORK_NS, Wait};
use crate::summary::tree::{LaneId, is_fork_server};

/// A thread writes the trainer's output if its calls that write files take this many times as long as all others.
const WRITING: i64 = 4;

/// A thread does the trainer's own work if it receives its input this shortly before the trainer waits for it, in at
/// least this many of ten waits.
const REPLY_NS: i64 = 1_000_000;
const REPLIES_OF_TEN: u64 = 8;

/// It also does if that holds for this many of ten waits, and it works between waits for less than one part in this many of its work
/// during waits: siblings hide whose request it works on.
const SOME_REPLIES_OF_TEN: u64 = 4;
const RESTING: i64 = 10;

/// A thread of a program in another language than Python makes batches if the trainer wakes it this often.
const LOOP_MIN: usize = 20;

/// A maker that spends at least one part in this many of its work on files or a network reads for the trainer
/// regardless.
const READING_PART: i64 = 5;

/// A process that sends to readers serves them and is not a reader itself if it ends less than one part in this many of the
/// waits that the busiest reader ends.
const SERVER_PART: usize = 20;

/// A thread that fetches data for less time than this may only have read its settings.
const FETCHED_NS: i64 = 10_000_000;

/// Maximum number of trainers that take the lock of a queue from each other in one wait.
const HOLDERS_MAX: usize = 12;

/// The bytes that a process receives and those that it passes on differ by less than this factor.
const PASSED_ON: i64 = 2;

/// Returns `true` if two numbers of bytes differ by less than [`PASSED_ON`].
fn are_alike(one: i64, other: i64) -> bool {
    one <= PASSED_ON * other && other <= PASSED_ON * one
}

/// Maximum number of threads between the trainer's request and the thread that responds.
const HOPS_MAX: usize = 12;

/// Relation of a maker to the trainer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    OwnThread,
    Child,
    Stranger,
}

impl Trainer<'_, '_> {
    /// Returns `true` if a thread takes the trainer's output, for which it has to make room: another process that receives
    /// messages from the trainer's process and sends none, or a thread that writes files and hardly reads any. A process that
    /// reads a file for each message may pass data on through shared memory.
    pub(super) fn is_consumer(&self, act: Act) -> bool {
        let (own, thread) = (self.lane().proc, &self.family.threads[act.thread]);
        if thread.lane.proc != own {
            let only_takes = self.family.sends(own, thread.lane.proc) && !self.family.sends(thread.lane.proc, own);
            return only_takes && !self.family.item_readers.contains(&act.thread);
        }
        act.thread != self.thread && WRITING * (thread.stored_ns - thread.written_ns) < thread.written_ns
    }

    /// Returns `true` if an act is one of another rank, or of a thread that communicates with others.
    pub(super) fn is_peer(&self, act: Act) -> bool {
        let is_stranger = |thread: usize| self.relation_of(thread) == Relation::Stranger;
        let maker = self.explainer.maker(act).0.thread;
        let is_rank = |thread: usize| {
            let other = self.family.threads[thread].lane.proc;
            self.family.are_peers(self.lane().proc, other)
        };
        // A reader may get its data from another program.
        self.family.communicators.contains(&act.thread)
            || is_stranger(act.thread)
            || is_stranger(maker) && is_rank(maker)
    }

    /// Returns `true` if the process of a thread sends the trainer about as much as it receives from it, like another rank. A
    /// program that only takes output, or answers with more or less than it gets, is none.
    pub(super) fn exchanges_alike(&self, act: Act) -> bool {
        let (own, other) = (self.lane().proc, self.family.threads[act.thread].lane.proc);
        let (sent, received) = (self.family.received_from(own, other), self.family.received_from(other, own));
        let is_many = sent.0.min(received.0) >= WAITS_MIN;
        is_many && are_alike(sent.1, received.1)
    }

    pub(super) fn relation(&self, act: &Act) -> Relation {
        self.relation_of(self.explainer.maker(*act).0.thread)
    }

    /// Returns the relation of the thread that made an item, or that delivered it at the trainer's request: a batch is
    /// not the response of a thread that the trainer joined before.
    pub(super) fn source(&self, act: &Act) -> Relation {
        let (maker, _) = self.explainer.maker(*act);
        self.relation_of(if maker.thread == self.thread { act.thread } else { maker.thread })
    }

    pub(super) fn relation_of(&self, thread: usize) -> Relation {
        let proc = self.family.threads[thread].lane.proc;
        match proc {
            _ if proc == self.lane().proc => Relation::OwnThread,
            _ if self.family.is_below(proc, self.lane().proc) => Relation::Child,
            _ => Relation::Stranger,
        }
    }

    /// Returns `true` if a maker received its input from the trainer just before the trainer started to wait for it. `again` if it has
    /// ended another wait before.
    fn is_reply(&self, wait: &Ended, maker: Act, again: bool) -> bool {
        let own = &self.family.threads[self.thread];
        let just = |ts: i64| ts <= wait.end && own.worked(ts, wait.start) < REPLY_NS;
        let mut act = maker;
        for _ in 0..HOPS_MAX {
            let thread = &self.family.threads[act.thread];
            if let Some(at) = thread.last_starved(act.at) {
                return just(thread.steps[at].end) && self.leads_back(act, just);
            }
            // One that has made another item before was not started for this one.
            if !just(thread.born) || again && act.thread == maker.thread {
                return false;
            }
            // It was started for this item: by the trainer, or by another thread, which may have been asked to.
            match self.starter(act.thread) {
                Some(starter) if starter != self.thread => act = Act { thread: starter, at: thread.born },
                _ => return true,
            }
        }
        false
    }

    /// Returns the thread that started a program, or a thread of a program; `None` for other threads and forks.
    fn starter(&self, thread: usize) -> Option<usize> {
        let family = self.family;
        let (lane, own) = (family.threads[thread].lane, self.lane().proc);
        let parent = family.parents[lane.proc as usize].filter(|_| lane.proc != own)?;
        let first = family.first_thread(lane.proc).filter(|_| family.is_program_of(lane.proc, parent))?;
        if first != thread {
            return Some(first);
        }
        let makes = |step: &Step| {
            step.kind == StepKind::Fork
                && step.amount as i32 == family.processes[lane.proc as usize].pid
                && family.child_made(parent, step.amount as i32, step.start) == Some(thread)
        };
        let maker = family.threads_of(parent).find(|&other| family.threads[other].steps.iter().any(makes));
        maker.or_else(|| family.first_thread(parent).filter(|_| parent != own))
    }

    /// Returns `true` if the input of a maker comes from the trainer, directly or through threads that fetch nothing.
    fn leads_back(&self, maker: Act, just: impl Fn(i64) -> bool) -> bool {
        let mut act = maker;
        for _ in 0..HOPS_MAX {
            let Some(by) = self.family.input_of(act) else { return false };
            if self.explainer.maker(by).0.thread == self.thread {
                return true;
            }
            if !self.is_helper(by.thread) || !just(by.at) {
                return false;
            }
            act = by;
        }
        false
    }

    /// Returns `true` for a thread of the trainer's process that never read a file or received a message.
    pub(super) fn is_helper(&self, thread: usize) -> bool {
        let other = &self.family.threads[thread];
        let is_beside = thread != self.thread && other.lane.proc == self.lane().proc;
        is_beside && other.fetched() == 0 && other.takes().next().is_none()
    }

    /// Returns when the trainer woke a thread of its process that then read: for a request, or because it made room for
    /// output.
    pub(super) fn woken_to_read(&self, thread: usize) -> Vec<i64> {
        self.woken_by_trainer(thread).filter(|(at, _)| self.reads_after(thread, *at)).map(|(_, woken)| woken).collect()
    }

    /// Returns when the trainer made room for the output of a reader, or sent a request to it: a reader may have its data in
    /// memory by then. The last time, it may have been told to stop.
    pub(super) fn made_room(&self, reader: usize) -> Vec<i64> {
        let mut woken: Vec<(usize, i64)> = self.woken_by_trainer(reader).collect();
        if woken.last().is_some_and(|(at, _)| !self.reads_after(reader, *at)) {
            woken.pop();
        }
        woken.into_iter().map(|(_, woken)| woken).collect()
    }

    /// Returns the waits of a thread that the trainer ended, and when.
    fn woken_by_trainer(&self, thread: usize) -> impl Iterator<Item = (usize, i64)> {
        let ends = self.family.starvation_ends(thread).filter(|(_, act)| act.thread == self.thread);
        ends.map(|(at, act)| (at, act.at))
    }

    /// Returns `true` if a thread reads between two waits for input.
    fn reads_after(&self, thread: usize, at: usize) -> bool {
        let other = &self.family.threads[thread];
        let next = (at + 1..other.steps.len()).find(|&next| other.is_starved(next)).unwrap_or(other.steps.len() - 1);
        (at + 1..=next).any(|step| other.steps[step].storage > 0 || other.class[step] == Part::Network)
    }

    /// Returns the makers that never read anything and release the trainer together with other threads, as at a barrier:
    /// they compute.
    fn find_barriers(&self, waits: &[Ended]) -> BTreeSet<usize> {
        let mut released: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
        for wait in waits {
            let Some(act) = wait.by.act().filter(|act| self.is_helper(act.thread)) else { continue };
            released.entry(act.thread).or_default().push(act.at);
        }
        if released.is_empty() {
            return BTreeSet::new();
        }
        let mut others: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
        for thread in self.family.threads_of(self.lane().proc).filter(|&thread| self.is_helper(thread)) {
            let acts = self.family.starvation_ends(thread).map(|(_, act)| act).filter(|act| act.thread != thread);
            acts.for_each(|act| others.entry(act.thread).or_default().push(act.at));
        }
        let is_barrier = |(thread, at): &(usize, Vec<i64>)| {
            let Some(others) = others.get(thread) else { return false };
            let is_shared = |at: &&i64| others.iter().any(|other| (*other - **at).abs() < REPLY_NS);
            10 * at.iter().filter(is_shared).count() as u64 >= REPLIES_OF_TEN * at.len() as u64
        };
        released.into_iter().filter(is_barrier).map(|(thread, _)| thread).collect()
    }

    /// Returns the threads of the trainer's process that fetch no data and never wait for, or wake, a thread that does, if there
    /// are such: the thread pool of a library, which computes the steps.
    fn find_apart(&self) -> BTreeSet<usize> {
        let threads: Vec<usize> =
            self.family.threads_of(self.lane().proc).filter(|&thread| thread != self.thread).collect();
        let fetches = |thread: usize| {
            let other = &self.family.threads[thread];
            let loads = other.reads_items() || !other.fetches.is_empty() || other.fetched() >= FETCHED_NS;
            loads || other.takes().next().is_some()
        };
        let mut together: BTreeSet<usize> = threads.iter().copied().filter(|&thread| fetches(thread)).collect();
        if together.is_empty() {
            return BTreeSet::new();
        }
        let wakes = |&thread: &usize| {
            let ends = self.family.starvation_ends(thread).map(move |(_, act)| (thread, act.thread));
            ends.collect::<BTreeSet<(usize, usize)>>()
        };
        let pairs: BTreeSet<(usize, usize)> = threads.iter().flat_map(wakes).collect();
        let pairs: Vec<_> = pairs.into_iter().filter(|(_, waker)| *waker != self.thread).collect();
        loop {
            let before = together.len();
            for (one, other) in &pairs {
                if together.contains(one) || together.contains(other) {
                    together.extend([*one, *other]);
                }
            }
            if together.len() == before {
                break;
            }
        }
        threads.into_iter().filter(|thread| !together.contains(thread)).collect()
    }

    /// Returns `true` if a maker reads a significant part of its output from files or a network.
    pub(super) fn reads(&self, maker: Act, since: i64) -> bool {
        let thread = &self.family.threads[maker.thread];
        let from = thread.last_starved(maker.at).map_or(thread.born, |at| thread.steps[at].end);
        let did = thread.composition(from.min(since.max(thread.born)), maker.at);
        let read = [Part::Storage, Part::FileCalls, Part::PageFaults, Part::Network]
            .map(|part| did.get(part))
            .iter()
            .sum::<i64>();
        // Writing files is not reading.
        let writes = 2 * thread.written_ns > thread.stored_ns;
        let read = if writes { did.get(Part::PageFaults) + did.get(Part::Network) } else { read };
        READING_PART * read >= did.without(Part::Idle).sum() && read > 0
    }

    /// Returns `true` if another thread than the maker of an item set the pace of its wait, and read files or received from a
    /// network for a significant part of it: the maker works on what that thread reads.
    pub(super) fn is_read_for(&self, wait: &Wait) -> bool {
        let limiter = wait.limiter.filter(|limiter| wait.maker.is_some_and(|maker| maker != *limiter));
        let Some(thread) = limiter.and_then(|lane| self.family.thread_of(lane)) else { return false };
        let relation = self.relation_of(thread);
        let is_reader = thread != self.thread && relation != Relation::Stranger;
        let limiter = &self.family.threads[thread];
        // A server that is a child process receives requests from the trainer.
        let served = if relation == Relation::OwnThread { wait.parts.get(Part::Network) } else { 0 };
        let read = served + wait.parts.get(Part::Storage) + wait.parts.get(Part::PageFaults);
        is_reader && 2 * limiter.written_ns <= limiter.stored_ns && READING_PART * read >= wait.end - wait.start
    }

    /// Returns `true` if a process below the trainer, or a thread of a Python program, reads files for most of its items: it makes
    /// batches, even if each is requested only when the trainer needs it.
    fn loads_items(&self, maker: Act) -> bool {
        let may_load = match self.relation_of(maker.thread) {
            Relation::OwnThread => self.family.is_python(self.lane().proc),
            Relation::Child => true,
            Relation::Stranger => false,
        };
        may_load && self.family.item_readers.contains(&maker.thread)
    }

    /// Returns `true` if a thread of another process delivered an item at the trainer's request without making it: what it
    /// sent came from the trainer, or it is a clerk.
    pub(super) fn is_delivery(&self, act: Act, maker: Act) -> bool {
        let is_other = self.family.threads[act.thread].lane.proc != self.lane().proc;
        is_other && maker.thread == self.thread || self.is_clerk(act, maker)
    }

    /// Returns `true` if a thread of another process answers connections next to the main thread, which makes the items.
    fn is_clerk(&self, act: Act, maker: Act) -> bool {
        let thread = &self.family.threads[act.thread];
        let is_other = thread.lane.proc != self.lane().proc;
        is_other && maker.thread == act.thread && !thread.is_first && thread.accepts
    }

    /// Returns `true` if a process sends the trainer about as many bytes as it receives from other processes: it passes their
    /// messages on, as the server of a queue does.
    fn is_relay(&self, proc: u32) -> bool {
        let (family, own) = (self.family, self.lane().proc);
        if proc == own {
            return false;
        }
        let others = (0..family.processes.len() as u32).filter(|other| ![own, proc].contains(other));
        let senders = others.filter(|other| family.sends(*other, proc));
        let taken: i64 = senders.map(|other| family.received_from(other, proc).1).sum();
        let (_, passed) = family.received_from(proc, own);
        taken > 0 && are_alike(taken, passed)
    }

    /// Returns who ended a wait for the lock of a queue from which another trainer takes its batches, too: that trainer held
    /// the lock while it waited for a batch, and the sender of that batch ended both waits.
    pub(super) fn in_shared_queue(&self, by: Ender) -> Ender {
        let Ender::Thread(mut act) = by else { return by };
        let own = self.lane().proc;
        for _ in 0..HOLDERS_MAX {
            let holder = self.family.threads[act.thread].lane.proc;
            if self.relation_of(act.thread) != Relation::Stranger || self.family.sends(holder, own) {
                break;
            }
            let Some(input) = self.family.input_of(act) else { break };
            let sender = self.family.threads[input.thread].lane.proc;
            if ![own, holder].contains(&sender) && self.family.feeds_both(sender, [own, holder]) {
                return Ender::Thread(input);
            }
            act = input;
        }
        by
    }

    /// Returns the thread that stands for a maker: threads of another process are one maker, whichever of them sends.
    pub(super) fn maker_key(&self, maker: Act) -> usize {
        let proc = self.family.threads[maker.thread].lane.proc;
        let first = || self.family.first_thread(proc);
        if proc == self.lane().proc { maker.thread } else { first().unwrap_or(maker.thread) }
    }

    /// Returns, per maker, whether it does the trainer's own work. Makers that end few waits are judged together. The workers of a
    /// loader never do.
    pub(super) fn own_workers(&self, waits: &[Ended], workers: &BTreeSet<u32>) -> BTreeMap<Option<usize>, bool> {
        let mut makers: BTreeMap<usize, [u64; 2]> = BTreeMap::new();
        let barriers = self.find_barriers(waits);
        let apart = self.find_apart();
        let (mut relays, mut seen) = (BTreeMap::<u32, bool>::new(), BTreeSet::new());
        for wait in waits {
            let Some(act) = wait.by.act() else { continue };
            let (maker, _) = self.explainer.maker(act);
            let proc = self.family.threads[maker.thread].lane.proc;
            let is_clerk = self.is_clerk(act, maker) || *relays.entry(proc).or_insert_with(|| self.is_relay(proc));
            if self.is_delivery(act, maker) && !is_clerk {
                continue;
            }
            let again = !seen.insert(maker.thread);
            let is_reply =
                || self.is_reply(wait, maker, again) && !self.reads(maker, wait.start) && !self.loads_items(maker);
            let computes = barriers.contains(&maker.thread) || apart.contains(&maker.thread);
            let is_own = !is_clerk && !workers.contains(&proc) && (computes || is_reply());
            let [all, own] = makers.entry(self.maker_key(maker)).or_default();
            (*all, *own) = (*all + 1, *own + is_own as u64);
        }
        for (maker, [all, own]) in &mut makers {
            let is_unsure = 10 * *own < REPLIES_OF_TEN * *all && 10 * *own >= SOME_REPLIES_OF_TEN * *all;
            if is_unsure && self.rests_between(waits, *maker) {
                *own = *all;
            }
        }
        let mut found: BTreeMap<Option<usize>, [u64; 2]> = BTreeMap::new();
        for (maker, [all, own]) in makers {
            let sum = found.entry((all >= WAITS_MIN as u64).then_some(maker)).or_default();
            *sum = [sum[0] + all, sum[1] + own];
        }
        found.into_iter().map(|(maker, [all, own])| (maker, 10 * own >= REPLIES_OF_TEN * all)).collect()
    }

    /// Returns `true` if the process of a maker works while the trainer waits, and hardly between the waits: it works on
    /// request.
    fn rests_between(&self, waits: &[Ended], maker: usize) -> bool {
        let own = &self.family.threads[self.thread];
        let proc = self.family.threads[maker].lane.proc;
        let made = |from: i64, to: i64| {
            let threads = self.family.threads_of(proc);
            threads.map(|thread| self.family.threads[thread].worked(from, to)).max().unwrap_or(0)
        };
        let within: i64 = waits.iter().map(|wait| made(wait.start, wait.end)).sum();
        let (mut worked, mut between) = (0, 0);
        for pair in waits.windows(2).filter(|pair| pair[1].start - pair[0].end >= WORK_NS) {
            let (from, to) = (pair[0].end, pair[1].start);
            worked += own.worked(from, to);
            between += made(from, to);
        }
        let has_time = 2 * worked > within;
        proc != self.lane().proc && has_time && RESTING * between < within
    }

    /// Returns whether a maker does the trainer's own work, judged separately or together with all makers that end few
    /// waits.
    pub(super) fn is_own_worker(&self, own: &BTreeMap<Option<usize>, bool>, maker: Act) -> bool {
        own.get(&Some(self.maker_key(maker))).or_else(|| own.get(&None)).copied().unwrap_or(false)
    }

    /// Returns whether an act does the trainer's own work. A thread that only delivers an item works for a reader.
    pub(super) fn does_own_work(&self, own: &BTreeMap<Option<usize>, bool>, act: Act, maker: Act) -> bool {
        !self.is_delivery(act, maker) && self.is_own_worker(own, maker)
    }

    /// Returns the threads alongside the trainer and processes below it that repeatedly make batches.
    pub(super) fn readers(
        &self,
        waits: &[Ended],
        own: &BTreeMap<Option<usize>, bool>,
        workers: &BTreeSet<u32>,
    ) -> BTreeSet<LaneId> {
        let mut ended: BTreeMap<LaneId, [usize; 2]> = BTreeMap::new();
        for wait in waits {
            let Ender::Thread(act) = wait.by else { continue };
            if self.family.communicators.contains(&act.thread) || self.is_consumer(act) {
                continue;
            }
            let (maker, _) = self.explainer.maker(act);
            let is_own = self.does_own_work(own, act, maker);
            let is_far = self.relation_of(maker.thread) == Relation::Stranger;
            // Who keeps the memory of tensors makes no batches.
            let is_kept = self.family.keeps_tensors(self.family.threads[maker.thread].lane.proc);
            let reader = if maker.thread == self.thread || is_far || is_kept { act } else { maker };
            // A thread of the trainer's process that only forwards the trainer's input makes nothing.
            let is_echo =
                reader.thread == self.thread || maker.thread == self.thread && self.relation(&act) != Relation::Child;
            if self.relation_of(reader.thread) != Relation::Stranger && !is_echo {
                let [all, owns] = ended.entry(self.reader_of(reader)).or_default();
                (*all, *owns) = (*all + 1, *owns + is_own as usize);
            }
        }
        ended.retain(|lane, _| !self.family.keeps_tensors(lane.proc));
        let woken = self.woken_readers();
        let is_own = |lane: &LaneId| {
            let wakes = woken.get(lane).copied().unwrap_or(0);
            !workers.contains(&lane.proc) && ended.get(lane).is_some_and(|[all, owns]| 2 * owns >= *all.max(&wakes))
        };
        let collected = self.collected_beside();
        let is_collected = |lane: &LaneId| collected.contains(&lane.proc) && self.is_fork_of_trainer(lane.proc);
        let is_maker = |lane: &LaneId, all: usize| all >= WAITS_MIN || all > 0 && is_collected(lane);
        let made = ended.iter().filter(|(lane, [all, _])| is_maker(lane, *all)).map(|(lane, _)| *lane);
        let relay = self.relay.map(|thread| self.family.threads[thread].lane);
        let others = self.hand_to_trainer().into_iter().chain(woken.keys().copied()).chain(relay);
        let keeps_tensors = |lane: &LaneId| self.family.keeps_tensors(lane.proc);
        let all: BTreeSet<LaneId> = made.chain(others).filter(|lane| !keeps_tensors(lane)).collect();
        let most = ended.values().map(|[all, _]| *all).max().unwrap_or(0);
        let is_rare = |lane: &LaneId| ended.get(lane).map_or(0, |[all, _]| *all) * SERVER_PART < most;
        let serves = |lane: &LaneId| {
            let others =
                all.iter().map(|other| other.proc).filter(|proc| ![lane.proc, self.lane().proc].contains(proc));
            lane.proc != self.lane().proc && others.into_iter().any(|other| self.family.sends(lane.proc, other))
        };
        let makes_readers = |lane: &LaneId| is_fork_server(self.family.processes, &self.family.parents, lane.proc);
        let is_server = |lane: &LaneId| is_rare(lane) && serves(lane) || makes_readers(lane);
        let is_twin = |lane: &LaneId| self.family.are_twins(self.lane(), *lane);
        let readers = all.iter().filter(|lane| !is_own(lane) && !is_server(lane) && !is_twin(lane)).copied().collect();
        self.with_siblings(readers)
    }

    /// Adds the processes that the trainer created together with a reader and that receive its requests: readers whose batches it
    /// did not take.
    fn with_siblings(&self, mut readers: BTreeSet<LaneId>) -> BTreeSet<LaneId> {
        let lane = |child: usize| self.reader_of(Act { thread: child, at: 0 });
        for (_, children) in self.groups_of_forks(|_| true) {
            if children.iter().any(|child| readers.contains(&lane(*child))) {
                let is_asked = |child: &LaneId| self.family.sends(self.lane().proc, child.proc);
                readers.extend(children.into_iter().map(lane).filter(is_asked));
            }
        }
        readers
    }

    /// Returns the threads of the trainer's process that read, and that it repeatedly wakes: their output is ready before
    /// the trainer needs it. Each has the number of times.
    fn woken_readers(&self) -> BTreeMap<LaneId, usize> {
        // Other programs use threads for files of any kind: more than a few times shows a loop.
        let is_python = self.family.is_python(self.lane().proc);
        let times_min = if is_python { WAITS_MIN } else { LOOP_MIN };
        let others = self.family.threads_of(self.lane().proc).filter(|&thread| thread != self.thread);
        let reads = others.filter(|&thread| {
            let other = &self.family.threads[thread];
            let fetched = other.fetched();
            fetched > 0 && fetched >= other.written_ns && !self.family.communicators.contains(&thread)
        });
        let times = reads.map(|thread| (self.family.threads[thread].lane, self.woken_to_read(thread).len()));
        let woken: BTreeMap<LaneId, usize> = times.filter(|(_, times)| *times >= times_min).collect();
        // More sleeps than batches may be looks for a batch.
        let sleeps =
            || self.family.threads[self.thread].steps.iter().filter(|step| step.kind == StepKind::Sleep).count();
        let may_look = !is_python && !woken.is_empty() && 2 * sleeps() > 3 * woken.values().sum::<usize>();
        if may_look { BTreeMap::new() } else { woken }
    }

    /// Returns `true` if a process is a fork of the trainer, or Python's multiprocessing started it.
    fn is_fork_of_trainer(&self, proc: u32) -> bool {
        let command = |proc: u32| self.family.processes[proc as usize].command.as_deref();
        self.family.is_spawned(proc) || command(proc) == command(self.lane().proc)
    }

    /// Returns the processes below the trainer whose messages other threads of its process take repeatedly: the trainer finds
    /// most of these batches ready.
    pub(super) fn collected_beside(&self) -> BTreeSet<u32> {
        let own = self.lane().proc;
        let beside = self.family.threads_of(own).filter(|&thread| thread != self.thread);
        let mut taken: BTreeMap<u64, usize> = BTreeMap::new();
        let takes = beside.flat_map(|thread| self.family.threads[thread].takes());
        takes.for_each(|step| *taken.entry(step.object.id).or_default() += 1);
        let often = taken.into_iter().filter(|(_, count)| *count >= WAITS_MIN);
        let givers = often.flat_map(|(object, _)| self.family.givers(object));
        let procs = givers.map(|thread| self.family.threads[thread].lane.proc);
        procs.filter(|proc| self.family.is_below(*proc, own)).collect()
    }

    /// Returns a process below the trainer that receives its messages and sends none.
    pub(super) fn silent_reader(&self) -> Option<LaneId> {
        let own = self.lane().proc;
        let below = self.family.threads.iter().filter(|thread| thread.is_first).map(|thread| thread.lane);
        let mut below = below.filter(|lane| self.family.is_below(lane.proc, own));
        below.find(|lane| self.family.sends(own, lane.proc) && !self.family.sends(lane.proc, own))
    }

    /// Returns the processes below the trainer that repeatedly send it messages.
    pub(super) fn hand_to_trainer(&self) -> BTreeSet<LaneId> {
        let mut taken: BTreeMap<u64, usize> = BTreeMap::new();
        let takes = self.family.threads[self.thread].takes();
        takes.for_each(|step| *taken.entry(step.object.id).or_default() += 1);
        let (often, rarely): (Vec<_>, Vec<_>) = taken.into_iter().partition(|(_, count)| *count >= WAITS_MIN);
        let senders = |objects: Vec<(u64, usize)>| -> BTreeSet<LaneId> {
            let givers = objects.into_iter().flat_map(|(object, _)| self.family.givers(object));
            let lanes = givers.map(|thread| self.reader_of(Act { thread, at: 0 }));
            lanes.filter(|lane| self.family.is_below(lane.proc, self.lane().proc)).collect()
        };
        // Readers that a loop creates for each batch send few messages each.
        let own = self.lane().proc;
        let mut brief = senders(rarely);
        brief.retain(|lane| self.family.sends(own, lane.proc) && !self.family.is_program_of(lane.proc, own));
        let brief = if brief.len() >= WAITS_MIN { brief } else { BTreeSet::new() };
        senders(often).into_iter().chain(brief).collect()
    }

    /// Returns the reader of an act: a thread alongside the trainer, or the main thread of another process, which
    /// represents the process.
    pub(super) fn reader_of(&self, act: Act) -> LaneId {
        self.reader(self.family.threads[act.thread].lane)
    }

    pub(super) fn reader(&self, lane: LaneId) -> LaneId {
        let first = self.family.processes.get(lane.proc as usize).map_or(lane.tid, |process| process.pid);
        if lane.proc == self.lane().proc { lane } else { LaneId { tid: first, ..lane } }
    }
}
