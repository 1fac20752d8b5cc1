//! What the keys mean: the tree of a workload as typed fields, with every default and derived value in place.
//!
//! ```text
//! excluded       steps left out of the numbers
//! profile        `reader.profile`: the calls that read a sample
//! compute_time   durations of compute that is not done
//! sections       the fields, a struct for each section of the keys
//! ```

pub mod compute_time;
mod excluded;
pub mod profile;
mod sections;

pub use excluded::Excluded;
pub use sections::{
    Checkpoints, Config, Dataset, Datatype, Element, Evaluation, Framework, LoaderKind, Model, Output, Reading, Saving,
    Shuffle, Train, Workflow,
};
