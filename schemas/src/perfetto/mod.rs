//! Perfetto traces, the format for viewers.
//!
//! Reading order: [`proto`] (bytes), [`layout`] (the layout of our events in a trace), [`pack`] (compression),
//! [`mod@write`] (the exporter), [`mod@read`] (the reader).

pub mod layout;
pub mod pack;
pub mod proto;
pub mod read;
pub mod write;

pub use crate::export::lanes;
pub use write::{activity, bundle, zip};
