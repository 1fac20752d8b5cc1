//! Relations between all threads of a trace: which thread sends to which, and which thread ended a wait.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use dlio_schemas::evidence::ChildEnd;
use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};

use super::awaited_files::MadeFiles;
use super::parts::Part;
use super::polls;
use super::thread::{Thread, WAIT_NS, received_through};
use super::timeline::{Collected, Object, OtherEnd, Sent, Step, StepKind, ThreadPart, Timelines, is_connection};
use crate::catalog::Process;
use crate::summary::tree::{LaneId, SPAWNED, above, is_shell, parents};

/// The thread or event that ended a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ender {
    /// A thread, with the timestamp of its act.
    Thread(Act),
    /// The exit of a thread or process; for a process, the act is that of its main thread.
    Exit(Act),
    /// Nothing ended it: the thread that would have made the item had itself ended before or during the wait.
    Dead(Act),
    /// The timeout expired.
    Timer,
    /// The other end of a connection whose process is not in the trace.
    Remote,
    /// Unknown.
    Nobody,
}

impl Ender {
    /// Returns the thread that ended the wait, and the time.
    pub fn act(self) -> Option<Act> {
        match self {
            Ender::Thread(act) | Ender::Exit(act) => Some(act),
            _ => None,
        }
    }
}

/// An act of a thread, and its time: sending a message, posting a semaphore or releasing a lock, or exiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Act {
    pub thread: usize,
    pub at: i64,
}

/// If a thread works for at least this long between two pieces of a stream, it made the second piece in that time.
const PIECE_NS: i64 = 100_000;

struct Give {
    start: i64,
    end: i64,
    thread: usize,
    /// `true` if one call reads a file and sends its contents, as sendfile does.
    reads: bool,
}

impl Give {
    /// Returns the act by which a thread made a message that another one had received by a timestamp.
    fn act(&self, by: i64) -> Act {
        Act { thread: self.thread, at: if self.reads { self.end.min(by) } else { self.start } }
    }
}

/// The threads and processes at both ends of messages.
struct MessageEnds {
    gives: HashMap<u64, Vec<Give>, RandomState>,
    given: HashMap<u32, BTreeSet<u64>, RandomState>,
    takers: HashMap<u64, BTreeSet<u32>, RandomState>,
}

impl MessageEnds {
    fn of(threads: &[Thread]) -> MessageEnds {
        let mut gives: HashMap<u64, Vec<Give>, RandomState> = HashMap::default();
        for (number, thread) in threads.iter().enumerate() {
            let given = thread.steps.iter().filter(|step| matches!(step.kind, StepKind::Give | StepKind::Post));
            for step in given.filter(|step| step.object.id != 0) {
                let reads = step.kind == StepKind::Give && step.woken > 0;
                let start = if reads { step.start - step.woken } else { step.start };
                let give = Give { start, end: step.end, thread: number, reads };
                gives.entry(step.object.id).or_default().push(give);
            }
        }
        gives.values_mut().for_each(|list| list.sort_by_key(|give| give.start));
        let mut given: HashMap<u32, BTreeSet<u64>, RandomState> = HashMap::default();
        for (object, list) in &gives {
            list.iter().for_each(|give| {
                given.entry(threads[give.thread].lane.proc).or_default().insert(*object);
            });
        }
        let mut takers: HashMap<u64, BTreeSet<u32>, RandomState> = HashMap::default();
        for thread in threads {
            thread.takes().for_each(|step| {
                takers.entry(step.object.id).or_default().insert(thread.lane.proc);
            });
        }
        MessageEnds { gives, given, takers }
    }
}

/// All threads, with the relations between them.
pub struct Family<'a> {
    pub threads: Vec<Thread>,
    pub processes: &'a [Process],
    pub parents: Vec<Option<u32>>,
    by_lane: BTreeMap<LaneId, usize>,
    /// Children by parent and pid, in the order in which they started.
    children: HashMap<(u32, i32), Vec<u32>, RandomState>,
    /// The thread that requested each connection.
    connected: HashMap<u64, usize, RandomState>,
    /// Messages by object, in order of their starts.
    gives: HashMap<u64, Vec<Give>, RandomState>,
    /// Objects through which a process sends messages.
    given: HashMap<u32, BTreeSet<u64>, RandomState>,
    /// Processes that receive messages through an object.
    takers: HashMap<u64, BTreeSet<u32>, RandomState>,
    /// Threads that communicate with other ranks for the first thread of their process, and those of twins.
    pub communicators: BTreeSet<usize>,
    /// Threads that read files for most of the items that they wait for.
    pub item_readers: BTreeSet<usize>,
    /// Processes that run a program which was started once or twice, not once per item.
    lasting: BTreeSet<u32>,
    /// Processes killed by a signal, as reported to their parents.
    pub killed: Vec<Killed>,
    /// `true` if the trace has too many writes: then none are known.
    pub lacks_puts: bool,
}

/// A process killed by a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Killed {
    pub proc: u32,
    pub signal: u8,
    /// Time of the last event of the process, or of the signal if a traced process sent the signal. The process ended after
    /// this time.
    pub last: i64,
    /// Time at which its parent received the exit status.
    pub known: i64,
    /// The traced process that sent the signal.
    #[serde(default)]
    pub killer: Option<u32>,
}

/// Returns `true` for a signal with which a parent, a user or a terminal asks a process to exit, as loaders ask their readers.
pub fn asks_to_end(signal: u8) -> bool {
    /// Linux numbers of SIGHUP, SIGINT, SIGPIPE and SIGTERM.
    const ASKS: [u8; 4] = [1, 2, 13, 15];
    ASKS.contains(&signal)
}

/// Returns one list of all threads' timelines, with the process of each item.
fn by_process<T: Copy>(timelines: &Timelines, list: impl Fn(&ThreadPart) -> &Vec<T>) -> Vec<(u32, T)> {
    let mut all = Vec::new();
    for (lane, thread) in &timelines.threads {
        all.extend(list(thread).iter().map(|item| (lane.proc, *item)));
    }
    all
}

/// A step that follows a wait within this time shows the object of the wait.
pub const NEXT_NS: i64 = 1_000_000;

/// Fewer messages than this after sleeps do not show that a thread polls.
const POLLS_MIN: usize = 3;

/// Minimum number of items to estimate the time per item.
const ITEMS_MIN: usize = 3;

/// A process prepares during its first item if it works on that item for `PREPARES_NS` longer, and `PREPARES` times as long, as
/// on others.
const PREPARES_NS: i64 = 50_000_000;
const PREPARES: i64 = 4;

/// The process prepares only if its first item takes more than this many times the CPU time of the largest other item.
const LARGEST: i64 = 2;

/// A process that gets data from its parent only at its start receives fewer messages than this from it.
const ASKED_MIN: usize = 8;

