//! Events: the operations, one event in 48 bytes, and the clock of its times.
//!
//! Reading order: [`ops`] (the operations), [`record`] (one event), [`evidence`] (the additional data of a wait),
//! [`devices`] (spans of GPUs), [`clock`] (ticks to time).

pub mod clock;
pub mod devices;
pub mod evidence;
pub mod ops;
pub mod record;
