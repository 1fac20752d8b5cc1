//! The result of each reader for a process or a file, and the parts that all readers share.
//!
//! Reading order: [`errors`], [`duplicates`] (a process in several files counts once), [`resolve`] (numbers of a
//! process become numbers of the catalog), [`tally`] (counts instead of events), [`source`] (the interface of readers).

pub mod duplicates;
pub mod errors;
pub mod job_log;
pub mod resolve;
pub mod source;
pub mod tally;
