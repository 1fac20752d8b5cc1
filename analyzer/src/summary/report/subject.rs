//! The trainers whose waits decide the verdict: one that holds up the others, the one that waited most of several jobs,
//! or all of them.

use crate::summary::training::RankGroup;

/// A training run that waits for less than this share would gain nothing from faster data loading.
pub(super) const FREE: f64 = 0.05;

/// A training run that waits for this share of its time or more is limited by data loading.
pub(super) const LIMITING: f64 = 0.2;

/// The trainers that a verdict is about.
pub(super) struct Subject<'a> {
    pub groups: Vec<&'a RankGroup>,
    /// Trainers that wait for the single trainer in `groups`.
    pub victims: Vec<&'a RankGroup>,
    /// Trainers of other jobs, which waited less than the single trainer in `groups`.
    pub unrelated: Vec<&'a RankGroup>,
}

/// If the shares of unrelated trainers differ by less than this, their mean is true of each.
const ALIKE: f64 = 0.1;

/// Selects the trainers that a verdict is about.
pub(super) fn subject(groups: Vec<&RankGroup>) -> Subject<'_> {
    if let Some((one, victims)) = culprit(&groups).or_else(|| straggler(&groups)) {
        return Subject { groups: vec![one], victims, unrelated: Vec::new() };
    }
    match most_delayed(&groups) {
        Some(one) => {
            let unrelated = groups.into_iter().filter(|group| group.proc != one.proc).collect();
            Subject { groups: vec![one], victims: Vec::new(), unrelated }
        }
        None => Subject { groups, victims: Vec::new(), unrelated: Vec::new() },
    }
}

/// Returns the trainer that waited longest if the trainers belong to different jobs: no rank, communication or wait
/// connects them, and a mean of their waits would be true of none.
fn most_delayed<'a>(groups: &[&'a RankGroup]) -> Option<&'a RankGroup> {
    let is_alone = |group: &RankGroup| {
        let collective_ns = group.device.as_ref().map_or(0, |device| device.collective_ns);
        group.rank.is_none() && group.peers.is_empty() && group.communicated_ns == 0 && collective_ns == 0
    };
    let parts: Option<Vec<f64>> =
        groups.iter().map(|group| Some(group.waited_ns? as f64 / group.trained_ns.max(1) as f64)).collect();
    let parts = parts?;
    let least = parts.iter().copied().fold(f64::INFINITY, f64::min);
    let most = parts.iter().copied().fold(0.0, f64::max);
    let differ = groups.iter().all(|group| is_alone(group)) && most - least >= ALIKE;
    groups.iter().copied().filter(|_| differ).max_by_key(|group| group.waited_ns)
}

/// Returns the trainer that loses time to its data, its files, locks or own threads while most other trainers wait for
/// it, and those trainers. All of them wait for their readers to start, so that time does not count.
fn culprit<'a>(groups: &[&'a RankGroup]) -> Option<(&'a RankGroup, Vec<&'a RankGroup>)> {
    let lost = |group: &RankGroup| {
        let others = [group.written_ns, group.own_work_ns, group.lock_wait_ns];
        let at_work = group.waited_ns? - group.wait_start_ns.unwrap_or(0);
        Some(at_work + others.into_iter().flatten().sum::<i64>())
    };
    let one = groups.iter().copied().max_by_key(|group| lost(group))?;
    let waits = |group: &RankGroup, ns: i64| ns as f64 >= FREE * group.trained_ns as f64;
    let others = || groups.iter().copied().filter(|group| group.proc != one.proc);
    let is_victim = |group: &&RankGroup| {
        let (own, waited) = (lost(group).unwrap_or(0), waited_for(group, one));
        waits(group, waited) && waited > own
    };
    let victims: Vec<&RankGroup> = others().filter(is_victim).collect();
    let is_one = waits(one, lost(one)?) && 2 * victims.len() >= groups.len() - 1 && !victims.is_empty();
    is_one.then_some((one, victims))
}

/// Other trainers wait for a straggler for this share of their time.
const STRAGGLES: f64 = 0.25;

