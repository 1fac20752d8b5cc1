//! Detects time spent in file locks, and waits for readers that wait for any lock.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, Worth, part};
use crate::summary::figures::units::{many, time};
use crate::summary::report::findings::Confidence;
use crate::summary::report::locked::locked_file;
use crate::summary::waits::parts::Part;

pub const RULE: Rule = Rule {
    id: "lock-wait",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Exact,
    asks: "flock, lockf and fcntl, or the training's wait for readers that wait for locks, take 1 % or more of the run \
        time",
    silences: &[],
    silences_rules: &[],
    remedy: "hold locks for a shorter time; for files that are only read: HDF5_USE_FILE_LOCKING=FALSE, or SQLite's mode=ro; for an SQLite \
        database that another program writes: PRAGMA journal_mode=WAL; or write one file per process",
    torch: "",
    elsewhere: "hold locks for a shorter time, open files read-only if they are only read, write one file per process",
    verify: COMPARE,
    judge,
};

/// The change if most of the wait was for locks other than those of files.
const IN_MEMORY: &str =
    "hold the lock only while shared data are used, or give each reader its own: it is a lock in memory, not on a file";

/// The change if most of the wait was for one file that no library locks by itself.
const ON_FILE: &str = "find the program that holds the lock of this file, and let it hold the lock for less time";

/// Returns `true` for files of libraries that lock them: HDF5 and SQLite.
fn is_library_file(path: &str) -> bool {
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    let starts = ["h5", "hdf", "nc", "db", "sqlite"];
    starts.iter().any(|start| ending.to_ascii_lowercase().starts_with(start))
}

fn judge(case: &Case) -> Judgement {
    let locks = case.locks();
    let kept = case
        .waited()
        .zip(case.cause_share(&[Part::Lock]))
        .map_or(0.0, |(waited, share)| waited.waited_ns as f64 * share);
    let calls = format!(
        "{} took {}, summed over threads",
        many(locks.count, "call for locks", "calls for locks"),
        time(locks.time_ns)
    );
    Judgement {
        measures: vec![case.at_least("share", part(locks.time_ns.max(kept), case.wall_ns() as f64))],
        // Readers may also poll for a lock, or wait for one in memory.
        says: match kept > locks.time_ns {
            true => {
                format!(
                    "{} waited {} for readers that waited for a lock, mostly between their calls for it; {calls}",
                    case.loop_name(),
                    time(kept)
                )
            }
            false => calls,
        },
        worth: Some(worth(case, locks.time_ns)),
        remedy: match locked_file(case.summary) {
            Some(file) if !is_library_file(&file.path) => Some(ON_FILE),
            Some(_) => None,
            None => (locks.time_ns < kept / 2.0).then_some(IN_MEMORY),
        },
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
