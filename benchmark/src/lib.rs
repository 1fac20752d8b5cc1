//! The DLIO benchmark: reproduces the input, output and checkpoints of deep-learning training without the framework and
//! without the accelerator, and says how much of the accelerator's time the storage left usable.
//!
//! ```text
//! grammar, value              what was typed, what files say
//! keys, workload              the table of keys; the workloads compiled in
//! config, rules               what it means; what cannot be
//! layout, content, formats    names, sizes and bytes of a data set; one file a format
//! generate                    writes it
//! loader                      order, workers, batches
//! training, checkpoint        the loop
//! metrics, results, outputs   the numbers, and the files that say them
//! bench                       a run from request to results
//! terminal                    what is said meanwhile, whether or not anybody listens
//! ```
//!
//! Not here: reading traces (the analyzer does) and hooks (the tracer does).

pub mod bench;
pub mod buffer;
pub mod catalog;
pub mod checkpoint;
pub mod communicator;
pub mod completion;
pub mod config;
pub mod content;
pub mod devices;
pub mod draft;
pub mod failure;
pub mod formats;
pub mod generate;
pub mod grammar;
pub mod host;
pub mod input;
pub mod keys;
pub mod layout;
pub mod loader;
pub mod locate;
pub mod metrics;
pub mod outputs;
pub mod pace;
pub mod page_cache;
pub mod progress;
pub mod random;
pub mod remarks;
pub mod report;
pub mod results;
pub mod rules;
pub mod spans;
pub mod system;
pub mod terminal;
pub mod torch_file;
pub mod trace;
pub mod traced;
pub mod training;
pub mod value;
pub mod workload;

#[cfg(test)]
mod scratch;
