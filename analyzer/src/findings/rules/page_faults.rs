//! Detects mapped data files whose pages are read one by one on first access.

use super::super::causes::by_cause;
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::report::findings::Confidence;
use crate::summary::waits::parts::Part;

pub const RULE: Rule = Rule {
    id: "page-faults",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Exact,
    asks: "25 % or more of the wait is for readers' page faults served from storage",
    silences: &[],
    silences_rules: &[],
    remedy: "read ahead: madvise(MADV_WILLNEED or MADV_SEQUENTIAL), or pread larger blocks; if that is not enough, copy the \
        files to a local disk",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    by_cause(case, &[Part::PageFaults], |share| {
        format!("{share} of the wait was for pages of mapped files that had to be read from storage")
    })
}
