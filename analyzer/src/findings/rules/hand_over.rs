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
    remedy: "make batches cheaper to pass on: fewer and smaller parts per sample, shared memory, threads instead of processes if the \
        library releases the interpreter lock; or larger batches, if they are below 1 MB",
    torch: "pass on fewer and larger objects: one or a few tensors per batch, of small types such as uint8; tensors go through shared \
        memory, but arrays, lists and bytes through a pipe; below 1 MB per batch, a larger batch_size helps, too",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    by_cause(case, &[Part::HandOver], |share| {
        format!("{share} of the wait was for batches in transfer: serializing, pipes, shared memory")
    })
}
