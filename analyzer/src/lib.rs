//! From traces to answers: loading, tables, queries, reports.
//!
//! Reads files that programs, ours or others', have left; never runs, traces or links any of them.
//!
//! Reading order: [`resources`] (what a process may use), [`catalog`] and [`batch`] (what an event is), [`mod@unit`] (in which
//! pieces they are read), [`load`] (from files to batches), [`filter`], [`scan`] (all batches, in parallel), [`summary`] (what they mean), [`findings`] (what can be
//! done about it), [`html`] (as a page), [`compare`] (what changed from one run to another), [`cache`] (not to count twice),
//! [`io_profile`] (how files are used), [`similarity`] and [`workload`] (what that makes a benchmark of), [`tables`] (SQL and
//! Arrow), [`viewer`] (traces for people to look at), [`top`] (what runs now), [`mod@cluster`] (many machines), [`command`]
//! (the command line). Only `tables`, `cluster` and `command` know DataFusion.
#![forbid(unsafe_code)]

/// A line on standard error, beside the work. That nobody listens ends nothing, as it does with `eprintln`.
macro_rules! notice {
    ($($text:tt)*) => {
        $crate::terminal::warn(format_args!($($text)*))
    };
}

pub mod amount;
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
pub mod html;
pub mod io_profile;
pub mod load;
mod owner;
mod packed_serde;
pub mod replay;
pub mod resources;
pub mod scan;
pub mod schema;
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
