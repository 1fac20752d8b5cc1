//! The answers of the command: one file, and one line below, for each of them.
//!
//! To add an answer, add a file with an [`Answer`] and its `requested`, which extracts the answer's options from the
//! arguments. `check` rejects invalid arguments before any work. [`SharedTrace`](super::shared_trace::SharedTrace)
//! opens and counts the trace once for all answers.

mod answer;
mod brief;
mod compare;
mod cut;
mod explain;
mod export;
mod html;
mod parquet;
mod shell;
mod show_sql;
mod similarity;
mod sql;
mod summary;
mod tables;
mod view;
mod what_if;
mod workload;

use super::arguments::Arguments;
pub use answer::Answer;

/// Returns the answer if its options were given.
type Requested = fn(&Arguments) -> Option<Box<dyn Answer>>;

/// Answers about the command itself, which do not need a trace.
const TEXTS: [Requested; 3] = [show_sql::requested, explain::requested, tables::requested];

/// Answers about several runs, or with a separate procedure. Only the first requested one runs.
const ALONE: [Requested; 3] = [workload::requested, similarity::requested, compare::requested];

/// Answers about one trace, in output order.
const TOGETHER: [Requested; 10] = [
    summary::requested,
    brief::requested,
    what_if::requested,
    html::requested,
    parquet::requested,
    export::requested,
    cut::requested,
    sql::requested,
    shell::requested,
    view::requested,
];

/// Returns the requested answers in output order.
pub fn requested(typed: &Arguments) -> Vec<Box<dyn Answer>> {
    let texts = TEXTS.iter().filter_map(|requested| requested(typed));
    if typed.needs_no_trace() {
        return texts.collect();
    }
    match ALONE.iter().find_map(|requested| requested(typed)) {
        Some(alone) => texts.chain([alone]).collect(),
        None => texts.chain(TOGETHER.iter().filter_map(|requested| requested(typed))).collect(),
    }
}
