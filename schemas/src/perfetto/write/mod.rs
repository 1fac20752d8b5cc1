//! The exporter of Perfetto traces.
//!
//! Reading order: [`writer`] (the exporter, and a drawing of the file), [`process_packets`] (what is written once per
//! process), [`event`] (what is written per thread and event), [`template`] (calls like the previous one), [`activity`]
//! (counters), `waits` (what a training waited for), [`bundle`] (several hosts).

pub mod activity;
pub mod bundle;
mod event;
mod process_packets;
mod template;
mod waits;
pub mod writer;

pub use writer::{Options, Writer};
