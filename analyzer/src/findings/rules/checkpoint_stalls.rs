//! Training stands while it is saved.

use super::super::case::{Case, Judgement, Worth};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::summary::report::findings::{Confidence, Unit};
use crate::summary::report::steps::StepUse;
use crate::summary::units::{bytes, grouped, time};

pub const RULE: Rule = Rule {
    id: "checkpoint-stalls",
    group: Group::Checkpoint,
    cost: Cost::Worth,
    confidence: Confidence::Exact,
    asks: "5 % of the steps or more is spent saving, with nothing computed",
    silences: &[],
    silences_rules: &[],
    remedy: "save asynchronously, to local storage first and drain, or less often",
    torch: "save asynchronously (torch.distributed.checkpoint.async_save), to local storage first and drain, or less often",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let share = case.step_share(|sum| sum.checkpoint_ns);
    let saved: i64 = case.summary.steps.iter().map(|row| row.sum.checkpoint_ns).sum();
    let ns = saved / case.summary.steps.len().max(1) as i64;
    let row = |row: &StepUse| {
        let who = row.rank.map_or_else(|| row.trainer.clone(), |rank| format!("rank {rank}"));
        format!("{who}: {} in checkpoints", time(row.sum.checkpoint_ns as f64))
    };
    let what = &case.summary.checkpoints;
    let files = format!("{} large files, {} written", grouped(what.files), bytes(what.bytes_written as f64));
    Judgement {
        measures: vec![case.at_least("share", share)],
        says: format!(
            "{} of the steps ({}) was spent saving, with nothing computed",
            time(ns as f64),
            Unit::Share.text(share.unwrap_or(0.0))
        ),
        worth: Some(Worth { ns, exposed: true }),
        evidence: [files].into_iter().chain(case.summary.steps.iter().map(row)).collect(),
        decide: "spans of checkpoints and of waits for batches tell it: dliotrace.torch.instrument() records both",
        ..Judgement::default()
    }
}
