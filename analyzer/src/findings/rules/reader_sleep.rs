//! Detects readers that sleep.

use super::super::causes::by_cause;
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::report::findings::Confidence;
use crate::summary::training::RankGroup;
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

/// Change to make if a child process sleeps that serves the readers.
const HELPER_SLEEPS: &str = "look for sleeps in the process for which the readers wait: rate limits, retries, polling; ask it for several items at \
    a time";

fn judge(case: &Case) -> Judgement {
    let groups = &case.summary.training;
    let is_helper = !groups.is_empty() && groups.iter().all(RankGroup::waits_for_sleeper);
    let who = if is_helper { "a child process that slept" } else { "readers that slept" };
    let judgement = by_cause(case, &[Part::Sleep], |share| format!("{share} of the wait was for {who}"));
    Judgement { remedy: is_helper.then_some(HELPER_SLEEPS), ..judgement }
}
