//! What is recorded: the operations, one event in 48 bytes, and the clock its times come from.
//!
//! Reading order: [`ops`] (what can happen), [`record`] (one event), [`evidence`] (what a wait carries), [`clock`] (ticks to time).

pub mod clock;
pub mod evidence;
pub mod ops;
pub mod record;
