//! The measurements of a run, and the files that contain them.
//!
//! ```text
//! metrics        numbers from times, counts and bytes
//! summary        the numbers of a run, as JSON
//! run_folder     the files of a run, with DLIO's names
//! devices        counters of the block devices during the run
//! storage_reads  bytes that storage read for the run
//! ```

pub mod devices;
pub mod metrics;
pub mod run_folder;
pub mod storage_reads;
pub mod summary;
