//! How files are read and written, by groups of files: the basis for comparing two runs and for deriving a workload.
//!
//! [`file_group`] groups files, [`transfers`] counts calls that move bytes, [`passes`] describes the reads of a file
//! from opening to closing, [`marks`] keeps the times of larger activities, [`observer`] does all of that during the
//! summary's counting, in one reading of the trace.
//!
//! Relations between calls are computed within one batch of events: the predecessor in another batch is not known.

pub mod file_group;
pub mod marks;
pub mod observer;
pub mod passes;
pub mod transfers;

use crate::batch::Wanted;
use crate::filter::Filter;
use crate::load::Trace;
use crate::scan::Progress;
use crate::summary::analyse_beside;
use crate::summary::analysis::Analysis;
use observer::{Budget, Observed, Observer};

/// Everything known about a run: the basis of the summary, and how its files were used.
pub struct IoProfile {
    pub analysis: Analysis,
    pub observed: Observed,
}

/// Reads a trace once.
pub fn observe(trace: &Trace, filter: &Filter, threads: usize, progress: &Progress) -> std::io::Result<IoProfile> {
    let budget = Budget::default();
    let observer = || Observer::new(&trace.catalog, &budget);
    let (analysis, observers) = analyse_beside(trace, filter, Wanted::default(), (threads, progress), observer)?;
    let mut observed = Observed::default();
    observers.into_iter().for_each(|observer| observed.merge(observer.finish()));
    observed.settle();
    Ok(IoProfile { analysis, observed })
}
