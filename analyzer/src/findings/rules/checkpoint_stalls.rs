//! Detects training that is stalled during checkpoints.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, Worth, part};
use crate::summary::figures::units::{bytes, many, time};
use crate::summary::report::checkpoints::Checkpoints;
use crate::summary::report::findings::{Confidence, Unit};
use crate::summary::report::steps::StepUse;

pub const RULE: Rule = Rule {
    id: "checkpoint-stalls",
    group: Group::Checkpoint,
    cost: Cost::Worth,
    confidence: Confidence::Exact,
    asks: "5 % or more of the steps is spent in checkpoints while nothing computes; without spans of steps: the training \
        thread writes large files for 5 % or more of the training",
    silences: &[],
    silences_rules: &[],
    remedy: "save asynchronously; if that is not possible, save to local storage first, or less often",
    torch: "save asynchronously (torch.distributed.checkpoint.async_save); if that is not possible, save to local storage first, \
        or less often",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

/// No training follows a save after the last batch that could go on while it is written.
const LAST: &str =
    "write fewer bytes at the end, or write them to faster storage: they are written after the last batch";
const ALMOST_ALL: f64 = 0.9;

fn judge(case: &Case) -> Judgement {
    let share = case.step_share(|sum| sum.checkpoint_ns);
    if let Some(found) = inferred(case).filter(|_| share.is_none()) {
        return found;
    }
    let saved: i64 = case.summary.steps.iter().map(|row| row.sum.checkpoint_ns).sum();
    let ns = saved / case.summary.steps.len().max(1) as i64;
    let row = |row: &StepUse| {
        let who = row.rank.map_or_else(|| row.trainer.clone(), |rank| format!("rank {rank}"));
        format!("{who}: {} in checkpoints", time(row.sum.checkpoint_ns as f64))
    };
    let files = large_files(&case.summary.checkpoints);
    Judgement {
        measures: vec![case.at_least("share", share)],
        says: format!(
            "{} of the steps ({}) was spent in checkpoints while nothing computed",
            time(ns as f64),
            Unit::Share.text(share.unwrap_or(0.0))
        ),
        worth: Some(Worth { ns, exposed: true }),
        evidence: [files].into_iter().chain(case.summary.steps.iter().map(row)).collect(),
        decide: "record spans of checkpoints and of waits for batches: python3 -m dliotrace run --torch SCRIPT records \
            both",
        ..Judgement::default()
    }
}

/// Infers checkpoints without step and checkpoint spans: a trainer's own thread writes, mostly to large files.
fn inferred(case: &Case) -> Option<Judgement> {
    let (trained, saved) = (case.waited()?.trained_ns, &case.summary.checkpoints);
    let ns = case.written_ns();
    if !saved.inferred || saved.files == 0 || 2 * saved.time_ns < ns as u64 {
        return None;
    }
    let share = part(ns as f64, trained as f64);
    Some(Judgement {
        measures: vec![case.at_least("share", share)],
        says: format!(
            "{} spent {} ({}) saving files, mostly large ones",
            case.wording().thread(),
            time(ns as f64),
            Unit::Share.text(share.unwrap_or(0.0))
        ),
        worth: Some(Worth { ns, exposed: true }),
        evidence: vec![large_files(saved)],
        remedy: is_last(case).then_some(LAST),
        confidence: Some(Confidence::Inferred),
        ..Judgement::default()
    })
}

/// Returns `true` if almost all of it was written after the last batch.
fn is_last(case: &Case) -> bool {
    let most = case.summary.training.iter().max_by_key(|group| group.written_ns);
    let written = most.and_then(|group| group.written_last_ns.zip(group.written_ns));
    written.is_some_and(|(last, all)| last > 0 && last as f64 >= ALMOST_ALL * all as f64)
}

fn large_files(found: &Checkpoints) -> String {
    format!("{}, {} written", many(found.files, "large file", "large files"), bytes(found.bytes_written as f64))
}
