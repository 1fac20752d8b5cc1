//! Error messages of the command, with hints for the user.
//!
//! [`failure`] has the error type; larger groups of errors have separate files.

pub mod destination;
pub mod failure;
pub mod incomparable;
pub mod no_events;
mod query_error;
