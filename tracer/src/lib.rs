//! The capture engine: the code that runs inside a traced process and turns each returned call into an event in a file.
//!
//! ```text
//! hook  -> calls (on? layer? time; file, position, result) -> recording (one slot, no lock) -> trace (.ring, .dlt)
//!           |                                                                                    |  process ends
//!          naming, known (descriptors, paths, numbers of names)                                 life (shutdown, finish)
//! span  -> spans
//! ```
//!
//! The directories are listed from the lowest layer to the highest. A directory uses only those above it in this list:
//!
//! ```text
//! kernel      system calls, clocks and memory without the C library
//! process     configuration and filters; information about this process
//! thread      the state of a thread
//! known       tables of descriptors, directories, mappings and names
//! trace       the files on disk
//! recording   the rings, to which every event is written first
//! naming      maps paths and descriptors to numbers
//! life        start, fork, exec and end of the process
//! calls       the functions that hooks call
//! spans       the functions that programs call
//! ```
//!
//! Three rules apply everywhere. Tracing never changes a result, errno, a descriptor or a signal of the traced
//! program, and never makes it hang. The code that runs on every call allocates nothing, takes no lock and calls no C
//! library function that could be hooked. Every event that cannot be recorded is counted.
//!
//! `unsafe` is used only where the code calls the kernel, follows the program's pointers, writes memory that a later process
//! reads, or shares data with another engine. A test lists the files that may contain it.

pub mod kernel;
pub mod process;
pub mod thread;

pub mod known;
pub mod trace;

pub mod recording;

pub mod naming;

pub mod life;

pub mod calls;
pub mod spans;

// Names that instrumented programs use.
#[cfg(feature = "tracing")]
pub use spans::tracing_layer;
pub use spans::{app, io, span, table};

// Names that `dlio trace` uses to start programs and to convert their files.
pub use life::{convert_run, environment, expired, programs, ptrace_request, untraced};
pub use trace::spool;

pub use dlio_schemas::{evidence, ops, record};
