//! Detects reads that jump back and forth in a file.

use super::super::patterns::judged_back;
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::report::findings::Confidence;

pub const RULE: Rule = Rule {
    id: "random-in-file",
    group: Group::Access,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "20 % or more of the reads (over 1000) begin before the end of the previous read",
    silences: &[],
    silences_rules: &["backward-seeks"],
    remedy: "shuffle shards and a buffer instead of offsets; sort the indices of a batch",
    torch: "",
    elsewhere: "read in file order: sort the lookups, keep data that is read again in memory (a larger cache)",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    judged_back(case, |calls| case.at_least("calls", Some(calls as f64)), "go backward in their file")
}
