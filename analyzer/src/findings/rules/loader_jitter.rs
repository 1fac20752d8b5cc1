//! Detects batches that take unequally long to make.

use super::super::loader::{busiest, largest_turn, loader};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, Waited, Worth};
use crate::summary::report::findings::{Confidence, Unit};

pub const RULE: Rule = Rule {
    id: "loader-jitter",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "training waits during 5 % or more of its time for reasons other than too few readers or the turn of one \
        reader",
    silences: &[],
    silences_rules: &[],
    remedy: "prefetch more batches, take batches as they become ready if the order does not matter, make samples \
        equally large",
    torch: "use a larger prefetch_factor (2 to 8), in_order=False if the order does not matter, samples of equal size",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let (waited, loader) = (case.waited(), loader(case));
    let rest = waited.as_ref().zip(loader.as_ref()).map(|(waited, loader)| waited.share_at_work() - loader.shortage());
    let measures = vec![
        case.at_least("wait", waited.as_ref().map(Waited::share_at_work)),
        case.at_least("rest", rest),
        case.below("turn", largest_turn(case)),
    ];
    let decide = "record spans of waits and compute, with 2 to 16 readers that take turns";
    let Some((waited, rest)) = waited.zip(rest) else { return Judgement { measures, decide, ..Judgement::default() } };
    Judgement {
        measures,
        says: format!(
            "readers deliver enough on average, but training still waited for {} of its time: batches take different \
             times",
            Unit::Share.text(rest)
        ),
        evidence: busiest(case),
        worth: Some(Worth { ns: (rest * waited.trained_ns as f64) as i64, exposed: true }),
        decide,
        ..Judgement::default()
    }
}
