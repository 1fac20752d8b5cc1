//! Detects mapped files, whose reads are not calls.

use super::super::{Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, part};
use crate::summary::figures::units::grouped;
use crate::summary::report::findings::{Confidence, Unit};

pub const RULE: Rule = Rule {
    id: "mmap-unseen",
    group: Group::Run,
    cost: Cost::Always,
    confidence: Confidence::Exact,
    asks: "10 % or more of the opened files are mapped, and calls read less than 64 KiB per mapping: reads of mapped \
        memory are not in the trace",
    silences: &[],
    silences_rules: &[],
    remedy: "treat bytes read as a lower bound; for single rows use MADV_RANDOM, or pread them",
    torch: "",
    elsewhere: "",
    verify: "dlio-analyze TRACE --section metadata,functions",
    judge,
};

fn judge(case: &Case) -> Judgement {
    let maps = case.calls_where(|function| function.name == "mmap");
    // Batches in shared memory are not read from files.
    let count = maps.count.saturating_sub(case.summary.dataset.memory_maps);
    let share = part(count as f64, (case.asked(&["open"]).0.max(count)) as f64).unwrap_or(0.0);
    // A program that also reads a file by calls maps it for another purpose, usually to query which pages are cached.
    let read = part(case.summary.dataset.bytes_read as f64, count as f64).unwrap_or(0.0);
    Judgement {
        measures: vec![
            case.at_least("maps", Some(count as f64)),
            case.at_least("share", Some(share)),
            case.below("read", Some(read)),
        ],
        says: format!(
            "mappings of files: {}, which is {} of the number of opens; reads through mappings are not in the trace, and the \
             number of bytes read is a lower bound",
            grouped(count),
            Unit::Share.text(share)
        ),
        evidence: maps.rows,
        ..Judgement::default()
    }
}
