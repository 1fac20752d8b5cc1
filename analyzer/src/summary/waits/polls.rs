//! Finds threads that poll: they look for a message and sleep for a short time, until it has arrived.
//!
//! A look that finds nothing is rarely a recorded call. It shows in the lock of the queue: a thread posts it after each
//! look, and also after it has received a message.

use std::collections::BTreeSet;

use super::parts::Part;
use super::thread::Thread;
use super::timeline::{Object, StepKind};

/// Less work than this lies between a look and the sleep after it.
const LOOK_NS: i64 = 1_000_000;

/// Sleeps of a thread until a message of one object was there.
pub struct Poll {
    pub sleeps: Vec<usize>,
    pub object: Object,
}

/// Returns the sleeps after looks that found nothing. `arrives` returns `true` if a message of another thread arrived
/// between two timestamps.
pub fn find(thread: &Thread, arrives: impl Fn(Object, i64, i64) -> bool) -> Vec<Poll> {
    let locks = locks(thread);
    let follows = |before: i64, start: i64| thread.worked(before, start) < LOOK_NS;
    let mut found = Vec::new();
    let mut sleeps: Vec<usize> = Vec::new();
    // Locks that are posted for a message that was received, and a look that found nothing.
    let (mut received, mut looked) = (BTreeSet::new(), false);
    for (at, step) in thread.steps.iter().enumerate() {
        match step.kind {
            StepKind::Edge => {}
            StepKind::Post => looked |= locks.contains(&step.object.id) && !received.remove(&step.object.id),
            StepKind::Sleep if looked && thread.class[at] == Part::Sleep => {
                if sleeps.last().is_some_and(|last: &usize| !follows(thread.steps[*last].end, step.start)) {
                    sleeps.clear();
                }
                sleeps.push(at);
                looked = false;
            }
            StepKind::Take if step.object.id != 0 => {
                let sleeps = std::mem::take(&mut sleeps);
                let is_end = sleeps.last().is_some_and(|last| {
                    let last = &thread.steps[*last];
                    follows(last.end, step.start) && arrives(step.object, last.start, step.start)
                });
                found.extend(is_end.then_some(Poll { sleeps, object: step.object }));
                (received, looked) = (locks.clone(), false);
            }
            _ => (sleeps, looked) = (Vec::new(), false),
        }
    }
    found
}

/// Returns the locks that the thread posts right after it has received a message.
fn locks(thread: &Thread) -> BTreeSet<u64> {
    let mut locks = BTreeSet::new();
    let mut taken: Option<i64> = None;
    for step in &thread.steps {
        match step.kind {
            StepKind::Take => taken = (step.object.id != 0).then_some(step.end),
            StepKind::Post if taken.is_some_and(|taken| thread.worked(taken, step.start) < LOOK_NS) => {
                locks.insert(step.object.id);
            }
            StepKind::Post | StepKind::Edge => {}
            _ => taken = None,
        }
    }
    locks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tree::LaneId;
    use crate::summary::waits::timeline::{Step, ThreadPart};

    const PIPE: Object = Object { id: 7, network: false };
    const LOCK: Object = Object { id: 9, network: false };
    const MS: i64 = 1_000_000;

    fn thread(steps: &[(StepKind, Object, i64, i64)]) -> Thread {
        let step = |&(kind, object, start, end): &(StepKind, Object, i64, i64)| Step {
            start: start * MS,
            end: end * MS,
            kind,
            object,
            amount: 100,
            ..Step::NOTHING
        };
        let part = ThreadPart { steps: steps.iter().map(step).collect(), first: Some(0), ..ThreadPart::default() };
        Thread::new(LaneId { proc: 0, tid: 1 }, true, part)
    }

    fn sleeps(steps: &[(StepKind, Object, i64, i64)]) -> Vec<Vec<usize>> {
        let polls = find(&thread(steps), |object, from, to| object == PIPE && from < 25 * MS && to >= 24 * MS);
        polls.into_iter().map(|poll| poll.sleeps).collect()
    }

    #[test]
    fn sleeps_after_empty_looks_are_a_poll() {
        let nothing = Object::default();
        let polling = [
            (StepKind::Take, PIPE, 0, 0),
            (StepKind::Post, LOCK, 0, 0),
            (StepKind::Post, LOCK, 20, 20),
            (StepKind::Sleep, nothing, 20, 22),
            (StepKind::Post, LOCK, 22, 22),
            (StepKind::Sleep, nothing, 22, 25),
            (StepKind::Take, PIPE, 25, 25),
            (StepKind::Post, LOCK, 25, 25),
        ];
        assert_eq!(sleeps(&polling), [[3, 5]]);
    }

    #[test]
    fn a_sleep_after_a_message_is_work() {
        let nothing = Object::default();
        let working = [
            (StepKind::Take, PIPE, 0, 0),
            (StepKind::Post, LOCK, 0, 0),
            (StepKind::Sleep, nothing, 0, 12),
            (StepKind::Sleep, nothing, 12, 25),
            (StepKind::Take, PIPE, 25, 25),
            (StepKind::Post, LOCK, 25, 25),
        ];
        assert!(sleeps(&working).is_empty());
    }
}
