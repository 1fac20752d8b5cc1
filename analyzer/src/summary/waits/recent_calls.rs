//! The last file calls of a thread. A span is recorded when it ends: then they show which calls were made inside it.

use crate::summary::tree::LaneId;

/// This many calls are kept. Earlier ones were made before any span that matters.
const CALLS_MAX: usize = 1 << 16;

struct Call {
    start: i64,
    ns: i64,
    in_memory: bool,
}

/// File calls of one thread, in the order in which they ended.
#[derive(Default)]
pub struct RecentCalls {
    /// `true` if the trace has spans that wait for batches.
    pub is_kept: bool,
    lane: Option<LaneId>,
    calls: Vec<Call>,
    /// All calls since then are known.
    from: i64,
}

impl RecentCalls {
    /// Starts with a part of a thread's events; `first` is the start of the first one.
    pub fn begin(&mut self, lane: LaneId, first: i64) {
        if self.lane != Some(lane) {
            self.lane = Some(lane);
            self.calls.clear();
            self.from = first;
        }
    }

    /// Adds a call, with its time that is not part of another one.
    #[inline(always)]
    pub fn add(&mut self, start: i64, ns: i64, in_memory: bool) {
        if self.is_kept {
            self.keep(Call { start, ns, in_memory });
        }
    }

    fn keep(&mut self, call: Call) {
        if self.calls.len() >= CALLS_MAX {
            self.calls.drain(..CALLS_MAX / 2);
            self.from = self.calls[0].start;
        }
        self.calls.push(call);
    }

    /// Returns the time in calls on stored files and on batch shared memory that started in a time range; `None` if they are not
    /// known.
    pub fn between(&self, from: i64, to: i64) -> Option<(i64, i64)> {
        let within = self.calls.iter().rev().skip_while(|call| call.start >= to).take_while(|call| call.start >= from);
        let sums = within.fold((0, 0), |(storage, memory), call| match call.in_memory {
            true => (storage, memory + call.ns),
            false => (storage + call.ns, memory),
        });
        (self.is_kept && from >= self.from).then_some(sums)
    }
}
