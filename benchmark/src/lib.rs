//! The DLIO benchmark: reproduces the input, output and checkpoints of deep-learning training without the framework and
//! without the accelerator, and says how much of the accelerator's time the storage left usable.
//!
//! ```text
//! grammar, value              what was typed, what files say; interpolation: values that say what others do
//! keys, workload              the table of keys; the workloads compiled in
//! config, rules               what it means; what cannot be
//! layout, content, formats    names, sizes and bytes of a data set; one file a format
//! listing                     the names of one that is there
//! fingerprint                 how the files that are there were made
//! generate, missing           writes it; which of its files are not there
//! store                       objects in the place of files
//! loader, profile             order, workers, batches; samples read by the calls of a profile
//! training, checkpoint        the loop
//! communicator, activity      ranks that wait for each other, and what each is doing: local (our own processes), launched
//!                             (sockets), mpi; joined chooses
//! metrics, results, outputs   the numbers, and the files that say them
//! bench, sweep, layouts       a run from request to results; many of them, for the values of a key, or as files and as shards
//! terminal                    what is said meanwhile, whether or not anybody listens
//! ```
//!
//! Not here: reading traces (the analyzer does) and hooks (the tracer does).

pub mod bench;
pub mod checkpoint;
pub mod command;
pub mod config;
pub mod data_set;
pub mod failure;
pub mod files;
pub mod keys;
pub mod ranks;
pub mod results;
pub mod spans;
pub mod store;
pub mod system;
pub mod training;
pub mod workload;

#[cfg(test)]
mod scratch;
