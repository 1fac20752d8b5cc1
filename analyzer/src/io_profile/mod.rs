//! How files are read and written, by families of files: what two runs are held against each other by, and what a workload is
//! derived from.
//!
//! [`file_group`] says which files belong together, [`transfers`] counts calls that move bytes, [`passes`] what is done with a file
//! from opening it to closing it, [`marks`] keeps when the larger things happened, [`observer`] does all of that beside the
//! summary's counting, in the same reading of the trace.
//!
//! Relations between calls are those of one batch of events: what a call follows in another batch is not known of it.

pub mod file_group;
pub mod marks;
pub mod observer;
pub mod passes;
pub mod transfers;

use crate::filter::Filter;
use crate::load::Trace;
use crate::scan::Progress;
use crate::summary::analyse_beside;
use crate::summary::analysis::Analysis;
use observer::{Budget, Observed, Observer};

/// All that is known of a run: what the summary is made of, and how its files were used.
pub struct Behaviour {
    pub analysis: Analysis,
    pub observed: Observed,
}

/// Reads a trace once.
pub fn observe(trace: &Trace, filter: &Filter, threads: usize, progress: &Progress) -> std::io::Result<Behaviour> {
    let budget = Budget::default();
    let observer = || Observer::new(&trace.catalog, &budget);
    let (analysis, observers) = analyse_beside(trace, filter, threads, progress, observer)?;
    let mut observed = Observed::default();
    observers.into_iter().for_each(|observer| observed.merge(observer.finish()));
    observed.settle();
    Ok(Behaviour { analysis, observed })
}
