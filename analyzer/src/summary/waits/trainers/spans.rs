//! Waits that a trainer's spans show.

use super::super::family::{Act, Ender};
use super::super::parts::{Part, Parts};
use super::super::timeline::StepKind;
use super::ended::Ended;
use super::roles::Relation;
use super::{Trainer, TrainerWaits, UNPICKLING_NS_PER_BYTE, WORK_NS, Wait, WaitKind};
use crate::summary::time::intervals::{Interval, united, without};

impl Trainer<'_, '_> {
    /// Returns the waits that its spans show.
    pub(super) fn by_spans(mut self) -> Option<TrainerWaits> {
        let fetches = united(vec![self.family.threads[self.thread].fetches.clone()]);
        let (from, to) = (fetches.first()?.start, fetches.last()?.end);
        let by_calls = Trainer::new(self.family, self.thread).by_calls();
        let (beside, requests) = by_calls.map_or_else(Default::default, |found| (found.waits, found.requests));
        let is_ended = |fetch: &Interval| self.ender_of(fetch).act().is_some();
        let has_makers = !requests.is_empty() || fetches.iter().any(is_ended);
        let mut waits: Vec<Wait> = fetches.iter().map(|fetch| self.fetch(fetch, has_makers, &requests)).collect();
        let is_own = |wait: &&Wait| wait.maker.is_none() && self.bytes_taken(wait.start, wait.end) == 0;
        let own_fetch_ns = waits.iter().filter(is_own).map(|wait| wait.end - wait.start).sum();
        for made in united(vec![self.family.threads[self.thread].loader_starts.clone()]) {
            if let Some(at) = self.add_start(&mut waits, (made, self.thread)) {
                waits[at].parts = started(&waits[at], &beside);
            }
        }
        let from = waits.first().map_or(from, |wait| wait.start.min(from));
        let works = waits.iter().zip(waits.iter().skip(1)).filter(|(a, b)| b.start - a.end >= WORK_NS).count() as u64;
        let messages = waits.len() as u64;
        waits.extend(self.beside_spans(beside, &waits, from, to));
        waits.sort_by_key(|wait| wait.start);
        Some(TrainerWaits { waits, works, messages, own_fetch_ns, ..self.trained(true, from, to) })
    }

    /// Returns the waits for its own threads, programs and locks outside all of its spans, of those that calls show.
    fn beside_spans(&self, by_calls: Vec<Wait>, fetches: &[Wait], from: i64, to: i64) -> Vec<Wait> {
        let mut spans = self.family.threads[self.thread].tasks.clone();
        spans.extend(fetches.iter().map(|wait| Interval { start: wait.start, end: wait.end }));
        let spans = united(vec![spans]);
        let is_other = |wait: &Wait| matches!(wait.kind, WaitKind::OwnWork | WaitKind::Lock);
        let others = by_calls.into_iter().filter(is_other).filter_map(|wait| outside(wait, &spans));
        others.filter(|wait| wait.start >= from && wait.end <= to).collect()
    }

    /// Returns the maker of the item that a span waited for: the last thread to end a wait in the span other than by
    /// delivery only.
    pub(super) fn ender_of(&self, fetch: &Interval) -> Ender {
        let thread = &self.family.threads[self.thread];
        let (mut last, mut dead): (Option<Ended>, Option<Act>) = (None, None);
        let steps = self.idle_steps(fetch.start, fetch.end).into_iter();
        for at in steps.filter(|&at| thread.class[at] != Part::Gil) {
            let (step, by) = (&thread.steps[at], self.family.ender(self.thread, at));
            let start = last.as_ref().map_or(step.start, |last| last.start);
            match &mut last {
                Some(last) if self.is_same_delivery(last, &by, step) => last.end = step.end,
                _ if by.act().is_none() => dead = if let Ender::Dead(act) = by { Some(act) } else { dead },
                _ => last = Some(Ended { start, by, ..Ended::of(step) }),
            }
        }
        match last {
            Some(last) => last.by,
            None => dead.map_or(Ender::Nobody, Ender::Dead),
        }
    }

    /// Returns the bytes of the messages that it received between two timestamps.
    fn bytes_taken(&self, from: i64, to: i64) -> i64 {
        let steps = &self.family.threads[self.thread].steps;
        let steps = &steps[steps.partition_point(|step| step.end < from)..];
        let taken = steps.iter().take_while(|step| step.start <= to).filter(|step| step.kind == StepKind::Take);
        taken.map(|step| step.amount.max(0)).sum()
    }

