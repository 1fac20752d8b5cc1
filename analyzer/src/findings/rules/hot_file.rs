//! Detects one read file that takes most of the time. Written files do not count, because archivers, copies and
//! checkpoints normally write a single file.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, part};
use crate::summary::figures::units::{many, time};
use crate::summary::report::files::FileUse;
use crate::summary::report::findings::{Confidence, Unit};
use crate::summary::report::named_pipe::named_pipe;

pub const RULE: Rule = Rule {
    id: "hot-file",
    group: Group::Access,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "one file that is read takes half of the time, and at least twice its share of the calls",
    silences: &[],
    silences_rules: &[],
    remedy: "stripe or replicate that file, or read it once and distribute its contents",
    torch: "",
    elsewhere: "move that file to faster storage, or read it once and keep it in memory",
    verify: COMPARE,
    judge,
};

/// Change to make if most of that file's calls are for opening it.
const KEEP_OPEN: &str = "open that file once per reader and keep it open, instead of once per sample";

/// Change to make if a single reader reads it: several copies would not be read at the same time, either.
const READ_AHEAD: &str = "keep more reads of that file in flight (more readers, or threads in the reader), read larger pieces of it, or copy it to \
    faster storage";

/// Returns `true` if a single reader reads for all trainers.
fn has_one_reader(case: &Case) -> bool {
    matches!(case.summary.training.as_slice(), [group] if group.readers_at_once() == 1)
}

/// A file that is opened in at least one of this many of its calls is opened for each sample.
const CALLS_AN_OPEN: u64 = 8;
const OPENS_MIN: u64 = 20;

/// Returns `true` if opening the file takes most of its time: opens take most of the time of all files.
fn is_reopened(case: &Case, file: &FileUse) -> bool {
    let opening = case.calls_where(|function| function.class == "metadata").time_ns;
    let is_often = file.use_.opens >= OPENS_MIN && file.use_.opens * CALLS_AN_OPEN >= file.use_.events;
    is_often && opening >= 0.5 * case.file_ns()
}

fn judge(case: &Case) -> Judgement {
    let folders = || case.summary.directories.iter().map(|folder| &folder.use_);
    let (events, ns): (u64, u64) = (folders().map(|it| it.events).sum(), folders().map(|it| it.time_ns).sum());
    // A named pipe cannot be replicated.
    let pipe = named_pipe(case.summary);
    let hot = case.summary.files.first().filter(|file| pipe != Some(file.path.as_str()));
    let of_time = hot.and_then(|file| part(file.use_.time_ns as f64, ns as f64)).unwrap_or(0.0);
    let of_calls = hot.and_then(|file| part(file.use_.events as f64, events as f64)).unwrap_or(1.0);
    let moved = hot.map_or(0, |file| file.use_.bytes_read + file.use_.bytes_written);
    let of_bytes = hot.and_then(|file| part(file.use_.bytes_read as f64, moved as f64)).unwrap_or(0.0);
    let row = |file: &FileUse| {
        format!(
            "{}: {}, {} in total",
            file.path,
            many(file.use_.events, "call", "calls"),
            time(file.use_.time_ns as f64)
        )
    };
    // Time beyond that of the same number of calls on other files.
    let beyond = (of_time - of_calls * (1.0 - of_time) / (1.0 - of_calls).max(f64::EPSILON)).max(0.0);
    Judgement {
        measures: vec![
            case.calls(events),
            case.at_least("time", Some(of_time)),
            case.at_least("read", Some(of_bytes)),
            case.at_least("slope", Some(of_time / of_calls.max(f64::EPSILON))),
        ],
        says: format!(
            "{} of the time in file calls is spent on {}, in {} of the calls",
            Unit::Share.text(of_time),
            hot.map_or("one file", |file| file.path.as_str()),
            Unit::Share.text(of_calls)
        ),
        worth: Some(case.shared_out(beyond * case.file_ns())),
        remedy: match hot {
            Some(file) if is_reopened(case, file) => Some(KEEP_OPEN),
            _ => has_one_reader(case).then_some(READ_AHEAD),
        },
        evidence: hot.map(row).into_iter().collect(),
        ..Judgement::default()
    }
}
