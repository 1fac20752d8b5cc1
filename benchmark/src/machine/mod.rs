//! The host during a command: what `dlio trace` reads from /proc and /sys once per second, in addition to the trace.
//!
//! ```text
//! io_limits  limits that control groups set on devices
//! mounts     file systems that may contain data, and their properties
//! readings   the counters, each from its file
//! unusual    unusual conditions, in one sentence
//! sampler    once per second into a file, on a thread of `dlio trace`
//! ```

pub mod io_limits;
pub mod mounts;
pub mod readings;
pub mod sampler;
pub mod unusual;
