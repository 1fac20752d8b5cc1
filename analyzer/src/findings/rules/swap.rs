//! Detects process memory that is swapped out and in.

use super::super::devices::RECORD_COUNTERS;
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::figures::units::bytes;
use crate::summary::report::findings::{Confidence, Severity};

pub const RULE: Rule = Rule {
    id: "swap",
    group: Group::Run,
    cost: Cost::Always,
    confidence: Confidence::Exact,
    asks: "64 MiB or more were swapped in during the run",
    silences: &[],
    silences_rules: &[],
    remedy: "reduce the job's memory (fewer readers, fewer prefetched batches), or add memory",
    torch: "reduce the job's memory (fewer num_workers, a smaller prefetch_factor), or add memory",
    elsewhere: "reduce the job's memory, or add memory",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let machines = || case.summary.machine.iter().filter_map(|machine| machine.sampled.as_ref());
    let back = machines().filter_map(|sampled| sampled.swap_in).max();
    Judgement {
        measures: vec![case.at_least("in", back.map(|bytes| bytes as f64))],
        says: format!("{} were swapped in while the job ran", bytes(back.unwrap_or(0) as f64)),
        severity: Some(Severity::Warning),
        decide: RECORD_COUNTERS,
        ..Judgement::default()
    }
}
