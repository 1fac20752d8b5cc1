//! The rules, one file per area. Each file lists its rules at the top, and has a function that returns their findings.
//!
//! ```text
//! case            the results, and the version and division they are checked for
//! package         directories and files of a submission
//! systems         descriptions of systems
//! files           files of each run; number, order and gaps of runs
//! quality         damaged files, impossible numbers, failed runs, mixed versions
//! parameters      keys that were changed
//! training        data size, utilization, agreement of datasize, datagen and run
//! checkpointing   processes, numbers and times of checkpoints
//! places          where data and results were stored
//! ```

pub mod case;
pub mod checkpointing;
pub mod files;
pub mod package;
pub mod parameters;
pub mod places;
pub mod quality;
pub mod systems;
pub mod training;