/// Returns the trainer for which most others wait for a large part of their time, without a wait of its own that explains it,
/// and those others.
fn straggler<'a>(groups: &[&'a RankGroup]) -> Option<(&'a RankGroup, Vec<&'a RankGroup>)> {
    let waits_for = |group: &RankGroup, one: &RankGroup| waited_for(group, one) as f64 / group.trained_ns.max(1) as f64;
    let others = |one: &RankGroup| {
        let proc = one.proc;
        groups.iter().copied().filter(move |group| group.proc != proc)
    };
    let victims = |one: &RankGroup| -> Vec<&'a RankGroup> {
        others(one)
            .filter(|group| waits_for(group, one) >= STRAGGLES && waits_for(group, one) > 2.0 * waits_for(one, group))
            .collect()
    };
    let found = groups.iter().copied().map(|one| (one, victims(one)));
    let (one, victims) = found.max_by_key(|(_, victims)| victims.len())?;
    (!victims.is_empty() && 2 * victims.len() >= groups.len() - 1).then_some((one, victims))
}

/// Returns how long a trainer waited for another one: in calls that this one ended, or longer than this one in calls of MPI, in
/// which the last to arrive waits least.
pub(super) fn waited_for(group: &RankGroup, one: &RankGroup) -> i64 {
    let longer = if group.inferred { group.communicated_ns - one.communicated_ns } else { 0 };
    // Kernels of communication spin until all ranks have arrived.
    let collective = |group: &RankGroup| group.device.as_ref().map(|device| device.collective_ns);
    let on_device = collective(group).zip(collective(one)).map_or(0, |(group, one)| group - one);
    group.waited_for(one.proc).max(longer).max(on_device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::training::PeerWait;

    /// Returns a trainer that trained for 100 ns.
    fn trainer(proc: u32, rank: Option<i32>, waited_ns: i64) -> RankGroup {
        serde_json::from_value(serde_json::json!({
            "proc": proc, "host": "", "pid": proc, "rank": rank, "trainer": "train.py", "inferred": true, "torch": true,
            "gpu_untimed": false, "device": null, "start_ts": 0, "startup_ns": null, "trained_ns": 100,
            "waited_ns": waited_ns, "wait_start_ns": null, "wait_io_ns": null, "wait_elsewhere_ns": null, "causes": null,
            "faults": null, "own_work_ns": null, "lock_wait_ns": null, "peer_wait_ns": null, "unknown_wait_ns": null,
            "own_gil_ns": null, "own_no_cpu_ns": null, "file_waits": 0, "startup_causes": null, "peers": [], "waited_for": [],
            "held_ns": null, "computed_ns": null, "communicated_ns": 0, "checkpoint_ns": null, "written_ns": null,
            "own_read_ns": null, "overlap": null, "batches": 0, "epochs": 0, "readers": [],
        }))
        .unwrap()
    }

    fn judged(trainers: &[RankGroup]) -> (Vec<u32>, usize) {
        let found = subject(trainers.iter().collect());
        (found.groups.iter().map(|group| group.proc).collect(), found.unrelated.len())
    }

    #[test]
    fn a_rank_that_others_wait_for_is_the_subject_whatever_it_does() {
        let waits_for = |group: RankGroup, proc: u32, wait_ns: i64| {
            let peers = vec![PeerWait { proc, pid: proc as i32, rank: None, wait_ns }];
            RankGroup { peers, ..group }
        };
        let slow = waits_for(trainer(2, Some(1), 1), 1, 3);
        assert_eq!(judged(&[waits_for(trainer(1, Some(0), 1), 2, 80), slow.clone()]), (vec![2], 0));
        assert_eq!(judged(&[waits_for(trainer(1, Some(0), 1), 2, 5), slow]), (vec![1, 2], 0));
    }

    #[test]
    fn a_mean_is_only_made_of_one_job_or_of_equal_ones() {
        assert_eq!(judged(&[trainer(1, None, 12), trainer(2, None, 48)]), (vec![2], 1));
        assert_eq!(judged(&[trainer(1, None, 44), trainer(2, None, 48)]), (vec![1, 2], 0));
        assert_eq!(judged(&[trainer(1, Some(0), 12), trainer(2, Some(1), 48)]), (vec![1, 2], 0));
        let talks = RankGroup { communicated_ns: 1, ..trainer(1, None, 12) };
        assert_eq!(judged(&[talks, trainer(2, None, 48)]), (vec![1, 2], 0));
    }
}
