//! Waits of a trainer and what ended each, derived from its calls.

use super::super::family::{Act, Ender};
use super::super::parts::Part;
use super::super::thread::{REST_NS, WAIT_NS};
use super::super::timeline::{Object, Step, StepKind};
use super::{LARGE_MESSAGE, Trainer, UNPICKLING_NS_PER_BYTE, UNPICKLING_OF_TEN, WORK_NS};

/// This many bytes at a time are a chunk of a message and not its start; chunks may be this far apart, depending on the
/// bytes before them, which may have to be copied.
const PIECE: i64 = 1 << 12;
const PIECES_NS: i64 = 20_000_000;
const PIECES_NS_PER_BYTE: i64 = 1;

/// A thread asks again for the interpreter within this time if others did not give it up.
const REGAINED_NS: i64 = 100_000;

/// A request after a wait belongs to the awaited item if it takes less than one part in this many of the wait.
const DELIVERY_PART: i64 = 4;

/// A wait whose end is known, before it is explained.
pub(super) struct Ended {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) by: Ender,
    /// Bytes received in the meantime, and the start of the thread's next step.
    pub(super) bytes: i64,
    /// The time from the first bytes of its messages to the last ones.
    pub(super) reading: i64,
    pub(super) next: i64,
    /// Object from which it received bytes last.
    pub(super) object: Object,
    /// `true` if it includes the wait for the interpreter after its last call.
    pub(super) regained: bool,
}

impl Ended {
    pub(super) fn of(step: &Step) -> Ended {
        let Step { start, end, object, .. } = *step;
        Ended { start, end, by: Ender::Nobody, bytes: 0, reading: 0, next: end, object, regained: false }
    }

    /// Merges a wait that continues this one.
    fn go_on(&mut self, next: Ended) {
        let goes_on = self.object == next.object && self.bytes > 0;
        let reading = self.reading + if goes_on { next.end - self.end } else { 0 };
        *self = Ended { start: self.start, bytes: self.bytes + next.bytes, reading, ..next };
    }
}

/// Returns when a thread goes on after the first step: after the rest of a message, and the posts that follow immediately, such as
/// the release of a queue's lock.
fn following(steps: &[Step]) -> Option<i64> {
    let (first, others) = steps.split_first()?;
    let mut end = first.end;
    for next in others.iter().filter(|next| next.kind != StepKind::Edge) {
        let is_rest = next.kind == StepKind::Take && next.object.id == first.object.id;
        if next.kind != StepKind::Post && !is_rest || next.start - end >= REST_NS {
            return Some(next.start);
        }
        end = next.end;
    }
    None
}

impl Trainer<'_, '_> {
    /// Returns the steps in a time range in which the trainer waits for another thread.
    pub(super) fn idle_steps(&self, from: i64, to: i64) -> Vec<usize> {
        let thread = &self.family.threads[self.thread];
        let first = thread.steps.partition_point(|step| step.end <= from);
        let steps = (first..thread.steps.len()).take_while(|&at| thread.steps[at].start < to);
        let waits = |&at: &usize| {
            let step = &thread.steps[at];
            // A look for ended children that found none did not wait for one.
            let is_look = step.kind == StepKind::Child && step.amount == 0;
            let is_idle = matches!(thread.class[at], Part::Idle | Part::Gil)
                || matches!(step.kind, StepKind::Child | StepKind::Join | StepKind::Take) && !is_look;
            is_idle && step.end - step.start >= WAIT_NS
        };
        steps.filter(waits).collect()
    }

