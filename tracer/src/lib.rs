//! The capture engine: what happens inside a traced process, from a call that has returned to the file that tells of it.
//!
//! ```text
//! hook or span -> engine (on? layer? time) -> calls (file, position, result) -> ring (one slot, no lock)
//!                                               |                                |  half full
//!                            descriptors, paths, names                  codec -> image (the .dlt)
//!                                                                                |  process ends
//!                                                                       finish (what was asked for)
//! ```
//!
//! Three rules hold everywhere. The traced program never sees another result, errno, descriptor, signal or hang because of
//! us. What happens on every call allocates nothing, locks nothing and calls nothing of the C library that could be hooked.
//! What cannot be recorded is counted.
//!
//! `unsafe` stands in the modules that deal with the kernel ([`sys`]), with the program's pointers ([`paths`],
//! [`environment`], [`facts`]) and with memory shared with the future ([`ring`], [`image`], [`names`], [`descriptors`],
//! [`mappings`], [`codec`], [`local`], [`spill`], [`stack`], [`tally`], [`app`]), and where another engine is called ([`span`], [`table`])
//! or looked for ([`engines`]).

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
pub mod mappings;
pub mod names;
pub mod paths;

pub mod environment;
pub mod image;
pub mod memory;
pub mod process;
pub mod spool;

mod clock;
mod codec;
mod config;
mod facts;
mod filter;
mod finish;
mod lock;
mod path_buffer;
mod spill;
mod stack;
mod switches;
mod sys;
mod tail;
mod tally;
mod thread_names;

pub use dlio_schemas::{ops, record};
