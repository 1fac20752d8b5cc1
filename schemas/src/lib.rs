//! Every contract that crosses a process or file boundary, with its writer and its reader side by side.
//!
//! This crate opens no file, starts no thread and needs no `unsafe`: it converts bytes. The tracer uses these modules
//! inside another program's process, so the code that runs there allocates nothing.
//!
//! ```text
//! event      operations (ops), one event (record), ticks to time (clock)
//! text       typos, errors in command lines, bytes that are not UTF-8, terminals, secrets, the kernel's line about a process
//! machine    the activity of a host while a command ran
//! deflate    compression for writers that know what repeats
//! native     the files of a traced process
//! export     the parts shared by all exports, and Chrome and DFTracer
//! perfetto   Perfetto traces, written and read
//! ```
//!
//! A directory uses only those above it. In addition there is [`mod@env`], the variables that users set. Other crates
//! name the modules by the short paths that are re-exported here.
#![forbid(unsafe_code)]

mod deflate;
pub mod env;
pub mod event;
pub mod export;
pub mod machine;
pub mod native;
pub mod perfetto;
pub mod text;

pub use event::{clock, devices, evidence, ops, record};
pub use export::{chrome, dftracer};
pub use native::objects;
#[cfg(feature = "command-line")]
pub use text::usage_errors;
pub use text::{
    control_groups, decimal, durations, io_limits, process_stat, readable, secrets, slow_step, visible, words,
};
