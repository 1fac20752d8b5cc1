//! The answers that the command gives: one file and one line below for each of them.
//!
//! To add one: a file here with an [`Answer`] and its `requested`, which takes the answer's own options from what was typed.
//! Whatever is typed wrong is refused in `check`, before any work; [`SharedTrace`](super::shared_trace::SharedTrace) opens
//! and counts the trace once for all of them.

mod answer;
mod compare;
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

/// Returns the answer, if its options were typed.
type Requested = fn(&Arguments) -> Option<Box<dyn Answer>>;

/// Texts about the command itself, which need no trace.
const TEXTS: [Requested; 3] = [show_sql::requested, explain::requested, tables::requested];

/// Answers about several runs, or in another way than the others. The first that is requested is the only one.
const ALONE: [Requested; 3] = [workload::requested, similarity::requested, compare::requested];

/// Answers about one trace, in the order in which they are given.
const TOGETHER: [Requested; 8] = [
    summary::requested,
    what_if::requested,
    html::requested,
    parquet::requested,
    export::requested,
    sql::requested,
    shell::requested,
    view::requested,
];

/// Returns the answers that were requested, in the order in which they are given.
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
