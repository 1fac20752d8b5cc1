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

pub mod activity;
pub mod agreement;
pub mod background;
pub mod bench;
pub mod buffer;
pub mod catalog;
pub mod checkpoint;
pub mod checksum;
pub mod communicator;
pub mod completion;
pub mod config;
pub mod content;
pub mod devices;
pub mod distributed_file;
pub mod draft;
pub mod explain;
pub mod failure;
pub mod fingerprint;
pub mod formats;
pub mod gate;
pub mod gathered;
pub mod generate;
pub mod grammar;
pub mod host;
pub mod input;
pub mod interpolation;
pub mod joined;
pub mod keys;
pub mod launched;
pub mod launcher;
pub mod layout;
pub mod layouts;
pub mod listing;
pub mod loader;
pub mod local;
pub mod locate;
pub mod manual;
pub mod meeting;
pub mod metrics;
pub mod missing;
pub mod mpi;
pub mod outputs;
pub mod pace;
pub mod page_cache;
pub mod processes;
pub mod profile;
pub mod progress;
pub mod random;
pub mod remarks;
pub mod report;
pub mod restored;
pub mod results;
pub mod rules;
pub mod safetensors_file;
pub mod socket;
pub mod sorted_table;
pub mod spans;
pub mod star;
pub mod store;
pub mod submission;
pub mod sweep;
pub mod system;
pub mod tensor_file;
pub mod tensorflow_file;
pub mod terminal;
pub mod tiers;
pub mod torch_file;
pub mod trace;
pub mod traced;
pub mod training;
pub mod value;
pub mod workload;

#[cfg(test)]
mod scratch;
