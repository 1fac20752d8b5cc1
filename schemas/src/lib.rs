//! Every contract that crosses a process or file boundary, with its writer and its reader side by side.
//!
//! Nothing here opens a file, starts a thread or needs `unsafe`: bytes come in and go out. The tracer writes with these
//! modules inside a stranger's process, so whatever runs there allocates nothing.
//!
//! ```text
//! event      what can happen (ops), one event (record), ticks to time (clock)
//! text       typos, bytes that are not UTF-8, terminals, secrets, the kernel's line about a process
//! machine    what a machine was doing while a command ran
//! deflate    compression for writers that know what repeats
//! native     the files a traced process leaves
//! export     what all exports share, and Chrome and DFTracer
//! perfetto   Perfetto traces, written and read
//! ```
//!
//! A directory uses only those above it. Beside them is [`mod@env`], the variables that people set. Other crates name the
//! modules by the short paths that are re-exported here.
#![forbid(unsafe_code)]

mod deflate;
pub mod env;
pub mod event;
pub mod export;
pub mod machine;
pub mod native;
pub mod perfetto;
pub mod text;

pub use event::{clock, evidence, ops, record};
pub use export::{chrome, dftracer};
pub use native::objects;
pub use text::{control_groups, process_stat, readable, secrets, visible, words};
