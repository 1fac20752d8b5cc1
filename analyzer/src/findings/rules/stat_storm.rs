//! Detects many metadata calls per opened file.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, part};
use crate::summary::figures::units::grouped;
use crate::summary::report::findings::{Confidence, Unit};
use crate::summary::report::metadata::STATS;

pub const RULE: Rule = Rule {
    id: "stat-storm",
    group: Group::Metadata,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "there are three or more stat and similar calls per open",
    silences: &[],
    silences_rules: &[],
    remedy: "scan once and save an index; drop exists-then-open; use os.scandir instead of listdir and stat",
    torch: "",
    elsewhere: "scan once and remember the result; drop exists-then-open; use os.scandir instead of listdir and stat",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let ((stats, time_ns), opens) = (case.asked(&["stat"]), case.opens());
    let ratio = part(stats as f64, opens.max(1) as f64).unwrap_or(0.0);
    Judgement {
        measures: vec![case.calls(stats), case.at_least("ratio", Some(ratio))],
        says: format!(
            "{} stat and similar calls, and {} opens: {} per open",
            grouped(stats),
            grouped(opens),
            Unit::Ratio.text(ratio)
        ),
        worth: Some(case.shared_out(time_ns)),
        evidence: case.calls_where(|function| STATS.contains(&function.name.as_str())).rows,
        ..Judgement::default()
    }
}
