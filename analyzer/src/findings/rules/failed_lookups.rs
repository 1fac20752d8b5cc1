//! Detects lookups of files that do not exist.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, part};
use crate::summary::figures::units::grouped;
use crate::summary::report::failures::FailureUse;
use crate::summary::report::findings::{Confidence, Unit};
use crate::summary::report::metadata::group;

pub const RULE: Rule = Rule {
    id: "failed-lookups",
    group: Group::Metadata,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "half of all open and stat calls (1000 or more) find no file",
    silences: &[],
    silences_rules: &[],
    remedy: "shorten the search path (PYTHONPATH, LD_LIBRARY_PATH), put the environment into one image, use a list \
        instead of trying names",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

/// No such file or directory.
const ENOENT: i32 = 2;

fn judge(case: &Case) -> Judgement {
    let looks = |row: &&FailureUse| row.errno == Some(ENOENT) && ["open", "stat"].contains(&group(&row.name));
    let failed = || case.summary.failures.iter().filter(looks);
    let count: u64 = failed().map(|row| row.count).sum();
    let time_ns: u64 = failed().map(|row| row.time_ns).sum();
    let share = part(count as f64, case.asked(&["open", "stat"]).0 as f64).unwrap_or(0.0);
    let row = |row: &FailureUse| {
        format!("{}: {} times, first {}", row.name, grouped(row.count), row.file.as_deref().unwrap_or("unknown"))
    };
    Judgement {
        measures: vec![case.at_least("calls", Some(count as f64)), case.at_least("share", Some(share))],
        says: format!("{} of all open and stat calls find no file", Unit::Share.text(share)),
        worth: Some(case.shared_out(time_ns as f64)),
        evidence: failed().map(row).collect(),
        ..Judgement::default()
    }
}
