//! The end of a trainer's loop: its last step, with the save of its results directly after it. The length of the loop and all
//! times in it depend on this one decision.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::super::family::Family;
use super::super::parts::Part;
use super::super::thread::{Thread, WAIT_NS};
use super::super::timeline::StepKind;
use super::{Trainer, TrainerWaits, WORK_NS, Wait, WaitKind};
use crate::summary::time::intervals::{Interval, length, shared, united, without};

/// A save belongs to the last step if it begins this soon after it. The writes of one save are this close together.
const SAVE_GAP_NS: i64 = 100_000_000;

/// Shorter writes after the last step may be of a log.
const SAVE_MIN_NS: i64 = 20_000_000;

/// The time in which a trainer's own thread saved files, without its waits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Written {
    pub ns: i64,
    /// The part of it in calls that write or sync. The rest lies between opening and closing these files.
    pub in_calls_ns: i64,
    /// The part of it after the last batch.
    pub after_last_ns: i64,
}

impl Written {
    /// Returns the time of a trainer's writes during its training; `None` if the trace has too many.
    pub(super) fn of(family: &Family, trainer: &TrainerWaits) -> Option<Written> {
        let thread = family.thread_of(trainer.lane).filter(|_| !family.lacks_puts)?;
        let thread = &family.threads[thread];
        let waited = trainer.waits.iter().map(|wait| Interval { start: wait.start, end: wait.end });
        let waited = united(vec![waited.collect()]);
        let between =
            |puts: &[Interval], start: i64, end: i64| shared(puts, &without(&[Interval { start, end }], &waited));
        let (from, to, last) = (trainer.from, trainer.to, trainer.last.max(trainer.from).min(trainer.to));
        Some(Written {
            ns: between(&thread.puts, from, to),
            in_calls_ns: between(&thread.put_calls, from, to),
            after_last_ns: between(&thread.puts, last, to),
        })
    }
}

impl Trainer<'_, '_> {
    fn thread(&self) -> &Thread {
        &self.family.threads[self.thread]
    }

    /// Returns the time at which the trainer had processed the last batch: it waits for another thread, stops its
    /// readers, or exits.
    pub(super) fn done(&self, last: i64) -> i64 {
        let thread = self.thread();
        let mut after = thread.steps.iter().zip(&thread.class).filter(|(step, _)| step.start >= last);
        let ends = |(step, class): &(&super::Step, &Part)| {
            let waits = **class == Part::Idle && step.end - step.start >= WAIT_NS;
            let gives = step.kind == StepKind::Give && step.start - last >= WORK_NS;
            waits || gives || matches!(step.kind, StepKind::Child | StepKind::Join)
        };
        after.find(ends).map_or(thread.last.max(last), |(step, _)| step.start)
    }

    /// Returns the end of the last step. A wait for the trainer's own threads or programs, or for other ranks, is a part of the
    /// step if it follows work on the batch and the step does not become longer than the longest one.
    pub(super) fn last_step(&self, last: i64, step_max: i64, waits: &[Wait]) -> i64 {
        let until = last.saturating_add(step_max);
        let mut done = self.done(last);
        let is_own = |wait: &&Wait| matches!(wait.kind, WaitKind::OwnWork | WaitKind::Lock | WaitKind::Peer);
        while let Some(wait) = waits.iter().filter(is_own).find(|wait| wait.start <= done && done < wait.end) {
            if step_max == i64::MAX || wait.end > until || !self.computes(last, done) {
                break;
            }
            done = self.done(wait.end);
        }
        done.min(until)
    }

    /// Returns the end of the loop whose last step ends at a timestamp: the end of the save that begins directly after it, or
    /// after the readers were stopped.
    pub(super) fn with_save(&self, last: i64, to: i64, waits: &[Wait], stops: &BTreeSet<i64>) -> i64 {
        let mut stopped = to;
        for stop in waits.iter().filter(|wait| wait.start >= last && stops.contains(&wait.end)) {
            stopped = if stop.start <= stopped + SAVE_GAP_NS { stopped.max(stop.end) } else { stopped };
        }
        let puts = &self.thread().puts;
        let later = &puts[puts.partition_point(|put| put.end <= last)..];
        let mut save: Vec<Interval> = Vec::new();
        for put in later.iter().filter(|put| put.end > to) {
            let end = save.last().map_or(stopped, |before: &Interval| before.end);
            if put.start > end + SAVE_GAP_NS || !self.is_alone(end, put.start) {
                break;
            }
            save.push(*put);
        }
        let is_save = length(&save) >= SAVE_MIN_NS;
        save.last().filter(|_| is_save).map_or(to, |put| put.end.max(to))
    }

    /// Returns `true` if the trainer does not take a message between two timestamps.
    fn is_alone(&self, from: i64, to: i64) -> bool {
        let steps = &self.thread().steps;
        let mut steps = steps[steps.partition_point(|step| step.end <= from)..].iter();
        !steps.by_ref().take_while(|step| step.start < to).any(|step| step.is_receipt())
    }
}
