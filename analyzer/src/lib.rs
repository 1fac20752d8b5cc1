//! From traces to answers: loading, tables, queries, reports.
//!
//! Reads files that programs, ours or others', have left; never runs, traces or links any of them.
//!
//! Reading order: [`catalog`] and [`batch`] (what an event is), [`load`] (from files to batches), [`filter`], [`scan`] (all
//! batches, in parallel), [`summary`] (what they mean), [`cache`] (not to count twice), [`tables`] (SQL and Arrow), [`viewer`] (traces for people to look at), [`command`] (the command line). Only
//! `tables` and `command` know DataFusion.
#![forbid(unsafe_code)]

pub mod batch;
pub mod cache;
pub mod catalog;
pub mod command;
pub mod filter;
pub mod grid;
pub mod load;
pub mod scan;
pub mod summary;
pub mod tables;
pub mod viewer;
