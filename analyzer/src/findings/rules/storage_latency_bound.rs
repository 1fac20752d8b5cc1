//! Storage would give more if more were asked for at once.

use super::super::case::{Case, Judgement, RECORD_TRAINING, Waited, Worth};
use super::super::concurrency::{RECORD_CONCURRENCY, concurrency};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::summary::report::findings::{Confidence, Unit};

pub const RULE: Rule = Rule {
    id: "storage-latency-bound",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "training waits, its readers are in I/O for 70 % of their busy time or more, and more calls in flight move more bytes",
    silences: &[],
    silences_rules: &["too-many-readers"],
    remedy: "more in flight: more readers, more batches made ahead, readahead (posix_fadvise), larger reads",
    torch: "more in flight: more num_workers, a larger prefetch_factor, readahead (posix_fadvise), larger reads",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let waited = case.waited();
    let found = concurrency(case);
    let measures = vec![
        case.at_least("wait", waited.as_ref().map(Waited::share_at_work)),
        case.at_least("io-duty", waited.as_ref().and_then(Waited::io_duty)),
        case.at_least("slope", found.as_ref().map(|found| found.slope)),
    ];
    let (Some(waited), Some(found)) = (&waited, &found) else {
        let decide = if waited.is_none() { RECORD_TRAINING } else { RECORD_CONCURRENCY };
        return Judgement { measures, decide, ..Judgement::default() };
    };
    // With twice as many in flight all the time the same bytes take so much less.
    let saved = 1.0 - 0.5_f64.powf(found.slope.clamp(0.0, 1.0));
    Judgement {
        measures,
        says: format!("storage moves more the more is asked for at once: {}", found.says()),
        evidence: vec![format!(
            "with twice as many in flight the same bytes would take {} less time",
            Unit::Share.text(saved)
        )],
        worth: Some(Worth { ns: (waited.at_work_ns() as f64 * saved) as i64, exposed: true }),
        ..Judgement::default()
    }
}
