//! Loaders: how batches reach the trainer. By index as in PyTorch, as streams through a shuffle buffer as in
//! TensorFlow, in worker processes or threads, or read by the trainer itself.
//!
//! ```text
//! order     which samples, in which order, for which rank
//! replay    reads a sample with the calls of a profile
//! source    reads consecutive samples
//! plan      what all loaders share
//! workers   processes or threads that read ahead
//! build     the loader of a workload
//! ```
//!
//! Not here: how a sample is read (`data_set::formats`).

mod build;
pub mod order;
mod plan;
mod replay;
pub mod source;
mod workers;

pub use build::build;
pub use plan::{Batch, Loader, Plan, Terms, WorkerKind, first_files};
