//! Replay: simulates an input pipeline with and without changes, to predict the effect of a change.
//!
//! ```text
//! predict      rows of predictions with intervals, after the replay has reproduced the run without changes
//! fit          work without the slowdown of sharing, and the slowdown of storage under load
//! player       the discrete-event simulation
//! change       changes: parsing them and applying them
//! pipeline     passes, readers, batches and steps, as measured
//! ```
//!
//! Nothing here reads a trace: `summary::waits::pipeline` extracts the pipeline from one.

pub mod change;
pub mod fit;
pub mod pipeline;
pub mod player;
pub mod predict;
