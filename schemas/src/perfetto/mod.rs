//! Perfetto traces: what people look at.
//!
//! Reading order: [`proto`] (bytes), [`layout`] (how our events lie in a trace), [`lanes`] (which calls may share a track),
//! [`activity`] (counters), [`pack`] (compression), [`mod@write`] (the exporter; what it writes of
//! processes is in `owner`, of threads in `event`, calls like the one before by `template`),
//! [`bundle`] (several hosts); back again: [`clocks`], [`interned`], [`mod@read`] (the reader).

pub mod activity;
pub mod bundle;
pub mod clocks;
mod event;
pub mod interned;
pub mod lanes;
pub mod layout;
mod owner;
pub mod pack;
pub mod proto;
pub mod read;
mod template;
pub mod write;
