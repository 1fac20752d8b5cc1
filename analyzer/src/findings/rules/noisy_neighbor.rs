//! Detects processes outside the trace that use the CPUs.

use super::super::cpus::{POINTLESS, by_shortage};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::report::findings::Confidence;
use crate::summary::report::no_cpu::Shortage;

pub const RULE: Rule = Rule {
    id: "noisy-neighbor",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Exact,
    asks: "readers wait for a CPU, and used less than 70 % of the CPUs on which they may run",
    silences: &[],
    silences_rules: POINTLESS,
    remedy: "give the job a host or CPUs of its own; run top during the job to see which programs use them (--section \
        machine shows how much)",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    by_shortage(case, |shortage| matches!(shortage, Shortage::Others { .. }))
}
