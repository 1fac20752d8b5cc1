//! Detects more readers than CPUs can run.

use super::super::loader::{CROWDED, PER_CORE, readers_a_core};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::report::findings::Confidence;
use crate::summary::report::no_cpu::reader_cpus;

/// The share of their CPUs that readers use.
const CPU_USE: &str = "cpu-use";

pub const RULE: Rule = Rule {
    id: CROWDED,
    group: Group::Loader,
    cost: Cost::Always,
    confidence: Confidence::Exact,
    asks: "a host has two or more readers per CPU, and they use half of their CPUs or more",
    silences: &[],
    silences_rules: &[],
    remedy: "use fewer readers: start with cores / ranks",
    torch: "use fewer num_workers: start with cores / ranks",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let most = readers_a_core(case);
    // Readers that wait for a network or a disk do not need a CPU each.
    let part = reader_cpus(case.summary).and_then(|cpus| Some(cpus.used? / cpus.allowed? as f64));
    let used = part.map(|part| case.at_least(CPU_USE, Some(part)));
    Judgement {
        measures: [case.at_least(PER_CORE, most.as_ref().map(|(ratio, _)| *ratio))].into_iter().chain(used).collect(),
        says: most.map(|(_, says)| says).unwrap_or_default(),
        decide: "record trainers and readers with this version of dlio, which records the number of CPUs",
        ..Judgement::default()
    }
}
