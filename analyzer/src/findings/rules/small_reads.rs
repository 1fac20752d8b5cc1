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
    remedy: "read a sample in one call, use a larger buffer (open(..., buffering=1 << 20)), or pack samples into \
        shards",
    torch: "",
    elsewhere: "read more at a time: a whole file or record in one call, a larger buffer (bs=1M, open(..., \
        buffering=1 << 20))",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    // A file that is opened again is read again.
    small::judge(case, "read", case.summary.dataset.files_read.max(case.opens()))
}
