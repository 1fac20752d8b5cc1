//! Requests to object stores: quantities that several rules need.

use super::rule_context::{Calls, Case, EVIDENCE_MAX, Judgement, part};
use crate::summary::count::kinds::OBJECT;
use crate::summary::figures::units::grouped;
use crate::summary::report::failures::FailureUse;
use crate::summary::report::findings::Unit;

/// A request for an object or a range of it.
pub const GET: &str = "object.get";

/// Judges requests that failed with one of these errors relative to all requests; `came` describes the result of the
/// failures.
pub fn judge(case: &Case, errors: &[&str], came: &str) -> Judgement {
    let (all, failed) = (count(case), failed(case, errors));
    let share = part(failed.count as f64, all as f64);
    Judgement {
        measures: vec![case.at_least("requests", Some(failed.count as f64)), case.at_least("share", share)],
        says: format!(
            "{} of {} requests, {}, {came}",
            grouped(failed.count),
            grouped(all),
            Unit::Share.text(share.unwrap_or(0.0))
        ),
        worth: Some(case.shared_out(failed.time_ns)),
        evidence: failed.rows,
        ..Judgement::default()
    }
}

/// Returns the number of requests, counting each attempt.
fn count(case: &Case) -> u64 {
    case.calls_on_files().filter(|function| function.cat == OBJECT).map(|function| function.count).sum()
}

/// Returns the requests that failed with one of these errors.
fn failed(case: &Case, errors: &[&str]) -> Calls {
    let failures = case.summary.failures.iter();
    let rows: Vec<&FailureUse> =
        failures.filter(|row| row.cat == OBJECT && errors.contains(&row.error.as_str())).collect();
    let row = |row: &&FailureUse| {
        let object = row.file.as_deref().unwrap_or("no object");
        format!("{}: {} failed with {}, first on {object}", row.name, grouped(row.count), row.error)
    };
    Calls {
        count: rows.iter().map(|row| row.count).sum(),
        time_ns: rows.iter().map(|row| row.time_ns as f64).sum(),
        rows: rows.iter().take(EVIDENCE_MAX).map(row).collect(),
    }
}
