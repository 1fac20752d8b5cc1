//! Timelines: the activity of each thread between its waits and messages, collected while a trace is read.
//!
//! A step is a call in which a thread waits, receives a message or sends one. The time between two steps is stored as
//! sums. The length of a timeline therefore depends on the thread's communication, not on the number of files it reads.

use std::collections::{BTreeMap, HashMap};

use dlio_schemas::evidence::{Child, ChildEnd, Waker};
use dlio_schemas::objects;
use foldhash::fast::RandomState;

use super::recent_calls::RecentCalls;
use crate::batch::Usage;
use crate::summary::time::intervals::Interval;
use crate::summary::tree::LaneId;

/// Activity of a thread in a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepKind {
    /// Receives bytes from a pipe or socket.
    Take,
    /// Sends bytes to a pipe or socket.
    Give,
    /// Waits for a semaphore, a condition, a connection.
    Wait,
    /// Waits until a GPU has done its work.
    Device,
    /// Waits until one of several descriptors is ready.
    Poll,
    /// Waits with a timeout for a condition, as Python threads do for the interpreter.
    TimedWait,
    Join,
    /// Waits for a child process.
    Child,
    /// Creates a child process.
    Fork,
    /// Sends a signal to a process.
    Kill,
    Sleep,
    /// Waits for a lock on a file.
    FileLock,
    /// Posts a semaphore shared between processes.
    Post,
    /// Looks up a host name.
    LookUp,
    Connect,
    Accept,
    /// Creates a socket pair.
    Pair,
    /// No call: one part of the thread's events ends here.
    Edge,
}

/// Object that a call waits on or transfers bytes through.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Object {
    /// Object id; 0 if unknown.
    pub id: u64,
    /// `true` for a connection to another host, or one that may be.
    pub network: bool,
}

/// A call in which a thread waits or communicates.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub start: i64,
    pub end: i64,
    pub kind: StepKind,
    /// `true` if the timeout expired.
    pub timed_out: bool,
    /// `true` if the thread that posted had taken the semaphore before: it is used as a lock. Also of a sleep after a lock
    /// on a file was refused.
    pub is_lock: bool,
    /// `true` if the object is shared between processes.
    pub shared: bool,
    pub object: Object,
    /// The thread that ended the wait; 0 if unknown.
    pub waker: i32,
    /// Time from the waker's post to the end of the wait. For a message that a call made of a file: the time of the call.
    pub woken: i64,
    /// Bytes transferred, or the process that was created or waited for.
    pub amount: i64,
    /// Time in calls on stored files since the previous step, time in calls on batch shared memory, and the start of
    /// the first call on that memory.
    pub storage: i64,
    pub memory: i64,
    pub memory_from: Option<i64>,
}

/// A socket whose other end was recorded.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    pub ts: i64,
    /// This end.
    pub object: u64,
    pub other: OtherEnd,
}

#[derive(Clone, Copy, Debug)]
pub enum OtherEnd {
    /// Created together with this one.
    Object(u64),
    /// In this process, which accepts connections, or which requested this one.
    Accepts(i32),
    Asked(i32),
}

/// A child process whose exit a call reported.
#[derive(Clone, Copy, Debug)]
pub struct Collected {
    pub ts: i64,
    pub pid: i32,
    pub ended: ChildEnd,
}

/// A signal sent to a process.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub ts: i64,
    pub pid: i32,
    pub signal: u8,
}

