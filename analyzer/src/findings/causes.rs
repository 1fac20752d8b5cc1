//! Rules whose cause is itself a part of the wait.

use super::rule_context::{Case, Judgement, Waited, Worth};
use crate::summary::report::findings::{Confidence, Unit};
use crate::summary::waits::parts::Part;

/// Advice to record who ended waits.
pub const RECORD_WAITS: &str =
    "record waits, pipes and CPU times: use dlio trace of this version with the layers wait and net";

/// Judges the given parts of a wait; `says` receives their share as text.
pub fn by_cause(case: &Case, parts: &[Part], says: impl FnOnce(&str) -> String) -> Judgement {
    match of_wait(case, "part", parts) {
        (judgement, Some(share)) => Judgement { says: says(&Unit::Share.text(share)), ..judgement },
        (judgement, None) => Judgement { decide: RECORD_WAITS, ..judgement },
    }
}

/// Returns the initial judgement of such a rule, with these parts measured under a key, and their share if wait and
/// causes are known.
pub fn of_wait(case: &Case, key: &str, parts: &[Part]) -> (Judgement, Option<f64>) {
    let waited = case.waited();
    let share = case.cause_share(parts);
    let measures = vec![case.at_least("wait", waited.as_ref().map(Waited::share)), case.at_least(key, share)];
    let Some((waited, share)) = waited.zip(share) else {
        return (Judgement { measures, ..Judgement::default() }, None);
    };
    let judgement = Judgement {
        measures,
        worth: Some(Worth { ns: (waited.waited_ns as f64 * share) as i64, exposed: true }),
        confidence: Some(if waited.inferred { Confidence::Inferred } else { Confidence::Exact }),
        ..Judgement::default()
    };
    (judgement, Some(share))
}
