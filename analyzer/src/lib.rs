//! From traces to answers: loading, tables, queries, reports.
//!
//! Reads files that dlio or other tools have written; never runs, traces or links any of them.
//!
//! Reading order: [`resources`] (the resources of a process), [`catalog`] and [`batch`] (events), [`mod@unit`] (the
//! pieces in which they are read), [`load`] (from files to batches), [`filter`], [`scan`] (all batches, in parallel),
//! [`summary`] (the analysis), [`findings`] (what can be improved), [`html`] (the report as a page), [`compare`]
//! (changes between runs), [`cache`] (results of earlier readings), [`io_profile`] (how files are used), [`similarity`]
//! and [`workload`] (comparison with, and derivation of, a benchmark), [`tables`] (SQL and Arrow), [`viewer`] (traces
//! for viewers), [`top`] (running processes), [`mod@cluster`] (several hosts), [`command`] (the command line). Only
//! `tables`, `cluster` and `command` depend on DataFusion.
#![forbid(unsafe_code)]

/// Prints a line on standard error during work. Unlike with `eprintln`, a failure to print it is ignored.
macro_rules! notice {
    ($($text:tt)*) => {
        $crate::terminal::warn(format_args!($($text)*))
    };
}

pub mod amount;
pub mod argument_key;
mod atomic_file;
pub mod batch;
pub mod cache;
pub mod catalog;
#[cfg(feature = "cluster")]
pub mod cluster;
pub mod command;
pub mod compare;
mod errno;
pub mod filter;
pub mod findings;
mod foreign_options;
pub mod html;
pub mod io_profile;
pub mod load;
mod owner;
mod packed_serde;
mod process_tree;
pub mod replay;
pub mod resources;
pub mod scan;
pub mod schema;
mod shell_word;
pub mod sidecar;
pub mod similarity;
pub mod summary;
pub mod tables;
pub mod terminal;
pub mod text_table;
pub mod top;
mod unfinished;
pub mod unit;
pub mod viewer;
pub mod workload;
