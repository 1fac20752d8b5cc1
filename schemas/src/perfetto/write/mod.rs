//! The exporter of Perfetto traces.
//!
//! Reading order: [`writer`] (the exporter, and a drawing of the file), [`process_packets`] (data written once per
//! process), [`event`] (data written per thread and event), [`template`] (calls like the previous one), [`activity`]
//! (counters), `devices` (work of GPUs), `waits` (waits of a training run), [`bundle`] (several hosts), [`zip`] (an archive).

pub mod activity;
pub mod bundle;
mod devices;
mod event;
mod process_packets;
mod template;
mod waits;
pub mod writer;
pub mod zip;

pub use writer::{Options, Writer};
