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
//!
//! What holds:
//!
//! * **Equal to the last digit.** A worker counts a part as a thread counts it, up to the same horizons, and what merges threads
//!   merges parts. A work item holds whole process trees, because threads are measured against those of their own process and
//!   of its ancestors. The coordinator receives united intervals and does only the unions over all processes. Files and kinds
//!   have other numbers in every process: parts bring their names. Files that do not say before they are read whose events they
//!   hold (DFTracer, strace) are one work item.
//! * **Nothing is left out.** A work item is done when its result has arrived. If a worker disconnects or is silent for eight
//!   seconds, another one gets its work item; when no worker is left, the answer is an error and no number. Changed files, other
//!   roots, tokens and versions end the question with a message.
//! * **One secret.** The token yields an Ed25519 key. The worker's certificate is of that key, and the coordinator accepts no
//!   other. Loopback is not encrypted.
//! * **Rows come once.** Nobody knows which rows of a split are missing when its worker disconnects, so rows wait until their
//!   split is complete: a quarter of `--memory` in memory, at most 256 MiB, the rest in a file without a name in `TMPDIR`. A
//!   full buffer makes workers wait.
//! * **Numbers are the coordinator's.** Rows with numbers of files and processes are translated. Operators that look at such
//!   numbers (`where file_id > 7`) run at the coordinator.
//! * **Order.** Where SQL leaves the order of rows open, they arrive as splits are done.
//! * **Parquet** is written by workers into the directory itself, under names that no reader takes for a table. The coordinator
//!   renames a file when its split is done. File numbers come from a count before, so the trace is read twice. Where a worker may
//!   not write, or processes are discovered while reading, the coordinator writes.

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
const TASKS: u32 = 13;
