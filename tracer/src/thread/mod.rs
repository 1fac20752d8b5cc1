//! The state of a thread: the lines that every call reads, and the memory for recording.
//!
//! Reading order: [`evidence`] (the kernel's counts of a thread), [`local`] (two cache lines per thread),
//! [`thread_state`] (segment, halves and buffers), [`slots`] (events in a half), [`chunk`] (names), [`codec`]
//! (blocks), [`stack`] (the tracer's own stack), [`lock`], [`reserved_fds`], [`thread_names`].

pub(crate) mod chunk;
pub(crate) mod codec;
pub(crate) mod evidence;
pub mod local;
pub(crate) mod lock;
pub mod reserved_fds;
pub(crate) mod slots;
pub mod stack;
pub(crate) mod thread_names;
pub(crate) mod thread_state;
