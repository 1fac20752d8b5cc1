//! Calls of MPI, of whichever implementation a program is linked to: MPI-IO, and calls in which ranks communicate.
//!
//! [`library`] knows the loaded MPI libraries, their binary interfaces, and queries them, [`hooks`] are the functions
//! that changed slots call, [`answers`] records the calls. Fortran programs call bindings, libraries that call the
//! functions of C with or without the prefix `P`: these calls are hooked, so each is recorded once. Calls that MPI
//! makes itself have no hooked slots, or are inside a recorded call.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use dlio_tracer::life::lifecycle;
use dlio_tracer::ops::Layer;

use crate::libraries::Family;
use crate::libraries::entry::Entry;
use crate::libraries::imports::Object;

mod answers;
mod hooks;
mod library;

use library::{LIBRARIES, LIBRARIES_MAX, USED};

pub struct Mpi;

impl Family for Mpi {
    const LAYER: Layer = Layer::Mpi;
    const LIBRARIES: usize = LIBRARIES_MAX;
    const FUNCTIONS: usize = hooks::FUNCTIONS;

    fn has_name(file_name: &[u8]) -> bool {
        file_name.starts_with(b"libmpi")
    }

    fn is_main(object: &Object) -> bool {
        !object.defined(c"PMPI_Init").is_null()
    }

    fn used() -> &'static AtomicUsize {
        &USED
    }

    fn entry(library: usize) -> &'static Entry {
        &LIBRARIES[library].entry
    }

    fn real(library: usize, function: usize) -> *mut c_void {
        LIBRARIES[library].real(function)
    }

    fn hook(library: usize, function: usize) -> *mut c_void {
        LIBRARIES[library].hook(function)
    }

    fn function(name: &CStr) -> Option<usize> {
        let name = name.to_bytes();
        let plain = name.strip_prefix(b"P").unwrap_or(name);
        plain.starts_with(b"MPI_").then(|| hooks::names().position(|known| known.to_bytes() == plain))?
    }

    fn fill(library: usize, object: &Object) {
        LIBRARIES[library].fill(object, hooks::names(), |hooks| hooks::fill(library, hooks));
    }

    fn reject() {
        static IS_SAID: AtomicBool = AtomicBool::new(false);
        if !IS_SAID.swap(true, Relaxed) {
            lifecycle::say(&[b"calls of a third MPI library are not recorded"]);
        }
    }
}
