//! Finds threads that poll: they look for a message and sleep for a short time, until it has arrived.
//!
//! A look that finds nothing is rarely a recorded call. The lock of the queue shows it: a thread posts this lock after each
//! look, and also after it has received a message.

use std::collections::BTreeSet;

use super::parts::Part;
use super::thread::Thread;
use super::timeline::{Object, StepKind};

/// Less work than this lies between a look and the sleep after it.
const LOOK_NS: i64 = 1_000_000;

/// With fewer rows of several sleeps, or fewer different lengths of rows, the sleeps may belong to the steps of a program.
const ROWS_MIN: usize = 3;
const LENGTHS_MIN: usize = 3;

/// A program that polls looks again after at most this time, on average; sleeps that belong to a step are longer. Fewer sleeps
/// than `SLEEPS_MIN` show no pattern.
const SHORT_NS: i64 = 8_000_000;
const SLEEPS_MIN: usize = 20;

/// A sleep that is longer than this many sleeps between looks is a step.
const STEP_OF_LOOKS: i64 = 3;

/// In at least this share of the rows (`ARRIVES` of `ARRIVES_OF`), a result arrives during the last sleep.
const ARRIVES: usize = 4;
const ARRIVES_OF: usize = 5;

/// The sleeps of a thread while it waited for a message of one object.
pub struct Poll {
    pub sleeps: Vec<usize>,
    pub object: Object,
}

