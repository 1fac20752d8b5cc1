//! The switches that every call asks first: one line of the cache, shared by all threads and hardly ever written.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

#[repr(C, align(64))]
pub struct Switches {
    /// Not zero while spans are recorded: what span APIs of all languages look at.
    pub app: AtomicU32,
    /// True if times are readings of the TSC.
    pub tsc: AtomicBool,
    /// True if the functions of the C library are patched.
    pub patched: AtomicBool,
    /// True if there may be more than one thread: see [`crate::kernel::single_thread_atomics`].
    pub is_threaded: AtomicBool,
    /// Calls that took fewer ticks are left out.
    pub min_ticks: AtomicU64,
}

pub static SWITCHES: Switches = Switches {
    app: AtomicU32::new(0),
    tsc: AtomicBool::new(false),
    patched: AtomicBool::new(false),
    is_threaded: AtomicBool::new(false),
    min_ticks: AtomicU64::new(0),
};
