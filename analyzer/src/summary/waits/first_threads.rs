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

/// Returns the first threads that slept or mapped data files.
pub(super) fn first_threads(family: &Family) -> Vec<(LaneId, FirstThread)> {
    let firsts = family.threads.iter().filter(|thread| thread.is_first);
    let all = firsts.map(|thread| (thread.lane, of(thread)));
    all.filter(|(_, thread)| thread.sleeps > 0 || thread.mapped.is_some()).collect()
}

fn of(thread: &Thread) -> FirstThread {
    let slept = |(step, class): (&Step, &Part)| {
        (step.kind == StepKind::Sleep && *class == Part::Sleep).then_some(step.end - step.start)
    };
    let sleeps = thread.steps.iter().zip(&thread.class).filter_map(slept);
    let (sleeps, slept_ns) = sleeps.fold((0, 0), |(count, ns), slept| (count + 1, ns + slept));
    FirstThread { sleeps, slept_ns, polled_ns: polls::slept_in_rows(thread), mapped: thread.mapped }
}
