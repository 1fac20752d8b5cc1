//! Detects writes that wait until the bytes are on the device.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, SYNCS, part};
use crate::summary::figures::units::many;
use crate::summary::report::findings::{Confidence, Unit};

pub const RULE: Rule = Rule {
    id: "fsync-share",
    group: Group::Checkpoint,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "fsync and similar functions are called more than once and take 30 % or more of the time of writes and syncs",
    silences: &[],
    silences_rules: &[],
    remedy: "sync each file once, when it is complete, and logs rarely; in databases, put several changes into one transaction; \
        use fdatasync for files whose size stays unchanged",
    torch: "",
    elsewhere: "call fsync once at the end, use fdatasync for files whose size stays unchanged, put several changes into \
        one transaction",
    verify: COMPARE,
    judge,
};

/// Files that are synced this often, on average, are not synced too often.
const FEW: f64 = 2.0;
const ALREADY_FEW: &str = "save asynchronously, less often, or to faster storage";

fn judge(case: &Case) -> Judgement {
    let syncs = case.calls_where(|function| SYNCS.contains(&function.name.as_str()));
    let writes = case.calls_where(|function| function.class == "write");
    let share = part(syncs.time_ns, syncs.time_ns + writes.time_ns).unwrap_or(0.0);
    Judgement {
        measures: vec![case.at_least("calls", Some(syncs.count as f64)), case.at_least("share", Some(share))],
        says: format!(
            "{} took {} of the time of writes and syncs",
            many(syncs.count, "call to fsync or a similar function", "calls to fsync and similar functions"),
            Unit::Share.text(share)
        ),
        worth: Some(case.written_out(syncs.time_ns)),
        remedy: (syncs.count as f64 <= FEW * case.written_files()).then_some(ALREADY_FEW),
        evidence: syncs.rows,
        ..Judgement::default()
    }
}
