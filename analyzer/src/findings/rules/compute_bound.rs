//! Reports that the loader keeps up.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, RECORD_CALLS, RECORD_TRAINING, Waited, part};
use crate::summary::report::findings::{Confidence, Unit};

pub const RULE: Rule = Rule {
    id: "compute-bound",
    group: Group::Verdict,
    cost: Cost::Good,
    confidence: Confidence::Exact,
    asks: "training waits for less than 5 % of its time, and I/O without compute takes less than 5 % of the run time",
    silences: &[Group::Loader, Group::Access, Group::Metadata],
    silences_rules: &[],
    remedy: "leave data loading unchanged: faster reads would not shorten the run",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let waited = case.waited();
    let knows_calls = case.summary.knows_calls();
    let exposed = case.summary.time.unoverlapped_io_ns.filter(|_| knows_calls);
    let exposed = exposed.and_then(|ns| part(ns as f64, case.wall_ns() as f64));
    let wait = waited.as_ref().map(Waited::share);
    let says = |share: f64| format!("{} waits for only {} of its time", case.loop_name(), Unit::Share.text(share));
    Judgement {
        measures: vec![case.below("wait", wait), case.below("exposed", exposed)],
        says: wait.map(says).unwrap_or_default(),
        confidence: waited.map(|waited| waited.confidence()),
        decide: if knows_calls || wait.is_none() { RECORD_TRAINING } else { RECORD_CALLS },
        ..Judgement::default()
    }
}
