//! Typed configuration: the tree of a workload as fields, with every default and derived value.
//!
//! ```text
//! excluded       steps excluded from the metrics
//! profile        `reader.profile`: the calls that read a sample
//! compute_time   durations of emulated compute
//! sections       the fields, one struct per section of the keys
//! ```

pub mod compute_time;
mod excluded;
pub mod profile;
mod sections;

pub use excluded::Excluded;
pub use sections::{
    CheckpointFormat, Checkpoints, Config, Dataset, Datatype, Element, Evaluation, Framework, LoaderKind, Model,
    Output, Reading, Shuffle, Train, Workflow,
};
