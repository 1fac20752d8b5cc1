//! The configuration of this process's tracing, and facts about the process.
//!
//! Reading order: [`config`] (environment variables), [`filter`] (excluded files), [`process_info`] (command, start
//! time and other facts for the trace), [`usage`] (the resources that the process may use and has used), [`own_limits`]
//! (those that its program may change).

pub(crate) mod config;
pub mod filter;
pub(crate) mod own_limits;
pub(crate) mod process_info;
pub(crate) mod usage;
