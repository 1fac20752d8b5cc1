//! Detects copies to the GPU from memory that is not pinned.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::gpus::{of_gpu, untimed};
use crate::findings::rule_context::{Case, Judgement, Worth};
use crate::summary::figures::units::{share, time};
use crate::summary::report::findings::Confidence;

pub const RULE: Rule = Rule {
    id: "pageable-copies",
    group: Group::Verdict,
    cost: Cost::Worth,
    confidence: Confidence::Exact,
    asks: "copies from or to memory that is not pinned take 1 % or more of the training",
    silences: &[],
    silences_rules: &[],
    remedy: "copy from pinned memory, and asynchronously: copies of other memory are slower, and the host waits for them",
    torch: "pass pin_memory=True to DataLoader, and copy with non_blocking=True: copies of other memory are slower, and the \
        host waits for them",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let Some((used, trained)) = of_gpu(case) else { return untimed(case, "part") };
    let part = used.by_kernels.then(|| used.pageable_ns as f64 / trained.max(1) as f64);
    Judgement {
        measures: vec![case.at_least("part", part)],
        says: format!(
            "the GPU copied from or to memory that is not pinned for {} ({} of {})",
            time(used.pageable_ns as f64),
            share(used.pageable_ns, trained),
            case.loop_name()
        ),
        worth: Some(Worth { ns: used.pageable_ns, exposed: true }),
        ..Judgement::default()
    }
}
