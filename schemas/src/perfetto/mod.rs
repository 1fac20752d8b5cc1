//! Perfetto traces: what people look at.
//!
//! Reading order: [`proto`] (bytes), [`layout`] (how our events lie in a trace), [`lanes`] (which calls may share a track),
//! [`activity`] (counters),
//! [`pack`] (compression), [`write`] (the exporter), [`select`] (less than everything); back again: [`clocks`], [`interned`], [`mod@read`] (the reader).

pub mod activity;
pub mod clocks;
pub mod interned;
pub mod lanes;
pub mod layout;
pub mod pack;
pub mod proto;
pub mod read;
pub mod select;
pub mod write;
