//! Detects that small writes take most of the write time.

use super::super::small;
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::report::findings::Confidence;

pub const RULE: Rule = Rule {
    id: "small-writes",
    group: Group::Access,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "writes of less than 64 KiB, two or more per file, take at least half of the time of all writes, and at least half of that is \
        fixed cost per call",
    silences: &[],
    silences_rules: &[],
    remedy: "use a larger buffer, write several records together, do not write single lines to shared storage",
    torch: "",
    elsewhere: "use a larger buffer (bs=1M, setvbuf), write several records together",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    small::judge(case, "write", case.summary.dataset.files_written)
}
