//! Refusals: what the command prints instead of an answer, and what the user can do about it.

pub mod failure;
pub mod no_events;
mod query_error;
