//! Where events go first: the rings of this process image.
//!
//! ```text
//! put (one slot, no lock) -> half full -> drain: a block of the .dlt, or rows of the table of counts
//!  |                          ^
//!  v  a signal handler        |
//! signal_queue ---------------+
//! ```
//!
//! Reading order: [`ring`] (one event), [`image`] (made at the first event), [`signal_queue`], [`drain`].

pub(crate) mod drain;
pub mod image;
pub mod ring;
pub(crate) mod signal_queue;
