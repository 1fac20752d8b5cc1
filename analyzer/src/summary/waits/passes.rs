//! Productions of batches, and the passes over a loader that they belong to.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::family::Family;
use super::messages::{Message, Messages};

/// The production of one batch.
#[derive(Clone, Copy, Debug)]
pub struct Production {
    /// The process that made it, and the thread that received the request.
    pub reader: u32,
    pub thread: usize,
    /// The thread that sent the batch.
    pub sender: usize,
    /// The request: from the start of sending to the end.
    pub asked: (i64, i64),
    /// Start of the time in which the reader could take the request: the end of the previous batch.
    pub idle: i64,
    pub begin: i64,
    pub end: i64,
    /// Time at which the message could be received: the end of sending, or its start if the message is large.
    pub sent: i64,
    /// From when the trainer started to wait for it until it was received.
    pub taken: (i64, i64),
    /// `true` if the answer has the size of the request, as if it were sent back.
    pub is_echo: bool,
}

/// The productions of one pass, in the order in which they were requested.
pub struct PassMade {
    pub productions: Vec<Production>,
    /// Processes that make its batches; `true` if they were created for this pass.
    pub readers: Vec<u32>,
    pub is_fresh: bool,
    /// Start of the first request of the pass, or of the earlier messages that only resume readers.
    pub requested_from: i64,
}

/// Assigns the first requests round-robin: they pass through one thread per reader and leave in any order.
fn take_turns(productions: &mut [Production], readers: &[u32]) {
    let first_taken = productions.iter().map(|made| made.taken.1).min().unwrap_or(i64::MAX);
    let first = productions.partition_point(|made| made.asked.0 < first_taken);
    let mut ranks: BTreeMap<u32, usize> = BTreeMap::new();
    let place = |made: &Production| {
        let rank = ranks.entry(made.reader).or_default();
        *rank += 1;
        (*rank, readers.iter().position(|proc| *proc == made.reader))
    };
    productions[..first].sort_by_cached_key(place);
}

/// A message that takes at least this long to send waits for its receiver.
const LARGE_NS: i64 = 1_000_000;

/// A reader that is resumed sends the request back, in a tuple that adds this many bytes at most.
const ECHO_BYTES: u64 = 8;

/// The messages between a trainer and its readers, and the passes in which the readers made its batches.
pub struct Exchange {
    pub messages: Messages,
    /// The reason if there are none.
    pub passes: Result<Vec<PassMade>, String>,
}

impl Exchange {
    /// Returns the exchange of a trainer, or the reason why it is unknown.
    pub fn of(family: &Family, trainer: usize) -> Result<Exchange, String> {
        let messages = Messages::between(family, trainer)?;
        let passes = split(family, &messages);
        Ok(Exchange { messages, passes })
    }
}

/// Splits productions into passes, in the order in which they were requested.
fn split(family: &Family, messages: &Messages) -> Result<Vec<PassMade>, String> {
    let all = productions(family, messages)?;
    let mut found = Vec::new();
    for (readers, made) in generations(family, all) {
        let passes = by_resumes(&readers, &made).unwrap_or_else(|| by_pause(made));
        for (at, (requested_from, mut productions)) in passes.into_iter().enumerate() {
            if !messages.is_shared {
                take_turns(&mut productions, &readers);
            }
            found.push(PassMade { productions, readers: readers.clone(), is_fresh: at == 0, requested_from });
        }
    }
    found.sort_by_key(|pass| pass.requested_from);
    if found.windows(2).any(|pair| ends(&pair[0]) > pair[1].requested_from) {
        return Err("two loaders are used at the same time".into());
    }
    Ok(found)
}

fn ends(pass: &PassMade) -> i64 {
    pass.productions.iter().map(|made| made.taken.1).max().unwrap_or(i64::MIN)
}