/// A process that supplies another one sends it this many times the bytes that it receives from it.
const SUPPLY: i64 = 10;

/// Maximum number of messages of one object that may be in flight at the same time.
const UNDER_WAY: usize = 8;

impl<'a> Family<'a> {
    pub fn new(mut timelines: Timelines, processes: &'a [Process]) -> Family<'a> {
        let (ends, lacks_puts) = (ends(&timelines, processes), timelines.lacks_puts);
        let asked = |(lane, thread): (&LaneId, &ThreadPart)| {
            let asks = thread.peers.iter().filter(|peer| matches!(peer.other, OtherEnd::Accepts(_)));
            asks.map(|peer| (peer.object, *lane)).collect::<Vec<_>>()
        };
        let asked: Vec<(u64, LaneId)> = timelines.threads.iter().flat_map(asked).collect();
        for step in timelines.threads.values_mut().flat_map(|thread| &mut thread.steps) {
            step.object.id = ends.get(&step.object.id).copied().unwrap_or(step.object.id);
        }
        let collected = by_process(&timelines, |thread| &thread.collected);
        let sent = by_process(&timelines, |thread| &thread.sent);
        let is_first = |lane: LaneId| processes.get(lane.proc as usize).is_some_and(|process| process.pid == lane.tid);
        let files = timelines.threads.values().map(|thread| (&thread.made_files[..], &thread.missing_in[..]));
        let made_files = MadeFiles::of(files);
        let threads: Vec<Thread> =
            timelines.threads.into_iter().map(|(lane, part)| Thread::new(lane, is_first(lane), part)).collect();
        let by_lane = threads.iter().enumerate().map(|(number, thread)| (thread.lane, number)).collect();
        let MessageEnds { gives, given, takers } = MessageEnds::of(&threads);
        let parents = parents(processes);
        let mut children: HashMap<(u32, i32), Vec<u32>, RandomState> = HashMap::default();
        for (number, (process, parent)) in processes.iter().zip(&parents).enumerate() {
            parent.iter().for_each(|parent| children.entry((*parent, process.pid)).or_default().push(number as u32));
        }
        let (connected, communicators, killed) = (HashMap::default(), BTreeSet::new(), Vec::new());
        let (item_readers, lasting) = (BTreeSet::new(), lasting_programs(processes, &parents));
        let mut family = Family {
            threads,
            processes,
            parents,
            by_lane,
            children,
            connected,
            gives,
            given,
            takers,
            communicators,
            item_readers,
            lasting,
            killed,
            lacks_puts,
        };
        family.killed = family.killed_of(&collected, &sent);
        family.connected =
            asked.into_iter().filter_map(|(object, lane)| Some((object, family.thread_of(lane)?))).collect();
        family.name_polls_for_others();
        family.find_remote_polls();
        family.find_traced_servers();
        family.find_polls();
        family.find_awaited_files(&made_files);
        family.find_ready_messages();
        family.find_made_pieces();
        family.find_output_of_programs();
        family.find_shared_locks();
        family.find_passed_wakes();
        family.find_mutual_locks();
        family.find_interpreter_locks();
        family.find_awaited_results();
        family.find_idle_holders();
        family.communicators = family.find_communicators();
        family.communicators.extend(family.find_twins());
        let reads_items = |thread: &usize| family.threads[*thread].reads_items();
        family.item_readers = (0..family.threads.len()).filter(reads_items).collect();
        family
    }

    pub fn thread_of(&self, lane: LaneId) -> Option<usize> {
        self.by_lane.get(&lane).copied()
    }

    pub fn first_thread(&self, proc: u32) -> Option<usize> {
        self.thread_of(LaneId { proc, tid: self.processes.get(proc as usize)?.pid })
    }

    /// Returns the threads of a process.
    pub fn threads_of(&self, proc: u32) -> impl Iterator<Item = usize> {
        self.by_lane.range(LaneId { proc, tid: i32::MIN }..=LaneId { proc, tid: i32::MAX }).map(|(_, thread)| *thread)
    }

    /// Returns the threads, other than `first`, of the process of `first` that receive messages from descendants of this process,
    /// those with the most messages first.
    pub fn takers_from_below(&self, first: usize) -> Vec<usize> {
        let proc = self.threads[first].lane.proc;
        let mut known: BTreeMap<u64, bool> = BTreeMap::new();
        let mut found: Vec<(usize, usize)> = Vec::new();
        for thread in self.threads_of(proc).filter(|thread| *thread != first) {
            let mut is_from_below = |step: &&Step| {
                *known.entry(step.object.id).or_insert_with(|| self.is_given_below(step.object.id, proc))
            };
            let taken = self.threads[thread].takes().filter(|step| is_from_below(step)).count();
            found.extend((taken > 0).then_some((taken, thread)));
        }
        found.sort_unstable_by_key(|(taken, thread)| (std::cmp::Reverse(*taken), *thread));
        found.into_iter().map(|(_, thread)| thread).collect()
    }

    /// Returns `true` if a process works on the requests of a trainer above it: it receives one for at least every
    /// second batch that the trainer gets, however many messages it receives from elsewhere.
    pub fn is_asked_by(&self, proc: u32, trainer: u32, batches: u64) -> bool {
        let asks = |object: u64| self.givers(object).into_iter().any(|by| self.threads[by].lane.proc == trainer);
        let takes = self.threads_of(proc).flat_map(|thread| self.threads[thread].takes());
        let requests = received_through(takes, asks).count();
        let siblings =
            self.processes.iter().filter(|process| process.ppid == self.processes[proc as usize].ppid).count();
        requests >= ASKED_MIN && 2 * requests * siblings.max(1) >= batches as usize
    }

    pub fn is_below(&self, proc: u32, ancestor: u32) -> bool {
        proc != ancestor && above(&self.parents, proc).contains(&ancestor)
    }

    /// Returns `true` if a process sends messages through an object.
    pub fn gives(&self, proc: u32, object: u64) -> bool {
        self.given.get(&proc).is_some_and(|objects| objects.contains(&object))
    }

    /// Returns the start of the first item of a process without tasks: one median item duration before it sent that
    /// item, but not before the process started. Time in which it fetched data or waited for a lock does not count as its start.
    pub fn begins_to_make(&self, proc: u32, born: i64) -> i64 {
        let given = self.items_given(proc, i64::MIN);
        let Some(&first) = given.first() else { return born };
        let mut items: Vec<i64> = given.windows(2).map(|pair| pair[1] - pair[0]).collect();
        if items.len() < ITEMS_MIN {
            return born;
        }
        let middle = items.len() / 2;
        let (_, item, _) = items.select_nth_unstable(middle);
        let thread = self.first_thread(proc).map(|thread| self.threads[thread].composition(born, first));
        let waited = thread.map_or(0, |did| did.fetched() + did.get(Part::Lock));
        (first - waited.max(*item)).max(born)
    }

    /// Returns when a process sent its items after a timestamp, in order of time. Messages in quick succession are one item.
    fn items_given(&self, proc: u32, after: i64) -> Vec<i64> {
        let steps = self.threads_of(proc).flat_map(|thread| &self.threads[thread].steps);
        let gives = steps.filter(|step| step.kind == StepKind::Give && step.object.id != 0);
        let mut given: Vec<i64> = gives.map(|step| step.start).filter(|start| *start > after).collect();
        given.sort_unstable();
        given.dedup_by(|next, last| *next - *last < NEXT_NS);
        given
    }

    /// Returns when a process sent its first message.
    pub fn first_given(&self, proc: u32) -> Option<i64> {
        self.items_given(proc, i64::MIN).first().copied()
    }

    /// Returns `true` for PyTorch's program that keeps the memory of tensors for the processes that share it by file names: the
    /// sender and the receiver of a batch ask it for each tensor.
    pub fn keeps_tensors(&self, proc: u32) -> bool {
        self.processes[proc as usize].program.as_deref() == Some("torch_shm_manager")
    }

    /// Returns `true` if Python's multiprocessing spawned the process, which then imports its modules itself.
    pub fn is_spawned(&self, proc: u32) -> bool {
        self.processes[proc as usize].command.as_deref().is_some_and(|command| command.contains(SPAWNED))
    }

    /// Returns `true` if a process took the place of a sibling that had ended, or a sibling took its place.
    fn is_restarted(&self, proc: u32) -> bool {
        let life = |proc: u32| {
            let first = self.first_thread(proc).filter(|_| self.given.contains_key(&proc))?;
            Some((self.threads[first].born, self.threads[first].last))
        };
        let Some((born, last)) = life(proc) else { return false };
        let siblings = (0..self.processes.len() as u32)
            .filter(|other| *other != proc && self.parents[*other as usize] == self.parents[proc as usize]);
        siblings.filter_map(life).any(|(from, to)| to < born || from > last)
    }

    /// Returns how much longer than usual a process works on its first item, because it first imports modules or opens its data.
    /// The item began at `from`. Returns zero if the difference is small. Time in which it fetches data does not count: the first
    /// item may need more of them, as for a buffer in which samples are shuffled. If the process replaced another one or was
    /// replaced, all of its other work counts, otherwise only its CPU time.
    pub fn prepares(&self, proc: u32, from: i64) -> i64 {
        let Some(first) = self.first_thread(proc).map(|thread| &self.threads[thread]) else { return 0 };
        let given = self.items_given(proc, from);
        if given.len() <= ITEMS_MIN {
            return 0;
        }
        let works =
            FirstItem::of(from, &given, |from, to| first.worked(from, to) - first.composition(from, to).fetched());
        let computes = FirstItem::of(from, &given, |from, to| {
            let did = first.composition(from, to);
            [Part::Cpu, Part::NoCpu, Part::Gil].into_iter().map(|part| did.get(part)).sum()
        });
        let opens = if self.is_restarted(proc) { works.more() } else { 0 };
        opens.max(if computes.is_largest() { computes.more() } else { 0 })
    }

    /// Returns the time from the last message that a process sent through an object to the last one that its first thread
    /// received from another process; `None` if it received none.
    pub fn request_age(&self, proc: u32, from: u32, object: u64) -> Option<i64> {
        let first = &self.threads[self.first_thread(proc)?];
        let received = first.takes().rfind(|step| self.gives(from, step.object.id))?.end;
        let gives = self.gives.get(&object).into_iter().flatten();
        let sent = gives.filter(|give| self.threads[give.thread].lane.proc == proc).map(|give| give.end).max();
        Some(sent.map_or(i64::MAX, |sent| received - sent))
    }

    /// Returns `true` if a process sends messages to another one.
    pub fn sends(&self, from: u32, to: u32) -> bool {
        self.given.get(&from).is_some_and(|objects| objects.iter().any(|object| self.takes(to, *object)))
    }

    /// Returns `true` if two processes receive the messages that a third one sends through one object, as from one queue.
    pub fn feeds_both(&self, from: u32, takers: [u32; 2]) -> bool {
        let is_shared = |object: &u64| takers.iter().all(|taker| self.takes(*taker, *object));
        self.given.get(&from).is_some_and(|objects| objects.iter().any(is_shared))
    }

    /// Returns `true` if a process receives messages through an object.
    pub fn takes(&self, proc: u32, object: u64) -> bool {
        self.takers.get(&object).is_some_and(|takers| takers.contains(&proc))
    }

    /// Returns `true` if a message of a process through an object reaches another process.
    pub fn leaves(&self, proc: u32, object: u64) -> bool {
        self.takers.get(&object).is_some_and(|takers| takers.iter().any(|taker| *taker != proc))
    }

    /// Returns the threads that exchange messages with other ranks alongside the first thread of their process, and those
    /// that such a thread wakes.
    fn find_communicators(&self) -> BTreeSet<usize> {
        let mut known: HashMap<(u32, u64), bool, RandomState> = HashMap::default();
        let mut is_from_rank = |proc: u32, object: u64| {
            let is_peer = |give: &Give| {
                let other = self.threads[give.thread].lane.proc;
                other != proc
                    && !self.is_below(other, proc)
                    && !self.is_below(proc, other)
                    && self.are_ranks(proc, other)
            };
            let given = || self.gives.get(&object).is_some_and(|list| list.iter().any(is_peer));
            *known.entry((proc, object)).or_insert_with(given)
        };
        let others = (0..self.threads.len()).filter(|&thread| !self.threads[thread].is_first);
        let mut talks = |thread: &usize| {
            let thread = &self.threads[*thread];
            let is_message = |step: &&Step| matches!(step.kind, StepKind::Take | StepKind::Give) && step.amount > 0;
            let mut messages = thread.steps.iter().filter(is_message).filter(|step| step.object.network);
            messages.any(|step| is_from_rank(thread.lane.proc, step.object.id))
        };
        let direct: BTreeSet<usize> = others.filter(|thread| talks(thread)).collect();
        let procs: BTreeSet<u32> = direct.iter().map(|&thread| self.threads[thread].lane.proc).collect();
        let is_woken = |thread: &usize| self.starvation_ends(*thread).any(|(_, act)| direct.contains(&act.thread));
        let beside = procs.iter().flat_map(|proc| self.threads_of(*proc));
        let woken: Vec<usize> = beside.filter(|&thread| !self.threads[thread].is_first).filter(is_woken).collect();
        direct.into_iter().chain(woken).collect()
    }

    /// Returns the threads that send messages through an object.
    pub fn givers(&self, object: u64) -> BTreeSet<usize> {
        self.gives.get(&object).into_iter().flatten().map(|give| give.thread).collect()
    }

    /// Returns the number of messages that one process received from another one, and their bytes.
    pub fn received_from(&self, from: u32, to: u32) -> (usize, i64) {
        let takes = self.threads_of(to).flat_map(|thread| self.threads[thread].takes());
        let its = received_through(takes, |object| self.gives(from, object));
        its.fold((0, 0), |(count, bytes), step| (count + 1, bytes + step.amount.max(0)))
    }

    /// Returns `true` if calls send the contents of files through an object: its messages are not pickled.
    pub fn sends_files(&self, object: u64) -> bool {
        self.gives.get(&object).is_some_and(|gives| gives.iter().any(|give| give.reads))
    }

    /// Returns `true` if a process mainly supplies another one, which sends it little more than requests.
    pub fn supplies(&self, from: u32, to: u32) -> bool {
        let ((count, bytes), (_, back)) = (self.received_from(from, to), self.received_from(to, from));
        count >= ASKED_MIN && bytes >= SUPPLY * back
    }

    /// Returns the thread of another process that receives the messages sent through an object.
    pub fn taker(&self, object: u64, sender: u32) -> Option<usize> {
        let others = self.takers.get(&object)?.iter().filter(|taker| **taker != sender);
        let takes = |&thread: &usize| self.threads[thread].takes().any(|step| step.object.id == object);
        others.flat_map(|taker| self.threads_of(*taker)).find(takes)
    }

    /// Returns `true` if a descendant of a process sends messages through an object.
    pub fn is_given_below(&self, object: u64, ancestor: u32) -> bool {
        let list = self.gives.get(&object);
        list.is_some_and(|list| list.iter().any(|give| self.is_below(self.threads[give.thread].lane.proc, ancestor)))
    }

    /// Returns children killed by a signal, from the exit statuses that their parents collected.
    fn killed_of(&self, collected: &[(u32, Collected)], sent: &[(u32, Sent)]) -> Vec<Killed> {
        let mut killed: BTreeMap<u32, Killed> = BTreeMap::new();
        for (parent, child) in collected {
            let ChildEnd::Signal(signal) = child.ended else { continue };
            let before = |(_, start): &(u32, Option<i64>)| start.is_none_or(|start| start < child.ts);
            let Some((proc, start)) = self.children(*parent, child.pid).rfind(before) else { continue };
            let last = self.threads_of(proc).map(|thread| self.threads[thread].last).max();
            let last = last.or(start).unwrap_or(child.ts).min(child.ts);
            // The signal that a traced process sent shows when and why the process ended.
            let host = self.processes[*parent as usize].host;
            let is_it = |(by, sent): &&(u32, Sent)| {
                let is_of_life = sent.ts <= child.ts && start.is_none_or(|start| start <= sent.ts);
                sent.pid == child.pid
                    && sent.signal == signal
                    && is_of_life
                    && self.processes[*by as usize].host == host
            };
            let sent = sent.iter().filter(is_it).max_by_key(|(_, sent)| sent.ts);
            let last = sent.map_or(last, |(_, sent)| last.max(sent.ts));
            let killer = sent.map(|(by, _)| *by);
            // A call may report the exit of a child that another call then collects.
            killed.entry(proc).or_insert(Killed { proc, signal, last, known: child.ts, killer });
        }
        killed.into_values().collect()
    }

    /// Returns the end of a process if it is known to have ended without a request to exit.
    pub fn died(&self, proc: u32) -> Option<i64> {
        let process = &self.processes[proc as usize];
        let exited = || process.end_ts.filter(|_| process.ended.starts_with("exit"));
        let killed = self.killed.iter().find(|killed| killed.proc == proc && !asks_to_end(killed.signal));
        killed.map(|killed| killed.last).or_else(exited)
    }

    /// Returns the last act of the processes that sent messages through an object, if all of them had ended by a
    /// timestamp.
    fn deserted(&self, object: u64, by: i64) -> Option<Act> {
        let last = |give: &Give| {
            let at = self.died(self.threads[give.thread].lane.proc)?;
            (at < by).then_some(Act { thread: give.thread, at })
        };
        // Stops at the first process that was alive: normally at once, however many messages there are.
        let acts = self.gives.get(&object)?.iter().map(last).collect::<Option<Vec<Act>>>()?;
        acts.into_iter().max_by_key(|act| (act.at, act.thread))
    }

    /// Returns the steps in which a thread was starved and which another thread ended, with the act of that other thread.
    pub fn starvation_ends(&self, thread: usize) -> impl Iterator<Item = (usize, Act)> {
        let starved = (0..self.threads[thread].steps.len()).filter(move |&at| self.threads[thread].is_starved(at));
        starved.filter_map(move |at| Some((at, self.ender(thread, at).act()?)))
    }

    /// Returns the thread or event that ended a step in which a thread waited.
    pub fn ender(&self, thread: usize, step: usize) -> Ender {
        let wait = &self.threads[thread].steps[step];
        let ender = self.ender_seen(thread, step);
        let is_empty = matches!(ender, Ender::Timer | Ender::Nobody) && wait.object.id != 0 && wait.waker == 0;
        if !is_empty {
            return ender;
        }
        self.deserted(wait.object.id, wait.end).map_or(ender, Ender::Dead)
    }

    /// Returns the thread or event that was seen to end a step. [`Family::ender`] checks whether anything could have ended it.
    fn ender_seen(&self, thread: usize, step: usize) -> Ender {
        let own = &self.threads[thread];
        let wait = &own.steps[step];
        if wait.timed_out {
            return Ender::Timer;
        }
        if wait.waker != 0 {
            let waker = self.thread_of(LaneId { tid: wait.waker, ..own.lane });
            return waker.map_or(Ender::Nobody, |thread| {
                Ender::Thread(Act { thread, at: (wait.end - wait.woken).max(wait.start) })
            });
        }
        match wait.kind {
            StepKind::Child => self.child(own.lane.proc, wait.amount as i32, wait.end),
            StepKind::Accept => match self.connected.get(&wait.object.id) {
                Some(&thread) => Ender::Thread(Act { thread, at: wait.end }),
                None => Ender::Nobody,
            },
            StepKind::Join => self.ended_thread(thread, wait.start, wait.end),
            // A signal ended the wait, or all writers had closed their ends; no message arrived.
            StepKind::Take if wait.amount <= 0 && wait.object.id != 0 => self.hung_up(thread, step),
            StepKind::Take | StepKind::Wait | StepKind::Poll | StepKind::TimedWait => {
                let object = match wait.object.id {
                    0 => self.object_of_next(thread, step),
                    _ => Some(wait.object),
                };
                match object.map(|object| (self.giver(thread, object.id, wait.start, wait.end), object.network)) {
                    Some((Some(act), _)) => Ender::Thread(act),
                    Some((None, true)) => Ender::Remote,
                    _ => self.hung_up(thread, step),
                }
            }
            _ => Ender::Nobody,
        }
    }

    /// Returns the message that a thread had waited for before it acted.
    pub fn input_of(&self, act: Act) -> Option<Act> {
        let starved = self.threads[act.thread].last_starved(act.at)?;
        let Ender::Thread(by) = self.ender(act.thread, starved) else { return None };
        Some(by)
    }

    /// Finds the process at whose exit the other end of a pipe closed: the waiting thread collects the exit status of that
    /// process right after the wait.
    fn hung_up(&self, thread: usize, step: usize) -> Ender {
        let own = &self.threads[thread];
        let end = own.steps[step].end;
        let soon = own.steps[step + 1..].iter().take_while(|next| next.start - end < NEXT_NS);
        let status = soon.into_iter().find(|next| next.kind == StepKind::Child && next.amount > 0);
        status.map_or(Ender::Nobody, |status| self.child(own.lane.proc, status.amount as i32, end))
    }

    /// Returns the object that ended a wait for several objects, as shown by the next step.
    fn object_of_next(&self, thread: usize, step: usize) -> Option<Object> {
        let steps = &self.threads[thread].steps;
        let mut soon = steps[step + 1..].iter().take_while(|next| next.start - steps[step].end < NEXT_NS);
        let next = soon.find(|next| next.kind == StepKind::Take)?;
        (next.object.id != 0).then_some(next.object)
    }

    /// Returns the first message that started within a wait, or else the one that was in flight when the wait started.
    fn giver(&self, thread: usize, object: u64, start: i64, end: i64) -> Option<Act> {
        let list = self.gives.get(&object)?;
        let from = list.partition_point(|give| give.start < start);
        let is_other = |give: &&Give| give.thread != thread;
        let within = || list[from..].iter().take_while(|give| give.start <= end).filter(is_other);
        // Both ends of a connection are one object: another thread of the process may have sent the request.
        let own = self.threads[thread].lane.proc;
        let is_outside = |give: &&Give| self.threads[give.thread].lane.proc != own;
        let from_outside = is_connection(object).then(|| within().find(is_outside)).flatten();
        let within = from_outside.or_else(|| within().next());
        let before =
            || list[from.saturating_sub(UNDER_WAY)..from].iter().rev().find(|give| give.end > start && is_other(give));
        within.or_else(before).map(|give| give.act(end))
    }

    /// Returns the child with this pid, which had ended by a timestamp.
    fn child(&self, parent: u32, pid: i32, by: i64) -> Ender {
        let child = self.children(parent, pid).rfind(|(_, start)| start.is_none_or(|start| start < by));
        match child.and_then(|(number, _)| self.first_thread(number)) {
            Some(thread) => Ender::Exit(Act { thread, at: self.threads[thread].last.min(by) }),
            None => Ender::Nobody,
        }
    }

    /// Returns the main thread of a child that a process created at a timestamp.
    pub fn child_made(&self, parent: u32, pid: i32, at: i64) -> Option<usize> {
        let child = self.children(parent, pid).find(|(_, start)| start.is_none_or(|start| start + NEXT_NS >= at));
        child.and_then(|(number, _)| self.first_thread(number))
    }

    /// Returns the children of a process that had the same pid, one after the other, and the start of each.
    fn children(&self, parent: u32, pid: i32) -> impl DoubleEndedIterator<Item = (u32, Option<i64>)> {
        let numbers = self.children.get(&(parent, pid)).into_iter().flatten();
        numbers.map(|&number| (number, self.processes[number as usize].start_ts))
    }

    /// Returns the thread of the same process that ended last within a wait for a thread to end.
    fn ended_thread(&self, thread: usize, start: i64, end: i64) -> Ender {
        let others = self.threads_of(self.threads[thread].lane.proc).filter(|other| *other != thread);
        let last = |other: &usize| self.threads[*other].last;
        let ended = others.filter(|other| (start..=end).contains(&last(other))).max_by_key(last);
        ended.map_or(Ender::Nobody, |thread| Ender::Exit(Act { thread, at: self.threads[thread].last }))
    }

    pub fn is_python(&self, proc: u32) -> bool {
        let program = self.processes.get(proc as usize).and_then(|process| process.program.as_deref());
        program.is_some_and(|program| program.starts_with("python"))
    }

    /// Names the object of waits for several objects in which one thread waits for all: another thread of the process then receives
    /// the message that ended the wait. Libraries such as gRPC take turns like that.
    fn name_polls_for_others(&mut self) {
        let is_open = |thread: &Thread, at: usize| {
            let step = &thread.steps[at];
            step.kind == StepKind::Poll && step.object.id == 0 && !step.timed_out && thread.is_starved(at)
        };
        let open_polls = |thread: &Thread| (0..thread.steps.len()).filter(|&at| is_open(thread, at)).collect();
        let polls: Vec<Vec<usize>> = self.threads.iter().map(open_polls).collect();
        let polling = (0..self.threads.len()).filter(|&number| !polls[number].is_empty());
        let mut takes: BTreeMap<u32, Vec<(i64, usize, Object)>> =
            polling.map(|number| (self.threads[number].lane.proc, Vec::new())).collect();
        for (number, thread) in self.threads.iter().enumerate() {
            let its = thread.takes().map(|take| (take.start, number, take.object));
            takes.entry(thread.lane.proc).and_modify(|takes| takes.extend(its));
        }
        takes.values_mut().for_each(|takes| takes.sort_unstable_by_key(|(start, thread, _)| (*start, *thread)));
        for (number, polls) in polls.into_iter().enumerate() {
            for at in polls {
                let step = self.threads[number].steps[at];
                let takes = &takes[&self.threads[number].lane.proc];
                let later = &takes[takes.partition_point(|(start, ..)| *start < step.end)..];
                let mut soon = later.iter().take_while(|(start, ..)| *start < step.end + NEXT_NS);
                let ends_it = |(_, taker, object): &&(i64, usize, Object)| {
                    let is_remote = object.network && !self.gives.contains_key(&object.id);
                    *taker != number && (is_remote || self.giver(*taker, object.id, step.start, step.end).is_some())
                };
                if let Some((.., object)) = soon.find(ends_it) {
                    self.threads[number].steps[at].object = *object;
                }
            }
        }
    }

    /// Finds waits for several objects that ended by a message from a server. A server runs another program than the waiting
    /// process, whereas ranks run the same one.
    fn find_remote_polls(&mut self) {
        let procs: Vec<u32> = self.threads.iter().map(|thread| thread.lane.proc).collect();
        for (number, thread) in self.threads.iter_mut().enumerate() {
            let is_alike = |other: usize| {
                let [own, other] = [procs[number], procs[other]].map(|proc| &self.processes[proc as usize]);
                are_alike(own, other)
            };
            let is_from_peer = |object: u64| {
                let list = self.gives.get(&object);
                list.is_some_and(|list| list.iter().any(|give| give.thread != number && is_alike(give.thread)))
            };
            let mut known: HashMap<u64, bool, RandomState> = HashMap::default();
            let idle = (0..thread.steps.len()).filter(|&at| thread.class[at] == Part::Idle);
            let polls = idle.filter(|&at| thread.steps[at].kind == StepKind::Poll && thread.steps[at].object.network);
            let objects = polls.map(|at| (at, thread.steps[at].object.id));
            let remote = objects.filter(|(_, object)| !*known.entry(*object).or_insert_with(|| is_from_peer(*object)));
            let remote: Vec<_> = remote.map(|(at, _)| at).map(|at| (at, Part::Network)).collect();
            thread.reclassify(&remote);
        }
    }

    /// Finds waits for messages from a traced server: another thread of the process, or another process that is not a rank. The
    /// work of the server explains these waits.
    fn find_traced_servers(&mut self) {
        for number in 0..self.threads.len() {
            let thread = &self.threads[number];
            let mut known: BTreeMap<u32, bool> = BTreeMap::new();
            let mut is_server = |act: Act| {
                let [own, other] = [thread.lane.proc, self.threads[act.thread].lane.proc];
                *known.entry(other).or_insert_with(|| own == other || !self.are_peers(own, other))
            };
            let is_served = |&at: &usize| {
                let step = &thread.steps[at];
                let waits = matches!(step.kind, StepKind::Take | StepKind::Poll | StepKind::Wait) && !step.timed_out;
                let is_long = step.end - step.start >= WAIT_NS && step.object.id != 0;
                waits && is_long && self.giver(number, step.object.id, step.start, step.end).is_some_and(&mut is_server)
            };
            let network = (0..thread.steps.len()).filter(|&at| thread.class[at] == Part::Network);
            let served: Vec<_> = network.filter(is_served).map(|at| (at, Part::Idle)).collect();
            self.threads[number].reclassify(&served);
        }
    }

    /// Returns `true` if a process answers requests on connections that it accepts, other than those of ranks.
    pub fn answers(&self, proc: u32) -> bool {
        if self.communicators.iter().any(|thread| self.threads[*thread].lane.proc == proc) {
            return false;
        }
        let steps = || self.threads_of(proc).flat_map(|thread| &self.threads[thread].steps);
        let asks = |object: u64| {
            let askers = self.givers(object).into_iter().map(|thread| self.threads[thread].lane.proc);
            askers.filter(|asker| *asker != proc).all(|asker| !self.are_peers(proc, asker))
        };
        let accepted: BTreeSet<u64> =
            steps().filter(|step| step.kind == StepKind::Accept).map(|step| step.object.id).collect();
        let accepted: BTreeSet<u64> = accepted.into_iter().filter(|object| asks(*object)).collect();
        // A message may take several calls.
        let mut last: BTreeMap<u64, StepKind> = BTreeMap::new();
        let (mut asked, mut answered) = (0, 0);
        for step in steps().filter(|step| matches!(step.kind, StepKind::Take | StepKind::Give)) {
            if accepted.contains(&step.object.id) && last.insert(step.object.id, step.kind) != Some(step.kind) {
                asked += u64::from(step.kind == StepKind::Take);
                answered += u64::from(step.kind == StepKind::Give);
            }
        }
        // A child of a server may answer.
        let accepts = steps().any(|step| step.kind == StepKind::Accept);
        let receives = steps().any(|step| step.kind == StepKind::Take && step.object.id != 0 && step.amount > 0);
        accepts && !receives || !accepted.is_empty() && 2 * answered >= asked
    }

    /// Returns `true` if a process runs another program that its parent started.
    pub fn is_program_of(&self, proc: u32, parent: u32) -> bool {
        let program = |proc: u32| self.processes.get(proc as usize).and_then(|process| process.program.as_deref());
        self.parents[proc as usize] == Some(parent) && program(proc).is_some_and(|own| Some(own) != program(parent))
    }

    /// Returns `true` if a process runs a program that was started once, not once per item.
    pub fn lasts(&self, proc: u32) -> bool {
        self.lasting.contains(&proc)
    }

    /// Returns `true` if one process started two others that run other programs, as in a pipeline.
    pub fn are_in_pipeline(&self, one: u32, other: u32) -> bool {
        let parent = self.parents[one as usize];
        parent.is_some_and(|parent| self.is_program_of(one, parent) && self.is_program_of(other, parent))
    }

    /// Returns `true` if two processes are different ranks of a job, or may be.
    pub fn are_ranks(&self, one: u32, other: u32) -> bool {
        let [one, other] = [one, other].map(|proc| &self.processes[proc as usize]);
        one.rank.is_some() && other.rank.is_some() && one.rank != other.rank || are_alike(one, other)
    }

    /// Returns `true` if two processes are different ranks of a job, or may be, and neither supplies the other.
    pub fn are_peers(&self, one: u32, other: u32) -> bool {
        let [rank, other_rank] = [one, other].map(|proc| self.processes[proc as usize].rank);
        let is_known = rank.is_some() && other_rank.is_some();
        self.are_ranks(one, other) && (is_known || !self.supplies(one, other) && !self.supplies(other, one))
    }

    /// Returns `true` if two processes run one program, or one script, with any arguments.
    pub fn are_of_one_program(&self, one: u32, other: u32) -> bool {
        self.programs_are_equal(one, other) == Some(true)
    }

    /// Returns `true` if two processes are known to run different programs or scripts.
    pub fn are_of_two_programs(&self, one: u32, other: u32) -> bool {
        self.programs_are_equal(one, other) == Some(false)
    }

    fn programs_are_equal(&self, one: u32, other: u32) -> Option<bool> {
        let words = |proc: u32| {
            let process = self.processes.get(proc as usize)?;
            Some((process.program.as_deref()?, process.command.as_deref()?.split_whitespace().take(2).last()?))
        };
        let [one, other] = [words(one)?, words(other)?];
        let is_script = one.0.starts_with("python");
        Some(one.0 == other.0 && (!is_script || one.1 == other.1))
    }

    /// Returns `true` if a program that a thread's process started sends messages through an object.
    fn is_from_own_program(&self, thread: usize, object: u64) -> bool {
        let first = self.gives.get(&object).and_then(|gives| gives.iter().find(|give| give.thread != thread));
        first
            .is_some_and(|give| self.is_program_of(self.threads[give.thread].lane.proc, self.threads[thread].lane.proc))
    }

    /// Finds pieces of the output of programs that a thread's process started. The time to receive them counts for the program.
    /// If the program runs for many items, the process waits for it as for another thread.
    fn find_output_of_programs(&mut self) {
        for number in 0..self.threads.len() {
            let mut known: HashMap<u64, bool, RandomState> = HashMap::default();
            let thread = &self.threads[number];
            let is_output = |at: &usize| {
                let step = &thread.steps[*at];
                let is_piece =
                    thread.class[*at] == Part::HandOver && step.kind == StepKind::Take && step.object.id != 0;
                let object = step.object.id;
                is_piece && *known.entry(object).or_insert_with(|| self.is_from_own_program(number, object))
            };
            let part = |at: usize| {
                if self.is_from_lasting(number, thread.steps[at].object.id) { Part::Idle } else { Part::Child }
            };
            let pieces: Vec<_> = (0..thread.steps.len()).filter(is_output).map(|at| (at, part(at))).collect();
            self.threads[number].reclassify(&pieces);
        }
    }

    /// Returns `true` if messages to a thread through an object come from a program that runs for many items.
    fn is_from_lasting(&self, thread: usize, object: u64) -> bool {
        let gives = self.gives.get(&object).into_iter().flatten();
        gives.map(|give| give.thread).find(|by| *by != thread).is_some_and(|by| self.lasts(self.threads[by].lane.proc))
    }

    /// Finds threads that poll: they wait for the message that arrives in the last of their sleeps.
    fn find_polls(&mut self) {
        for number in 0..self.threads.len() {
            let arrives = |object: Object, from: i64, to: i64| self.giver(number, object.id, from, to).is_some();
            let thread = &self.threads[number];
            let found = Some(polls::find(thread, arrives)).filter(|found| found.len() >= POLLS_MIN);
            let found = found.unwrap_or_else(|| polls::find_before_messages(thread, arrives));
            if found.len() < POLLS_MIN {
                continue;
            }
            let polls = found.into_iter().map(|poll| {
                let look = move |sleep: Step, _| Step { kind: StepKind::Poll, object: poll.object, ..sleep };
                (poll.sleeps, look)
            });
            turn_into_waits(&mut self.threads[number], polls);
        }
    }

    /// Finds first threads that sleep until another thread of their process has received a result: they wait for that thread.
    fn find_awaited_results(&mut self) {
        for number in 0..self.threads.len() {
            if !self.threads[number].is_first || !self.threads[number].class.contains(&Part::Sleep) {
                continue;
            }
            let results = self.results_beside(number);
            let received = |from: i64, to: i64| {
                let last = results[..results.partition_point(|(end, _)| *end <= to)].last();
                last.filter(|(end, _)| *end >= from).map(|&(end, tid)| (tid, end))
            };
            let waits = polls::find_awaited(&self.threads[number], received).into_iter().map(|awaited| {
                let wait = move |sleep: Step, is_last| {
                    let (waker, woken) = if is_last { (awaited.waker, sleep.end - awaited.at) } else { (0, 0) };
                    Step { kind: StepKind::Wait, waker, woken, ..sleep }
                };
                (awaited.sleeps, wait)
            });
            turn_into_waits(&mut self.threads[number], waits);
        }
    }

    /// Returns when other threads of a thread's process received messages of other processes, and which.
    fn results_beside(&self, number: usize) -> Vec<(i64, i32)> {
        let LaneId { proc, tid } = self.threads[number].lane;
        let from_outside = |object: u64| self.givers(object).iter().any(|&giver| self.threads[giver].lane.proc != proc);
        let mut known: BTreeMap<u64, bool> = BTreeMap::new();
        let mut results: Vec<(i64, i32)> = Vec::new();
        for thread in self.threads_of(proc).map(|other| &self.threads[other]).filter(|other| other.lane.tid != tid) {
            let takes = thread.takes();
            let takes =
                takes.filter(|take| *known.entry(take.object.id).or_insert_with(|| from_outside(take.object.id)));
            results.extend(takes.map(|take| (take.end, thread.lane.tid)));
        }
        results.sort_unstable();
        results
    }

    /// Adds messages for which there is no sending call, because threads act directly on an object that another thread waits for.
    pub(super) fn add_gives(&mut self, object: u64, acts: &[Act]) {
        let gives = self.gives.entry(object).or_default();
        gives.extend(acts.iter().map(|act| Give { start: act.at, end: act.at, thread: act.thread, reads: false }));
        gives.sort_by_key(|give| give.start);
    }

    /// Finds messages that had been sent before a thread began to receive them, so that no thread waited for them.
    fn find_ready_messages(&mut self) {
        for number in 0..self.threads.len() {
            let thread = &self.threads[number];
            let is_ready = |&at: &usize| {
                let step = &thread.steps[at];
                let is_short = step.kind == StepKind::Take && step.end - step.start < NEXT_NS;
                let is_given = || {
                    let list = self.gives.get(&step.object.id);
                    list.is_some_and(|list| {
                        let before = &list[..list.partition_point(|give| give.start < step.start)];
                        before.iter().rev().take(UNDER_WAY).any(|give| give.thread != number)
                    })
                };
                is_short && is_given() && self.giver(number, step.object.id, step.start, step.end).is_none()
            };
            let idle = (0..thread.steps.len()).filter(|&at| thread.class[at] == Part::Idle);
            let ready: Vec<_> = idle.filter(is_ready).map(|at| (at, Part::HandOver)).collect();
            self.threads[number].reclassify(&ready);
        }
    }

    /// Finds pieces of a stream that another thread made one by one: the receiver waited for each, unlike for the rest of a
    /// message that was sent at once.
    fn find_made_pieces(&mut self) {
        for number in 0..self.threads.len() {
            let thread = &self.threads[number];
            let is_made = |&at: &usize| {
                let step = &thread.steps[at];
                if step.kind != StepKind::Take || step.object.id == 0 || step.end - step.start < WAIT_NS {
                    return false;
                }
                let Some(list) = self.gives.get(&step.object.id) else { return false };
                let from = list.partition_point(|give| give.start < step.start);
                let given = list[from..].first().filter(|give| give.start <= step.end && give.thread != number);
                let before = list[..from].last();
                let worked = |give: &Give, before: &Give| {
                    before.thread == give.thread && self.threads[give.thread].worked(before.end, give.start) >= PIECE_NS
                };
                given.zip(before).is_some_and(|(give, before)| worked(give, before))
            };
            let passed = (0..thread.steps.len()).filter(|&at| thread.class[at] == Part::HandOver);
            let made: Vec<_> = passed.filter(is_made).map(|at| (at, Part::Idle)).collect();
            self.threads[number].reclassify(&made);
        }
    }

    /// Returns `true` if a post was the last act of a thread. Python waits for the end of a thread with a lock that the thread
    /// holds until it ends.
    fn ends_by(&self, act: Act) -> bool {
        let thread = &self.threads[act.thread];
        !thread.is_first && thread.last <= act.at + NEXT_NS
    }

    /// Finds waits for a lock whose holder waits for input: the threads that wait for the lock then wait for input, too. The same
    /// applies to waits for the end of a thread.
    fn find_idle_holders(&mut self) {
        let mut changes: Vec<(usize, Vec<(usize, Part)>)> = Vec::new();
        for (number, thread) in self.threads.iter().enumerate() {
            let locks = (0..thread.steps.len()).filter(|&at| thread.class[at] == Part::Lock);
            let is_idle = |&at: &usize| {
                let wait = &thread.steps[at];
                let Some(holder) = self.ender(number, at).act() else { return false };
                let held = self.threads[holder.thread].composition(wait.start, wait.end);
                2 * held.get(Part::Idle) > wait.end - wait.start || self.ends_by(holder)
            };
            let idle: Vec<_> = locks.filter(is_idle).map(|at| (at, Part::Idle)).collect();
            if !idle.is_empty() {
                changes.push((number, idle));
            }
        }
        changes.into_iter().for_each(|(thread, changed)| self.threads[thread].reclassify(&changed));
    }
}

/// The time that a thread needed for its first item, and for the others, in ascending order.
struct FirstItem {
    first: i64,
    others: Vec<i64>,
}

impl FirstItem {
    /// Measures the items that were sent at some timestamps. The thread began the first one at `from`.
    fn of(from: i64, given: &[i64], measure: impl Fn(i64, i64) -> i64) -> FirstItem {
        let mut others: Vec<i64> = given.windows(2).map(|pair| measure(pair[0], pair[1])).collect();
        others.sort_unstable();
        FirstItem { first: measure(from, given[0]), others }
    }