/// Returns the sleeps after looks that found nothing. `arrives` returns `true` if a message from another thread arrived
/// between two timestamps.
pub fn find(thread: &Thread, arrives: impl Fn(Object, i64, i64) -> bool) -> Vec<Poll> {
    let locks = locks(thread);
    let follows = |before: i64, start: i64| thread.worked(before, start) < LOOK_NS;
    let mut found = Vec::new();
    let mut sleeps: Vec<usize> = Vec::new();
    // The locks whose next post belongs to a message that was received, and whether a look has found nothing since.
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

/// Returns the sleeps of a thread that looks for messages in calls that leave no trace, such as a `poll` that returns at once. Such
/// looks show as rows of sleeps before messages: the number of sleeps differs from row to row, and the message arrives during the
/// last sleep of a row. Much longer sleeps before them are the steps of the program.
pub fn find_before_messages(thread: &Thread, arrives: impl Fn(Object, i64, i64) -> bool) -> Vec<Poll> {
    let is_between = |at: usize| {
        matches!(thread.steps[at].kind, StepKind::Edge | StepKind::Post | StepKind::TimedWait)
            || thread.class[at] == Part::Gil
    };
    let before_message = |sleeps: Vec<usize>| {
        let last = *sleeps.last()?;
        let next = thread.steps[(last + 1..thread.steps.len()).find(|at| !is_between(*at))?];
        let is_message = next.kind == StepKind::Take && next.object.id != 0;
        let follows = thread.worked(thread.steps[last].end, next.start) < LOOK_NS;
        let arrived = arrives(next.object, thread.steps[last].start - LOOK_NS, next.start);
        (is_message && follows).then_some((Poll { sleeps, object: next.object }, arrived))
    };
    let rows: Vec<(Poll, bool)> = without_steps(thread, rows(thread)).into_iter().filter_map(before_message).collect();
    let lengths: BTreeSet<usize> = rows.iter().map(|(poll, _)| poll.sleeps.len()).collect();
    let several = rows.iter().filter(|(poll, _)| poll.sleeps.len() > 1).count();
    let arrived = rows.iter().filter(|(_, arrived)| *arrived).count();
    if several < ROWS_MIN || lengths.len() < LENGTHS_MIN || ARRIVES_OF * arrived < ARRIVES * rows.len() {
        return Vec::new();
    }
    rows.into_iter().filter_map(|(poll, arrived)| arrived.then_some(poll)).collect()
}

/// Returns rows without the sleeps at their starts that are much longer than most of those that follow others.
fn without_steps(thread: &Thread, rows: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    let length = |at: &usize| thread.steps[*at].end - thread.steps[*at].start;
    let mut later: Vec<i64> = rows.iter().flat_map(|row| &row[1..]).map(length).collect();
    later.sort_unstable();
    let Some(median) = later.get(later.len() / 2) else { return Vec::new() };
    let from_first_look = |row: Vec<usize>| {
        let first = row.iter().position(|at| length(at) <= STEP_OF_LOOKS * median)?;
        Some(row[first..].to_vec())
    };
    rows.into_iter().filter_map(from_first_look).collect()
}

/// A result that another thread of the process received, and the sleeps between the looks for it before it arrived.
pub struct Awaited {
    pub sleeps: Vec<usize>,
    pub waker: i32,
    pub at: i64,
}

/// Returns the sleeps of a thread that looks in memory for results, which other threads of its process receive. Such looks
/// are not calls. They show as rows of sleeps: the number of sleeps differs from row to row, and a result arrives during the last
/// sleep of a row, and rarely during another one.
/// `received` returns the thread that received one between two timestamps, and when.
pub fn find_awaited(thread: &Thread, received: impl Fn(i64, i64) -> Option<(i32, i64)>) -> Vec<Awaited> {
    let rows = rows(thread);
    let lengths: BTreeSet<usize> = rows.iter().map(Vec::len).collect();
    let several = rows.iter().filter(|row| row.len() > 1).count();
    if several < ROWS_MIN || lengths.len() < LENGTHS_MIN {
        return Vec::new();
    }
    let arrival = |at: usize| received(thread.steps[at].start - LOOK_NS, thread.steps[at].end);
    let others = || rows.iter().flat_map(|row| &row[..row.len() - 1]);
    if 2 * others().filter(|at| arrival(**at).is_some()).count() > others().count() {
        return Vec::new();
    }
    let all = rows.len();
    let awaited = |sleeps: Vec<usize>| {
        let (waker, at) = arrival(*sleeps.last()?)?;
        Some(Awaited { sleeps, waker, at })
    };
    let found: Vec<Awaited> = rows.into_iter().filter_map(awaited).collect();
    if ARRIVES_OF * found.len() >= ARRIVES * all { found } else { Vec::new() }
}

/// Returns the time of the sleeps of a thread that seems to look for something again and again: rows of short sleeps, whose
/// lengths differ because the waits differ.
pub fn slept_in_rows(thread: &Thread) -> i64 {
    let rows = rows(thread);
    let lengths: BTreeSet<usize> = rows.iter().map(Vec::len).collect();
    let several: Vec<usize> = rows.into_iter().filter(|row| row.len() > 1).flatten().collect();
    let slept: i64 = several.iter().map(|&at| thread.steps[at].end - thread.steps[at].start).sum();
    let are_short = slept < SHORT_NS * several.len() as i64;
    if are_short && several.len() >= SLEEPS_MIN && lengths.len() >= LENGTHS_MIN { slept } else { 0 }
}

/// Returns the rows of sleeps between which a thread did next to nothing.
fn rows(thread: &Thread) -> Vec<Vec<usize>> {
    let mut rows: Vec<Vec<usize>> = Vec::new();
    let mut last: Option<i64> = None;
    for (at, step) in thread.steps.iter().enumerate() {
        match step.kind {
            StepKind::Edge | StepKind::TimedWait | StepKind::Post => {}
            _ if thread.class[at] == Part::Gil => {}
            StepKind::Sleep if thread.class[at] == Part::Sleep && step.object.id == 0 => {
                let goes_on = last.is_some_and(|last| thread.worked(last, step.start) < LOOK_NS);
                match rows.last_mut().filter(|_| goes_on) {
                    Some(row) => row.push(at),
                    None => rows.push(vec![at]),
                }
                last = Some(step.end);
            }
            _ => last = None,
        }
    }
    rows
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

    /// The kind of a step, its object, its start and its end in milliseconds.
    type Call = (StepKind, Object, i64, i64);

    fn thread(steps: &[Call]) -> Thread {
        let step = |&(kind, object, start, end): &Call| Step {
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

    fn sleeps(steps: &[Call]) -> Vec<Vec<usize>> {
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

    /// Rows of sleeps of 5 ms, with 20 ms of work between them.
    fn rows_of(lengths: &[i64]) -> (Vec<Call>, Vec<i64>) {
        let (mut steps, mut ends, mut at) = (Vec::new(), Vec::new(), 0);
        for length in lengths {
            for _ in 0..*length {
                steps.push((StepKind::Sleep, Object::default(), at, at + 5));
                at += 5;
            }
            ends.push(at);
            at += 20;
        }
        (steps, ends)
    }

    #[test]
    fn rows_of_sleeps_until_results_arrive_are_waits() {
        let found = |lengths: &[i64], late: i64| {
            let (steps, ends) = rows_of(lengths);
            let ends: Vec<i64> = ends.into_iter().map(|end| (end - late) * MS).collect();
            let received = |from: i64, to: i64| Some((9, *ends.iter().find(|end| (from..=to).contains(end))?));
            find_awaited(&thread(&steps), received).len()
        };
        assert_eq!(found(&[4, 2, 3, 5], 2), 4);
        // Steps of equal length, and results that arrive at any time.
        assert_eq!([found(&[3, 3, 3, 3], 2), found(&[4, 2, 3, 5], 8)], [0, 0]);
        let (steps, _) = rows_of(&[4, 2, 3, 5]);
        assert!(find_awaited(&thread(&steps), |_, to| Some((9, to))).is_empty());
    }

    #[test]
    fn rows_of_sleeps_until_messages_arrive_are_looks() {
        let found = |lengths: &[i64], late: i64| {
            let (mut steps, ends) = rows_of(lengths);
            for (number, end) in ends.iter().enumerate() {
                let at = steps.partition_point(|step| step.2 < *end);
                steps.insert(at, (StepKind::Take, PIPE, *end, *end));
                assert_eq!(at, lengths[..=number].iter().sum::<i64>() as usize + number);
            }
            let sent: Vec<i64> = ends.into_iter().map(|end| (end - late) * MS).collect();
            let arrives = |object, from, to| object == PIPE && sent.iter().any(|sent| (from..=to).contains(sent));
            find_before_messages(&thread(&steps), arrives).into_iter().map(|poll| poll.sleeps.len()).sum::<usize>()
        };
        assert_eq!(found(&[4, 2, 3, 5], 2), 14);
        // Steps of equal length, and messages that were sent before the last sleep.
        assert_eq!([found(&[3, 3, 3, 3], 2), found(&[4, 2, 3, 5], 8)], [0, 0]);
    }

    #[test]
    fn a_long_sleep_before_looks_is_a_step() {
        let (mut steps, mut at) = (Vec::new(), 0);
        for looks in [4, 2, 3, 5] {
            let lengths = std::iter::once(20).chain(std::iter::repeat_n(2, looks));
            for length in lengths {
                steps.push((StepKind::Sleep, Object::default(), at, at + length));
                at += length;
            }
            steps.push((StepKind::Take, PIPE, at, at));
        }
        let taken: Vec<i64> = steps.iter().filter(|step| step.0 == StepKind::Take).map(|step| step.2 * MS).collect();
        let arrives = |_, from, to| taken.iter().any(|taken| (from..=to).contains(&(taken - MS)));
        let polls = find_before_messages(&thread(&steps), arrives);
        assert_eq!(polls.into_iter().map(|poll| poll.sleeps.len()).collect::<Vec<_>>(), [4, 2, 3, 5]);
    }

    #[test]
    fn only_short_sleeps_in_rows_of_different_lengths_may_be_looks() {
        let polled = |lengths: &[i64]| slept_in_rows(&thread(&rows_of(lengths).0)) / MS;
        assert_eq!(polled(&[9, 6, 1, 8]), 115);
        assert_eq!([polled(&[1; 24]), polled(&[8, 8, 8]), polled(&[3, 4, 5])], [0, 0, 0]);
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
