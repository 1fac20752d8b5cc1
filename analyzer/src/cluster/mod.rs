//! One trace, many machines: what is cut into pieces, what a worker does with one, and how their answers become one.
//!
//! Everybody opens the whole trace, which costs the facts of its processes and none of its events: so a piece is named by
//! numbers of files, and processes, hosts and clocks are the same for all. Reading order: [`pieces`] (how a trace is cut),
//! [`task`] (what is sent), [`worker`] (what is done with it), [`fleet`] (which workers there are), [`coordinator`] (who asks
//! them).

pub mod coordinator;
pub mod fleet;
pub mod pieces;
pub mod task;
pub mod worker;

/// The version that all of one question must have: of the program, and of what they send each other.
pub fn version() -> String {
    format!("{}.{}", env!("CARGO_PKG_VERSION"), TASKS)
}

/// Raise this when tasks or their results change.
const TASKS: u32 = 1;
