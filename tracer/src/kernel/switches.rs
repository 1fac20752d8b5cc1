//! The switches that every call checks first: one cache line, shared by all threads and rarely written.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

#[repr(C, align(64))]
pub struct Switches {
    /// Not zero while spans are recorded: the span APIs of all languages check it.
    pub app: AtomicU32,
    /// `true` if times are TSC readings.
    pub tsc: AtomicBool,
    /// `true` if the functions of the C library are patched.
    pub patched: AtomicBool,
    /// `true` if there may be more than one thread: see [`crate::kernel::single_thread_atomics`].
    pub is_threaded: AtomicBool,
    /// Calls that took fewer ticks than this are left out.
    pub min_ticks: AtomicU64,
}

pub static SWITCHES: Switches = Switches {
    app: AtomicU32::new(0),
    tsc: AtomicBool::new(false),
    patched: AtomicBool::new(false),
    is_threaded: AtomicBool::new(false),
    min_ticks: AtomicU64::new(0),
};
