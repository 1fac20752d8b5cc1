//! Every contract that crosses a process or file boundary, with its writer and its reader side by side.
//!
//! Nothing here opens a file, starts a thread or needs `unsafe`: bytes come in and go out. The tracer writes with these
//! modules inside a stranger's process, so whatever runs there allocates nothing.
//!
//! Reading order: [`ops`] (what can happen), [`record`] (one event), [`clock`] (ticks to time), [`native`] (the files a
//! traced process leaves), [`export`] with [`perfetto`], [`chrome`] and [`dftracer`] (the files people look
//! at), [`mod@env`] (the variables people set), [`secrets`] (what command lines are shown without), [`process_stat`] (the
//! kernel's line about a process), [`words`] (words that were meant), [`visible`] (text for terminals).
#![forbid(unsafe_code)]

pub mod chrome;
pub mod clock;
mod deflate;
pub mod dftracer;
pub mod env;
pub mod export;
mod huffman;
mod json;
pub mod native;
pub mod ops;
pub mod perfetto;
pub mod process_stat;
pub mod readable;
pub mod record;
pub mod secrets;
pub mod visible;
pub mod words;
