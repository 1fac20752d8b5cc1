//! `dlio bench --sweep KEY=a,b,c`: the same workload once for each value, several times over and in random order, so that what
//! changes with the time of day does not look like what changes with the value.
//!
//! Keys below `dataset` change the files: each of their settings has a data set of its own. The results are a table,
//! `sweep.json`, and `sweep.html`, which [`page`] draws.
//!
//! ```text
//! knobs     the keys, their values, all combinations
//! results   the numbers of one run
//! page      the results as a page for a browser
//! run       all of it
//! ```

mod knobs;
mod page;
mod results;
mod run;

pub use knobs::Knob;
pub use run::run;
