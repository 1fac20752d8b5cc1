//! Counting of events.
//!
//! [`kinds`] and [`file_traits`] determine what an event counts as, [`counter`] sees each event once and adds it to
//! [`counted`], [`data_sets`] relates calls of libraries to the file calls inside them, [`epochs`] are the epochs
//! that spans number, [`file_locks`] the files for whose locks threads waited, [`remote_ends`] the addresses that
//! processes were connected to, [`saves`] the time in which threads saved files, [`tally`] adds what traced programs counted themselves.

pub mod counted;
pub mod counter;
pub mod data_sets;
pub mod device_times;
pub mod epochs;
pub mod file_locks;
pub mod file_traits;
pub mod kinds;
pub mod remote_ends;
pub mod saves;
pub mod tally;
