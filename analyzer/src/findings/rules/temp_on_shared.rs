//! Detects files that exist only during the run, on storage that other hosts share.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, EVIDENCE_MAX, Judgement, part};
use crate::summary::figures::units::{bytes, grouped};
use crate::summary::report::findings::{Confidence, Unit};
use crate::summary::report::metadata::group;
use crate::summary::report::storage::StorageUse;

pub const RULE: Rule = Rule {
    id: "temp-on-shared",
    group: Group::Metadata,
    cost: Cost::Worth,
    // The trace does not record mounts.
    confidence: Confidence::Guess,
    asks: "1000 or more files are deleted, at least half as many as are written",
    silences: &[],
    silences_rules: &[],
    remedy: "if they are on shared storage: set TMPDIR to a local directory (or /dev/shm), keep scratch files in \
        memory",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let deleting = case.calls_where(|function| group(&function.name) == "delete");
    let deleted: u64 =
        case.summary.metadata.iter().filter(|row| row.group == "delete").map(|row| row.count - row.failed).sum();
    let share = part(deleted as f64, case.summary.dataset.files_written as f64).unwrap_or(0.0);
    // Share of writing that belongs to the deleted files.
    let writing = case.moved("write", 1, u64::MAX).time_ns * share.min(1.0);
    let row = |place: &StorageUse| {
        format!("{}: {} files, {} written", place.place, grouped(place.files), bytes(place.bytes_written as f64))
    };
    let written = case.summary.storage.iter().filter(|place| place.bytes_written > 0);
    Judgement {
        measures: vec![case.at_least("files", Some(deleted as f64)), case.at_least("share", Some(share))],
        says: format!(
            "{} files are deleted, which is {} of the number written: they need no shared storage",
            grouped(deleted),
            Unit::Share.text(share)
        ),
        worth: Some(case.shared_out(deleting.time_ns + writing)),
        evidence: deleting.rows.into_iter().chain(written.map(row)).take(EVIDENCE_MAX).collect(),
        ..Judgement::default()
    }
}
