//! The quota of a control group keeps readers from running.

use super::super::cpus::{POINTLESS, by_shortage};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::report::findings::Confidence;
use crate::summary::report::no_cpu::Shortage;

pub const RULE: Rule = Rule {
    id: "cpu-quota",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Exact,
    asks: "readers wait for a CPU, and their control group used up its quota of CPU time in a quarter of its periods",
    silences: &[],
    silences_rules: POINTLESS,
    remedy: "ask for more CPUs: a higher limit of the container (docker --cpus, resources.limits.cpu), or no limit; then as many readers as CPUs",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    by_shortage(case, |shortage| matches!(shortage, Shortage::Quota(_)))
}
