//! The host during a command: what `dlio trace` reads from /proc and /sys once per second, in addition to the trace.
//!
//! ```text
//! mounts    file systems that may contain data, and their properties
//! lustre    counters of Lustre mounts
//! readings  the counters, each from its file
//! nvml      counters of NVIDIA GPUs
//! unusual   unusual conditions, in one sentence
//! sampler   once per second into a file, on a thread of `dlio trace`
//! ```

mod lustre;
pub mod mounts;
mod nvml;
pub mod readings;
pub mod sampler;
pub mod unusual;