    /// Returns waits derived from calls: waits separated by little work are merged if both were ended by a thread in the
    /// same role, and an expired timeout starts a new wait.
    pub(super) fn ended_waits(&self, have_same_role: impl Fn(Act, Act) -> bool) -> Vec<Ended> {
        let thread = &self.family.threads[self.thread];
        let mut found: Vec<Ended> = Vec::new();
        let mut previous = 0;
        for at in self.idle_steps(i64::MIN, i64::MAX) {
            let step = &thread.steps[at];
            let between = &thread.steps[(previous + 1).min(at)..at];
            previous = at;
            let by = self.in_shared_queue(self.family.ender(self.thread, at));
            let bytes = if step.kind == StepKind::Take { step.amount } else { 0 };
            let next = following(&thread.steps[at..]).unwrap_or(step.end);
            let wait = Ended { by, bytes, next, ..Ended::of(step) };
            // Between chunks of one message, a thread may have to allocate space for it. It does nothing else.
            let is_chunk = |chunk: &Step| chunk.object == step.object && chunk.amount >= PIECE;
            let is_piece = |last: &Ended| step.object == last.object && is_chunk(step) && between.iter().all(is_chunk);
            let pause = |last: &Ended| match is_piece(last) {
                true => (last.bytes * PIECES_NS_PER_BYTE).clamp(WORK_NS, PIECES_NS),
                false => WORK_NS,
            };
            let last = found.last_mut().filter(|last| thread.worked(last.end, step.start) < pause(last));
            match last {
                // Later waits are part of its work on the item.
                Some(last)
                    if thread.class[at] == Part::Gil && (!last.regained || step.start - last.end < REGAINED_NS) =>
                {
                    (last.end, last.regained) = (step.end, true);
                }
                Some(_) if thread.class[at] == Part::Gil => {}
                Some(last) if self.is_same_delivery(last, &by, step) => last.go_on(Ended { by: last.by, ..wait }),
                Some(last) if self.goes_on(&last.by, &by, &have_same_role) => {
                    let by = if self.is_main_part(last, &wait) { last.by } else { by };
                    last.go_on(Ended { by, ..wait });
                }
                _ if thread.class[at] == Part::Gil => {}
                _ => found.push(wait),
            }
        }
        let unpickles = self.family.is_python(self.lane().proc);
        let is_pickled = |wait: &&mut Ended| wait.bytes >= LARGE_MESSAGE && !self.family.sends_files(wait.object.id);
        for wait in found.iter_mut().filter(|_| unpickles).filter(is_pickled) {
            // Both copy the message, at the speed of this memory and of the CPUs that are free.
            let unpickling = (wait.bytes * UNPICKLING_NS_PER_BYTE).min(wait.reading * UNPICKLING_OF_TEN / 10);
            wait.end = (wait.end + unpickling).min(wait.next.max(wait.end));
        }
        found
    }

    /// Returns `true` if a wait was longer than the next one and another maker ended it: of two loaders, the slow one makes the
    /// trainer wait.
    fn is_main_part(&self, last: &Ended, next: &Ended) -> bool {
        let maker = |wait: &Ended| wait.by.act().map(|act| self.maker_key(self.explainer.maker(act).0));
        let are_two = maker(last).zip(maker(next)).is_some_and(|(last, next)| last != next);
        last.end - last.start > next.end - next.start && are_two
    }

    /// Returns `true` if a thread only delivers an item that a maker had announced: another thread of the maker's
    /// process, as tensor descriptors, or a thread that responds quickly to a request that the trainer sent in between. The
    /// next item after descriptors is another item.
    pub(super) fn is_same_delivery(&self, last: &Ended, next: &Ender, step: &Step) -> bool {
        let proc_of = |act: &Act| self.family.threads[act.thread].lane.proc;
        match (&last.by, next) {
            // Not a read that a signal interrupted.
            (Ender::Thread(_), Ender::Nobody) => step.kind == StepKind::Take && step.amount > 0,
            (Ender::Thread(maker), Ender::Thread(next)) => {
                let is_other = maker.thread != next.thread && proc_of(next) != self.lane().proc;
                let responds = |act: &Act| self.explainer.maker(*act).0.thread == self.thread;
                let is_next_item = || responds(maker) && !responds(next);
                let is_beside = !self.family.threads[next.thread].is_first && proc_of(maker) == proc_of(next);
                let delivers = is_beside && !is_next_item();
                let is_short = DELIVERY_PART * (step.end - step.start) < last.end - last.start;
                is_other
                    && (delivers
                        || is_short && self.is_asked(next, last.end) && self.source(maker) == self.source(next))
            }
            _ => false,
        }
    }

    /// Returns `true` if a thread acted on a request that the trainer sent after a timestamp.
    pub(super) fn is_asked(&self, act: &Act, since: i64) -> bool {
        self.family.input_of(*act).is_some_and(|input| input.thread == self.thread && input.at >= since)
    }

    /// Returns `true` if a wait continues in the next one: its timeout expired, or both ends have the same kind of
    /// cause.
    pub(super) fn goes_on(&self, last: &Ender, next: &Ender, have_same_role: impl Fn(Act, Act) -> bool) -> bool {
        match (last, next) {
            (Ender::Timer, _) => true,
            (Ender::Thread(last), Ender::Thread(next)) => {
                self.source(last) == self.source(next) && have_same_role(*last, *next)
            }
            (Ender::Dead(_), Ender::Dead(_)) => true,
            (Ender::Exit(last), Ender::Exit(next)) => self.reader_of(*last) == self.reader_of(*next),
            (last, next) => last == next,
        }
    }
}
