//! Detects a reader that is slower than the others and delays every round.

use super::super::loader::{Numbered, busiest, busy_ns, largest_load, largest_turn, numbered, starts_anew};
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
    asks: "training waits, half of the wait is for one reader's turn or that reader does half of all work, and it does \
        at least 1.5 times as much as the others",
    silences: &[],
    silences_rules: &["loader-capacity", "loader-jitter"],
    remedy: "shard by bytes instead of files, make samples equally large, take batches as they become ready; check the slow reader's files",
    torch: "shard by bytes instead of files, make samples equally large, in_order=False if the order does not matter; \
        check the slow reader's files",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let waited = case.waited();
    let slowest = case.summary.training.iter().filter_map(slowness).max_by(|a, b| a.0.total_cmp(&b.0));
    // Steps require spans. If readers are restarted, round-robin order restarts too.
    let of_one = match case.summary.steps.is_empty() || starts_anew(case) {
        true => case.at_least("load", largest_load(case)),
        false => case.at_least("turn", largest_turn(case)),
    };
    let measures = vec![
        case.at_least("wait", waited.as_ref().map(Waited::share_at_work)),
        of_one,
        case.at_least("busy", slowest.as_ref().map(|(ratio, _)| *ratio)),
    ];
    let decide = "record waits for batches of two or more readers; with spans, of 2 to 16 that take turns";
    let Some((ratio, name)) = slowest else { return Judgement { measures, decide, ..Judgement::default() } };
    Judgement {
        measures,
        says: format!(
            "{name} was busy {} times as long as the other readers, and {} waited for its turn",
            Unit::Ratio.text(ratio),
            case.loop_name()
        ),
        evidence: busiest(case),
        worth: waited.map(|waited| waited.worth_at_work()),
        decide,
        ..Judgement::default()
    }
}

/// Returns the ratio between the busiest reader's work and the median of the other readers of its loader, and its name.
/// It counts work during the wait if that is known.
fn slowness(group: &RankGroup) -> Option<(f64, String)> {
    let readers = numbered(group);
    let (at, busiest) = (0..).zip(&readers).max_by_key(|(_, reader)| reader.busy_ns)?;
    let others = (0..).zip(&readers).filter(|(other, _)| *other != at);
    let others = median(others.map(|(_, reader)| reader.busy_ns as f64).collect())?;
    let ratio = busiest.busy_ns as f64 / others.max(1.0);
    // Also compare total work: during the wait alone, a reader may be busy by chance.
    let whole = |numbered: &Numbered| numbered.readers.iter().map(|reader| busy_ns(reader)).sum::<i64>() as f64;
    let others = (0..).zip(&readers).filter(|(other, _)| *other != at).map(|(_, reader)| whole(reader));
    let in_all = whole(busiest) / median(others.collect())?.max(1.0);
    let ratio = ratio.min(in_all);
    (busiest.busy_ns > 0).then(|| (ratio, called(busiest, at + 1, readers.len())))
}

/// Returns a name such as `worker 1 (201)`, or `reader 2 of 4 (started 3 times)` for restarted readers.
fn called(reader: &Numbered, number: usize, of: usize) -> String {
    match reader.readers.as_slice() {
        [one] => format!("{} ({})", one.name, one.pid),
        all => format!("reader {number} of {of} (started {} times)", all.len()),
    }
}
