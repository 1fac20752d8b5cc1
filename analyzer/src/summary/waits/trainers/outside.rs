//! Trainers without readers: their main thread waits for servers, or for the output of programs that it did not start.

use std::collections::BTreeMap;

use super::super::family::{Act, Ender};
use super::super::parts::{Part, Parts};
use super::super::thread::WAIT_NS;
use super::super::timeline::{Step, StepKind, is_file_object};
use super::roles::Relation;
use super::{STEPS_MIN, Trainer, TrainerWaits, WORK_NS, Wait, WaitKind};

/// Facts about other programs.
struct Outside {
    /// Bytes that the process received through each object, less those that it sent.
    received: BTreeMap<u64, i64>,
    /// The kind of a wait for a file of each process that made some; `None` if that is unclear.
    makers: BTreeMap<u32, Option<WaitKind>>,
}

impl Trainer<'_, '_> {
    /// Returns the loop of a main thread that works after each of many messages from outside.
    pub(super) fn by_messages_from_outside(mut self) -> Option<TrainerWaits> {
        let own = &self.family.threads[self.thread];
        let mut seen = Outside { received: self.received(), makers: BTreeMap::new() };
        let mut found: Vec<(Step, WaitKind, Ender)> = Vec::new();
        for (at, step) in own.steps.iter().enumerate().filter(|(_, step)| step.end - step.start >= WAIT_NS) {
            let Some((kind, by)) = self.kind_outside(at, &mut seen) else { continue };
            let is_next =
                |last: &(Step, WaitKind, Ender)| last.1 == kind && own.worked(last.0.end, step.start) < WORK_NS;
            match found.last_mut().filter(|last| is_next(last)) {
                Some(last) => {
                    last.0.end = step.end;
                    // The rest of a message may have arrived before.
                    last.2 = if by.act().is_some() || last.2.act().is_none() { by } else { last.2 };
                }
                None => found.push((*step, kind, by)),
            }
        }
        let works = found.windows(2).filter(|pair| self.computes(pair[0].0.end, pair[1].0.start)).count() as u64;
        let (from, to) = (found.first()?.0.start, found.last()?.0.end);
        let is_network = found.iter().any(|(step, ..)| step.object.network);
        if works < STEPS_MIN || is_network && self.is_server() || self.family.answers(self.lane().proc) {
            return None;
        }
        let to = self.done(to);
        let waits =
            found.into_iter().map(|(step, kind, by)| self.explained_outside(step, kind, by)).collect::<Vec<_>>();
        let messages = waits.len() as u64;
        Some(TrainerWaits { waits, works, messages, ..self.trained(false, from, to) })
    }

    /// Returns the bytes that the process received through each object, less those that it sent.
    fn received(&self) -> BTreeMap<u64, i64> {
        let mut received: BTreeMap<u64, i64> = BTreeMap::new();
        let threads = self.family.threads_of(self.lane().proc);
        for step in threads.flat_map(|thread| &self.family.threads[thread].steps) {
            let bytes = match step.kind {
                StepKind::Take => step.amount.max(0),
                StepKind::Give => -step.amount.max(0),
                _ => continue,
            };
            *received.entry(step.object.id).or_default() += bytes;
        }
        received
    }

    /// Returns `true` if the process accepts connections: it waits for requests.
    fn is_server(&self) -> bool {
        let mut threads = self.family.threads_of(self.lane().proc);
        threads.any(|thread| self.family.threads[thread].accepts)
    }

    /// Returns the kind of a wait for a message from outside, and what ended it; `None` for all other steps. Who sends more
    /// than it receives reports to a server, or exchanges gradients with it.
    fn kind_outside(&self, at: usize, seen: &mut Outside) -> Option<(WaitKind, Ender)> {
        let own = &self.family.threads[self.thread];
        let (step, is_network) = (&own.steps[at], own.class[at] == Part::Network);
        match step.kind {
            StepKind::Poll if is_file_object(step.object.id) => return self.kind_of_file_wait(at, seen),
            StepKind::Connect | StepKind::LookUp if is_network => return Some((WaitKind::Data, Ender::Nobody)),
            StepKind::Take | StepKind::Poll | StepKind::Wait if step.object.id != 0 => {}
            _ => return None,
        }
        let by = self.in_shared_queue(self.family.ender(self.thread, at));
        let is_outside = match by {
            Ender::Thread(act) => {
                self.relation(&act) == Relation::Stranger && !self.is_above(act) && !self.is_rank(act)
            }
            Ender::Remote => true,
            Ender::Nobody => is_network || step.kind == StepKind::Take && step.amount > 0,
            _ => false,
        };
        let receives = match by {
            // A semaphore next to shared memory has no bytes: data come from the process that reads more.
            Ender::Thread(act) if step.kind == StepKind::Wait => {
                let fetched = |proc: u32| -> i64 {
                    self.family.threads_of(proc).map(|thread| self.family.threads[thread].fetched()).sum()
                };
                fetched(self.family.threads[act.thread].lane.proc) > 2 * fetched(self.lane().proc)
            }
            _ => seen.received.get(&step.object.id).is_some_and(|bytes| *bytes > 0),
        };
        is_outside.then_some((if receives { WaitKind::Data } else { WaitKind::Peer }, by))
    }

    /// Returns the kind of a wait for a file, and who made it. Processes of one program that make files for each other
    /// synchronize; different programs may be a client and its server, each waiting for the other.
    fn kind_of_file_wait(&self, at: usize, seen: &mut Outside) -> Option<(WaitKind, Ender)> {
        let steps = &self.family.threads[self.thread].steps;
        let is_last = |later: &usize| steps[*later].object == steps[at].object && !steps[*later].timed_out;
        let last = (at..steps.len()).find(is_last).unwrap_or(at);
        let (by, own) = (self.family.ender(self.thread, last), self.lane().proc);
        let other = by.act().map(|act| self.family.threads[act.thread].lane.proc).filter(|other| *other != own);
        let Some(other) = other else { return Some((WaitKind::Data, by)) };
        let kind = seen.makers.entry(other).or_insert_with(|| {
            let exchanges = self.family.exchange_files(own, other);
            match self.family.are_of_one_program(own, other) {
                true if exchanges || self.family.makes_as_many_files(own) => Some(WaitKind::Peer),
                false if exchanges => None,
                _ => Some(WaitKind::Data),
            }
        });
        kind.map(|kind| (kind, by))
    }

    /// Returns `true` if a thread belongs to a process that started this one, directly or through others.
    fn is_above(&self, act: Act) -> bool {
        self.family.is_below(self.lane().proc, self.family.threads[act.thread].lane.proc)
    }

    fn is_rank(&self, act: Act) -> bool {
        self.family.processes[self.family.threads[act.thread].lane.proc as usize].rank.is_some()
    }

    fn explained_outside(&mut self, step: Step, kind: WaitKind, by: Ender) -> Wait {
        let wait = self.explain(step.start, step.end, kind, by);
        // A server in the trace would show its work.
        let is_remote =
            by.act().is_none() && kind == WaitKind::Data && step.object.network && wait.parts.get(Part::Unknown) > 0;
        let is_file = by.act().is_none() && is_file_object(step.object.id);
        let cause = is_remote.then_some(Part::Network).or(is_file.then_some(Part::NoFile));
        let parts = cause.map_or(wait.parts, |cause| Parts::of(cause, step.end - step.start));
        Wait { parts, ..wait }
    }
}
