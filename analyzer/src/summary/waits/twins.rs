//! Processes that do the same work and exchange messages, such as ranks made by fork: neither makes batches for the other.

use std::collections::BTreeSet;

use super::family::Family;
use super::timeline::{Step, StepKind};
use crate::summary::tree::{LaneId, above};

/// Fewer messages show no pattern.
const MESSAGES_MIN: i64 = 5;

/// The messages of both directions differ by less than this factor, in number and in size.
const ALIKE: i64 = 2;

/// Messages of fewer bytes on average may be requests, and names of batches in shared memory.
const BYTES_MIN: i64 = 1 << 10;

/// The messages that a thread received from another process.
#[derive(Default)]
struct Received {
    bytes: i64,
    /// For each message: the end of the previous message, and its own end.
    times: Vec<(i64, i64)>,
}

impl Received {
    fn messages(&self) -> i64 {
        self.times.len() as i64
    }

    fn are_large(&self) -> bool {
        self.bytes >= BYTES_MIN * self.messages()
    }

    /// Returns `true` if files were read before most messages, since the message before. The times of reads are in order.
    fn are_after(&self, reads: &[i64]) -> bool {
        let is_read =
            |&&(from, to): &&(i64, i64)| reads.get(reads.partition_point(|at| *at <= from)).is_some_and(|at| *at <= to);
        self.messages() >= MESSAGES_MIN && 2 * self.times.iter().filter(is_read).count() as i64 >= self.messages()
    }
}

impl Family<'_> {
    /// Returns the first threads of a process and its child whose processes read files themselves between the messages
    /// of one another, and send each other as much. A trainer leaves the reading to its readers, and a request is smaller than
    /// its batch.
    pub(super) fn find_twins(&self) -> BTreeSet<usize> {
        let mut twins = BTreeSet::new();
        for child in 0..self.processes.len() as u32 {
            for ancestor in above(&self.parents, child) {
                let both = self.first_thread(child).zip(self.first_thread(ancestor));
                let Some((one, other)) = both.filter(|_| self.sends(child, ancestor) && self.sends(ancestor, child))
                else {
                    continue;
                };
                let (down, up) = (self.received(one, ancestor), self.received(other, child));
                let are_alike = |a: i64, b: i64| a <= ALIKE * b && b <= ALIKE * a;
                let exchange = are_alike(down.messages(), up.messages()) && are_alike(down.bytes, up.bytes);
                if exchange && self.are_after_reads(one, &down) && self.are_after_reads(other, &up) {
                    twins.extend([one, other]);
                }
            }
        }
        twins
    }

    /// Returns `true` if the main threads of two processes are twins of some processes: neither makes anything for the other.
    pub(super) fn are_twins(&self, one: LaneId, other: LaneId) -> bool {
        let is_twin = |lane: LaneId| {
            self.thread_of(lane).is_some_and(|at| self.threads[at].is_first && self.communicators.contains(&at))
        };
        one.proc != other.proc && is_twin(one) && is_twin(other)
    }

    /// Returns `true` if a message through an object came from a twin in another process.
    pub(super) fn is_from_twin(&self, thread: usize, object: u64) -> bool {
        let proc = self.threads[thread].lane.proc;
        let is_twin = |by: &usize| self.communicators.contains(by) && self.threads[*by].lane.proc != proc;
        self.givers(object).iter().any(is_twin)
    }

    /// Returns `true` if a thread, or its process in case of large messages, read files between the messages.
    fn are_after_reads(&self, thread: usize, received: &Received) -> bool {
        let thread = &self.threads[thread];
        let own: Vec<i64> = thread.steps.iter().filter(|step| step.storage > 0).map(|step| step.end).collect();
        received.are_after(&own) || received.are_large() && received.are_after(&self.reads_of(thread.lane.proc))
    }

    fn received(&self, thread: usize, from: u32) -> Received {
        let (mut received, mut since) = (Received::default(), i64::MIN);
        let mut last = None;
        let steps = &self.threads[thread].steps;
        for (at, step) in steps.iter().enumerate() {
            if !step.is_receipt() || !self.gives(from, step.object.id) {
                continue;
            }
            // A header and the pieces after it are one message.
            let is_next = last.is_some_and(|last| steps[last + 1..at].iter().all(is_pause));
            if !is_next {
                received.times.push((since, step.end));
            }
            received.bytes += step.amount;
            (last, since) = (Some(at), step.end);
        }
        received
    }

    /// Returns when the threads of a process, and of those that only supply it, had read files. Threads that mainly write
    /// are left out.
    fn reads_of(&self, proc: u32) -> Vec<i64> {
        let readers = (0..self.processes.len() as u32).filter(|&other| self.parents[other as usize] == Some(proc));
        let readers = readers.filter(|&other| self.supplies(other, proc));
        let threads = readers.chain([proc]).flat_map(|proc| self.threads_of(proc)).map(|thread| &self.threads[thread]);
        let threads = threads.filter(|thread| 2 * thread.written_ns < thread.stored_ns);
        let steps = threads.flat_map(|thread| &thread.steps).filter(|step| step.storage > 0);
        let mut reads: Vec<i64> = steps.map(|step| step.end).collect();
        reads.sort_unstable();
        reads
    }
}

/// Returns `true` for a step between two pieces of one message.
fn is_pause(step: &Step) -> bool {
    matches!(step.kind, StepKind::Edge | StepKind::Poll | StepKind::TimedWait)
}
