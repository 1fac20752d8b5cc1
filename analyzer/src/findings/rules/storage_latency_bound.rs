//! Detects storage that would deliver more with more calls in flight.

use super::super::concurrency::{concurrency, in_flight, undecided, waits_for_io};
use super::super::loader::mostly_idle;
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, Moved, Waited, Worth};
use crate::summary::figures::units::{bytes, time};
use crate::summary::report::findings::{Confidence, Measure, Unit};

pub const RULE: Rule = Rule {
    id: "storage-latency-bound",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "training waits, its readers are in I/O for 70 % or more of their busy time, and more calls in flight move \
        more bytes, or reads take long with few in flight",
    silences: &[],
    silences_rules: &["too-many-readers"],
    remedy: "use twice as many readers, so that more reads are in flight; if the run is not faster, the storage is at its limit: \
        read fewer bytes or use faster storage",
    torch: "double num_workers, so that more reads are in flight; if the run is not faster, the storage is at its limit: read \
        fewer bytes or use faster storage",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let waited = case.waited();
    let found = concurrency(case);
    let mut measures = waits_for_io(case, waited.as_ref());
    measures.push(case.at_least("slope", found.as_ref().map(|found| found.slope)));
    if let (Some(waited), None) = (&waited, &found)
        && let Some(judgement) = of_single_reads(case, waited)
    {
        return judgement;
    }
    let (Some(waited), Some(found)) = (&waited, &found) else {
        return undecided(measures, waited.as_ref());
    };
    // With twice as many calls in flight at all times, the same bytes take this much less time.
    let saved = 1.0 - 0.5_f64.powf(found.slope.clamp(0.0, 1.0));
    Judgement {
        measures,
        says: format!("storage moves more with more calls in flight: {}", found.says()),
        evidence: vec![format!(
            "with twice as many calls in flight the same bytes would take {} less time",
            Unit::Share.text(saved)
        )],
        worth: Some(Worth { ns: (waited.at_work_ns() as f64 * saved) as i64, exposed: true }),
        ..Judgement::default()
    }
}

/// Reads of about one size that take more than half of the time in file calls.
struct Reads {
    median_ns: f64,
    moved: Moved,
}

fn longest_reads(case: &Case) -> Option<Reads> {
    let rows = case.summary.latency.iter().filter(|row| row.class == "read" && row.from > Some(0));
    let row = rows.max_by_key(|row| row.time_ns).filter(|row| 2.0 * row.time_ns as f64 > case.file_ns())?;
    let moved = case.moved("read", row.from?, row.to.unwrap_or(u64::MAX));
    (moved.count > 0).then_some(Reads { median_ns: row.duration_ns.median, moved })
}

/// Judges by the duration of single reads if the number of calls in flight never changed: long reads that move few
/// bytes, with few in flight, show that storage has spare capacity. `None` if these conditions do not hold.
fn of_single_reads(case: &Case, waited: &Waited) -> Option<Judgement> {
    let (reads, in_flight) = (longest_reads(case)?, in_flight(case)?);
    let size = reads.moved.bytes / reads.moved.count as f64;
    let rate = size * 1e9 / reads.median_ns.max(1.0);
    let mut measures = waits_for_io(case, Some(waited));
    measures.extend([
        case.at_least("latency", Some(reads.median_ns)),
        case.below("rate", Some(rate)),
        case.below("in-flight", Some(in_flight)),
    ]);
    if mostly_idle(case) || measures.iter().map(Measure::holds).any(|holds| holds != Some(true)) {
        return None;
    }
    let (each, took) = (bytes(size), time(reads.median_ns));
    Some(Judgement {
        measures,
        says: format!(
            "readers wait for single reads: a read of {each} took {took} (median), which is {} per second, with \
             {in_flight:.1} in flight at once",
            bytes(rate)
        ),
        evidence: vec![
            "with twice as many calls in flight the same bytes would take half as long, unless storage is at its \
             limit: a run with double the readers shows it"
                .into(),
        ],
        worth: Some(Worth { ns: waited.at_work_ns() / 2, exposed: true }),
        ..Judgement::default()
    })
}
