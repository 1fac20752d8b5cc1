//! Detects batches that are made in time but delivered slowly.

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
    asks: "25 % or more of the wait is for the transfer of finished batches",
    silences: &[],
    silences_rules: &[],
    remedy: "pass batches in shared memory, or in fewer and smaller parts; if they are below 1 MB, make them larger; if the \
        library that reads releases the interpreter lock, use threads, which pass nothing",
    torch: "return one or a few tensors per batch, of small types such as uint8: tensors go through shared memory, other objects \
        through a pipe; if batches are below 1 MB, also raise batch_size",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    by_cause(case, &[Part::HandOver], |share| {
        format!("{share} of the wait was for batches in transfer: serializing, pipes, shared memory")
    })
}
