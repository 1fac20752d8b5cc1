//! Detects readers that a cgroup quota throttles.

use super::super::cpus::{POINTLESS, RECORD_MACHINE, by_shortage};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::report::findings::{Confidence, Severity};
use crate::summary::report::machine::{QuotaUse, most_used_up};
use crate::summary::report::no_cpu::{Shortage, quota_text};

pub const RULE: Rule = Rule {
    id: "cpu-quota",
    group: Group::Loader,
    cost: Cost::Always,
    confidence: Confidence::Exact,
    asks: "a control group used up its CPU quota in a quarter of its periods, or readers wait for a CPU because of it",
    silences: &[],
    silences_rules: POINTLESS,
    remedy: "raise the CPU quota of the container (docker --cpus, resources.limits.cpu), or remove it; otherwise run fewer \
        processes and threads: one reader per CPU of the quota, and at least one",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let quotas = case.summary.machine.iter().flat_map(|machine| &machine.quotas);
    let most = most_used_up(quotas);
    let used_up = most.and_then(QuotaUse::used_up);
    let is_cause = by_shortage(case, |shortage| matches!(shortage, Shortage::Quota(_)));
    if !is_cause.says.is_empty() && is_cause.measures.iter().all(|measure| measure.holds() == Some(true)) {
        return is_cause;
    }
    let is_known = case.summary.machine.iter().any(|machine| machine.cpus.is_some());
    Judgement {
        measures: vec![case.at_least("used-up", used_up.or(is_known.then_some(0.0)))],
        says: most.map(quota_text).unwrap_or_default(),
        severity: Some(Severity::Warning),
        decide: RECORD_MACHINE,
        ..Judgement::default()
    }
}
