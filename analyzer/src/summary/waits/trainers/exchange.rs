//! Trainers without readers that exchange messages with processes that do the same work, such as ranks made by fork.

use std::collections::BTreeSet;

use super::super::family::Ender;
use super::super::thread::received_through;
use super::{STEPS_MIN, Trainer, TrainerWaits, Wait, WaitKind};

impl Trainer<'_, '_> {
    /// Returns a trainer that reads its data itself and waits for its twins only. Its loop lasts from the first message of a twin
    /// to the last one.
    pub(super) fn by_exchange(mut self) -> Option<TrainerWaits> {
        let family = self.family;
        if !family.communicators.contains(&self.thread) {
            return None;
        }
        let is_from_twin = |object: u64| family.is_from_twin(self.thread, object);
        let takes = received_through(family.threads[self.thread].takes(), is_from_twin);
        let takes: Vec<(i64, i64)> = takes.map(|step| (step.start, step.end)).collect();
        let (from, to) = (takes.first()?.0, takes.last()?.1);
        let works = takes.windows(2).filter(|pair| self.computes(pair[0].1, pair[1].0)).count() as u64;
        let ended = self.ended_waits(|_, _| true);
        let is_twin = |by: Ender| matches!(by, Ender::Thread(act) if family.communicators.contains(&act.thread));
        let ended = ended.into_iter().filter(|wait| is_twin(wait.by) && wait.start >= from && wait.end <= to);
        let waits: Vec<Wait> = ended.map(|wait| self.explain(wait.start, wait.end, WaitKind::Peer, wait.by)).collect();
        let messages = takes.len() as u64;
        let to = self.with_save(to, to, &waits, &BTreeSet::new());
        (works >= STEPS_MIN).then(|| TrainerWaits { waits, works, messages, ..self.trained(false, from, to) })
    }
}
