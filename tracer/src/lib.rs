//! The capture engine: what happens inside a traced process, from a call that has returned to the file that tells of it.
//!
//! ```text
//! hook or span -> engine (on? layer? time) -> calls (file, position, result) -> ring (one slot, no lock)
//!                                               |                                |  half full
//!                            descriptors, paths, names                  codec -> blocks (the .dlt)
//!                                                                                |  process ends
//!                                                     closing (what is left) -> finish (what was asked for)
//! ```
//!
//! Three rules hold everywhere. The traced program never sees another result, errno, descriptor, signal or hang because of
//! us. What happens on every call allocates nothing, locks nothing and calls nothing of the C library that could be hooked.
//! What cannot be recorded is counted.
//!
//! `unsafe` stands in the modules that deal with the kernel ([`sys`], [`vdso`]), with the program's pointers ([`paths`],
//! [`environment`], [`variables`]) and with memory shared with the future ([`ring`], [`image`], [`header_page`],
//! [`ring_file`], [`bus`], [`blocks`], [`closing`], [`files`], [`spool`], [`names`], [`remembered`], [`alone`], [`descriptors`],
//! [`mappings`], [`codec`], [`local`], [`slots`], [`chunk`], [`thread_state`], [`thread_end`], [`machine`], [`mod@large`],
//! [`emptying`], [`spill`], [`stack`], [`checkers`], [`tally`], [`app`]), and where another engine is called ([`mod@span`],
//! [`mod@io`], [`table`]) or looked for ([`engines`]).

pub mod io;
#[macro_use]
pub mod large;
pub mod span;
#[cfg(feature = "tracing")]
pub mod tracing_layer;

pub mod app;
pub mod calls;
pub mod engine;
mod engines;
pub mod table;

pub mod local;
pub mod ring;

pub mod descriptors;
pub mod folders;
pub mod mappings;
pub mod names;
pub mod paths;
pub mod requests;
pub mod waits;
mod way;

pub mod environment;
pub mod finish;
pub mod gathering;
pub mod held;
pub mod image;
pub mod memory;
pub mod process;
pub mod programs;
pub mod spool;
pub mod stack;

mod alone;
mod blocks;
pub mod bus;
mod checkers;
mod chunk;
mod clock;
mod closing;
mod codec;
mod config;
mod emptying;
mod facts;
mod files;
mod filter;
mod hash;
mod header_page;
mod lock;
mod machine;
mod path_buffer;
mod remembered;
mod ring_file;
mod slots;
mod spill;
mod switches;
mod sys;
mod tail;
mod tally;
mod thread_end;
mod thread_names;
mod thread_state;
mod trouble;
mod variables;
mod vdso;

pub use dlio_schemas::{ops, record};
