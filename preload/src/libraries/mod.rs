//! Libraries that programs bring with them in many versions, whose calls are recorded without being built against them:
//! HDF5, MPI, CUDA and HIP.
//!
//! [`imports`] reads and changes the slots through which objects call other objects, [`entry`] describes a loaded library.
//! A [`Family`] names the functions to hook and knows how to record them.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicUsize, Ordering::*};

use dlio_tracer::ops::Layer;

pub mod entry;
pub mod imports;

use entry::Entry;
use imports::Object;

/// Libraries with one interface. A process may have loaded several.
pub trait Family {
    const LAYER: Layer;
    /// Maximum number of loaded libraries that are recorded.
    const LIBRARIES: usize;
    /// Number of hooked functions.
    const FUNCTIONS: usize;
    /// Returns `true` for the file name of such a library, or of a library that belongs to one.
    fn has_name(file_name: &[u8]) -> bool;
    /// Returns `true` for such a library, and not for one that belongs to it.
    fn is_main(object: &Object) -> bool;
    /// Returns the number of loaded libraries. Most processes have none, and do not touch the memory of the entries.
    fn used() -> &'static AtomicUsize;
    fn entry(library: usize) -> &'static Entry;
    /// Returns the library's function; null if it has none of this name.
    fn real(library: usize, function: usize) -> *mut c_void;
    fn hook(library: usize, function: usize) -> *mut c_void;
    /// Returns the number of a hooked function.
    fn function(name: &CStr) -> Option<usize>;
    /// Fills in the functions and hooks of a library that the loader has just listed.
    fn fill(library: usize, object: &Object);
    /// Reports that there are more libraries than are recorded.
    fn reject();
}

pub fn is_any_used<F: Family>() -> bool {
    F::used().load(Relaxed) > 0
}

pub fn libraries<F: Family>() -> impl Iterator<Item = usize> {
    (0..F::LIBRARIES).filter(|&library| F::entry(library).is_used())
}

pub fn is_library<F: Family>(object: &Object) -> bool {
    (0..F::LIBRARIES).any(|library| F::entry(library).is_at(object.base()))
}
