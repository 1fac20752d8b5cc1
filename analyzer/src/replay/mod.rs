//! Replay: an input pipeline played again, as it was and with changes, to predict what a change is worth.
//!
//! ```text
//! predict      rows of predictions with intervals, after the replay has proved itself on the run as it was
//! fit          work without the slowdown of sharing, and how storage slows down under load
//! player       the discrete-event simulation
//! change       changes, as they are typed and as they are applied
//! pipeline     passes, readers, batches and steps, as measured
//! ```
//!
//! Nothing here reads a trace: `summary::waits::pipeline` extracts the pipeline from one.

pub mod change;
pub mod fit;
pub mod pipeline;
pub mod player;
pub mod predict;
