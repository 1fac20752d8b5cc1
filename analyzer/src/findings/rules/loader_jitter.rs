//! Detects batches that take unequally long to make.

use super::super::loader::{busiest, busy_meanwhile, busy_ns, largest_turn, loader};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, Waited, Worth, part};
use crate::summary::report::findings::{Confidence, Unit};
use crate::summary::training::{RankGroup, ReaderUse};
use crate::summary::waits::parts::Part;

pub const RULE: Rule = Rule {
    id: "loader-jitter",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "training waits during 5 % or more of its time for reasons other than too few readers or the turn of one \
        reader; without spans, if readers are idle for as long when it does not wait",
    silences: &[],
    silences_rules: &[],
    remedy: "let readers work further ahead (prefetch more batches); if the order does not matter, take batches as they become \
        ready",
    torch: "raise prefetch_factor (up to 8); if the order does not matter, also pass in_order=False",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

/// Calls show uneven batches only if this share of the wait was work on batches: then readers are idle because training does not yet
/// need what they have made.
const WORK: f64 = 0.8;

/// Returns the share of the training for which it waited, at most that for which each reader was idle at other times: readers that
/// worked further ahead would have used that time. `None` if calls do not show it, or if a replay of the batches knows better.
fn idle_elsewhere(case: &Case, waited: &Waited) -> Option<f64> {
    let [group] = case.summary.training.as_slice() else { return None };
    let is_replayed = case.summary.what_if.as_ref().is_some_and(|replay| replay.refused.is_none());
    let are_others = group.readers.iter().all(|reader| reader.proc != group.proc);
    let works = case.cause_share(&[Part::Storage, Part::PageFaults, Part::Cpu, Part::NoCpu, Part::FileCalls])?;
    let is_known = group.inferred && group.generations <= 1 && are_others && works >= WORK && !is_replayed;
    // The readers of a fast loader are idle while training waits for a slow one.
    let idle = group.readers.iter().map(|reader| (reader.idle_ns - reader.wait_idle_ns).max(0)).min()?;
    let idle = part(idle as f64, group.trained_ns as f64)?;
    is_known.then_some(idle.min(waited.share_at_work()))
}

/// Change to make if readers begin a batch when the trainer requests it.
const REQUEST_SOONER: &str = "request the next batch before the step that uses the current one (from a thread, or with a queue of requests), so \
    that readers work while training computes";

/// Readers that do this share of their work while the trainer waits do not work ahead, if it does not wait for this share of its time.
const ON_REQUEST: f64 = 0.85;
const ROOM: f64 = 0.25;

/// Returns `true` if all readers of a trainer work only while it waits for them.
fn work_on_request(group: &RankGroup) -> bool {
    let works = |reader: &ReaderUse| busy_meanwhile(reader) as f64 >= ON_REQUEST * busy_ns(reader) as f64;
    let free = group.trained_ns - group.waited_ns.unwrap_or(0);
    free as f64 >= ROOM * group.trained_ns as f64 && group.readers.iter().all(works)
}

/// Returns the judgement of a trace without spans.
fn by_calls(case: &Case) -> Option<Judgement> {
    let waited = case.waited()?;
    let rest = idle_elsewhere(case, &waited)?;
    let measures = vec![case.at_least("wait", Some(waited.share_at_work())), case.at_least("rest", Some(rest))];
    let (idle, noun) = (Unit::Share.text(rest), case.loop_name());
    let on_request = case.summary.training.iter().all(work_on_request);
    let says = match on_request {
        true => format!("readers worked almost only while {noun} waited: they make no batches ahead"),
        false => format!(
            "each reader was idle for at least {idle} of the time of {noun}, which waited for it at other times: batches take different times"
        ),
    };
    Some(Judgement {
        measures,
        says,
        remedy: on_request.then_some(REQUEST_SOONER),
        evidence: busiest(case),
        worth: Some(Worth { ns: (rest * waited.trained_ns as f64) as i64, exposed: true }),
        ..Judgement::default()
    })
}

fn judge(case: &Case) -> Judgement {
    by_calls(case).unwrap_or_else(|| by_spans(case))
}

fn by_spans(case: &Case) -> Judgement {
    let (waited, loader) = (case.waited(), loader(case));
    let rest = waited.as_ref().zip(loader.as_ref()).map(|(waited, loader)| waited.share_at_work() - loader.shortage());
    let measures = vec![
        case.at_least("wait", waited.as_ref().map(Waited::share_at_work)),
        case.at_least("rest", rest),
        case.below("turn", largest_turn(case)),
    ];
    let decide = "record spans of waits and compute, with 2 to 16 readers that take turns";
    let Some((waited, rest)) = waited.zip(rest) else { return Judgement { measures, decide, ..Judgement::default() } };
    Judgement {
        measures,
        says: format!(
            "readers deliver enough on average, but training still waited for {} of its time: batches take different \
             times",
            Unit::Share.text(rest)
        ),
        evidence: busiest(case),
        worth: Some(Worth { ns: (rest * waited.trained_ns as f64) as i64, exposed: true }),
        decide,
        ..Judgement::default()
    }
}
