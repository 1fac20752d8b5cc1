//! Refusals: what the command prints instead of an answer, and what the user can do about it.
//!
//! [`failure`] is the type that all of them end in; its larger groups have files of their own.

pub mod destination;
pub mod failure;
pub mod incomparable;
pub mod no_events;
mod query_error;