/// A call that made a file, or renamed one.
#[derive(Clone, Copy, Debug)]
pub struct MadeFile {
    pub ts: i64,
    pub file: FileMade,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileMade {
    /// Its object.
    New(u64),
    /// A file that got a new name: the hash of the directory in which it was.
    Renamed(u64),
}

/// The first file that a thread opened to read it after it had slept.
#[derive(Clone, Copy, Debug)]
pub struct OpenedFile {
    pub ts: i64,
    pub object: u64,
}

/// The parts of one thread's timeline.
#[derive(Default, Debug)]
pub struct ThreadPart {
    pub steps: Vec<Step>,
    /// Files that it made, and the directories of the missing files that it looked for, or slept before it opened them, by object.
    pub made_files: Vec<MadeFile>,
    pub missing_in: Vec<(u64, u64)>,
    pub opened: Vec<OpenedFile>,
    pub usage: Vec<Usage>,
    /// Spans in which it waits for its next batch.
    pub fetches: Vec<Interval>,
    /// Spans in which it starts the workers of a loader.
    pub loader_starts: Vec<Interval>,
    /// Spans of compute, communication and checkpoints, which show what its waits in them are for.
    pub tasks: Vec<Interval>,
    pub peers: Vec<Peer>,
    pub collected: Vec<Collected>,
    pub sent: Vec<Sent>,
    /// The first calls on stored files that were long enough to have reached storage.
    pub reads: Vec<Interval>,
    /// Time in calls on stored files, and the part of it in writes.
    pub stored_ns: i64,
    pub written_ns: i64,
    /// Calls that write and sync files, and the time between them while it saves a file.
    pub puts: Vec<Interval>,
    /// From opening files that it wrote to closing them.
    pub saves: Vec<Interval>,
    /// The first mapping of a data file.
    pub mapped: Option<i64>,
    pub first: Option<i64>,
}

/// Timelines of a part of a trace, by thread.
#[derive(Default)]
pub struct TimelinePart {
    index: HashMap<LaneId, usize, RandomState>,
    threads: Vec<(LaneId, ThreadPart)>,
    at: usize,
    /// End of the last addition, and the sums since the last step.
    cursor: i64,
    storage: i64,
    memory: i64,
    memory_from: Option<i64>,
    /// `true` if a lock on a file was refused since the last step.
    is_refused: bool,
    /// The object of the missing file that the last call looked for, and of the file that the last sleep was for; zero if none.
    missing: u64,
    awaited: u64,
    missing_file: u32,
    /// `true` if the thread slept since it opened a file.
    has_slept: bool,
    /// Number of steps before this part, and the end of the last step in it.
    before: usize,
    stepped: i64,
    /// Its last file calls, and the ends of spans after which no event followed yet, last one first.
    recent: RecentCalls,
    span_ends: Vec<i64>,
}

/// Counters read at the end of a step may differ from that end by this much.
const SAME_NS: i64 = 1_000;

/// Maximum number of steps stored per trace, at about 96 bytes each.
pub const STEPS_MAX: usize = 1 << 23;

/// Shorter calls were served from memory. The maximum number of calls per thread suffices to measure how calls slow
/// each other down.
const STORED_NS: i64 = 50_000;
const READS_MAX: usize = 1 << 12;

/// Maximum number of writes stored per trace, at 16 bytes each.
const PUTS_MAX: usize = 1 << 22;

/// Maximum number of files per thread that it made.
const MADE_MAX: usize = 1 << 16;

impl TimelinePart {
    /// Starts with a thread's events; `first` is the start of the first one.
    pub fn begin(&mut self, lane: LaneId, first: i64) {
        self.at = *self.index.entry(lane).or_insert_with(|| {
            self.threads.push((lane, ThreadPart::default()));
            self.threads.len() - 1
        });
        let thread = &mut self.threads[self.at].1;
        thread.first = Some(thread.first.map_or(first, |known| known.min(first)));
        self.before = thread.steps.len();
        (self.cursor, self.storage, self.memory, self.stepped) = (i64::MIN, 0, 0, i64::MIN);
        self.memory_from = None;
        self.is_refused = false;
        (self.missing, self.awaited) = (0, 0);
        self.has_slept = false;
        self.recent.begin(lane, first);
    }

    /// Sets whether the trace has spans that wait for batches: the file calls in each are known separately.
    pub fn divides_by_spans(&mut self, has_spans: bool) {
        self.recent.is_kept = has_spans;
    }

    /// Adds a call on a stored file, or on batch shared memory; `makes` is `true` if it allocates that memory, which is
    /// then filled. A thread that only queries the memory processes its contents next.
    #[inline(always)]
    pub fn file_call(&mut self, interval: Interval, (in_memory, makes): (bool, bool)) {
        if !self.span_ends.is_empty() {
            self.end_spans(interval.start);
        }
        if interval.start < self.stepped {
            self.swallow(interval.start);
        }
        let ns = interval.end - interval.start.max(self.cursor);
        if ns > 0 {
            if in_memory && makes {
                self.memory_from.get_or_insert(interval.start);
            }
            let reads = &mut self.threads[self.at].1.reads;
            if !in_memory && ns >= STORED_NS && reads.len() < READS_MAX {
                reads.push(interval);
            }
            self.recent.add(interval.start, ns, in_memory);
            *(if in_memory { &mut self.memory } else { &mut self.storage }) += ns;
            if !in_memory {
                let thread = &mut self.threads[self.at].1;
                thread.stored_ns += ns;
                thread.written_ns += if makes { ns } else { 0 };
            }
            self.cursor = interval.end;
        }
    }

