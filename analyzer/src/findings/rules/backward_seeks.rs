//! Reads go back before what was read.

use super::super::patterns::{reads, rows};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, part};
use crate::summary::report::findings::{Confidence, Unit};

pub const RULE: Rule = Rule {
    id: "backward-seeks",
    group: Group::Access,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "10 % of reads or more begin before the end of the one before",
    silences: &[],
    silences_rules: &[],
    remedy: "keep files open, cache the index of zip, Parquet or HDF5 files: their end is read before their beginning",
    torch: "",
    elsewhere: "keep files open, and in memory what lies at their end and is read before their beginning (an index, a footer)",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let found = reads(case);
    let share = part(found.back as f64, found.known as f64).unwrap_or(0.0);
    let time_ns = case.moved("read", 1, u64::MAX).time_ns * share;
    Judgement {
        measures: vec![case.calls(found.back), case.at_least("share", Some(share))],
        says: format!("{} of the reads begin before the end of the one before", Unit::Share.text(share)),
        worth: Some(case.shared_out(time_ns)),
        evidence: rows(case, "read", |_| true),
        ..Judgement::default()
    }
}
