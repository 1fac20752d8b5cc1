//! One reader is slower than the others, and everybody waits for its turn.

use super::super::loader::{busiest, busy_meanwhile, busy_ns, largest_load, largest_turn};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, Waited};
use crate::summary::figures::quantiles::median;
use crate::summary::report::findings::{Confidence, Unit};
use crate::summary::training::RankGroup;

pub const RULE: Rule = Rule {
    id: "slow-worker",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "training waits, half of that for one reader's turn, or one does half of what all do, and 1.5 times as much as others",
    silences: &[],
    silences_rules: &["loader-capacity", "loader-jitter"],
    remedy: "shard by bytes and not by files, even samples, batches taken as they are ready; look at its files",
    torch: "shard by bytes and not by files, even samples, in_order=False where the order does not matter; look at its files",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let waited = case.waited();
    let slowest = case.summary.training.iter().filter_map(slowness).max_by(|a, b| a.0.total_cmp(&b.0));
    // Steps are what spans tell of.
    let of_one = match case.summary.steps.is_empty() {
        true => case.at_least("load", largest_load(case)),
        false => case.at_least("turn", largest_turn(case)),
    };
    let measures = vec![
        case.at_least("wait", waited.as_ref().map(Waited::share_at_work)),
        of_one,
        case.at_least("busy", slowest.as_ref().map(|(ratio, _)| *ratio)),
    ];
    let decide = "waits for batches of two readers or more tell it; with spans, of 2 to 16 that take turns";
    let Some((ratio, name)) = slowest else { return Judgement { measures, decide, ..Judgement::default() } };
    Judgement {
        measures,
        says: format!(
            "{name} was busy {} times as long as the other readers, and training waited for its turn",
            Unit::Ratio.text(ratio)
        ),
        evidence: busiest(case),
        worth: waited.map(|waited| waited.worth_at_work()),
        decide,
        ..Judgement::default()
    }
}

/// The factor by which the busiest reader was busier than the others in the median, and its name: while training waited, where
/// that is known.
fn slowness(group: &RankGroup) -> Option<(f64, String)> {
    let is_known = group.readers.iter().any(|reader| busy_meanwhile(reader) > 0);
    let busy = if is_known { busy_meanwhile } else { busy_ns };
    let busiest = group.readers.iter().max_by_key(|reader| busy(reader))?;
    let others = group.readers.iter().filter(|reader| !std::ptr::eq(*reader, busiest));
    let others = median(others.map(|reader| busy(reader) as f64).collect())?;
    (busy(busiest) > 0).then(|| (busy(busiest) as f64 / others.max(1.0), format!("{} ({})", busiest.name, busiest.pid)))
}
