//! Detects files that are opened repeatedly.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, part};
use crate::summary::figures::units::grouped;
use crate::summary::report::findings::{Confidence, Unit};
use crate::summary::report::patterns::PatternUse;

pub const RULE: Rule = Rule {
    id: "reopen-storm",
    group: Group::Metadata,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "files of a pattern are opened 10 or more times per process and epoch",
    silences: &[],
    silences_rules: &[],
    remedy: "keep one handle per worker, opened at its first sample",
    torch: "",
    elsewhere: "open the file once and keep it open",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let epochs = case.epochs().max(1) as f64;
    let often = |row: &PatternUse| part(row.use_.opens as f64, row.users as f64 * epochs).unwrap_or(0.0);
    let calls = case.calls(0).limit as u64;
    let rows = case.summary.patterns.iter().filter(|row| row.use_.opens >= calls.max(1));
    let most = rows.max_by(|a, b| often(a).total_cmp(&often(b)));
    let (ratio, opens) = most.map_or((0.0, 0), |row| (often(row), row.use_.opens));
    let time_ns = case.opening_ns();
    let share = part(opens as f64, case.opens() as f64).unwrap_or(0.0) * (1.0 - 1.0 / ratio.max(1.0));
    let row = |row: &PatternUse| {
        format!("{}: {} opens of {} files", row.pattern, grouped(row.use_.opens), grouped(row.files))
    };
    Judgement {
        measures: vec![case.calls(opens), case.at_least("opens", Some(ratio))],
        says: format!("the same files are opened {} times per process and epoch", Unit::Ratio.text(ratio)),
        worth: Some(case.shared_out(time_ns * share)),
        evidence: most.map(row).into_iter().collect(),
        ..Judgement::default()
    }
}