    /// Returns how much more than usual it needed for the first one. Zero if that is not much.
    fn more(&self) -> i64 {
        let usual = self.others[self.others.len() / 2];
        let more = self.first - usual;
        if more > PREPARES_NS.max(PREPARES * usual) { more } else { 0 }
    }

    /// Returns `true` if it needed much more for it than for any other one, which may just be a large item.
    fn is_largest(&self) -> bool {
        self.others.last().is_some_and(|largest| self.first > LARGEST * largest)
    }
}

/// Returns the processes whose program another process, which is not a shell, started only a few times, directly or by a shell.
fn lasting_programs(processes: &[Process], parents: &[Option<u32>]) -> BTreeSet<u32> {
    let program = |proc: u32| processes[proc as usize].program.as_deref();
    let mut started: BTreeMap<(u32, &str), Vec<u32>> = BTreeMap::new();
    for proc in 0..processes.len() as u32 {
        let starter = above(parents, proc).into_iter().find(|up| !program(*up).is_some_and(is_shell));
        let known = starter.zip(program(proc));
        known.into_iter().for_each(|known| started.entry(known).or_default().push(proc));
    }
    started.into_values().filter(|procs| procs.len() < ITEMS_MIN).flatten().collect()
}

/// Returns `true` if two processes run one program with one command line, as ranks do.
fn are_alike(one: &Process, other: &Process) -> bool {
    let is_spawned = |process: &Process| process.command.as_deref().is_some_and(|it| it.contains(SPAWNED));
    one.program == other.program && (one.command == other.command || is_spawned(one) && is_spawned(other))
}

/// Matches both ends of sockets: those created as a pair, and connections in the order in which they were requested and
/// accepted.
fn ends(timelines: &Timelines, processes: &[Process]) -> HashMap<u64, u64, RandomState> {
    let mut ends = HashMap::default();
    let mut accepted: BTreeMap<(i32, i32), VecDeque<(i64, u64)>> = BTreeMap::new();
    let mut asked: Vec<(i64, (i32, i32), u64)> = Vec::new();
    for (lane, thread) in &timelines.threads {
        let pid = processes.get(lane.proc as usize).map_or(0, |process| process.pid);
        for peer in &thread.peers {
            match peer.other {
                OtherEnd::Object(other) => drop(ends.insert(other, peer.object)),
                OtherEnd::Asked(by) => accepted.entry((by, pid)).or_default().push_back((peer.ts, peer.object)),
                OtherEnd::Accepts(of) => asked.push((peer.ts, (pid, of), peer.object)),
            }
        }
    }
    accepted.values_mut().for_each(|list| list.make_contiguous().sort_unstable());
    asked.sort_unstable();
    let parents = parents(processes);
    for (ts, between, object) in asked {
        let exact = accepted.get_mut(&between).and_then(VecDeque::pop_front);
        // A process accepts connections to its parent's listening socket.
        let inherited = || {
            let (asker, listener) = between;
            let takes = |acceptor: i32| {
                let is_below = |number: usize| {
                    let above = above(&parents, number as u32);
                    above.into_iter().any(|above| processes[above as usize].pid == listener)
                };
                processes.iter().enumerate().any(|(number, process)| process.pid == acceptor && is_below(number))
            };
            let of_asker = accepted.range_mut((asker, i32::MIN)..=(asker, i32::MAX));
            let of_asker = of_asker.filter(|((_, acceptor), _)| takes(*acceptor));
            let soonest = of_asker.filter(|(_, list)| list.front().is_some_and(|(at, _)| *at >= ts));
            soonest.min_by_key(|(_, list)| list.front().map(|(at, _)| *at)).and_then(|(_, list)| list.pop_front())
        };
        let found = exact.or_else(inherited);
        if let Some((_, other)) = found {
            ends.insert(other, object);
        }
    }
    ends
}

/// Turns rows of sleeps into waits that end with the last sleep of a row. Each row comes with the wait that a sleep becomes; its
/// second argument is `true` for the last one.
fn turn_into_waits(thread: &mut Thread, rows: impl Iterator<Item = (Vec<usize>, impl Fn(Step, bool) -> Step)>) {
    let mut idle = Vec::new();
    for (sleeps, wait) in rows {
        for at in &sleeps {
            let is_last = sleeps.last() == Some(at);
            thread.steps[*at] = Step { timed_out: !is_last, ..wait(thread.steps[*at], is_last) };
            idle.push((*at, Part::Idle));
        }
    }
    thread.reclassify(&idle);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_started_once_lasts_and_one_per_item_does_not() {
        let process = |program: &str| Process { program: Some(program.into()), ..Process::default() };
        // Python starts a pipeline, and a shell for each item.
        let names = ["python", "sh", "xz", "cat", "sh", "gzip", "sh", "gzip", "sh", "gzip"];
        let parents = [None, Some(0), Some(1), Some(1), Some(0), Some(4), Some(0), Some(6), Some(0), Some(8)];
        let processes: Vec<Process> = names.into_iter().map(process).collect();
        assert_eq!(lasting_programs(&processes, &parents), BTreeSet::from([2, 3]));
    }
}
