//! Detects files that are opened one after another.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, part};
use crate::summary::report::findings::{Confidence, Unit};
use crate::summary::report::metadata::group;

pub const RULE: Rule = Rule {
    id: "open-serial",
    group: Group::Metadata,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "open, stat and close calls take 30 % or more of the time in file calls, with fewer than 1.5 of those \
        in flight at once",
    silences: &[],
    silences_rules: &[],
    remedy: "open ahead in a few threads, use more readers, or shards (tar, TFRecord, HDF5) that are opened once",
    torch: "open ahead in a few threads, increase num_workers, or use shards (tar, TFRecord, HDF5) that are opened once",
    elsewhere: "use several threads or processes in parallel (xargs -P, make -j), or fewer and larger files",
    verify: COMPARE,
    judge,
};

/// Number of files opened ahead, which divides the time of opening by this number.
const AHEAD: f64 = 4.0;

fn judge(case: &Case) -> Judgement {
    let opening = case.calls_where(|function| ["open", "stat", "close"].contains(&group(&function.name)));
    let share = part(opening.time_ns, case.file_ns());
    let line = &case.summary.timeline;
    let sum = |column: &[u64]| column.iter().sum::<u64>() as f64;
    let in_flight = part(sum(&line.io_ns), sum(&line.busy_ns));
    Judgement {
        measures: vec![
            case.calls(case.asked(&["open"]).0),
            case.at_least("share", share),
            case.below("in-flight", in_flight),
        ],
        says: format!(
            "{} of the time in file calls is spent in open, stat and close calls, with {:.1} calls in flight at \
             once",
            Unit::Share.text(share.unwrap_or(0.0)),
            in_flight.unwrap_or(0.0)
        ),
        worth: Some(case.shared_out(opening.time_ns * (1.0 - 1.0 / AHEAD))),
        evidence: opening.rows,
        decide: "record file calls: dlio trace",
        ..Judgement::default()
    }
}
