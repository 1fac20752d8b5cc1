//! Waits for files as messages of the threads that made them.

use std::collections::{BTreeMap, BTreeSet};

use super::awaited_files::{self, LOOK_NS, MadeFiles, Maker, WAITS_MIN};
use super::family::{Act, Family};
use super::parts::Part;
use super::timeline::{Step, StepKind, is_file_object};
use crate::summary::time::intervals::Interval;

impl Family<'_> {
    /// Finds threads that wait for files. Each file is a message of the thread that made it.
    pub(super) fn find_awaited_files(&mut self, made: &MadeFiles) {
        let mut makers: BTreeMap<u64, Vec<Act>> = BTreeMap::new();
        for number in 0..self.threads.len() {
            let found = awaited_files::find(&self.threads[number]);
            let is_made = |object, from, to| made.maker(number, object, from, to).is_some();
            let found = match found.len() < WAITS_MIN {
                true => awaited_files::find_by_opens(&self.threads[number], is_made),
                false => found,
            };
            if found.len() < WAITS_MIN {
                continue;
            }
            let thread = &mut self.threads[number];
            for awaited in &found {
                for at in &awaited.sleeps {
                    let step = &mut thread.steps[*at];
                    let is_last = awaited.sleeps.last() == Some(at);
                    (step.kind, step.object, step.timed_out, step.amount) =
                        (StepKind::Poll, awaited.object, !is_last, 0);
                    if is_last {
                        let maker =
                            made.maker(number, awaited.object.id, awaited.made_from - LOOK_NS, step.end + LOOK_NS);
                        let within =
                            |maker: Maker| Act { thread: maker.thread, at: maker.at.clamp(step.start, step.end) };
                        makers.entry(awaited.object.id).or_default().extend(maker.map(within));
                    }
                }
            }
            let idle: Vec<_> =
                found.into_iter().flat_map(|awaited| awaited.sleeps).map(|at| (at, Part::Idle)).collect();
            thread.reclassify(&idle);
        }
        for (object, acts) in makers {
            self.add_gives(object, &acts);
        }
    }

    /// Returns `true` if two processes wait for files of each other.
    pub(super) fn exchange_files(&self, one: u32, other: u32) -> bool {
        let makes_for = |maker: u32, taker: u32| {
            let objects: BTreeSet<u64> = self.file_waits(taker).map(|step| step.object.id).collect();
            let makers = objects.into_iter().flat_map(|object| self.givers(object));
            makers.into_iter().any(|thread| self.threads[thread].lane.proc == maker)
        };
        makes_for(one, other) && makes_for(other, one)
    }

    /// Returns `true` if a process makes about as many files as it waits for, as a process does that tells others how far
    /// it is.
    pub(super) fn makes_as_many_files(&self, proc: u32) -> bool {
        let made: usize = self.threads_of(proc).map(|thread| self.threads[thread].files_made).sum();
        2 * made >= self.file_waits(proc).count()
    }

    /// Returns the time in which a process waited for files within some intervals.
    pub(super) fn file_wait_ns(&self, proc: u32, within: &[Interval]) -> i64 {
        let steps = self.threads_of(proc).flat_map(|thread| &self.threads[thread].steps);
        let waits = steps.filter(|step| step.kind == StepKind::Poll && is_file_object(step.object.id));
        let overlap = |step: &Step| {
            let first = within.partition_point(|interval| interval.end <= step.start);
            let during = within[first..].iter().take_while(|interval| interval.start < step.end);
            during.map(|interval| interval.end.min(step.end) - interval.start.max(step.start)).sum::<i64>()
        };
        waits.map(overlap).sum()
    }

    /// Returns the last sleep of each wait of a process for a file.
    pub(super) fn file_waits(&self, proc: u32) -> impl Iterator<Item = &Step> {
        let steps = self.threads_of(proc).flat_map(|thread| &self.threads[thread].steps);
        steps.filter(|step| step.kind == StepKind::Poll && !step.timed_out && is_file_object(step.object.id))
    }
}
