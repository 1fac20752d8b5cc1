//! What a machine was doing while a command ran: counters that `dlio trace` reads once a second, and the file that holds them.
//!
//! Reading order: [`counters`] (the list of names), [`samples`] (the file, written and read),
//! [`tracks`] (what viewers draw).

pub mod counters;
pub mod samples;
pub mod tracks;
