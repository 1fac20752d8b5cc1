//! Detects training that waits for its batches.

use std::cmp::Reverse;

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, RECORD_TRAINING, Waited, in_words, named};
use crate::summary::figures::units::{share, time};
use crate::summary::report::findings::Confidence;
use crate::summary::waits::parts::Part;

pub const RULE: Rule = Rule {
    id: "input-bound",
    group: Group::Verdict,
    cost: Cost::Worth,
    confidence: Confidence::Exact,
    asks: "training waits for batches for 5 % or more of its time",
    silences: &[],
    silences_rules: &[],
    remedy: "use more readers, or prefetch more batches",
    torch: "increase num_workers or prefetch_factor",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

/// The start of readers is reported if it takes at least this share of the training.
const STARTING: f64 = 0.01;

/// The change if readers had ended.
const DEAD_REMEDY: &str =
    "find out why the readers ended: their messages, and --section processes for their exit status";

/// Changes to make if reader starts take most of the wait, and if the trainer has no readers.
const START_REMEDY: &str = "keep readers from one epoch to the next, let them load less before they start; in a \
    longer run start-up matters less";
const START_TORCH: &str = "use persistent_workers=True, lighter imports in workers, fork or forkserver instead of \
    spawn; in a longer run start-up matters less";
const OWN_REMEDY: &str = "let another thread or process read the next batch during compute; the findings below show \
    what takes its time";
const OWN_TORCH: &str = "set num_workers to 1 or more, so that workers read the next batch during compute; the \
    findings below show what takes its time";

/// Causes against which more readers do not help. If one of them is the largest, the change is the one for it.
const OTHER_CAUSES: [Part; 6] = [Part::HandOver, Part::Sampling, Part::Gil, Part::Lock, Part::NoCpu, Part::NotAsked];

fn judge(case: &Case) -> Judgement {
    let waited = case.waited();
    let measures = vec![case.at_least("wait", waited.as_ref().map(Waited::share))];
    let Some(waited) = waited else { return Judgement { measures, decide: RECORD_TRAINING, ..Judgement::default() } };
    let mut says = format!(
        "{} spent {} of {} ({}{}) waiting for {}",
        case.loop_name(),
        time(waited.waited_ns as f64),
        time(waited.trained_ns as f64),
        share(waited.waited_ns, waited.trained_ns),
        if case.summary.training.len() > 1 { " on average" } else { "" },
        case.wording().items()
    );
    if waited.held {
        says += ", the waits of all ranks combined, since each step waits for the slowest";
    }
    if waited.starting_ns as f64 >= STARTING * waited.trained_ns as f64 {
        says += &format!(
            "; {} of the wait passed while its readers were starting (including their one-time work) or ending",
            time(waited.starting_ns as f64)
        );
    }
    let starts_most = case.causes().is_some_and(|causes| causes.largest() == Part::Start);
    let is_start = starts_most || 2 * waited.starting_ns > waited.waited_ns;
    let remedy = match (is_start, case.reads_itself()) {
        _ if case.readers_died() => Some(DEAD_REMEDY),
        (true, _) => Some(in_words(case.summary, START_REMEDY, START_TORCH)),
        _ if let Some(change) = case.change_for(&OTHER_CAUSES) => Some(change),
        (false, true) => Some(in_words(case.summary, OWN_REMEDY, OWN_TORCH)),
        _ => None,
    };
    Judgement {
        measures,
        says,
        remedy,
        evidence: evidence(case),
        worth: Some(waited.worth()),
        confidence: Some(waited.confidence()),
        ..Judgement::default()
    }
}

/// Returns the trainers that waited most.
fn evidence(case: &Case) -> Vec<String> {
    let mut groups: Vec<_> = case.summary.training.iter().collect();
    groups.sort_by_key(|group| Reverse(group.waited_ns));
    let row = |group: &&_| {
        let group: &crate::summary::training::RankGroup = group;
        let waited = group.waited_ns.unwrap_or(0);
        format!("{}: waited {} ({})", named(group), time(waited as f64), share(waited, group.trained_ns))
    };
    groups.iter().map(row).collect()
}
