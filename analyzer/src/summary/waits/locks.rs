//! Finds the objects that are locks: waits for them are waits for the thread that holds them.

use std::collections::{BTreeMap, BTreeSet};

use super::family::{Family, NEXT_NS};
use super::parts::Part;
use super::thread::Thread;
use super::timeline::{Step, StepKind};

/// Timed waits of a process for one condition.
#[derive(Default)]
struct TimedWaits {
    waiters: Vec<i32>,
    wakers: Vec<i32>,
    all: u64,
    short: u64,
    /// Time in all of them, and in those that are too long for a lock that is requested again after 5 ms.
    ns: i64,
    long_ns: i64,
}

/// A Python thread requests the interpreter again after 5 ms. On a busy host, it runs later.
const SWITCH_NS: i64 = 6_000_000;
const SWITCH_LATE_NS: i64 = 60_000_000;

/// A thread that gave up the interpreter requests it again within this time. Fewer such waits show no pattern.
const SWITCH_GAP_NS: i64 = 100_000;
const SWITCHES_MIN: u64 = 8;

/// The condition of such waits is at most this many bytes after that of the interpreter lock. CPython keeps it 88 bytes after.
const SWITCH_BYTES: u64 = 256;

/// Waits for one object of a process, and the threads that waited and woke.
#[derive(Default)]
struct MutualWaits {
    waiters: Vec<i32>,
    wakers: Vec<i32>,
    all: u64,
    by_taker: u64,
}

/// Posts of a shared semaphore, and waits for it.
#[derive(Default)]
struct SharedUse {
    posts: u64,
    /// By a thread that had taken it.
    by_taker: u64,
    waits: u64,
    /// By a thread that had not posted it since its last wait.
    repeated: u64,
}

impl SharedUse {
    fn is_lock(&self) -> bool {
        self.posts > 0 && 10 * self.by_taker >= 8 * self.posts && 4 * self.repeated <= self.waits
    }
}

/// An object is a lock if the thread that posted it is known to have taken it in one of this many waits.
const LOCK_PART: u64 = 4;

/// The end of a wait, its thread and its step.
type EndedWait = (i64, usize, usize);

/// If a thread holds an object for less than 1/`HELD_PART` of the time that another thread waits, the other thread does not wait
/// for it.
const HELD_PART: i64 = 10;

