//! Detects one rank that waits longer than the others.

use std::cmp::Reverse;

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, Worth, named};
use crate::summary::figures::quantiles::median;
use crate::summary::figures::units::time;
use crate::summary::report::findings::Confidence;
use crate::summary::training::RankGroup;

pub const RULE: Rule = Rule {
    id: "straggler-rank",
    group: Group::Ranks,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "one of several ranks waits for its batches at least 1.25 times as long as the median of the others",
    silences: &[],
    silences_rules: &[],
    remedy: "compare what the slow rank and the other ranks read while the slow rank waited: if the same data, check the node \
             and the mount of the slow rank; if more data, make the shards even; if other data, check whether one rank \
             alone runs an evaluation",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

/// A shorter wait of the other ranks counts as one of this length.
const SHORT_NS: f64 = 1e6;

fn judge(case: &Case) -> Judgement {
    // Trainings that neither are ranks nor wait for one another have nothing in common.
    let is_rank = |group: &&RankGroup| group.rank.is_some() || !group.peers.is_empty();
    let groups: Vec<&RankGroup> = case.summary.training.iter().filter(is_rank).collect();
    let most = groups.iter().copied().max_by_key(|group| group.waited_ns);
    let others = groups.iter().filter(|group| most.is_some_and(|most| most.proc != group.proc));
    let waits: Option<Vec<f64>> = others.map(|group| group.waited_ns.map(|ns| ns as f64)).collect();
    let middle = waits.filter(|_| groups.len() > 1).and_then(median);
    let most_ns = most.and_then(|group| group.waited_ns).unwrap_or(0) as f64;
    let ratio = middle.map(|middle| most_ns / middle.max(SHORT_NS));
    let mut sorted = groups.clone();
    sorted.sort_by_key(|group| Reverse(group.waited_ns));
    let row = |group: &&RankGroup| format!("{}: waited {}", named(group), time(group.waited_ns.unwrap_or(0) as f64));
    Judgement {
        measures: vec![case.at_least("trainers", Some(groups.len() as f64)), case.at_least("ratio", ratio)],
        says: format!(
            "{} waited {} for its batches; the median of the other ranks is {}",
            most.map(named).unwrap_or_default(),
            time(most_ns),
            time(middle.unwrap_or(0.0))
        ),
        worth: middle.map(|middle| Worth { ns: (most_ns - middle) as i64, exposed: true }),
        evidence: sorted.iter().map(row).collect(),
        decide: crate::findings::rule_context::RECORD_TRAINING,
        ..Judgement::default()
    }
}
