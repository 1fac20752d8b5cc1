//! The activity of a host while a command ran: counters that `dlio trace` reads once a second, and the file that
//! contains them.
//!
//! Reading order: [`counters`] (the list of names), [`samples`] (the file, written and read), [`tracks`] (the tracks
//! in viewers).

pub mod counters;
pub mod samples;
pub mod tracks;
