//! The first stage of recording: the rings of this process image.
//!
//! ```text
//! put (one slot, no lock) -> half full -> drain: a block of the .dlt, or rows of the table of counts
//!  |                          ^
//!  v  a signal handler        |
//! signal_queue ---------------+
//! ```
//!
//! Reading order: [`phase`] (whether anything is recorded now), [`ring`] (one event), [`image`] (created at the first
//! event), [`wiped_page`] (zeroed in a forked child), [`latest`] (resources used so far), [`signal_queue`],
//! [`drain`], [`counters`] (the records before a wait).

pub mod counters;
pub(crate) mod drain;
pub mod image;
pub(crate) mod latest;
pub mod phase;
pub mod ring;
pub(crate) mod signal_queue;
pub(crate) mod wiped_page;
