//! Parents of processes, by process ids and times, and the ranks that only children know.

use std::collections::BTreeMap;

use crate::catalog::Process;

/// Longer chains are a cycle of reused process ids.
pub const GENERATIONS_MAX: usize = 64;

/// An image that starts this long after a child of its process id is still the child's parent: a process that was
/// forked without the C library gets its image at its first call, which may follow its own child's first call. Process
/// ids are not reused this quickly.
const LATE_NS: i64 = 1_000_000_000;

/// Returns, by process, the image of its parent that was running when it started.
pub fn parents(processes: &[Process]) -> Vec<Option<u32>> {
    let mut images: BTreeMap<(u32, i32), Vec<u32>> = BTreeMap::new();
    for (number, process) in (0u32..).zip(processes) {
        images.entry((process.host, process.pid)).or_default().push(number);
    }
    let parent = |process: &Process| {
        let images = images.get(&(process.host, process.ppid?))?;
        let image = |number: &&u32| &processes[**number as usize];
        let began = |number: &&u32| image(number).start_ts <= process.start_ts;
        let running =
            |number: &&u32| began(number) && image(number).end_ts.is_none_or(|end| Some(end) >= process.start_ts);
        // Select the image that ended first among those still running: an exec keeps the start time of its process.
        let ending = |number: &&u32| image(number).end_ts.unwrap_or(i64::MAX);
        let late = |number: &&u32| {
            let after = image(number).start_ts.zip(process.start_ts).map(|(image, child)| image - child);
            after.is_some_and(|after| (1..=LATE_NS).contains(&after))
        };
        let found = images.iter().filter(running).min_by_key(ending).or_else(|| images.iter().rfind(began));
        found.or_else(|| images.iter().find(late)).copied()
    };
    processes.iter().map(parent).collect()
}

/// Returns the ranks of processes that set them in their own environment after they had started, as a function given to
/// `torch.multiprocessing.spawn` does: only their children have them from the start. A launcher has children of several
/// ranks, or starts another program.
pub fn late_ranks(processes: &[Process]) -> Vec<(u32, i32)> {
    let mut all: Vec<i32> = processes.iter().filter_map(|process| process.rank).collect();
    all.sort_unstable();
    all.dedup();
    if all.len() < 2 {
        return Vec::new();
    }
    let mut below: BTreeMap<u32, Vec<i32>> = BTreeMap::new();
    for (process, parent) in processes.iter().zip(parents(processes)) {
        let Some((parent, rank)) = parent.zip(process.rank) else { continue };
        let forks = process.command.is_some() && process.command == processes[parent as usize].command;
        let spawns = process.command.as_deref().is_some_and(|command| command.contains("multiprocessing"));
        if processes[parent as usize].rank.is_none() && (forks || spawns) {
            below.entry(parent).or_default().push(rank);
        }
    }
    let only =
        |(parent, ranks): (u32, Vec<i32>)| ranks.iter().all(|rank| *rank == ranks[0]).then(|| (parent, ranks[0]));
    below.into_iter().filter_map(only).collect()
}

/// Returns the chain of parents.
pub fn above(parents: &[Option<u32>], proc: u32) -> Vec<u32> {
    let next = |proc: &u32| parents.get(*proc as usize).copied().flatten();
    std::iter::successors(next(&proc), next).take(GENERATIONS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_that_only_children_know_is_their_parents() {
        let process = |pid, ppid, rank, command: &str| Process {
            pid,
            ppid: Some(ppid),
            rank,
            start_ts: Some(pid as i64),
            command: Some(command.into()),
            ..Process::default()
        };
        let spawned = "python -c 'from multiprocessing.spawn import spawn_main' --multiprocessing-fork";
        // A program spawns two ranks; the worker of one is spawned, that of the other forked.
        let two = [
            process(1, 0, None, "python train.py"),
            process(2, 1, None, spawned),
            process(3, 1, None, spawned),
            process(4, 2, Some(0), spawned),
            process(5, 3, Some(1), spawned),
        ];
        assert_eq!(late_ranks(&two), [(1, 0), (2, 1)]);
        // Launchers of one rank per host, and a program that sets the ranks before it spawns them.
        let launched = [
            process(1, 0, None, "torchrun train.py"),
            process(2, 1, Some(0), "python train.py"),
            process(3, 0, None, "torchrun train.py"),
            process(4, 3, Some(1), "python train.py"),
        ];
        assert!(late_ranks(&launched).is_empty());
        let spawning =
            [process(1, 0, None, "python train.py"), process(2, 1, Some(0), spawned), process(3, 1, Some(1), spawned)];
        assert!(late_ranks(&spawning).is_empty());
    }

    #[test]
    fn parent_is_the_image_running_at_the_start() {
        let image = |pid, ppid, start, end| Process {
            pid,
            ppid,
            start_ts: Some(start),
            end_ts: Some(end),
            ..Process::default()
        };
        // A shell execs a trainer, whose worker starts a helper; a process id is reused much later.
        let processes = [
            image(10, None, 0, 5),
            image(10, None, 0, 100),
            image(11, Some(10), 20, 90),
            image(12, Some(11), 30, 40),
            image(11, Some(1), 200, 210),
        ];
        let parents = parents(&processes);
        assert_eq!(parents, [None, None, Some(1), Some(2), None]);
        assert_eq!(above(&parents, 3), [2, 1]);
    }

    #[test]
    fn a_parent_whose_image_begins_after_its_child_is_its_parent() {
        let image = |pid, ppid, start| Process { pid, ppid: Some(ppid), start_ts: Some(start), ..Process::default() };
        let processes = [image(12, 11, 5), image(11, 10, 20), image(11, 1, LATE_NS + 30), image(14, 11, LATE_NS + 25)];
        assert_eq!(parents(&processes), [Some(1), None, None, Some(1)]);
        assert_eq!(parents(&[image(12, 11, 5), image(11, 1, LATE_NS + 6)]), [None, None]);
    }
}
