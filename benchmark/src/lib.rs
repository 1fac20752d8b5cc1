//! The DLIO benchmark: reproduces the input, output and checkpoints of deep-learning training without the framework and
//! without the accelerator, and reports how much of the accelerator's time the storage left usable.
//!
//! The directories, from the ground up. A file uses its own directory and those above it in this list:
//!
//! ```text
//! failure      failures and their exit statuses
//! system       system calls: clock, signals, memory, checksums, random numbers, the terminal
//! keys         the syntax of overrides: grammar, values, the table of keys
//! ranks        the processes of a run: forked, or started by a launcher and connected by sockets or MPI
//! spans        the benchmark's own spans in a trace
//! store        objects in an S3 store
//! files        a file or an object, open
//! config       typed fields for the keys
//! data_set     names, sizes and bytes of samples; one file per format
//! checkpoint   names, sizes and bytes of shards; how they are written
//! results      the numbers, and the files that contain them
//! workload     the built-in workloads; impossible combinations
//! check        results, compared with MLPerf Storage's rules
//! training     the loop: loaders, steps, evaluations, checkpoints
//! machine      the state of the host during a traced command
//! ptrace       programs that the tracing library cannot enter, recorded from outside
//! bench        a run from request to results, stage by stage
//! command      the verbs of `dlio`, one file per verb
//! ```
//!
//! `main.rs` parses the command line. Each directory's `mod.rs` draws its files in the same way.
//!
//! Not here: reading traces (the analyzer does) and hooks (the tracer does).

pub mod bench;
pub mod check;
pub mod checkpoint;
pub mod command;
pub mod config;
pub mod data_set;
pub mod failure;
pub mod files;
pub mod keys;
pub mod machine;
pub mod ptrace;
pub mod ranks;
pub mod results;
pub mod spans;
pub mod store;
pub mod system;
pub mod training;
pub mod workload;
