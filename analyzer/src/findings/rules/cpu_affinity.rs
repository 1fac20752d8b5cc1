//! Detects readers whose CPU affinity excludes most CPUs of the host.

use super::super::cpus::{POINTLESS, by_shortage};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, in_words};
use crate::summary::report::findings::Confidence;
use crate::summary::report::no_cpu::{Shortage, reader_cpus};

pub const RULE: Rule = Rule {
    id: "cpu-affinity",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Exact,
    asks: "readers wait for a CPU, and may run on fewer CPUs than the host has",
    silences: &[],
    silences_rules: POINTLESS,
    remedy: "give the job more CPUs: taskset, the cpuset of its container, --cpus-per-task of the scheduler",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

/// Change to make if readers set their own affinity.
const PINNED: &str = "find what pins the readers: their own code, a library they import, or taskset (taskset -pc PID \
    shows a process's CPUs); os.sched_setaffinity(0, range(os.cpu_count())) undoes it";
const PINNED_TORCH: &str = "find what pins the workers: their own code, a library they import, or taskset (taskset \
    -pc PID shows a process's CPUs); os.sched_setaffinity(0, range(os.cpu_count())) undoes it, in worker_init_fn if \
    an import does it";

fn judge(case: &Case) -> Judgement {
    let mut judgement = by_shortage(case, |shortage| matches!(shortage, Shortage::Mask { .. }));
    let pinned = reader_cpus(case.summary).is_some_and(|cpus| cpus.at_start > cpus.allowed);
    judgement.remedy = pinned.then(|| in_words(case.summary, PINNED, PINNED_TORCH));
    judgement
}
