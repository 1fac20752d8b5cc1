//! Every contract that crosses a process or file boundary, with its writer and its reader side by side.
//!
//! Nothing here opens a file, starts a thread or needs `unsafe`: bytes come in and go out. The tracer writes with these
//! modules inside a stranger's process, so whatever runs there allocates nothing.
//!
//! Reading order: [`ops`] (what can happen), [`record`] (one event), [`clock`] (ticks to time), [`native`] (the files a
//! traced process leaves), [`perfetto`] and [`chrome`] (the files people look at), [`tables`] (the columns people query), [`env`] (the
//! variables people set).
#![forbid(unsafe_code)]

pub mod chrome;
pub mod clock;
pub mod env;
pub mod native;
pub mod ops;
pub mod perfetto;
pub mod record;
pub mod tables;
