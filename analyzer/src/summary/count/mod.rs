//! Counting of events.
//!
//! [`kinds`] and [`file_traits`] determine what an event counts as, [`counter`] sees each event once and adds it to [`counted`], [`epochs`] are the
//! epochs that spans number, [`tally`] adds what traced programs counted themselves.

pub mod counted;
pub mod counter;
pub mod epochs;
pub mod file_traits;
pub mod kinds;
pub mod tally;
