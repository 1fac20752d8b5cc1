//! `dlio bench --sweep KEY=a,b,c`: runs a workload several times with each value, in random order, so that changes over the day
//! are not mistaken for effects of the value.
//!
//! Keys below `dataset` change the files, so each of their settings has a separate data set. The results are a table,
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
