//! The loop of a run.
//!
//! ```text
//! loader         brings batches to the trainer
//! run_warnings  differences between a run and what its keys suggest
//! progress       the progress bar
//! trainer        epochs, steps, evaluations, checkpoints
//! ```

pub mod loader;
pub mod progress;
pub mod run_warnings;
pub mod trainer;
