//! One reader is slower than the others, and everybody waits for its turn.

use super::super::case::{Case, Judgement, Waited};
use super::super::loader::{busiest, busy_ns, largest_turn};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::summary::groups::training::RankGroup;
use crate::summary::quantiles::median;
use crate::summary::report::findings::{Confidence, Unit};

pub const RULE: Rule = Rule {
    id: "slow-worker",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "training waits, half of that for the turn of one reader, which is busy 1.5 times as long as the others",
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
    let measures = vec![
        case.at_least("wait", waited.as_ref().map(Waited::share_at_work)),
        case.at_least("turn", largest_turn(case)),
        case.at_least("busy", slowest.as_ref().map(|(ratio, _)| *ratio)),
    ];
    let decide = "spans of waiting, and 2 to 16 readers that take turns, tell it";
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

/// The factor by which the busiest reader was busier than the others in the median, and its name.
fn slowness(group: &RankGroup) -> Option<(f64, String)> {
    let busiest = group.readers.iter().max_by_key(|reader| busy_ns(reader))?;
    let others = group.readers.iter().filter(|reader| !std::ptr::eq(*reader, busiest));
    let others = median(others.map(|reader| busy_ns(reader) as f64).collect()).filter(|others| *others > 0.0)?;
    Some((busy_ns(busiest) as f64 / others, format!("{} ({})", busiest.name, busiest.pid)))
}
