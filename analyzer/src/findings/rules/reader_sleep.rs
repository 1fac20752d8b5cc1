//! Detects readers that sleep.

use super::super::causes::by_cause;
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::report::findings::Confidence;
use crate::summary::waits::parts::Part;

pub const RULE: Rule = Rule {
    id: "reader-sleep",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Exact,
    asks: "25 % or more of the wait is for readers that sleep",
    silences: &[],
    silences_rules: &[],
    remedy: "look for sleeps in the readers' code and their libraries: rate limits, retries, polling",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    by_cause(case, &[Part::Sleep], |share| format!("{share} of the wait was for readers that slept"))
}
