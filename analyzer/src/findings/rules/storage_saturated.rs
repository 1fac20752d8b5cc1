//! Detects storage at its limit, which is too slow for the training.

use super::super::concurrency::{concurrency, undecided, waits_for_io};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::figures::units::bytes;
use crate::summary::report::findings::{Confidence, Unit};

pub const RULE: Rule = Rule {
    id: "storage-saturated",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "training waits, its readers are in I/O for 70 % or more of their busy time, and more calls in flight do not \
        move more bytes",
    silences: &[],
    silences_rules: &["loader-capacity", "storage-latency-bound"],
    remedy: "read fewer bytes (compression, a smaller dtype, a local copy) or use more storage; more readers would \
        only wait longer",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let waited = case.waited();
    let found = concurrency(case);
    let mut measures = waits_for_io(case, waited.as_ref());
    measures.extend([
        case.below("slope", found.as_ref().map(|found| found.slope)),
        case.at_least("of-best", found.as_ref().and_then(|found| found.of_best)),
    ]);
    let (Some(waited), Some(found)) = (&waited, &found) else {
        return undecided(measures, waited.as_ref());
    };
    Judgement {
        measures,
        says: format!(
            "storage delivers {} per second at best, and delivered {} of that while {} waited",
            bytes(found.best_bytes_per_s),
            Unit::Share.text(found.of_best.unwrap_or(0.0)),
            case.loop_name()
        ),
        evidence: vec![found.says()],
        worth: Some(waited.worth_at_work()),
        ..Judgement::default()
    }
}