impl Family<'_> {
    /// Finds interpreter locks: conditions for which threads wait with a timeout and which they also signal. Only
    /// Python's interpreter lock combines both repeatedly with such a short timeout.
    pub(super) fn find_interpreter_locks(&mut self) {
        let mut waits: BTreeMap<(u32, u64), TimedWaits> = BTreeMap::new();
        for thread in &self.threads {
            for step in thread.steps.iter().filter(|step| step.kind == StepKind::TimedWait && step.object.id != 0) {
                let waits = waits.entry((thread.lane.proc, step.object.id)).or_default();
                add_new(&mut waits.waiters, thread.lane.tid);
                add_new(&mut waits.wakers, step.waker);
                waits.all += 1;
                let ns = step.end - step.start;
                waits.short += (ns <= SWITCH_NS) as u64;
                waits.ns += ns;
                waits.long_ns += if ns > SWITCH_LATE_NS { ns } else { 0 };
            }
        }
        let is_lock = |proc: u32, waits: &TimedWaits| {
            let is_mutual = waits.waiters.iter().any(|waiter| waits.wakers.contains(waiter));
            is_mutual || self.is_python(proc) && 10 * waits.short >= 9 * waits.all && 10 * waits.long_ns < waits.ns
        };
        let locks: BTreeSet<(u32, u64)> =
            waits.iter().filter(|((proc, _), waits)| is_lock(*proc, waits)).map(|(lock, _)| *lock).collect();
        for thread in &mut self.threads {
            let is_its = |object: u64| locks.contains(&(thread.lane.proc, object));
            let steps = thread.steps.iter().enumerate();
            let gil: Vec<_> = steps
                .filter(|(_, step)| step.kind == StepKind::TimedWait && step.object.id != 0 && is_its(step.object.id))
                .map(|(at, _)| (at, Part::Gil))
                .collect();
            thread.reclassify(&gil);
        }
        self.find_interpreter_switches(&locks);
    }

    /// Finds waits in which a thread that gave up the interpreter waits until another thread has taken it. The first thread then
    /// requests it again at once.
    fn find_interpreter_switches(&mut self, locks: &BTreeSet<(u32, u64)>) {
        let is_switch = |thread: &Thread, at: usize| {
            let wait = &thread.steps[at];
            let next = (at + 1..thread.steps.len()).find(|&next| thread.steps[next].kind != StepKind::Edge);
            let is_next =
                |&next: &usize| thread.class[next] == Part::Gil && thread.steps[next].start - wait.end < SWITCH_GAP_NS;
            wait.end - wait.start < NEXT_NS && next.is_some_and(|next| is_next(&next))
        };
        // By process and object: all waits, and those directly before a wait for the interpreter.
        let mut waits: BTreeMap<(u32, u64), [u64; 2]> = BTreeMap::new();
        for thread in &self.threads {
            for (at, step) in thread.steps.iter().enumerate().filter(|(_, step)| is_private_wait(step)) {
                let [all, before] = waits.entry((thread.lane.proc, step.object.id)).or_default();
                (*all, *before) = (*all + 1, *before + is_switch(thread, at) as u64);
            }
        }
        // If there are only a few such waits, their object identifies them: it is in the same structure as the interpreter lock.
        let is_beside = |&(proc, object): &(u32, u64)| {
            locks.range((proc, object.saturating_sub(SWITCH_BYTES))..(proc, object)).next().is_some()
        };
        let is_one = |wait: &(u32, u64), [all, before]: &[u64; 2]| match *all < SWITCHES_MIN {
            true => 2 * before >= *all && is_beside(wait),
            false => 10 * before >= 9 * all,
        };
        waits.retain(|wait, counts| is_one(wait, counts));
        for thread in &mut self.threads {
            let is_its = |at: &usize| {
                let step = &thread.steps[*at];
                is_private_wait(step) && waits.contains_key(&(thread.lane.proc, step.object.id))
            };
            let switches: Vec<_> = (0..thread.steps.len()).filter(is_its).map(|at| (at, Part::Gil)).collect();
            thread.reclassify(&switches);
        }
    }

    /// Finds shared semaphores that are used as locks: the thread that posts them has usually taken them before, and posts them
    /// before it takes them again. The semaphore of a barrier is posted several times in a row, and taken several times in a row.
    pub(super) fn find_shared_locks(&mut self) {
        let mut used: BTreeMap<u64, SharedUse> = BTreeMap::new();
        for thread in &self.threads {
            let mut taken: BTreeSet<u64> = BTreeSet::new();
            for step in &thread.steps {
                let of = step.object.id;
                match step.kind {
                    StepKind::Post => {
                        let used = used.entry(of).or_default();
                        (used.posts, used.by_taker) = (used.posts + 1, used.by_taker + step.is_lock as u64);
                        taken.remove(&of);
                    }
                    StepKind::Wait if step.shared && !step.timed_out => {
                        let used = used.entry(of).or_default();
                        (used.waits, used.repeated) = (used.waits + 1, used.repeated + !taken.insert(of) as u64);
                    }
                    _ => {}
                }
            }
        }
        let is_lock = |object: u64| used.get(&object).is_some_and(SharedUse::is_lock);
        for thread in &mut self.threads {
            let steps = thread.steps.iter().enumerate();
            let waits = steps.filter(|(_, step)| step.kind == StepKind::Wait && step.shared);
            let locks = waits.filter(|(_, step)| is_lock(step.object.id));
            let locks: Vec<_> = locks.map(|(at, _)| (at, Part::Lock)).collect();
            thread.reclassify(&locks);
        }
    }

    /// Finds waits that seem to be for a lock but are for a message: one thread wakes the first waiter, which wakes the next one
    /// at once, as in Python's `SimpleQueue`. They count as woken by the first thread.
    pub(super) fn find_passed_wakes(&mut self) {
        let mut waits: BTreeMap<(u32, u64), Vec<EndedWait>> = BTreeMap::new();
        for (number, thread) in self.threads.iter().enumerate() {
            for (at, step) in thread.steps.iter().enumerate().filter(|(_, step)| is_private_wait(step)) {
                waits.entry((thread.lane.proc, step.object.id)).or_default().push((step.end, number, at));
            }
        }
        let mut passed: BTreeMap<usize, Vec<(usize, Part)>> = BTreeMap::new();
        for list in waits.values_mut() {
            list.sort_unstable();
            let mut last: BTreeMap<i32, Step> = BTreeMap::new();
            for &(_, number, at) in list.iter() {
                let tid = self.threads[number].lane.tid;
                let step = &mut self.threads[number].steps[at];
                let before = last.get(&step.waker).filter(|before| step.is_lock && !before.is_lock);
                if let Some(before) =
                    before.filter(|before| HELD_PART * (step.end - before.end) < step.end - step.start)
                {
                    (step.waker, step.is_lock) = (before.waker, false);
                    passed.entry(number).or_default().push((at, Part::Idle));
                }
                last.insert(tid, *step);
            }
        }
        for (number, mut steps) in passed {
            steps.sort_unstable_by_key(|(at, _)| *at);
            self.threads[number].reclassify(&steps);
        }
    }

    /// Finds locks in process memory whose owners do not show, because the fast path makes no call: two threads wait for one
    /// object, and each wakes the other.
    pub(super) fn find_mutual_locks(&mut self) {
        let mut waits: BTreeMap<(u32, u64), MutualWaits> = BTreeMap::new();
        for thread in &self.threads {
            for step in thread.steps.iter().filter(|step| is_private_wait(step)) {
                let waits = waits.entry((thread.lane.proc, step.object.id)).or_default();
                add_new(&mut waits.waiters, thread.lane.tid);
                add_new(&mut waits.wakers, step.waker);
                waits.all += 1;
                waits.by_taker += step.is_lock as u64;
            }
        }
        let is_lock = |waits: &MutualWaits| {
            let mutual = waits.waiters.iter().filter(|waiter| waits.wakers.contains(waiter)).count();
            mutual >= 2 && LOCK_PART * waits.by_taker >= waits.all
        };
        let locks: BTreeSet<(u32, u64)> =
            waits.iter().filter(|(_, waits)| is_lock(waits)).map(|(lock, _)| *lock).collect();
        for thread in &mut self.threads {
            let is_its = |step: &Step| is_private_wait(step) && locks.contains(&(thread.lane.proc, step.object.id));
            let idle = (0..thread.steps.len()).filter(|&at| thread.class[at] == Part::Idle);
            let found: Vec<_> = idle.filter(|&at| is_its(&thread.steps[at])).map(|at| (at, Part::Lock)).collect();
            thread.reclassify(&found);
        }
    }
}

/// Returns `true` for a wait that another thread of the same process ended with a post.
fn is_private_wait(step: &Step) -> bool {
    step.kind == StepKind::Wait && !step.shared && step.object.id != 0 && step.waker != 0
}

fn add_new(list: &mut Vec<i32>, value: i32) {
    if value != 0 && !list.contains(&value) {
        list.push(value);
    }
}
