//! The DLIO benchmark: reproduces the input, output and checkpoints of deep-learning training without the framework and
//! without the accelerator, and says how much of the accelerator's time the storage left usable.
//!
//! ```text
//! grammar, value      what was typed and what files say
//! keys, workload      the table of keys; the workloads compiled in
//! config, rules       what it means; what cannot be
//! layout, content     names, sizes and bytes of a data set     formats: one file a format
//! ```
//!
//! Not here: reading traces (the analyzer does) and hooks (the tracer does).

pub mod failure;
pub mod value;
pub mod grammar;
pub mod keys;
pub mod workload;
pub mod config;
pub mod pace;
pub mod random;
pub mod layout;
pub mod content;
pub mod buffer;
pub mod input;
pub mod draft;
pub mod formats;

#[cfg(test)]
mod scratch;
