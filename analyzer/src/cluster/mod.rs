//! One trace, many hosts: how a trace is divided into work items, how a worker processes one, and how the results are
//! merged.
//!
//! Every worker opens the whole trace, which reads the facts of its processes but no events. So numbers of files
//! identify a work item, and processes, hosts and clocks are identical everywhere. Reading order: [`work_items`] (how a
//! trace is divided), [`task`] (the messages), [`worker`] (how they are handled), [`fleet`] (the workers),
//! [`coordinator`] (the client of the workers).
//!
//! The coordinator plans a query. The part of its plan that works on each partition alone ([`pushdown`]) is sent as
//! bytes ([`plan`]), with a split of the trace per worker ([`splits`]). Workers run it ([`query`]) and return [`rows`].
//! These are buffered in [`result_buffer`] until they are complete, and pass through the rest of the plan, in which
//! [`worker_exec`] is the operator that represents the workers. [`parquet_output`] makes workers write Parquet.
//!
//! Guarantees:
//!
//! * **Exactly equal results.** A worker counts a part as a thread counts it, up to the same horizons, and the code
//!   that merges threads also merges parts. A work item contains whole process trees, because threads are compared with
//!   those of their own process and of its ancestors. The coordinator receives united intervals and computes only the
//!   unions over all processes. Files and kinds have different numbers in every process, so parts contain their names.
//!   Files whose processes are unknown before they are read (DFTracer, strace) are one work item.
//! * **Complete results.** A work item is done when its result has arrived. If a worker disconnects or is silent for
//!   eight seconds, another one gets its work item; when no worker is left, the result is an error without numbers.
//!   Changed files, wrong roots, tokens and versions end the question with a message.
//! * **One secret.** An Ed25519 key is derived from the token. The worker's certificate is for that key, and the
//!   coordinator accepts no other. Loopback is not encrypted.
//! * **Rows arrive once.** If a worker disconnects, the missing rows of its split are unknown, so rows are buffered
//!   until their split is complete: a quarter of `--memory` in memory, at most 256 MiB, the rest in an unnamed file in
//!   `TMPDIR`. A full buffer blocks the workers.
//! * **The coordinator's numbers.** Rows with numbers of files and processes are translated. Operators that inspect
//!   such numbers (`where file_id > 7`) run at the coordinator.
//! * **Order.** If SQL leaves the order of rows open, they arrive as splits finish.
//! * **Parquet** is written by workers into the directory itself, under names that readers do not recognize as tables.
//!   The coordinator renames a file when its split is done. File numbers come from a previous count, so the trace is
//!   read twice. If a worker lacks write permission, or processes are discovered while reading, the coordinator writes.

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

/// Returns the version that all participants must share, of the program and of its messages.
pub fn version() -> String {
    format!("{}.{}", env!("CARGO_PKG_VERSION"), TASKS)
}

/// Raise this when tasks or their results change.
const TASKS: u32 = 35;
