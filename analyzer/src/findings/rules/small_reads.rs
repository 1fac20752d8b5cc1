//! Detects that small reads take most of the read time.

use super::super::small;
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::report::findings::Confidence;

pub const RULE: Rule = Rule {
    id: "small-reads",
    group: Group::Access,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "reads of less than 64 KiB, two or more per file, take at least half of the time of all reads, and at least half of that is \
        fixed cost per call",
    silences: &[],
    silences_rules: &[],
    remedy: "read a sample in one call, or with a larger buffer (open(..., buffering=1 << 20)); if that is not possible, pack \
        samples into shards",
    torch: "",
    elsewhere: "read more at a time: a whole file or record in one call, a larger buffer (bs=1M, open(..., \
        buffering=1 << 20))",
    verify: COMPARE,
    judge,
};

/// Change to make if the same bytes are read again and again: larger reads would read even more of them.
const SCANS: &str = "read these bytes once and keep them in memory; if a database reads them, let its queries use an index (EXPLAIN QUERY PLAN shows \
    scans of whole tables)";

/// Bytes that are read this many times are read for each sample, not for each epoch.
const TIMES: u64 = 50;

fn judge(case: &Case) -> Judgement {
    let what = &case.summary.dataset;
    let is_scan = what.bytes_reached > 0 && what.bytes_reread > TIMES * what.bytes_reached;
    // A file that is opened again is read again.
    let judgement = small::judge(case, "read", what.files_read.max(case.opens()));
    Judgement { remedy: is_scan.then_some(SCANS), ..judgement }
}
