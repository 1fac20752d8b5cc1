//! Detects time spent in metadata calls.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, RECORD_CALLS, part};
use crate::summary::report::findings::{Confidence, Unit};
use crate::summary::report::metadata::group;
use crate::summary::report::named_pipe::named_pipe;

pub const RULE: Rule = Rule {
    id: "metadata-bound",
    group: Group::Metadata,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "open, close, stat and list calls take 30 % or more of the time in file calls",
    silences: &[],
    silences_rules: &[],
    remedy: "pack samples into shards (tar, TFRecord, HDF5, Parquet); until then, keep files open",
    torch: "",
    elsewhere: "use fewer and larger files if possible; keep files open; stat each file once, several at a time",
    verify: COMPARE,
    judge,
};

/// Groups of calls that count as metadata.
const ASKING: [&str; 4] = ["open", "close", "stat", "list"];

fn judge(case: &Case) -> Judgement {
    // Skip mmap, which some programs use to read a file; seeks and locks, which have separate rules; and calls that
    // modify the file system.
    let asks = |name: &str| ASKING.contains(&group(name));
    let asking = case.calls_where(|function| function.class == "metadata" && asks(&function.name));
    // Opening a named pipe waits for its other end.
    let share = part(asking.time_ns, case.file_ns()).filter(|_| named_pipe(case.summary).is_none());
    Judgement {
        measures: vec![case.calls(asking.count), case.at_least("share", share)],
        says: format!(
            "{} of the time in file calls is spent in open, close, stat and list calls",
            Unit::Share.text(share.unwrap_or(0.0))
        ),
        worth: Some(case.shared_out(asking.time_ns)),
        evidence: asking.rows,
        decide: RECORD_CALLS,
        ..Judgement::default()
    }
}
