//! One trace, many machines: what is cut into pieces, what a worker does with one, and how their answers become one.
//!
//! Everybody opens the whole trace, which costs the facts of its processes and none of its events: so a piece is named by
//! numbers of files, and processes, hosts and clocks are the same for all. Reading order: [`pieces`] (how a trace is cut),
//! [`task`] (what is sent), [`worker`] (what is done with it), [`fleet`] (which workers there are), [`coordinator`] (who asks
//! them).
//!
//! A query is planned by who asks. What of its plan works on each partition alone ([`shipped`]) is sent as bytes ([`plan`]),
//! with a portion of the trace each ([`portions`]); [`query`] does that, [`rows`] come back, are [`held`] until they are whole,
//! and go on through the rest of the plan, in which [`asking`] stands for those who were asked. [`writing`] has them write
//! Parquet.

pub mod asking;
pub mod coordinator;
pub mod fleet;
pub mod held;
pub mod pieces;
pub mod plan;
pub mod portions;
pub mod query;
pub mod rows;
pub mod shipped;
pub mod task;
pub mod worker;
pub mod writing;

/// The version that all of one question must have: of the program, and of what they send each other.
pub fn version() -> String {
    format!("{}.{}", env!("CARGO_PKG_VERSION"), TASKS)
}

/// Raise this when tasks or their results change.
const TASKS: u32 = 8;
