//! Simulates an input pipeline without and with a change, to predict the effect of the change.
//!
//! ```text
//! predict      predictions with intervals, if a replay reproduces the unchanged run; applies changes
//! fit          how long work takes when nothing is shared, and how much storage slows down under load
//! player       the discrete-event simulation
//! change       what a change consists of: parsing and describing it
//! pipeline     the measured passes, readers, batches and steps
//! ```
//!
//! These modules do not read traces: `summary::waits::pipeline` extracts the pipeline from a trace.

pub mod change;
pub mod fit;
pub mod pipeline;
pub mod player;
pub mod predict;
