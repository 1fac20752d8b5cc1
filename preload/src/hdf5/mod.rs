//! Calls of the HDF5 library, which programs and Python packages bring with them in many versions.
//!
//! [`library`] knows the loaded HDF5 libraries and queries them, [`hooks`] are the functions that changed slots call,
//! [`answers`] describes data sets.

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

/// Part of the file name of every HDF5 library.
const FILE_NAME: &[u8] = b"hdf5";

pub struct Hdf5;

impl Family for Hdf5 {
    const LAYER: Layer = Layer::Hdf5;
    const LIBRARIES: usize = LIBRARIES_MAX;
    const FUNCTIONS: usize = hooks::FUNCTIONS;

    fn has_name(file_name: &[u8]) -> bool {
        file_name.windows(FILE_NAME.len()).any(|part| part == FILE_NAME)
    }

    fn is_main(object: &Object) -> bool {
        !object.defined(c"H5Dread").is_null()
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
        name.to_bytes().starts_with(b"H5").then(|| hooks::names().position(|known| known == name))?
    }

    fn fill(library: usize, object: &Object) {
        LIBRARIES[library].fill(object, hooks::names(), |hooks| hooks::fill(library, hooks));
    }

    fn reject() {
        static IS_SAID: AtomicBool = AtomicBool::new(false);
        if !IS_SAID.swap(true, Relaxed) {
            lifecycle::say(&[b"calls of a fifth HDF5 library are not recorded"]);
        }
    }
}
