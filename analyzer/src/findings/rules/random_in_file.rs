//! Reads jump back and forth in a file.

use super::super::patterns::{reads, rows};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, part};
use crate::summary::report::findings::{Confidence, Unit};

pub const RULE: Rule = Rule {
    id: "random-in-file",
    group: Group::Access,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "20 % of reads or more (over 1000) begin neither where the one before ended nor further on",
    silences: &[],
    silences_rules: &["backward-seeks"],
    remedy: "shuffle shards and a buffer, not offsets; sort the indices of a batch",
    torch: "",
    elsewhere: "read in the order of the file: sort what is looked up, keep what is read again in memory (a larger cache)",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let found = reads(case);
    let share = part(found.back as f64, found.known as f64).unwrap_or(0.0);
    let time_ns = case.moved("read", 1, u64::MAX).time_ns * share;
    Judgement {
        measures: vec![case.at_least("calls", Some(found.back as f64)), case.at_least("share", Some(share))],
        says: format!("{} of the reads go back in their file", Unit::Share.text(share)),
        worth: Some(case.shared_out(time_ns)),
        evidence: rows(case, "read", |_| true),
        ..Judgement::default()
    }
}