/// Returns all productions, in the order of their requests.
fn productions(family: &Family, messages: &Messages) -> Result<Vec<Production>, String> {
    let mut requests: BTreeMap<u32, VecDeque<Message>> = BTreeMap::new();
    for request in &messages.requests {
        requests.entry(family.threads[request.to].lane.proc).or_default().push_back(*request);
    }
    let mut found = Vec::new();
    let mut unasked = 0;
    for (reader, made) in by_reader(family, &messages.batches) {
        let requests = requests.entry(reader).or_default();
        requests.make_contiguous().sort_by_key(|request| request.taken.1);
        let mut free: Option<i64> = None;
        for message in made {
            let Some(request) = requests.pop_front().filter(|request| request.taken.1 <= message.sent.1) else {
                unasked += 1;
                continue;
            };
            let begin = request.taken.1;
            let next = requests.front().map_or(i64::MAX, |next| next.taken.0);
            let is_own = message.from == request.to;
            let end = match is_own {
                true => message.sent.1,
                false if next > begin => next.min(message.sent.0),
                false => message.sent.0,
            };
            let idle = free.unwrap_or(request.taken.0);
            let end = end.max(begin);
            free = Some(end);
            let (thread, sender, asked) = (request.to, message.from, request.sent);
            // A message that does not fit into a pipe is received while it is being sent.
            let is_large = message.sent.1 - message.sent.0 >= LARGE_NS;
            let sent = if is_large { message.sent.0 } else { message.sent.1 };
            let taken = message.taken;
            let is_echo = message.bytes.abs_diff(request.bytes) <= ECHO_BYTES;
            found.push(Production { reader, thread, sender, asked, idle, begin, end, sent, taken, is_echo });
        }
    }
    if unasked * 20 > messages.batches.len() {
        return Err(format!(
            "{unasked} of {} batches were sent without a request, so the order of requests is unknown",
            messages.batches.len()
        ));
    }
    found.sort_by_key(|made| made.asked);
    Ok(found)
}

/// Groups readers that are alive at the same time, with their productions.
fn generations(family: &Family, all: Vec<Production>) -> Vec<(Vec<u32>, Vec<Production>)> {
    let procs: BTreeSet<u32> = all.iter().map(|made| made.reader).collect();
    let first = |proc: u32| family.first_thread(proc).map_or(0, |thread| family.threads[thread].born);
    let born = |proc: u32| family.processes[proc as usize].start_ts.unwrap_or_else(|| first(proc));
    let last = |proc: u32| all.iter().filter(|made| made.reader == proc).map(|made| made.taken.1).max().unwrap_or(0);
    let mut procs: Vec<(i64, i64, u32)> = procs.into_iter().map(|proc| (born(proc), last(proc), proc)).collect();
    procs.sort_unstable();
    let mut groups: Vec<(i64, Vec<u32>)> = Vec::new();
    for (born, last, proc) in procs {
        match groups.last_mut().filter(|(ends, _)| born < *ends) {
            Some((ends, group)) => {
                *ends = last.max(*ends);
                group.push(proc);
            }
            None => groups.push((last, vec![proc])),
        }
    }
    let group_of: BTreeMap<u32, usize> =
        (0..groups.len()).flat_map(|at| groups[at].1.iter().map(move |&proc| (proc, at)).collect::<Vec<_>>()).collect();
    let mut found: Vec<(Vec<u32>, Vec<Production>)> =
        groups.into_iter().map(|(_, readers)| (readers, Vec::new())).collect();
    for made in all {
        found[group_of[&made.reader]].1.push(made);
    }
    found
}

/// Requests at the start of a pass follow each other within this time.
const REQUEST_NS: i64 = 2_000_000;

/// The productions of a pass, and the time of its first request, or of the messages that resumed readers for it.
type Asked = (i64, Vec<Production>);

fn asked(productions: Vec<Production>) -> Asked {
    (productions.first().map_or(0, |made| made.asked.0), productions)
}

