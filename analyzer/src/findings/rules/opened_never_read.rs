//! Detects files that are opened and never used.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, SYNCS, part};
use crate::summary::figures::units::grouped;
use crate::summary::report::findings::{Confidence, Unit};
use crate::summary::report::patterns::PatternUse;

pub const RULE: Rule = Rule {
    id: "opened-never-read",
    group: Group::Metadata,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "10 % or more of the opens are of files that are never read or written",
    silences: &[],
    silences_rules: &[],
    remedy: "take sizes from stat or an index; drop the check whether a file can be opened",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    // A mapped file may be read without a call that moves bytes; other files are opened to be synchronized or locked.
    let is_use = |name: &str| name == "mmap" || SYNCS.contains(&name);
    let used = case.calls_where(|function| is_use(&function.name)).count + case.locks().count;
    let unread = case.summary.dataset.opens_unused.saturating_sub(used);
    let share = part(unread as f64, case.opens() as f64).unwrap_or(0.0);
    let time_ns = case.opening_ns();
    let unused = |row: &&PatternUse| row.use_.opens > 0 && row.use_.bytes_read + row.use_.bytes_written == 0;
    let row = |row: &PatternUse| format!("{}: {} opens", row.pattern, grouped(row.use_.opens));
    Judgement {
        measures: vec![case.calls(unread), case.at_least("share", Some(share))],
        says: format!(
            "{} of {} opens ({}) are of files that are never read or written",
            grouped(unread),
            grouped(case.opens()),
            Unit::Share.text(share)
        ),
        worth: Some(case.shared_out(time_ns * share)),
        evidence: case.summary.patterns.iter().filter(unused).map(row).collect(),
        ..Judgement::default()
    }
}
