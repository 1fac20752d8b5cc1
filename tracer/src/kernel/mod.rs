//! The tracer's interface to the kernel and the processor, without the C library that it hooks.
//!
//! Reading order: [`sys`] (system calls), [`sockets`] (the peers of sockets), [`vdso`] and [`clock`] (time),
//! [`machine`] (facts about the host), [`limits`] (limits of control groups), [`variables`] (the environment),
//! [`memory`] and [`large_statics`] (pages), [`single_thread_atomics`] and [`switches`] (numbers that every call
//! reads), [`valgrind`], [`thread_end`], then [`path_buffer`] and [`hash`] (paths without an allocation).

pub(crate) mod clock;
pub mod hash;
pub mod large_statics;
pub(crate) mod limits;
pub(crate) mod machine;
pub mod memory;
pub(crate) mod nodes;
pub mod pages;
pub(crate) mod path_buffer;
pub(crate) mod single_thread_atomics;
pub(crate) mod sockets;
pub(crate) mod switches;
pub(crate) mod sys;
pub(crate) mod thread_end;
pub(crate) mod valgrind;
pub mod variables;
pub(crate) mod vdso;
