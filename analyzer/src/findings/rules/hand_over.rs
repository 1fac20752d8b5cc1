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
    remedy: "send fewer bytes and fewer parts per sample, and pass batches in shared memory; if batches are small (below 1 MB), make \
        them larger; threads instead of processes if the library releases the interpreter lock",
    torch: "return fewer tensors per batch and smaller types (uint8 instead of float32); if batches are arrays, lists or bytes, return \
        tensors instead, which go through shared memory; if batches are small (below 1 MB), make them larger",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    by_cause(case, &[Part::HandOver], |share| {
        format!("{share} of the wait was for batches in transfer: serializing, pipes, shared memory")
    })
}
