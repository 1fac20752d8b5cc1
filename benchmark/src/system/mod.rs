//! System calls and host information that the standard library lacks. Every `unsafe` here is one libc call or memory
//! that it returns.
//!
//! ```text
//! clock           the monotonic clock, local time
//! file_calls      free space, the page cache, memory files, waiting for input
//! processes       signals, children, interruptible sleeps
//! shared_memory   numbers that processes share
//! buffer          aligned, mapped and shared memory
//! random          random numbers, shuffles, NumPy's generator
//! checksum        CRC-32 and CRC-32C
//! host            processors, memory, the host's name
//! terminal        the only place that prints
//! partial_name    names of files that are not complete yet
//! locate          finds the other programs of an installation
//! ```

pub mod buffer;
pub mod checksum;
pub mod clock;
pub mod file_calls;
pub mod host;
pub mod locate;
pub mod partial_name;
pub mod processes;
pub mod random;
pub mod shared_memory;
pub mod terminal;
