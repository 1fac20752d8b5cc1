//! One trace, many machines: what is cut into pieces, what a worker does with one, and how their answers become one.
//!
//! Everybody opens the whole trace, which costs the facts of its processes and none of its events: so a piece is named by
//! numbers of files, and processes, hosts and clocks are the same for all. Reading order: [`work_items`] (how a trace is cut),
//! [`task`] (what is sent), [`worker`] (what is done with it), [`fleet`] (which workers there are), [`coordinator`] (who asks
//! them).
//!
//! The coordinator plans a query. The part of its plan that works on each partition alone ([`pushdown`]) is sent as bytes
//! ([`plan`]), with a split of the trace per worker ([`splits`]). Workers run it ([`query`]) and return [`rows`]. These wait in
//! [`result_buffer`] until they are complete, and pass through the rest of the plan, in which [`worker_exec`] is the operator
//! that stands for the workers. [`parquet_output`] has workers write Parquet.

pub mod coordinator;
pub mod fleet;
pub mod parquet_output;
pub mod plan;
pub mod pushdown;
pub mod query;
pub mod result_buffer;
pub mod rows;
pub mod splits;
pub mod task;
pub mod work_items;
pub mod worker;
pub mod worker_exec;

/// The version that all of one question must have: of the program, and of what they send each other.
pub fn version() -> String {
    format!("{}.{}", env!("CARGO_PKG_VERSION"), TASKS)
}

/// Raise this when tasks or their results change.
const TASKS: u32 = 8;
