//! First threads of processes: their sleeps, and their page faults on mapped files, which may be waits for data in programs
//! without a known trainer.

use serde::{Deserialize, Serialize};

use super::family::Family;
use super::parts::Part;
use super::polls;
use super::thread::{Mapped, Thread};
use super::timeline::{Step, StepKind};
use crate::summary::tree::LaneId;

/// Actions of the first thread of a process that may be waits for data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FirstThread {
    /// Number of its sleeps, and their time.
    pub sleeps: u64,
    pub slept_ns: i64,
    /// Time of short sleeps in rows of different lengths: looks for something in memory that no call shows, it seems.
    #[serde(default)]
    pub polled_ns: i64,
    /// Its use of mapped data files; `null` if it mapped none.
    pub mapped: Option<Mapped>,
}

/// A trainer that looks for batches again and again sleeps more than this many times per batch. Fewer sleeps are its steps.
const LOOKS: u64 = 2;

/// Returns the first threads that slept or mapped data files. `batches` returns the number of batches that a trainer received.
pub(super) fn first_threads(family: &Family, batches: impl Fn(LaneId) -> u64) -> Vec<(LaneId, FirstThread)> {
    let firsts = family.threads.iter().filter(|thread| thread.is_first);
    let all = firsts.map(|thread| (thread.lane, of(thread, batches(thread.lane))));
    all.filter(|(_, thread)| thread.sleeps > 0 || thread.mapped.is_some()).collect()
}

fn of(thread: &Thread, batches: u64) -> FirstThread {
    let slept = |(step, class): (&Step, &Part)| {
        (step.kind == StepKind::Sleep && *class == Part::Sleep).then_some(step.end - step.start)
    };
    let sleeps = thread.steps.iter().zip(&thread.class).filter_map(slept);
    let (sleeps, slept_ns) = sleeps.fold((0, 0), |(count, ns), slept| (count + 1, ns + slept));
    let polled_ns = if sleeps > LOOKS * batches { polls::slept_in_rows(thread) } else { 0 };
    FirstThread { sleeps, slept_ns, polled_ns, mapped: thread.mapped }
}
