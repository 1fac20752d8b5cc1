//! The events of foreign formats, before they are batches.
//!
//! [`parser`] is the interface of a text format and collects the events of each thread, [`arguments`] fills the column
//! `args`, [`nesting`] computes depths that a text does not contain, [`transfers`] assigns the bytes of calls that copy
//! inside the kernel to files.

pub mod arguments;
pub mod nesting;
pub mod parser;
pub mod transfers;
