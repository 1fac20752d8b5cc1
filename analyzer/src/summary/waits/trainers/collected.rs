//! Trainers that find all results ready: another thread of their process collects them, as in a pool of processes.

use std::collections::BTreeSet;

use super::super::parts::Part;
use super::super::timeline::{Step, StepKind};
use super::{BATCHES_MANY, ONLY_WAITS, Trainer, TrainerWaits};
use crate::summary::tree::LaneId;

impl Trainer<'_, '_> {
    /// Returns a trainer without waits if another thread of its process collects the results of processes below it, and the
    /// trainer hardly waits for anything at that time: a wait for a result would be a part of these waits.
    pub(super) fn beside_collector(self, collector: usize) -> Option<TrainerWaits> {
        let (family, own) = (self.family, &self.family.threads[self.thread]);
        let proc = self.lane().proc;
        let is_result = |object: u64| family.is_given_below(object, proc);
        let results: Vec<_> = family.threads[collector].takes().filter(|step| is_result(step.object.id)).collect();
        let (from, last) = (results.first()?.start, results.last()?.end);
        let ends = |step: &&Step| step.start >= last && matches!(step.kind, StepKind::Child | StepKind::Join);
        let to = own.steps.iter().find(ends).map_or(own.last, |step| step.start);
        let did = own.composition(from, to);
        // A sleep may be a look for the next result.
        let works = [Part::Cpu, Part::NoCpu, Part::FileCalls, Part::OutsideCalls].map(|part| did.get(part));
        let is_busy = ONLY_WAITS * (did.sum() - works.iter().sum::<i64>()) < to - from;
        let messages = results.len() as u64;
        let givers = results.iter().map(|step| step.object.id).collect::<BTreeSet<u64>>().into_iter();
        let givers = givers.flat_map(|object| family.givers(object)).map(|thread| family.threads[thread].lane);
        let readers: BTreeSet<LaneId> =
            givers.filter(|lane| family.is_below(lane.proc, proc)).map(|lane| self.reader(lane)).collect();
        let found = TrainerWaits { messages, readers: readers.into_iter().collect(), ..self.trained(false, from, to) };
        (is_busy && messages >= BATCHES_MANY && did.sum() > 0).then_some(found)
    }
}
