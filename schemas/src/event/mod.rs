//! What is recorded: the operations, one event in 48 bytes, and the clock its times come from.
//!
//! Reading order: [`ops`] (what can happen), [`record`] (one event), [`clock`] (ticks to time).

pub mod clock;
pub mod ops;
pub mod record;
