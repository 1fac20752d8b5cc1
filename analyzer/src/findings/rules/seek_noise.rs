//! Detects as many seeks as reads and writes.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, part};
use crate::summary::figures::units::grouped;
use crate::summary::report::findings::{Confidence, Unit};
use crate::summary::report::metadata::group;

pub const RULE: Rule = Rule {
    id: "seek-noise",
    group: Group::Metadata,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "there is at least one seek per read or write",
    silences: &[],
    silences_rules: &[],
    remedy: "drop tell() per record, do not wrap a file object twice, use pread and pwrite if positions are known",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let (seeks, time_ns) = case.asked(&["seek"]);
    let moves = ["read", "write"].iter().map(|class| case.moved(class, 0, u64::MAX).count).sum::<u64>();
    let ratio = part(seeks as f64, moves.max(1) as f64).unwrap_or(0.0);
    Judgement {
        measures: vec![case.calls(seeks), case.at_least("ratio", Some(ratio))],
        says: format!(
            "{} seeks and {} reads and writes: {} per read or write",
            grouped(seeks),
            grouped(moves),
            Unit::Ratio.text(ratio)
        ),
        worth: Some(case.shared_out(time_ns)),
        evidence: case.calls_where(|function| group(&function.name) == "seek").rows,
        ..Judgement::default()
    }
}
