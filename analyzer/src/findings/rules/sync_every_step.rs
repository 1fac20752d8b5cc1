//! Detects a training thread that waits for the GPU in each step.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::gpus::without_work;
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::report::findings::Confidence;

pub const RULE: Rule = Rule {
    id: "sync-every-step",
    group: Group::Verdict,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "for 5 % or more of the training, the GPU had no work although training did not wait for data, and the training \
        thread waited for the GPU at least once per batch",
    silences: &[],
    silences_rules: &[],
    remedy: "do not wait for the GPU in each step: read results such as the loss less often, and copy asynchronously",
    torch: "do not wait for the GPU in each step: read the loss (loss.item(), print) every hundred steps, and copy with \
        non_blocking=True",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    without_work(case, |used, batches| batches > 0 && used.syncs >= batches)
}