    /// Notes that the last call asked for a lock on a file and did not get it: a sleep comes before the next attempt.
    pub fn lock_refused(&mut self) {
        self.is_refused = true;
    }

    /// Notes that a call looked for a file and did not find it, by its number and the hash of its name.
    #[inline(always)]
    pub fn missed_file(&mut self, file: u32, hash: u64) {
        (self.missing, self.missing_file) = (file_object(hash), file);
    }

    /// Before a sleep, sets the directory of the missing file that the last call looked for: the hash of its name, by the
    /// number of the file.
    pub fn sleeps_for_file(&mut self, folder: impl FnOnce(u32) -> u64) {
        let missing_in = &mut self.threads[self.at].1.missing_in;
        let is_new = missing_in.last().is_none_or(|(last, _)| *last != self.missing);
        if self.missing != 0 && is_new && missing_in.len() < MADE_MAX {
            missing_in.push((self.missing, folder(self.missing_file)));
        }
    }

    /// Returns `true` if the thread slept since it looked for this file, which was missing.
    #[inline(always)]
    pub fn awaits_file(&self, hash: u64) -> bool {
        self.awaited != 0 && self.awaited == file_object(hash)
    }

    /// Notes that a call found the file for which the thread had slept.
    pub fn found_file(&mut self) {
        let awaited = std::mem::take(&mut self.awaited);
        let steps = &mut self.threads[self.at].1.steps;
        let sleep = steps.iter_mut().rev().find(|step| step.kind != StepKind::Edge);
        if let Some(sleep) = sleep.filter(|step| step.kind == StepKind::Sleep && step.object.id == awaited) {
            sleep.amount = FOUND;
        }
    }

    /// Returns `true` if the thread slept since it last opened a file.
    #[inline(always)]
    pub fn has_slept(&self) -> bool {
        self.has_slept
    }

    /// Notes that a call opened a file to read it, for the first time since the thread slept: by the hashes of its name and of its
    /// directory.
    pub fn opened_file(&mut self, ts: i64, hash: u64, folder: u64) {
        self.has_slept = false;
        let thread = &mut self.threads[self.at].1;
        if thread.opened.len() < MADE_MAX && thread.missing_in.len() < MADE_MAX {
            thread.opened.push(OpenedFile { ts, object: file_object(hash) });
            thread.missing_in.push((file_object(hash), folder));
        }
    }

    /// Notes that a call made a file.
    pub fn made_file(&mut self, ts: i64, file: FileMade) {
        let made = &mut self.threads[self.at].1.made_files;
        if made.len() < MADE_MAX {
            made.push(MadeFile { ts, file });
        }
    }

    /// Adds a step; a call within the previous step is not a separate step.
    pub fn step(&mut self, step: Step) {
        if !self.span_ends.is_empty() {
            self.end_spans(step.start);
        }
        if step.end > step.start && step.start < self.stepped {
            self.swallow(step.start);
        }
        if step.end <= self.cursor && step.end > step.start {
            return;
        }
        let start = step.start.max(self.cursor);
        let (storage, memory) = (std::mem::take(&mut self.storage), std::mem::take(&mut self.memory));
        let memory_from = self.memory_from.take();
        self.cursor = self.cursor.max(step.end);
        self.stepped = self.cursor;
        let is_lock = step.is_lock || self.is_refused && step.kind == StepKind::Sleep;
        self.is_refused &= step.kind == StepKind::Edge;
        let object = self.object_of_step(&step);
        self.threads[self.at].1.steps.push(Step { start, storage, memory, memory_from, is_lock, object, ..step });
    }

    /// Returns the object of a step. That of a sleep after a look for a file is the file.
    fn object_of_step(&mut self, step: &Step) -> Object {
        match step.kind {
            StepKind::Edge => return step.object,
            StepKind::Sleep => (self.awaited, self.has_slept) = (std::mem::take(&mut self.missing), true),
            _ => (self.missing, self.awaited) = (0, 0),
        }
        let is_look = step.kind == StepKind::Sleep && self.awaited != 0;
        if is_look { Object { id: self.awaited, network: false } } else { step.object }
    }

