//! `dlio trace --ptrace-static`: uses ptrace to record the file calls of programs into which the tracing library cannot be loaded
//! (static programs, Go).
//!
//! ```text
//! tracer/src/life/ptrace_request   a thread about to execute such a program -> socket -> supervisor: PTRACE_SEIZE
//! supervisor    the process of `dlio trace` that waits for stops of its tracees; lets them go where ptrace would show
//! processes     its tracees: threads, and the processes that they belong to
//! calls         a call at its entry: which operation it is, and its arguments
//! descriptors   files of descriptors, positions, working directory
//! image         the trace of one process image: a `.dlt`, as the library writes it
//! kernel        ptrace, memory of other processes
//! ```
//!
//! Tracees stop at the entry and at the exit of every system call. A seccomp filter would stop only calls of interest, but it
//! cannot be removed. If the supervisor ended first, calls would fail with ENOSYS. Without root, a filter also needs
//! `no_new_privs`, which breaks programs such as `sudo`. With ptrace alone, the kernel lets all tracees continue if the
//! supervisor ends.

mod calls;
mod descriptors;
mod image;
mod kernel;
mod processes;
pub mod supervisor;
