//! Reads jump back and forth in a file.

use super::super::patterns::judged_back;
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::report::findings::Confidence;

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
    judged_back(case, |calls| case.at_least("calls", Some(calls as f64)), "go back in their file")
}
