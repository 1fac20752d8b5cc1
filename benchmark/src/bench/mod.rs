//! One run from request to results: compose, check, generate, train, write. The order is a guarantee: nothing is
//! written before every argument has been parsed and checked.
//!
//! ```text
//! request       everything typed; a sweep as a run for each combination
//! run           a run ready to begin, and the folder its ranks write into
//! prepare       from what was typed to runs that can begin
//! data_set      the files a run asks for and those that are there
//! run_summary   the lines and the table at the end
//! rank          one rank: generate, verify, train or checkpoint, write
//! start         a run on its ranks
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
