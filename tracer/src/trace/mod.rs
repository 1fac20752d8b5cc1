//! The files of a trace on disk.
//!
//! ```text
//! STEM.ring   header_page | ring_file: segments of threads          STEM.dlt   blocks, tally
//!             sigbus: the file may be truncated while it is mapped             disk_full
//! ```
//!
//! Reading order: [`header_page`] and [`write_errors`] (counters and the first error), [`trace_dirs`] and [`files`]
//! (paths), [`ring_file`], [`sigbus`], [`blocks`], [`tally`] (counts instead of blocks), [`recent`] (only the last
//! blocks), [`disk_full`], [`spool`] (rings kept on another file system).

pub(crate) mod blocks;
pub(crate) mod disk_full;
pub(crate) mod files;
pub(crate) mod header_page;
pub(crate) mod recent;
pub(crate) mod ring_file;
pub mod sigbus;
pub mod spool;
pub(crate) mod tally;
pub(crate) mod trace_dirs;
pub(crate) mod write_errors;