    /// Removes steps within a call that started before them: they are part of that call.
    fn swallow(&mut self, start: i64) {
        let steps = &mut self.threads[self.at].1.steps;
        let is_inner = |step: &Step| step.start >= start && step.end > step.start;
        while let Some(inner) = steps.last().copied().filter(|step| steps.len() > self.before && is_inner(step)) {
            steps.pop();
            self.storage += inner.storage;
            self.memory += inner.memory;
            self.memory_from = inner.memory_from.or(self.memory_from);
            self.cursor = self.cursor.min(start);
        }
        self.stepped = steps[self.before..].last().map_or(i64::MIN, |step| step.end);
    }

    /// Adds an edge at the time of a kernel counter sample, unless a step ends there.
    pub fn counted(&mut self, ts: i64) {
        if ts > self.stepped.saturating_add(SAME_NS) {
            let at = ts.max(self.cursor);
            self.step(Step { start: at, end: at, ..Step::NOTHING });
        }
    }

    /// Adds the other end of a socket, as a call reported it.
    pub fn peer(&mut self, ts: i64, kind: StepKind, object: Object, (a, b): (u64, i64)) {
        let other = match kind {
            StepKind::Pair => OtherEnd::Object(tagged(Tag::Socket, b as u64)),
            StepKind::Accept => OtherEnd::Asked(a as i32),
            _ => OtherEnd::Accepts(a as i32),
        };
        if object.id != 0 && !object.network && a != 0 {
            self.threads[self.at].1.peers.push(Peer { ts, object: object.id, other });
        }
    }

    /// Adds the exit of a child, as a call reported it.
    pub fn collected(&mut self, ts: i64, child: Child) {
        let collected = child.ended.map(|ended| Collected { ts, pid: child.pid as i32, ended });
        self.threads[self.at].1.collected.extend(collected);
    }

    /// Adds a signal to another process.
    pub fn sent(&mut self, ts: i64, target: Child) {
        if let Some(ChildEnd::Signal(signal)) = target.ended {
            self.threads[self.at].1.sent.push(Sent { ts, pid: target.pid as i32, signal });
        }
    }

    /// Adds a mapping of a data file.
    pub fn mapped(&mut self, ts: i64) {
        let mapped = &mut self.threads[self.at].1.mapped;
        *mapped = Some(mapped.map_or(ts, |first| first.min(ts)));
    }

    /// Adds a time in which the thread wrote or synced a file.
    #[inline(always)]
    pub fn put(&mut self, interval: Interval) {
        self.threads[self.at].1.puts.push(interval);
    }

    /// Adds the time from opening a file that the thread wrote to closing it.
    pub fn saved(&mut self, interval: Interval) {
        self.threads[self.at].1.saves.push(interval);
    }

    /// Adds a span in which the thread waits for its next batch. The time inside it and the time outside are divided separately.
    pub fn fetch(&mut self, interval: Interval) {
        self.threads[self.at].1.fetches.push(interval);
        if self.recent.is_kept {
            self.begin_span(interval.start);
            let at = self.span_ends.partition_point(|end| *end > interval.end);
            self.span_ends.insert(at, interval.end);
        }
    }

    /// Adds an edge at the start of a span. The file calls since then are those of the next step.
    fn begin_span(&mut self, ts: i64) {
        let steps = &mut self.threads[self.at].1.steps;
        let at = steps.iter().rposition(|step| step.end <= ts).map_or(0, |before| before + 1);
        let next = steps.get_mut(at);
        let until = next.as_ref().map_or(i64::MAX, |step| step.end);
        let Some((storage, memory)) = self.recent.between(ts, until) else { return };
        if next.as_ref().is_some_and(|step| step.start < ts) {
            return;
        }
        let before = |all: &mut i64, inside: i64| {
            let kept = inside.min(*all);
            std::mem::replace(all, kept) - kept
        };
        let edge = match next {
            Some(step) => (before(&mut step.storage, storage), before(&mut step.memory, memory)),
            None => (before(&mut self.storage, storage), before(&mut self.memory, memory)),
        };
        steps.insert(at, Step { start: ts, end: ts, storage: edge.0, memory: edge.1, ..Step::NOTHING });
        self.before += usize::from(at < self.before);
        self.stepped = self.stepped.max(ts);
    }

