//! Files and objects, as the benchmark opens them.
//!
//! ```text
//! input           a file open for reading: buffered, direct, or an object
//! buffered_file   a file written front to back in writes of one size, buffered or direct
//! atomic_file     a file that appears under its name only when it is complete
//! ```

pub mod atomic_file;
pub mod buffered_file;
pub mod input;
