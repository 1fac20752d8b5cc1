//! A made-up job of many ranks on hosts of eight, which meet at the end of each step. The storage of one rank is slow.

use dlio_schemas::native::fields::key;

use super::runs::MIB;
use super::script::Script;

const STEPS: i32 = 50;
const PER_HOST: usize = 8;
const COMPUTE_US: u64 = 20_000;
/// The time of a batch on most ranks, and on the slow one, which also decides how long a step is.
const READ_US: u64 = 5_000;
const SLOW_READ_US: u64 = 80_000;

/// The rank that all others wait for.
pub fn slow_rank(ranks: usize) -> usize {
    ranks * 5 / 8
}

pub fn hosts(ranks: usize) -> usize {
    ranks.div_ceil(PER_HOST)
}

/// Returns the trainer and the worker of a rank.
pub fn rank(rank: usize, ranks: usize) -> [Script; 2] {
    let read_us = if rank == slow_rank(ranks) { SLOW_READ_US } else { READ_US };
    let pid = 1000 + 2 * rank as i32;
    let (mut trainer, mut worker) = (Script::ranked(pid, rank as i32), Script::new(pid + 1, pid));
    worker.rank = Some(rank as i32);
    for script in [&mut trainer, &mut worker] {
        let host = rank / PER_HOST;
        let facts = [(key::HOST, format!("node{host}")), (key::BOOT_ID, format!("boot-{host}"))];
        script.more_facts =
            facts.into_iter().chain([(key::JOB, "7".into()), (key::RANKS, ranks.to_string())]).collect();
    }
    for step in 0..STEPS {
        // The batch of a step is read while the previous one is computed; then all wait for the slow rank.
        let start = step as u64 * (SLOW_READ_US + 1000);
        worker.at(start).load(&format!("/data/{rank}/sample-{step}.npy"), MIB, read_us);
        let wait_us = read_us.saturating_sub(COMPUTE_US).max(200);
        trainer.span_at(start, COMPUTE_US, "train", "compute", (0, step));
        trainer.span_at(start + COMPUTE_US, wait_us, "fetch", "dataloader", (0, step));
        let meets = start + COMPUTE_US + wait_us;
        let met = (step as u64 + 1) * (SLOW_READ_US + 1000);
        trainer.span_at(meets, met - meets, "all_reduce", "comm", (0, step));
    }
    [trainer, worker]
}
