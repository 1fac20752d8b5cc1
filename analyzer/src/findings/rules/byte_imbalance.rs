//! Detects ranks that read unequal amounts.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, part};
use crate::summary::figures::units::bytes;
use crate::summary::report::findings::{Confidence, Unit};
use crate::summary::report::ranks::RankUse;

pub const RULE: Rule = Rule {
    id: "byte-imbalance",
    group: Group::Ranks,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "one of several ranks moves at least 1.3 times the mean number of bytes",
    silences: &[],
    silences_rules: &[],
    remedy: "shard by bytes instead of files, make shards even, drop the last, smaller batch",
    torch: "shard by bytes instead of files, make shards even, drop_last",
    elsewhere: "give each process the same number of bytes instead of files",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let ranks = &case.summary.ranks;
    let moved = |rank: &RankUse| rank.work.bytes_read;
    let mean = ranks.iter().map(moved).sum::<u64>() as f64 / ranks.len().max(1) as f64;
    let most = ranks.iter().max_by_key(|rank| moved(rank));
    let ratio = most.map(|rank| part(moved(rank) as f64, mean).unwrap_or(1.0)).filter(|_| ranks.len() > 1);
    let beyond = 1.0 - 1.0 / ratio.unwrap_or(1.0).max(1.0);
    let row = |rank: &RankUse| format!("rank {}: {} read", rank.rank, bytes(moved(rank) as f64));
    Judgement {
        measures: vec![case.at_least("ranks", Some(ranks.len() as f64)), case.at_least("ratio", ratio)],
        says: format!(
            "rank {} read {} times the mean of all ranks",
            most.map_or(0, |rank| rank.rank),
            Unit::Ratio.text(ratio.unwrap_or(0.0))
        ),
        worth: Some(case.shared_out(case.moved("read", 1, u64::MAX).time_ns * beyond)),
        evidence: most.into_iter().chain(ranks).map(row).collect(),
        decide: "ranks are unknown: launch with torchrun, mpirun or srun",
        ..Judgement::default()
    }
}
