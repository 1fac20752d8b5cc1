//! One run from request to results: compose, check, generate, train, write. This order is guaranteed: nothing is written before
//! every argument has been parsed and checked.
//!
//! ```text
//! request       the parsed arguments; the combinations of a sweep
//! run           a run that is ready to start, and the directory its ranks write into
//! prepare       turns arguments into runs that can start
//! data_set      compares the files that a run needs with the files that exist
//! run_summary   the lines and the table at the end
//! rank          one rank: generate, verify, train or checkpoint, write
//! start         starts a run on its ranks
//! ```

mod data_set;
mod prepare;
mod rank;
mod request;
mod run;
mod run_summary;
mod start;

pub use prepare::{configuration, configurations, prepare};
pub use request::{Request, shared_folder};
pub use run::Run;
