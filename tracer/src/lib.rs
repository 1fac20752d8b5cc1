//! The capture engine: the code that runs inside a traced process, from a returned call to the file that records it.
//!
//! ```text
//! hook  -> calls (on? layer? time; file, position, result) -> recording (one slot, no lock) -> trace (.ring, .dlt)
//!           |                                                                                    |  process ends
//!          naming, known (descriptors, paths, numbers of names)                                 life (shutdown, finish)
//! span  -> spans
//! ```
//!
//! The directories, from the ground up; a directory uses only those above it in this list:
//!
//! ```text
//! kernel      system calls, clocks and memory without the C library
//! process     configuration, filters and facts of this process
//! thread      the state of a thread
//! known       tables of descriptors, directories, mappings and names
//! trace       the files on disk
//! recording   the rings, the first stop of every event
//! naming      from a path or descriptor to a number
//! life        start, fork, exec, end
//! calls       the functions that hooks call
//! spans       the functions that programs call
//! ```
//!
//! Three rules apply everywhere. Tracing never changes a result, errno, a descriptor or a signal of the traced
//! program, and never makes it hang. The code that runs on every call allocates nothing, takes no lock and calls no C
//! library function that could be hooked. Every event that cannot be recorded is counted.
//!
//! `unsafe` is used only where the code handles the kernel, the program's pointers, memory shared with a future
//! reader, or another engine; a test lists the files.

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

// Names for instrumented programs.
#[cfg(feature = "tracing")]
pub use spans::tracing_layer;
pub use spans::{app, io, span, table};

// Names for `dlio trace`, which starts programs and converts their files.
pub use life::{convert_run, environment, expired, programs, ptrace_request, untraced};
pub use trace::spool;

pub use dlio_schemas::{evidence, ops, record};
