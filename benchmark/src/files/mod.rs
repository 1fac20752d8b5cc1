//! Files and objects, as the benchmark opens them.
//!
//! ```text
//! input           one open for reading: buffered, direct, or an object
//! buffered_file   one written front to back in writes of one size, buffered or direct
//! atomic_file     one that appears under its name only when it is complete
//! ```

pub mod atomic_file;
pub mod buffered_file;
pub mod input;
