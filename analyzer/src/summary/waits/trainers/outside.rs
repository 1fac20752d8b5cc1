//! Trainers without readers: their main thread waits for servers, or for the output of programs that it did not start.

use std::collections::BTreeMap;

use super::super::family::{Act, Ender};
use super::super::parts::{Part, Parts};
use super::super::thread::WAIT_NS;
use super::super::timeline::{Step, StepKind};
use super::roles::Relation;
use super::{STEPS_MIN, Trainer, TrainerWaits, WORK_NS, Wait, WaitKind};

impl Trainer<'_, '_> {
    /// Returns the loop of a main thread that works after each of many messages from outside.
    pub(super) fn by_messages_from_outside(mut self) -> Option<TrainerWaits> {
        let own = &self.family.threads[self.thread];
        let received = self.received();
        let mut found: Vec<(Step, WaitKind, Ender)> = Vec::new();
        for (at, step) in own.steps.iter().enumerate().filter(|(_, step)| step.end - step.start >= WAIT_NS) {
            let Some((kind, by)) = self.kind_outside(at, &received) else { continue };
            let is_next =
                |last: &(Step, WaitKind, Ender)| last.1 == kind && own.worked(last.0.end, step.start) < WORK_NS;
            match found.last_mut().filter(|last| is_next(last)) {
                Some(last) => (last.0.end, last.2) = (step.end, by),
                None => found.push((*step, kind, by)),
            }
        }
        if found.iter().any(|(step, ..)| step.object.network) && self.is_server() {
            return None;
        }
        let works = found.windows(2).filter(|pair| self.computes(pair[0].0.end, pair[1].0.start)).count() as u64;
        let (from, to) = (found.first()?.0.start, found.last()?.0.end);
        if works < STEPS_MIN {
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
        threads.any(|thread| self.family.threads[thread].accepts())
    }

    /// Returns the kind of a wait for a message from outside, and what ended it; `None` for all other steps. Who sends more
    /// than it receives reports to a server, or exchanges gradients with it.
    fn kind_outside(&self, at: usize, received: &BTreeMap<u64, i64>) -> Option<(WaitKind, Ender)> {
        let own = &self.family.threads[self.thread];
        let (step, is_network) = (&own.steps[at], own.class[at] == Part::Network);
        match step.kind {
            StepKind::Connect | StepKind::LookUp if is_network => return Some((WaitKind::Data, Ender::Nobody)),
            StepKind::Take | StepKind::Poll | StepKind::Wait if step.object.id != 0 => {}
            _ => return None,
        }
        let by = self.family.ender(self.thread, at);
        let is_outside = match by {
            Ender::Thread(act) => {
                self.relation(&act) == Relation::Stranger && !self.is_above(act) && !self.is_rank(act)
            }
            Ender::Remote => true,
            Ender::Nobody => is_network || step.kind == StepKind::Take && step.amount > 0,
            _ => false,
        };
        let receives = received.get(&step.object.id).is_some_and(|bytes| *bytes > 0);
        is_outside.then_some((if receives { WaitKind::Data } else { WaitKind::Peer }, by))
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
        let is_remote = kind == WaitKind::Data && step.object.network && wait.parts.get(Part::Unknown) > 0;
        let parts = if is_remote { Parts::of(Part::Network, step.end - step.start) } else { wait.parts };
        Wait { parts, ..wait }
    }
}
