//! A Rust library for programs in other languages, like a data loader: its spans go into the trace of the program
//! that loads it, even if other libraries record there, too.

use std::io::Read;

use dlio_tracer::span;

/// Reads a sample and returns its size in bytes; -1 if it cannot be read.
///
/// # Safety
/// `path` is a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn load_sample(path: *const std::ffi::c_char) -> i64 {
    let mut span = span!("load sample", cat = "data");
    // SAFETY: by the contract above.
    let path = unsafe { std::ffi::CStr::from_ptr(path) }.to_string_lossy();
    let mut sample = Vec::new();
    let read = std::fs::File::open(path.as_ref()).and_then(|mut file| file.read_to_end(&mut sample));
    span.set("bytes", sample.len() as i64);
    read.map_or(-1, |bytes| bytes as i64)
}
