//! Names of processes that the calls of a training show: a child that takes its output, or serves its readers, is not a reader.

use std::collections::BTreeSet;

use super::trainers::{TrainerWaits, WaitKind, Waits};
use crate::catalog::Process;
use crate::summary::tree::{is_worker, names, parents};

/// The name of such a child, which is listed with its process id.
pub const HELPER: &str = "child process";
pub const HELPERS: &str = "child processes";

impl Waits {
    /// Returns the names of processes: a worker for which a trainer with other workers waits, and that makes none of its
    /// batches, is a child process.
    pub fn names(&self, processes: &[Process]) -> Vec<String> {
        let (mut names, parents) = (names(processes), parents(processes));
        let is_one = |proc: u32| is_worker(processes, &parents, proc);
        let others: BTreeSet<u32> = self.trainers.iter().flat_map(readers_of).collect();
        let others: BTreeSet<u32> = others.into_iter().chain(self.trainers.iter().map(|it| it.lane.proc)).collect();
        let trainers = self.trainers.iter().filter(|trainer| readers_of(trainer).into_iter().any(is_one));
        for proc in trainers.flat_map(awaited).filter(|proc| !others.contains(proc) && is_one(*proc)) {
            names[proc as usize] = HELPER.into();
        }
        names
    }
}

/// Returns the other processes that make a trainer's batches.
fn readers_of(trainer: &TrainerWaits) -> BTreeSet<u32> {
    let makers = trainer.makers().into_keys().chain(trainer.readers.iter().copied());
    makers.map(|lane| lane.proc).filter(|proc| *proc != trainer.lane.proc).collect()
}

/// Returns the processes that do other work for which a trainer waits, or set the pace of its readers.
fn awaited(trainer: &TrainerWaits) -> BTreeSet<u32> {
    let lanes = trainer.waits.iter().filter_map(|wait| match wait.kind {
        WaitKind::OwnWork => wait.maker,
        WaitKind::Data => wait.limiter,
        _ => None,
    });
    lanes.map(|lane| lane.proc).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::summary::tree::LaneId;
    use crate::summary::waits::parts::Parts;
    use crate::summary::waits::trainers::Wait;

    fn lane(proc: u32) -> LaneId {
        LaneId { proc, tid: proc as i32 + 10 }
    }

    fn wait(kind: WaitKind, maker: u32, limiter: Option<u32>) -> Wait {
        let (acts, parts) = (Vec::new(), Parts::default());
        Wait { start: 0, end: 1, kind, maker: Some(lane(maker)), limiter: limiter.map(lane), depth: 0, acts, parts }
    }

    fn names_with(waits: Vec<Wait>) -> Vec<String> {
        let process = |proc: u32| Process {
            pid: proc as i32 + 10,
            ppid: (proc > 0).then_some(10),
            command: Some("python train.py".into()),
            start_ts: Some(proc as i64),
            ..Process::default()
        };
        let trainer = json!({
            "lane": lane(0), "by_spans": false, "waits": waits, "from": 0, "to": 1, "works": 0, "messages": 0, "own_storage": 0
        });
        let trainers = vec![serde_json::from_value(trainer).unwrap()];
        let waits = Waits { trainers, ..Waits::default() };
        waits.names(&(0..3).map(process).collect::<Vec<_>>())
    }

    #[test]
    fn a_child_that_makes_no_batches_is_no_worker() {
        let data = || wait(WaitKind::Data, 2, Some(2));
        assert_eq!(names_with(vec![data()])[1..], ["worker 0", "worker 1"]);
        assert_eq!(names_with(vec![data(), wait(WaitKind::OwnWork, 1, None)])[1..], [HELPER, "worker 1"]);
        assert_eq!(names_with(vec![wait(WaitKind::Data, 2, Some(1))])[1..], [HELPER, "worker 1"]);
        // Without other readers, it may be one.
        assert_eq!(names_with(vec![wait(WaitKind::OwnWork, 1, None)])[1..], ["worker 0", "worker 1"]);
    }
}