    /// Adds an edge at the end of each span that had ended by a timestamp.
    fn end_spans(&mut self, by: i64) {
        while let Some(end) = self.span_ends.pop_if(|end| *end <= by) {
            self.step(Step { start: end, end, ..Step::NOTHING });
        }
    }

    pub fn task(&mut self, interval: Interval) {
        self.threads[self.at].1.tasks.push(interval);
    }

    pub fn loader_start(&mut self, interval: Interval) {
        self.threads[self.at].1.loader_starts.push(interval);
    }

    /// Ends the thread's events of this part, with the kernel's counters during it.
    pub fn end(&mut self, usage: &[Usage]) {
        self.threads[self.at].1.usage.extend_from_slice(usage);
        self.end_spans(i64::MAX);
        if self.cursor > i64::MIN {
            self.step(Step { start: self.cursor, end: self.cursor, ..Step::NOTHING });
        }
    }
}

/// A message is copied at this pace at least.
const COPYING_NS_PER_BYTE: i64 = 1;

/// A thread that sends a message for this much longer than copying it takes had to wait until it was taken.
pub const BLOCKED_NS: i64 = 1_000_000;

impl Step {
    /// Returns the longest time in which its bytes are copied.
    pub fn copying_ns(&self) -> i64 {
        COPYING_NS_PER_BYTE * self.amount.max(0)
    }

    /// Returns `true` if the thread received a message of a known object.
    pub fn is_receipt(&self) -> bool {
        self.kind == StepKind::Take && self.amount > 0 && self.object.id != 0
    }

    pub const NOTHING: Step = Step {
        start: 0,
        end: 0,
        kind: StepKind::Edge,
        timed_out: false,
        is_lock: false,
        shared: false,
        object: Object { id: 0, network: false },
        waker: 0,
        woken: 0,
        amount: 0,
        storage: 0,
        memory: 0,
        memory_from: None,
    };

