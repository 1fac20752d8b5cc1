//! The events of foreign formats, before they are batches.
//!
//! [`parser`] is the interface of a text format and collects the events of each thread, [`arguments`] fills the column `args`,
//! [`nesting`] computes depths that a text does not contain, [`transfers`] says what a call that copies inside the kernel did to
//! which file.

pub mod arguments;
pub mod nesting;
pub mod parser;
pub mod transfers;