    /// Returns its own work in a span: on the batch that it received until it requests another one, and after that.
    fn receipt_in_span(&self, from: i64, to: i64, requests: &[i64]) -> Parts {
        let before = &requests[..requests.partition_point(|request| *request <= to)];
        let requested = before.last().copied().filter(|request| *request > from).unwrap_or(from);
        let receipt = Interval { start: from, end: requested };
        self.receiving(receipt, self.bytes_taken(from, requested))
            + self.unpickled(self.own_work(requested, to), requested, to)
    }

    /// Returns its own work between two timestamps.
    fn own_work(&self, from: i64, to: i64) -> Parts {
        let did = self.family.threads[self.thread].composition(from, to);
        let did = did.scaled(to - from).unwrap_or(Parts::of(Part::OutsideCalls, to - from));
        did.relabel(Part::Idle, Part::Unknown)
    }

    /// Counts the time that receiving a batch takes at most as hand-over: for its bytes, and for its tensors in shared
    /// memory. The rest is other work on the batch.
    fn unpickled(&self, did: Parts, from: i64, to: i64) -> Parts {
        let mut left = WORK_NS + self.bytes_taken(from, to) * UNPICKLING_NS_PER_BYTE;
        [Part::Cpu, Part::OutsideCalls].into_iter().fold(did, |did, part| {
            let moved = did.get(part).min(left);
            left -= moved;
            did - Parts::of(part, moved) + Parts::of(Part::HandOver, moved)
        })
    }

    /// Explains one span: its waits belong to the last message, the rest is the trainer's own work.
    fn fetch(&mut self, fetch: &Interval, has_makers: bool, requests: &[i64]) -> Wait {
        let Interval { start, end } = *fetch;
        let thread = &self.family.threads[self.thread];
        let steps = self.idle_steps(start, end);
        let ends = steps.first().zip(steps.last());
        let waited =
            ends.map(|(&first, &last)| (thread.steps[first].start.max(start), thread.steps[last].end.min(end)));
        let own = |from: i64, to: i64| {
            if has_makers { self.receipt_in_span(from, to, requests) } else { self.own_work(from, to) }
        };
        let Some((from, to)) = waited else {
            return Wait { parts: own(start, end), ..self.explain(start, end, WaitKind::Data, Ender::Nobody) };
        };
        let rest = own(start, from) + own(to, end);
        let by = self.ender_of(fetch);
        let mut wait = match by {
            Ender::Exit(act) if act.thread != self.thread && self.relation(&act) == Relation::Child => {
                self.reader_time(from, to, act)
            }
            Ender::Thread(_) | Ender::Exit(_) => self.explain(from, to, WaitKind::Data, by),
            Ender::Dead(act) => self.dead_time(from, to, act),
            _ => {
                let did = own(from, to);
                Wait { parts: did, ..self.explain(from, to, WaitKind::Data, by) }
            }
        };
        (wait.start, wait.end) = (start, end);
        wait.parts += rest;
        wait
    }
}

/// Returns the causes of a span in which a loader was created: those of the waits for data that calls show in it, and the start of its
/// readers for the rest.
fn started(span: &Wait, by_calls: &[Wait]) -> Parts {
    let shares = by_calls.iter().filter(|wait| wait.kind == WaitKind::Data).filter_map(|wait| {
        let ns = wait.end.min(span.end) - wait.start.max(span.start);
        if ns > 0 { wait.parts.scaled(ns) } else { None }
    });
    let known = shares.fold(Parts::default(), |sum, parts| sum + parts);
    known + Parts::of(Part::Start, span.end - span.start - known.sum())
}

/// Returns the longest part of a wait outside spans, if that is most of it.
fn outside(wait: Wait, spans: &[Interval]) -> Option<Wait> {
    let around = &spans[spans.partition_point(|span| span.end <= wait.start)..];
    let around = &around[..around.partition_point(|span| span.start < wait.end)];
    let pieces = without(&[Interval { start: wait.start, end: wait.end }], around);
    let Interval { start, end } = pieces.into_iter().max_by_key(|piece| piece.end - piece.start)?;
    let parts = wait.parts.scaled(end - start)?;
    (2 * (end - start) > wait.end - wait.start).then_some(Wait { start, end, parts, ..wait })
}
