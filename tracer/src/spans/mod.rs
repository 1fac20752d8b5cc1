//! What programs call: spans, instants, counters, and the I/O of libraries.
//!
//! ```text
//! span, io, tracing_layer -> table (the engine of this process, found by engine_lookup) -> app -> ring
//! ```
//!
//! Reading order: [`span`](mod@span), [`io`](mod@io), `tracing_layer` (for programs that use the crate `tracing`),
//! [`table`], [`engine_lookup`], [`app`].

pub mod app;
pub(crate) mod engine_lookup;
pub mod io;
pub mod span;
pub mod table;
#[cfg(feature = "tracing")]
pub mod tracing_layer;
