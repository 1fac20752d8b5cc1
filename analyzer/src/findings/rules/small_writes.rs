//! Most of the time of writes goes into small ones.

use super::super::small;
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::report::findings::Confidence;

pub const RULE: Rule = Rule {
    id: "small-writes",
    group: Group::Access,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "writes of less than 64 KiB, two a file or more, take half of the time of all, and half of that is not for their bytes",
    silences: &[],
    silences_rules: &[],
    remedy: "a larger buffer, records written together, no single lines to shared storage",
    torch: "",
    elsewhere: "a larger buffer (bs=1M, setvbuf), records written together",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    small::judge(case, "write", case.summary.dataset.files_written)
}