    /// Sets the object of the wait, and the thread that ended it.
    pub fn wake(&mut self, waker: Waker, object: u64) {
        let has = |flag: u8| waker.flags & flag != 0;
        let id = if has(Waker::SHARED) { tagged(Tag::Semaphore, object) } else { object };
        self.object = Object { id, network: false };
        // The value was rounded down: the post was no later than that.
        self.woken = (waker.woken_us as i64 + 1) * 1_000;
        (self.waker, self.is_lock, self.shared) = (waker.tid as i32, has(Waker::BY_TAKER), has(Waker::SHARED));
    }
}

/// Number space of an object id.
#[derive(Clone, Copy)]
enum Tag {
    Semaphore = 1,
    Pipe,
    Socket,
    Eventfd,
    Network,
    Host,
    File,
}

/// Returns `true` for the object of a network connection, which is the same at both ends.
pub fn is_connection(object: u64) -> bool {
    object >> 56 == Tag::Network as u64
}

/// The amount of a sleep after which the file that the thread had looked for was there.
pub const FOUND: i64 = 1;

/// Returns the object of a file that a thread looks for.
pub fn file_object(hash: u64) -> u64 {
    tagged(Tag::File, hash)
}

fn tagged(tag: Tag, id: u64) -> u64 {
    id & (u64::MAX >> 8) | (tag as u64) << 56
}

/// Returns `true` for the object of a file that a thread looks for.
pub fn is_file_object(id: u64) -> bool {
    id >> 56 == Tag::File as u64
}

/// Returns the object of a file that is not a stored file, by its name.
pub fn object_of(name: &str) -> Object {
    let Some(object) = objects::Object::parse(name) else { return Object::default() };
    let (tag, network) = match object.kind {
        objects::Kind::Pipe => (Tag::Pipe, false),
        objects::Kind::Socket => (Tag::Socket, false),
        objects::Kind::Eventfd => (Tag::Eventfd, false),
        objects::Kind::Tcp | objects::Kind::Udp | objects::Kind::TcpListening => (Tag::Network, true),
        objects::Kind::Host => (Tag::Host, true),
    };
    Object { id: tagged(tag, object.id), network }
}

/// The timelines of a trace.
#[derive(Default)]
pub struct Timelines {
    pub threads: BTreeMap<LaneId, ThreadPart>,
    pub(super) steps: usize,
    pub(super) puts: usize,
    /// `true` if the trace has more writes than the limit: then none are known.
    pub lacks_puts: bool,
    /// `true` if the trace has more steps than the limit: then waits are not explained.
    pub is_cut: bool,
}

impl Timelines {
    pub fn take(&mut self, part: TimelinePart) {
        self.steps += part.threads.iter().map(|(_, thread)| thread.steps.len()).sum::<usize>();
        if self.steps > STEPS_MAX {
            self.is_cut = true;
            self.threads.clear();
        }
        if self.is_cut {
            return;
        }
        self.puts += part.threads.iter().map(|(_, thread)| thread.puts.len() + thread.saves.len()).sum::<usize>();
        if self.puts > PUTS_MAX {
            self.lacks_puts = true;
            self.threads.values_mut().for_each(|thread| (thread.puts, thread.saves) = (Vec::new(), Vec::new()));
        }
        for (lane, mut piece) in part.threads {
            let thread = self.threads.entry(lane).or_default();
            thread.steps.append(&mut piece.steps);
            thread.usage.append(&mut piece.usage);
            thread.fetches.append(&mut piece.fetches);
            thread.loader_starts.append(&mut piece.loader_starts);
            thread.tasks.append(&mut piece.tasks);
            thread.peers.append(&mut piece.peers);
            thread.collected.append(&mut piece.collected);
            thread.sent.append(&mut piece.sent);
            thread.made_files.append(&mut piece.made_files);
            thread.missing_in.append(&mut piece.missing_in);
            thread.opened.append(&mut piece.opened);
            thread.reads.append(&mut piece.reads);
            if !self.lacks_puts {
                thread.puts.append(&mut piece.puts);
                thread.saves.append(&mut piece.saves);
            }
            thread.stored_ns += piece.stored_ns;
            thread.written_ns += piece.written_ns;
            thread.reads.truncate(READS_MAX);
            thread.made_files.truncate(MADE_MAX);
            thread.first = [thread.first, piece.first].into_iter().flatten().min();
            thread.mapped = [thread.mapped, piece.mapped].into_iter().flatten().min();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_inside_a_read_is_a_part_of_the_read() {
        let mut part = TimelinePart::default();
        part.begin(LaneId { proc: 0, tid: 1 }, 0);
        part.step(Step { start: 0, end: 10, kind: StepKind::Sleep, ..Step::NOTHING });
        part.step(Step { start: 110, end: 190, kind: StepKind::Sleep, ..Step::NOTHING });
        part.file_call(Interval { start: 100, end: 200 }, (false, false));
        part.step(Step { start: 300, end: 310, kind: StepKind::Give, ..Step::NOTHING });
        let mut all = Timelines::default();
        all.take(part);
        let steps = &all.threads.values().next().unwrap().steps;
        let kinds: Vec<_> = steps.iter().map(|step| (step.kind, step.storage)).collect();
        assert_eq!(kinds, [(StepKind::Sleep, 0), (StepKind::Give, 100)]);
    }

    /// A span is recorded when it ends; some formats list it when it starts.
    #[test]
    fn file_calls_inside_a_span_are_known_separately() {
        let call = |start: i64| Interval { start, end: start + 20 };
        let span = Interval { start: 150, end: 350 };
        let stored = |is_first: bool| {
            let mut part = TimelinePart::default();
            part.divides_by_spans(true);
            part.begin(LaneId { proc: 0, tid: 1 }, 0);
            part.file_call(call(100), (false, false));
            is_first.then(|| part.fetch(span));
            part.file_call(call(200), (false, false));
            part.step(Step { start: 240, end: 250, kind: StepKind::FileLock, ..Step::NOTHING });
            part.file_call(call(300), (false, false));
            (!is_first).then(|| part.fetch(span));
            part.file_call(call(400), (false, false));
            part.end(&[]);
            let mut all = Timelines::default();
            all.take(part);
            let steps = &all.threads.values().next().unwrap().steps;
            steps.iter().map(|step| (step.end, step.storage)).collect::<Vec<_>>()
        };
        assert_eq!(stored(false), [(150, 20), (250, 20), (350, 20), (420, 20)]);
        assert_eq!(stored(true), stored(false));
    }
}
