//! Detects readers that wait for programs that they start.

use super::super::causes::by_cause;
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::report::findings::Confidence;
use crate::summary::waits::parts::Part;

pub const RULE: Rule = Rule {
    id: "reader-programs",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Exact,
    asks: "25 % or more of the wait is for programs that readers start",
    silences: &[],
    silences_rules: &[],
    remedy: "call a library instead of a program, or keep one program running and send it many samples",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    by_cause(case, &[Part::Child], |share| format!("{share} of the wait was for programs that readers started"))
}
