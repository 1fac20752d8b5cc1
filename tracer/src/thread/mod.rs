//! What a thread carries: the state that every call reads, and the memory it records with.
//!
//! Reading order: [`evidence`] (what the kernel counts of a thread), [`local`] (two cache lines per thread), [`thread_state`] (segment, halves and buffers), [`slots`] (events in
//! a half), [`chunk`] (names), [`codec`] (blocks), [`stack`] (a stack of the tracer's own), [`lock`], [`reserved_fds`],
//! [`thread_names`].

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
