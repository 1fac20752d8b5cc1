//! The tracer from the start of a process to its end, and the work after it.
//!
//! ```text
//! lifecycle: start ... fork, exec ... end -> shutdown (the rest is written) -> finish (the requested format)
//!                                                                  after the command: convert_run
//! ```
//!
//! Reading order: [`lifecycle`], [`environment`] (children are traced too), [`programs`] (programs that can be
//! traced), [`untraced`] (started programs that cannot), [`ptrace_request`] (recorded from outside instead), [`shutdown`], [`finish`], [`convert_run`], [`expired`] (flight recorders).

pub mod convert_run;
pub mod environment;
pub mod expired;
pub mod finish;
pub mod lifecycle;
pub mod programs;
pub mod ptrace_request;
pub(crate) mod shutdown;
pub mod untraced;
