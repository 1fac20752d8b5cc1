//! Detects a GPU that is idle because the host has not launched work.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::gpus::without_work;
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::report::findings::Confidence;

pub const RULE: Rule = Rule {
    id: "launch-bound",
    group: Group::Verdict,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "for 10 % or more of the training, the GPU had no work although training did not wait for data, and the training \
        thread waited for the GPU less than once per batch",
    silences: &[],
    silences_rules: &[],
    remedy: "launch more work at a time: compiled or recorded graphs, fused operations, larger batches; move other work of the \
        training thread to other threads",
    torch: "launch more work at a time: torch.compile, CUDA graphs, fused optimizers, larger batches; move other work of the \
        training thread to other threads",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    without_work(case, |used, batches| used.syncs < batches)
}
