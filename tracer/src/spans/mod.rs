//! The API for programs: spans, instants, counters, and the I/O of libraries.
//!
//! ```text
//! span, io, tracing_layer -> engine_lookup (the table of this process's engine) -> own -> app -> ring
//! ```
//!
//! Reading order: [`span`](mod@span), [`io`](mod@io), `tracing_layer` (for programs that use the crate `tracing`),
//! [`table`] (the functions of an engine), [`engine_lookup`], [`own`] (the engine linked here), [`app`].
//! Library calls are spans, too ([`library_calls`]): [`hdf5`], with a table of its [`data_sets`], and [`mpi`].
//! So are the ranges that programs name through [`nvtx`], and the work of GPUs ([`gpu`]: [`cupti`] and [`rocprofiler`]).
//! [`device`] measures how long a GPU waits for batches.
//! In a flight recorder, [`slow_steps`] reports steps that took much longer than the others.

pub mod app;
pub mod cupti;
pub mod data_sets;
pub mod device;
pub mod engine_lookup;
mod gpu;
pub mod hdf5;
pub mod io;
pub mod library_calls;
pub mod mpi;
pub mod nvtx;
pub mod own;
pub mod rocprofiler;
mod slow_steps;
pub mod span;
pub mod table;
#[cfg(feature = "tracing")]
pub mod tracing_layer;
