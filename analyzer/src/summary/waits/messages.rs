//! Messages between a trainer and its readers: requests and batches.

use std::collections::{BTreeMap, BTreeSet};

use super::family::Family;
use super::thread::Thread;
use super::timeline::{Step, StepKind};

/// A message that was sent and received.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub object: u64,
    /// The threads that sent and received it.
    pub from: usize,
    pub to: usize,
    pub sent: (i64, i64),
    /// From when the receiver started to wait for it until the last byte was received.
    pub taken: (i64, i64),
    pub bytes: i64,
}

/// Messages of a trainer and its readers.
pub struct Messages {
    /// In order of time: from the trainer to readers, and back.
    pub requests: Vec<Message>,
    pub batches: Vec<Message>,
    /// `true` if several readers receive requests from one object.
    pub is_shared: bool,
}

/// Work of less than this does not separate two messages of one step.
pub const PAUSE_NS: i64 = 1_000_000;

/// The tag of pipes in an object id.
pub const PIPE: u64 = 2;

/// Fewer messages than this do not show a pattern.
const MESSAGES_MIN: usize = 5;

/// Length of the header that precedes a message on a Python connection.
pub const HEADER: i64 = 4;

#[derive(Clone, Copy)]
struct End {
    thread: usize,
    start: i64,
    end: i64,
    bytes: i64,
}

#[derive(Default)]
struct Ends {
    sent: Vec<End>,
    taken: Vec<End>,
}

impl Messages {
    pub fn between(family: &Family, trainer: usize) -> Result<Messages, String> {
        let own = family.threads[trainer].lane.proc;
        let is_reader = |thread: usize| family.is_below(family.threads[thread].lane.proc, own);
        let is_own = |thread: usize| family.threads[thread].lane.proc == own;
        let mut objects: BTreeMap<u64, Ends> = BTreeMap::new();
        for thread in (0..family.threads.len()).filter(|&thread| is_own(thread) || is_reader(thread)) {
            add(&family.threads[thread], thread, &mut objects);
        }
        let (mut requests, mut batches, mut is_shared) = (Vec::new(), Vec::new(), false);
        let has_pipes = objects.iter().any(|(object, ends)| {
            object >> 56 == PIPE
                && ends.sent.len() >= MESSAGES_MIN
                && ends.sent.iter().any(|sent| is_reader(sent.thread))
        });
        for (object, ends) in objects.iter_mut().filter(|(object, _)| !has_pipes || **object >> 56 == PIPE) {
            let any = |ends: &[End], is: &dyn Fn(usize) -> bool| ends.iter().any(|end| is(end.thread));
            let is_batches = any(&ends.sent, &is_reader) && any(&ends.taken, &is_own);
            let is_requests = any(&ends.sent, &is_own) && any(&ends.taken, &is_reader);
            if is_batches == is_requests {
                continue;
            }
            ends.sent.sort_by_key(|end| end.start);
            ends.taken.sort_by_key(|end| end.end);
            let pairs = ends.sent.iter().zip(&ends.taken);
            let message = |(sent, taken): (&End, &End)| Message {
                object: *object,
                from: sent.thread,
                to: taken.thread,
                sent: (sent.start, sent.end),
                taken: (taken.start, taken.end),
                bytes: sent.bytes,
            };
            if is_requests {
                let takers: BTreeSet<u32> =
                    ends.taken.iter().map(|taken| family.threads[taken.thread].lane.proc).collect();
                is_shared |= takers.len() > 1;
                requests.extend(pairs.map(message));
            } else {
                batches.extend(pairs.map(message));
            }
        }
        let mut requests = through_queues(family, requests);
        let mut batches = of_asked(family, batches, &requests);
        requests.sort_by_key(|message: &Message| message.sent);
        batches.sort_by_key(|message: &Message| message.sent);
        let found = Messages { requests, batches, is_shared };
        found.checked(trainer)
    }

    fn checked(self, trainer: usize) -> Result<Messages, String> {
        if self.batches.len() < MESSAGES_MIN {
            return Err(
                "threads, or the trainer itself, make the batches, and only reader processes can be replayed".into()
            );
        }
        if 2 * self.batches.iter().filter(|message| message.to == trainer).count() < self.batches.len() {
            return Err(
                "another thread of the trainer takes the batches (pin_memory=True, a pool): the trace does not show \
                        when training gets them"
                    .into(),
            );
        }
        if self.requests.len() < MESSAGES_MIN.min(self.batches.len()) {
            return Err("readers make batches without being asked: how far ahead they may be is not known".into());
        }
        Ok(self)
    }
}

