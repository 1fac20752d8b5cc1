//! Detects directories that every rank lists.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, EVIDENCE_MAX, Judgement};
use crate::summary::figures::units::{grouped, time};
use crate::summary::report::findings::Confidence;
use crate::summary::report::metadata::group;
use crate::summary::report::shared::SharedFile;

pub const RULE: Rule = Rule {
    id: "listing",
    group: Group::Metadata,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "two or more ranks list the same directory of 10000 or more entries",
    silences: &[],
    silences_rules: &[],
    remedy: "let rank 0 list the directory and broadcast the names, or keep an index file next to the data set",
    torch: "",
    elsewhere: "let one process list the directory and share the names, or keep an index file next to it",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let lists = case.calls_where(|function| group(&function.name) == "list");
    // A directory: no bytes are moved, and each entry is a call.
    let is_folder = |file: &&SharedFile| file.ranks > 1 && file.use_.bytes_read + file.use_.bytes_written == 0;
    let listed = |file: &SharedFile| file.use_.events / file.processes.max(1);
    let mut found: Vec<&SharedFile> = case.summary.shared.iter().filter(is_folder).collect();
    found.sort_by_key(|file| std::cmp::Reverse(listed(file)));
    let largest = found.first().filter(|_| lists.count > 0).map_or(0, |file| listed(file));
    let entries = case.at_least("entries", Some(largest as f64));
    let large = || found.iter().filter(|file| listed(file) as f64 >= entries.limit);
    // All processes except one could receive the listing instead.
    let spared = |file: &&SharedFile| file.use_.time_ns as f64 * (1.0 - 1.0 / file.processes.max(1) as f64);
    let row = |file: &&SharedFile| {
        format!(
            "{}: {} ranks, {} calls each, {} in total",
            file.path,
            file.ranks,
            grouped(listed(file)),
            time(file.use_.time_ns as f64)
        )
    };
    Judgement {
        says: format!("several ranks list a directory, with {} calls each", grouped(largest)),
        worth: Some(case.shared_out(large().map(spared).sum())),
        evidence: large().take(EVIDENCE_MAX).map(row).collect(),
        measures: vec![entries],
        ..Judgement::default()
    }
}