/// Splits productions where readers are resumed: each receives a message, which it sends back, before any of them
/// receives the next request. Such messages are not batches. `None` if there are none, or if most answers have the size
/// of their request anyway.
fn by_resumes(readers: &[u32], all: &[Production]) -> Option<Vec<Asked>> {
    let is_all = |group: &[Production]| {
        let echoes: BTreeSet<u32> = group.iter().filter(|made| made.is_echo).map(|made| made.reader).collect();
        echoes.len() == readers.len()
    };
    let mut found: Vec<Asked> = Vec::new();
    let (mut at, mut resumed) = (0, 0);
    while let Some(made) = all.get(at) {
        let group = all.get(at..at + readers.len()).unwrap_or_default();
        let is_over = |group: &[Production]| {
            let received = group.iter().map(|made| made.taken.1).max().unwrap_or(i64::MAX);
            all.get(at + group.len()).is_some_and(|next| next.asked.1 >= received)
        };
        if at > 0 && is_all(group) && is_over(group) {
            found.push((made.asked.0, Vec::new()));
            at += group.len();
            resumed += group.len();
            continue;
        }
        if found.is_empty() {
            found.push((made.asked.0, Vec::new()));
        }
        found.last_mut().expect("one was pushed").1.push(*made);
        at += 1;
    }
    found.retain(|(_, productions)| !productions.is_empty());
    (resumed > 0 && 2 * resumed <= all.len()).then_some(found)
}

/// Splits productions at points where all requests had been answered and received.
fn by_pause(all: Vec<Production>) -> Vec<Asked> {
    let first_taken = all.iter().map(|made| made.taken.1).min().unwrap_or(i64::MAX);
    let ahead = all.iter().filter(|made| made.asked.0 < first_taken).count();
    if ahead < 2 {
        return vec![asked(all)];
    }
    let mut found: Vec<Vec<Production>> = Vec::new();
    let mut taken = i64::MIN;
    for (at, made) in all.iter().enumerate() {
        // A batch that is stored until its turn has also been received, but only a pass starts with that many requests
        // at the same time.
        let begins = || {
            let first = &all[at..(at + ahead).min(all.len())];
            let lasted = first.last().map_or(0, |last| last.asked.0) - made.asked.0;
            first.len() == ahead && lasted < REQUEST_NS * ahead as i64 && first.iter().all(|one| one.asked.0 > taken)
        };
        if found.is_empty() || made.asked.0 > taken && begins() {
            found.push(Vec::new());
        }
        taken = taken.max(made.taken.1);
        found.last_mut().expect("one was pushed").push(*made);
    }
    found.into_iter().map(asked).collect()
}

/// Groups messages by reader.
fn by_reader(family: &Family, messages: &[Message]) -> BTreeMap<u32, Vec<Message>> {
    let mut found: BTreeMap<u32, Vec<Message>> = BTreeMap::new();
    for message in messages {
        found.entry(family.threads[message.from].lane.proc).or_default().push(*message);
    }
    found
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    pub fn made(reader: u32, asked: i64, taken: i64, is_echo: bool) -> Production {
        Production {
            reader,
            thread: reader as usize,
            sender: reader as usize,
            asked: (asked, asked),
            idle: asked,
            begin: asked,
            end: taken,
            sent: taken,
            taken: (asked, taken),
            is_echo,
        }
    }

    /// Returns a pass of two readers with two requests each in advance. An answer takes 20 ms.
    fn pass(from: i64) -> Vec<Production> {
        (0..8)
            .map(|at| made(at as u32 % 2, from + (at - 3).max(0) * 10 * MS, from + (at + 2) * 10 * MS, false))
            .collect()
    }

    #[test]
    fn messages_that_resume_readers_begin_a_pass() {
        let mut all = pass(0);
        // On a busy host it takes long until both readers have answered.
        all.extend([made(0, 200 * MS, 204 * MS, true), made(1, 201 * MS, 260 * MS, true)]);
        all.extend(pass(261 * MS));
        let found = by_resumes(&[0, 1], &all).unwrap();
        let starts: Vec<(i64, usize)> = found.iter().map(|(from, made)| (*from, made.len())).collect();
        assert_eq!(starts, [(0, 8), (200 * MS, 8)]);
    }

    #[test]
    fn batches_as_small_as_their_requests_resume_nobody() {
        let all: Vec<Production> = pass(0).into_iter().map(|made| Production { is_echo: true, ..made }).collect();
        assert!(by_resumes(&[0, 1], &all).is_none());
        assert!(by_resumes(&[0, 1], &pass(0)).is_none());
    }
}
