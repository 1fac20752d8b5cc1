//! The capture engine: what happens inside a traced process, from a call that has returned to the file that tells of it.
//!
//! ```text
//! hook  -> calls (on? layer? time; file, position, result) -> recording (one slot, no lock) -> trace (.ring, .dlt)
//!           |                                                                                    |  process ends
//!          naming, known (descriptors, paths, numbers of names)                                 life (shutdown, finish)
//! span  -> spans
//! ```
//!
//! The rooms, from the ground up; a room uses only those above it in this list:
//!
//! ```text
//! kernel      system calls, clocks and memory without the C library
//! process     configuration, filters and facts of this process
//! thread      what a thread carries
//! known       tables of descriptors, folders, mappings and names
//! trace       the files on disk
//! recording   the rings: where events go first
//! naming      from a path or descriptor to a number
//! life        start, fork, exec, end
//! calls       what a hook reports
//! spans       what programs call
//! ```
//!
//! Three rules hold everywhere. The traced program never sees another result, errno, descriptor, signal or hang because of
//! us. What happens on every call allocates nothing, locks nothing and calls nothing of the C library that could be hooked.
//! What cannot be recorded is counted.
//!
//! `unsafe` stands where the kernel, the program's pointers or memory shared with a future reader are dealt with, and where
//! another engine is called; a test lists the files.

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

// What instrumented programs name.
#[cfg(feature = "tracing")]
pub use spans::tracing_layer;
pub use spans::{app, io, span, table};

// What `dlio trace` names, which starts programs and converts what they left.
pub use life::{convert_run as gathering, environment, programs, untraced};
pub use trace::spool;

pub use dlio_schemas::{evidence, ops, record};
