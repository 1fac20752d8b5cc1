//! More readers than processors can run.

use super::super::loader::{CROWDED, PER_CORE, readers_a_core};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::report::findings::Confidence;

pub const RULE: Rule = Rule {
    id: CROWDED,
    group: Group::Loader,
    cost: Cost::Always,
    confidence: Confidence::Exact,
    asks: "a host has two readers a processor or more",
    silences: &[],
    silences_rules: &[],
    remedy: "fewer readers: cores / ranks is where to begin",
    torch: "fewer num_workers: cores / ranks is where to begin",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let most = readers_a_core(case);
    Judgement {
        measures: vec![case.at_least(PER_CORE, most.as_ref().map(|(ratio, _)| *ratio))],
        says: most.map(|(_, says)| says).unwrap_or_default(),
        decide: "a trace with trainers and readers that tells how many processors there are",
        ..Judgement::default()
    }
}