/// Returns the requests through the object from which a reader receives most messages. Others contain its start
/// parameters: a reader that is spawned receives them before it imports its modules.
fn through_queues(family: &Family, requests: Vec<Message>) -> Vec<Message> {
    let reader = |message: &Message| family.threads[message.to].lane.proc;
    let mut counts: BTreeMap<u32, BTreeMap<u64, usize>> = BTreeMap::new();
    for message in &requests {
        *counts.entry(reader(message)).or_default().entry(message.object).or_default() += 1;
    }
    let queue =
        |objects: &BTreeMap<u64, usize>| objects.iter().max_by_key(|(_, count)| **count).map(|(object, _)| *object);
    let queues: BTreeMap<u32, Option<u64>> = counts.iter().map(|(proc, objects)| (*proc, queue(objects))).collect();
    requests.into_iter().filter(|message| queues[&reader(message)] == Some(message.object)).collect()
}

/// Returns the messages of processes that receive requests, if those are most of all. Others report on themselves, such as a
/// fork server on the processes that it starts.
fn of_asked(family: &Family, batches: Vec<Message>, requests: &[Message]) -> Vec<Message> {
    let proc = |thread: usize| family.threads[thread].lane.proc;
    let asked: BTreeSet<u32> = requests.iter().map(|request| proc(request.to)).collect();
    let is_asked = |batch: &&Message| asked.contains(&proc(batch.from));
    match 2 * batches.iter().filter(is_asked).count() > batches.len() {
        true => batches.into_iter().filter(|batch| is_asked(&batch)).collect(),
        false => batches,
    }
}

/// Adds the ends of messages that a thread sent and received.
fn add(thread: &Thread, number: usize, objects: &mut BTreeMap<u64, Ends>) {
    let mut has_headers: BTreeMap<u64, bool> = BTreeMap::new();
    for step in thread.takes() {
        *has_headers.entry(step.object.id).or_default() |= step.amount == HEADER;
    }
    // Per object, `true` if the last transfer was a header.
    let (mut sending, mut taking): (BTreeMap<u64, bool>, BTreeMap<u64, bool>) = Default::default();
    for (at, step) in thread.steps.iter().enumerate().filter(|(_, step)| step.object.id != 0 && step.amount > 0) {
        let object = step.object.id;
        let end = End { thread: number, start: step.start, end: step.end, bytes: step.amount };
        match step.kind {
            StepKind::Give => {
                let ends = objects.entry(object).or_default();
                let is_header = sending.entry(object).or_default();
                match ends.sent.last_mut().filter(|last| *is_header && last.thread == number) {
                    Some(last) => {
                        last.end = step.end;
                        last.bytes += step.amount;
                        *is_header = false;
                    }
                    None => {
                        ends.sent.push(end);
                        *is_header = step.amount == HEADER;
                    }
                }
            }
            StepKind::Take => {
                let ends = objects.entry(object).or_default();
                let was_header = taking.insert(object, false).unwrap_or(false);
                let is_rest = has_headers[&object] && (was_header || step.amount != HEADER);
                match ends.taken.last_mut().filter(|last| is_rest && last.thread == number) {
                    Some(last) => last.end = step.end,
                    None => {
                        ends.taken.push(End { start: waited_since(thread, at), ..end });
                        taking.insert(object, step.amount == HEADER);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Returns the time at which a thread started to wait for the bytes it receives in a step.
pub fn waited_since(thread: &Thread, at: usize) -> i64 {
    let mut since = thread.steps[at].start;
    for step in thread.steps[..at].iter().rev() {
        let waits = matches!(step.kind, StepKind::Poll | StepKind::Wait | StepKind::TimedWait);
        if since - step.end >= PAUSE_NS || !waits && !passes(step) {
            break;
        }
        if waits {
            since = step.start;
        }
    }
    since
}

fn passes(step: &Step) -> bool {
    matches!(step.kind, StepKind::Post | StepKind::Edge)
}
