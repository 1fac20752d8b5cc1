//! Detects time spent in file locks.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, Worth, part};
use crate::summary::figures::units::{many, time};
use crate::summary::report::findings::Confidence;
use crate::summary::waits::parts::Part;

pub const RULE: Rule = Rule {
    id: "lock-wait",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Exact,
    asks: "flock, lockf and fcntl take 1 % of the run time or more",
    silences: &[],
    silences_rules: &[],
    remedy: "open files read-only if they are only read, set HDF5_USE_FILE_LOCKING=FALSE for such files, write one \
        file per rank",
    torch: "",
    elsewhere: "hold locks for a shorter time, open files read-only if they are only read, write one file per process",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let locks = case.locks();
    Judgement {
        measures: vec![case.at_least("share", part(locks.time_ns, case.wall_ns() as f64))],
        says: format!(
            "{} took {} in total",
            many(locks.count, "call for locks", "calls for locks"),
            time(locks.time_ns)
        ),
        worth: Some(worth(case, locks.time_ns)),
        evidence: locks.rows,
        ..Judgement::default()
    }
}

/// Returns the training's wait while its readers wait for locks; without training it is unknown.
fn worth(case: &Case, locked_ns: f64) -> Worth {
    if let Some((waited, share)) = case.waited().zip(case.cause_share(&[Part::Lock])) {
        return Worth { ns: (waited.waited_ns as f64 * share) as i64, exposed: true };
    }
    match case.waited().zip(case.locked()) {
        Some((waited, locked)) => Worth { ns: (waited.at_work_ns() as f64 * locked) as i64, exposed: true },
        None => Worth { ns: (locked_ns as i64).min(case.wall_ns()), exposed: false },
    }
}
