//! Detects that one rank saves while the other ranks wait for it.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, Worth, part};
use crate::summary::figures::units::bytes;
use crate::summary::report::findings::{Confidence, Unit};
use crate::summary::report::ranks::RankUse;

pub const RULE: Rule = Rule {
    id: "checkpoint-one-rank",
    group: Group::Checkpoint,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "one of several ranks writes 80 % or more of the bytes, and checkpoints stall training",
    silences: &[],
    silences_rules: &[],
    remedy: "write a sharded checkpoint, in which each rank writes its part",
    torch: "write a sharded checkpoint (torch.distributed.checkpoint), in which each rank writes its part",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let ranks = &case.summary.ranks;
    let all: u64 = ranks.iter().map(|rank| rank.work.bytes_written).sum();
    let most = ranks.iter().max_by_key(|rank| rank.work.bytes_written).filter(|_| ranks.len() > 1);
    let share = most.map(|rank| part(rank.work.bytes_written as f64, all as f64).unwrap_or(0.0));
    let saved = case.summary.steps.iter().map(|row| row.sum.checkpoint_ns).max();
    let others = 1.0 - 1.0 / ranks.len().max(1) as f64;
    let row = |rank: &RankUse| format!("rank {}: {} written", rank.rank, bytes(rank.work.bytes_written as f64));
    Judgement {
        measures: vec![
            case.at_least("ranks", Some(ranks.len() as f64)),
            case.at_least("share", share),
            case.at_least("saved", saved.map(|ns| ns as f64)),
        ],
        says: format!(
            "rank {} of {} wrote {} of the bytes",
            most.map_or(0, |rank| rank.rank),
            ranks.len(),
            Unit::Share.text(share.unwrap_or(0.0))
        ),
        worth: Some(Worth { ns: (saved.unwrap_or(0) as f64 * others) as i64, exposed: true }),
        evidence: ranks.iter().map(row).collect(),
        decide: "record spans of checkpoints and of waits for batches: python3 -m dliotrace run --torch SCRIPT records \
            both",
        ..Judgement::default()
    }
}
