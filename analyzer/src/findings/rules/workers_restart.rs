//! Detects readers that are restarted for every epoch.

use super::super::loader::is_own;
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, Worth, in_words, named, part};
use crate::summary::figures::units::time;
use crate::summary::report::findings::{Confidence, Unit};
use crate::summary::training::{RankGroup, fork_all_readers};
use crate::summary::waits::parts::Part;

pub const RULE: Rule = Rule {
    id: "workers-restart",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "readers are restarted, and training waits for that, or has no readers, for 5 % or more of its time",
    silences: &[],
    silences_rules: &[],
    remedy: "keep readers from one epoch to the next; let them load less before they start",
    torch: "create the DataLoader once, with persistent_workers=True; for a faster first start, import less in workers, or use forkserver instead of spawn",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

/// Changes to make if readers are forks of the main program.
const FORKED: &str =
    "keep readers from one epoch to the next; import in the main program what they import (they are forked from it)";
const FORKED_TORCH: &str = "create the DataLoader once, with persistent_workers=True; import in the main program what workers import (they are forked from it)";

/// Changes to make if the first start of the readers takes less than this share of the training.
const BRIEF_START: f64 = 0.05;
const KEEP: &str = "keep readers from one epoch to the next";
const KEEP_TORCH: &str = "create the DataLoader once, with persistent_workers=True";

fn judge(case: &Case) -> Judgement {
    let groups = || case.summary.training.iter().filter(|group| !group.readers.is_empty());
    let found: Vec<_> = groups().map(|group| (group, costs(group, restarts(group)))).collect();
    let most = found.iter().map(|(_, (number, _))| *number).max();
    let gaps: i64 = found.iter().map(|(_, (_, gap))| *gap).sum();
    let trained: i64 = groups().map(|group| group.trained_ns).sum();
    let share = part(gaps as f64, trained as f64).filter(|_| most.is_some());
    let are_forked = fork_all_readers(&case.summary.training);
    let first = part((starts(&found) - gaps) as f64, trained as f64).filter(|first| *first < BRIEF_START);
    let keep = first.map(|_| in_words(case.summary, KEEP, KEEP_TORCH));
    let row = |(group, (number, gap)): &(&RankGroup, (u64, i64))| {
        format!("{}: {number} times, {} in all", named(group), time(*gap as f64))
    };
    Judgement {
        measures: vec![case.at_least("restarts", most.map(|most| most as f64)), case.at_least("gaps", share)],
        says: format!(
            "readers were restarted {}, and {} waited for that for {} of its time",
            if most == Some(1) { "once".into() } else { format!("{} times", most.unwrap_or(0)) },
            case.loop_name(),
            Unit::Share.text(share.unwrap_or(0.0))
        ),
        evidence: found.iter().map(row).collect(),
        remedy: keep.or_else(|| are_forked.then(|| in_words(case.summary, FORKED, FORKED_TORCH))),
        worth: Some(Worth { ns: gaps / found.len().max(1) as i64, exposed: true }),
        decide: "record a trace with a trainer and its readers",
        ..Judgement::default()
    }
}

/// Returns the trainer's wait for starting readers, if the trace shows it, instead of the time without readers: training may go on
/// without the readers of an evaluation, and readers that prepare their data leave no gap. The first start does not count as a
/// restart; all starts are assumed to take equally long.
fn costs(group: &RankGroup, (number, gap): (u64, i64)) -> (u64, i64) {
    let Some(causes) = group.causes else { return (number, gap) };
    let again = causes.get(Part::Start) as i128 * number as i128 / (number as i128 + 1);
    (number, again as i64)
}

/// Returns the time of the wait in which readers started, for the first time and again.
fn starts(found: &[(&RankGroup, (u64, i64))]) -> i64 {
    found
        .iter()
        .map(|(group, (_, gap))| group.causes.map_or(i64::MAX, |causes| causes.get(Part::Start)).max(*gap))
        .fold(0, i64::saturating_add)
}

/// Fewer readers that live for a short time are not those of a second loader.
const BRIEF_MIN: usize = 4;

/// Fewer times at which readers were created may be those of several loaders.
const GENERATIONS_MIN: u64 = 4;

/// Returns how often all readers of a trainer had ended before the next ones started, and the time in which none read. If there are
/// many brief readers, those that live for most of the time belong to another loader.
fn restarts(group: &RankGroup) -> (u64, i64) {
    let readers = group.readers.iter().filter(|reader| !is_own(group, reader));
    let mut lives: Vec<_> = readers.map(|reader| (reader.first_ts, reader.last_ts)).collect();
    lives.sort_unstable();
    let span = lives.iter().map(|life| life.1).max().unwrap_or(0) - lives.first().map_or(0, |life| life.0);
    let is_brief = |life: &(i64, i64)| 2 * (life.1 - life.0) < span;
    if lives.iter().filter(|life| is_brief(life)).count() >= BRIEF_MIN {
        lives.retain(is_brief);
    }
    let again = if group.generations >= GENERATIONS_MIN { group.generations - 1 } else { 0 };
    let Some(mut ended) = lives.first().map(|life| life.1) else { return (again, 0) };
    let (mut number, mut gaps) = (0, 0);
    for (first, last) in lives {
        if first > ended {
            number += 1;
            gaps += first - ended;
        }
        ended = ended.max(last);
    }
    (number.max(again), gaps)
}
