//! `libdliotrace.so`: one table row per hooked function, and nothing that could be tested without preloading it.
//!
//! A row finds the real function, calls it and reports it (see [`row`]); everything else is in the tracer.

use std::ffi::{c_char, c_int};

mod memory;
mod next;
mod row;

mod aio;
mod cupti;
mod device;
mod hdf5;
mod inline;
mod libaio;
mod libraries;
mod mpi;
mod net;
mod nvtx;
mod optional;
mod own_files;
mod posix;
mod process;
mod rocm;
mod slots;
mod stdio;
#[cfg(target_arch = "x86_64")]
mod syscall;
mod uring;
mod wait;
mod wakers;

unsafe extern "C" {
    /// Returns false under musl.
    fn dlio_is_glibc() -> c_int;
}

/// Runs when the library is loaded, before the program's own constructors.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn(c_int, *const *const c_char) = {
    extern "C" fn start(count: c_int, arguments: *const *const c_char) {
        memory::link();
        // SAFETY: reads an address.
        match unsafe { dlio_is_glibc() } {
            0 => {
                stdio::note_musl();
                dlio_tracer::life::lifecycle::note_musl();
            }
            // SAFETY: glibc passes the arguments of the program to every initializer.
            _ => unsafe { dlio_tracer::life::lifecycle::note_command(count, arguments) },
        }
        std::panic::set_hook(Box::new(say_where));
        // SAFETY: registers a function that lives as long as the process.
        unsafe {
            extern "C" fn child() {
                memory::after_fork_in_child();
                dlio_tracer::calls::requests::forget();
                dlio_tracer::calls::uring::rings::forget();
                slots::after_fork_in_child();
            }
            dlio_tracer::life::lifecycle::on_fork(child);
        }
        dlio_tracer::life::lifecycle::start();
        if dlio_tracer::life::lifecycle::wants_patches() {
            dlio_tracer::thread::stack::on_large_stack(inline::start);
        }
        slots::start();
        process::watch_quick_exit();
    }
    start
};

fn say_where(fault: &std::panic::PanicHookInfo) {
    let (file, line) = fault.location().map_or(("", 0), |place| (place.file(), place.line()));
    dlio_tracer::life::lifecycle::say_fault(file, line);
}

/// Returns the table by which span APIs of any language find this process's engine: see `dlio_tracer::table`.
#[unsafe(no_mangle)]
pub extern "C" fn dlio_engine_v1() -> *const dlio_tracer::table::Table {
    &raw const dlio_tracer::spans::own::OWN
}
