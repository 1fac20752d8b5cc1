//! The machine while a command runs: what `dlio trace` reads of /proc and /sys once a second, beside the trace.
//!
//! ```text
//! mounts     where data may lie, and what is known of it
//! readings   the counters, each from its file
//! unusual    what of it is out of the ordinary, in a sentence
//! sampler    once a second into a file, on a thread of `dlio trace`
//! ```

pub mod mounts;
pub mod readings;
pub mod sampler;
pub mod unusual;
