//! What this process was asked to record, and what is known about it.
//!
//! Reading order: [`config`] (the variables of the environment), [`filter`] (files that are left out), [`process_info`]
//! (command, start time and other facts for the trace), [`usage`] (what the process may use and has used).

pub(crate) mod config;
pub(crate) mod filter;
pub(crate) mod process_info;
pub(crate) mod usage;
