//! Processes that do the same work and exchange messages, such as ranks made by fork: neither makes batches for the other.

use std::collections::BTreeSet;

use super::family::Family;
use crate::summary::tree::above;

/// Fewer messages show no pattern.
const MESSAGES_MIN: u64 = 5;

/// The messages of both directions differ by less than this factor, in number and in size.
const ALIKE: i64 = 2;

/// The messages that a thread received from another process.
#[derive(Default)]
struct Received {
    messages: u64,
    bytes: i64,
    /// Number of messages before which the thread itself had read files since the message before.
    after_reads: u64,
}

impl Received {
    fn is_after_reads(&self) -> bool {
        self.messages >= MESSAGES_MIN && 2 * self.after_reads >= self.messages
    }
}

impl Family<'_> {
    /// Returns the first threads of a process and its child that read files themselves between the messages
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
                let exchange = are_alike(down.messages as i64, up.messages as i64) && are_alike(down.bytes, up.bytes);
                if exchange && down.is_after_reads() && up.is_after_reads() {
                    twins.extend([one, other]);
                }
            }
        }
        twins
    }

    fn received(&self, thread: usize, from: u32) -> Received {
        let mut received = Received::default();
        let mut has_read = false;
        for step in &self.threads[thread].steps {
            has_read |= step.storage > 0;
            if step.is_receipt() && self.gives(from, step.object.id) {
                received.messages += 1;
                received.bytes += step.amount;
                received.after_reads += has_read as u64;
                has_read = false;
            }
        }
        received
    }
}
