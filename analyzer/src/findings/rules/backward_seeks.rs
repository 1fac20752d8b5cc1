//! Detects reads that start before the previous read ended.

use super::super::patterns::judged_back;
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::report::findings::Confidence;

pub const RULE: Rule = Rule {
    id: "backward-seeks",
    group: Group::Access,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "10 % or more of the reads begin before the end of the previous read",
    silences: &[],
    silences_rules: &[],
    remedy: "keep files open; cache the index of zip, Parquet or HDF5 files, which is read from their end first",
    torch: "",
    elsewhere: "keep files open, and keep the index or footer at their end in memory",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    judged_back(case, |calls| case.calls(calls), "begin before the end of the previous read")
}
