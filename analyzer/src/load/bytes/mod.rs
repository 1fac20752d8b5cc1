//! The bytes of a trace: on a file system or in a bucket, packed or plain.
//!
//! Reading order: [`file_identity`] (which file it is, and whether it changed), [`bucket`] (objects), [`trace_file`] (a file or
//! an object), [`gzip`], [`file_bytes`] (positioned reads and unpacked streams), [`copies`] (the same bytes under several
//! names), [`catch_panic`] (damaged input that a library panics over).

pub mod bucket;
pub mod catch_panic;
pub mod copies;
pub mod file_bytes;
pub mod file_identity;
pub mod gzip;
pub mod trace_file;
