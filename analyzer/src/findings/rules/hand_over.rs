//! Batches are made in time, and passing them on takes the time.

use super::super::causes::by_cause;
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::report::findings::Confidence;
use crate::summary::waits::parts::Part;

pub const RULE: Rule = Rule {
    id: "hand-over",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Exact,
    asks: "25 % of the wait or more is for batches that are made and on their way",
    silences: &[],
    silences_rules: &[],
    remedy: "smaller batches, or batches in shared memory; threads in place of processes where the library releases the interpreter",
    torch: "tensors in place of arrays, lists or bytes (tensors go through shared memory), smaller batches; fewer tensors a batch",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    by_cause(case, &[Part::HandOver], |share| {
        format!("{share} of the wait was for batches on their way: serializing, pipes, shared memory")
    })
}
