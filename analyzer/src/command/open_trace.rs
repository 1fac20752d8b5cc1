//! A trace that was typed: what is remembered of it, opening it, counting it.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;

use super::outcome::{Outcome, report_damage};
use super::progress;
use super::question::Question;
use super::refusals::failure::Failure;
use super::time_window::{self, filter_warning};
use super::workers::{self, WorkerInputs};
use crate::cache::{Cache, Remembered};
use crate::filter::Filter;
use crate::load::{Trace, inputs};
use crate::scan::Progress;
use crate::summary::analyse;
use crate::summary::analysis::Analysis;
use crate::summary::exact_quantiles::refine;
use crate::summary::report::Summary;
use crate::summary::report::damage::DamageNote;

/// Files that exist and are not open yet.
pub struct Input {
    typed: Vec<String>,
    files: Vec<(PathBuf, bool)>,
    cache: Option<Cache>,
    remembered: Option<Remembered>,
}

impl Input {
    /// Finds the files that were typed, and what is remembered of them.
    pub fn find(question: &Question, typed: &[String]) -> Result<Input, Failure> {
        let files = inputs::expand(typed).map_err(Failure::Load)?;
        let cache = if question.uses_cache { Cache::of(typed, &files) } else { None };
        let remembered = cache.as_ref().and_then(Cache::load);
        Ok(Input { typed: typed.to_vec(), files, cache, remembered })
    }

    /// Returns the summary of all events, if it was counted earlier and nothing has changed since.
    pub fn summary(&self) -> Option<Summary> {
        self.remembered.as_ref().and_then(Remembered::summary)
    }

    fn open(self, question: &Question) -> Result<(Trace, Option<Cache>), Failure> {
        let found = inputs::tell(self.files).map_err(Failure::Load)?;
        let index = self.cache.as_ref().map(Cache::index).unwrap_or_default();
        let mut trace = Trace::of(found, &self.typed, question.threads, &index).map_err(Failure::Load)?;
        if let Some(cache) = self.cache.as_ref().filter(|_| trace.settled) {
            cache.store_index(&index);
        }
        trace.catalog.allow_names(question.memory);
        if let (Some(cache), Some(remembered)) = (&self.cache, &self.remembered) {
            cache.recall(remembered, &mut trace);
        }
        Ok((trace, self.cache))
    }
}

/// Traces of fewer events are counted again in less time than it takes to look for what is known of them.
const WORTH_KEEPING: u64 = 1_000_000;

/// An open trace, and the events of it that are wanted.
pub struct OpenTrace {
    pub trace: Arc<Trace>,
    pub filter: Filter,
    /// The workers that read and count it, if there are any.
    pub workers: Option<WorkerInputs>,
    /// The count of all events that pass the filter, once one was needed.
    pub analysis: RefCell<Option<Analysis>>,
    /// The reason why nothing passes the filter, as far as the heads of the files show it.
    warning: Option<String>,
    cache: Option<Cache>,
}

impl OpenTrace {
    pub fn open(question: &Question, input: Input) -> Result<OpenTrace, Failure> {
        let (trace, cache) = input.open(question)?;
        let filter = time_window::filter(&question.selection, &trace, question.threads)?;
        let (trace, analysis) = (Arc::new(trace), RefCell::default());
        Ok(OpenTrace { trace, filter, workers: None, analysis, warning: None, cache })
    }

    /// Opens the trace for several answers: with workers, and with a warning about filters that let nothing through.
    pub fn open_shared(question: &Question, input: Input) -> Result<OpenTrace, Failure> {
        let cluster = workers::connect(question)?;
        let workers = cluster.map(|cluster| WorkerInputs { cluster, files: input.files.clone() });
        let opened = OpenTrace::open(question, input)?;
        let warning = filter_warning(&opened.filter, &opened.trace).filter(|_| !question.exports);
        if let Some(warning) = &warning {
            notice!("dlio-analyze: {warning}");
        }
        Ok(OpenTrace { workers, warning, ..opened })
    }

    /// Counts all events that pass the filter, unless that was done already.
    pub fn analyse(&self, question: &Question) -> Result<(), Failure> {
        let mut analysis = self.analysis.borrow_mut();
        if analysis.is_none() {
            *analysis = Some(match &self.workers {
                Some(workers) => workers::analyse(question, workers, &self.trace, &self.filter)?,
                None => self.analyse_here(question)?,
            });
        }
        Ok(())
    }

    fn analyse_here(&self, question: &Question) -> Result<Analysis, Failure> {
        let (trace, filter, threads) = (&self.trace, &self.filter, question.threads);
        progress::reading(question, trace, |progress| {
            let mut analysis = analyse(trace, filter, threads, progress)?;
            if question.exact && analysis.durations.is_none() {
                refine(trace, filter, threads, &Progress::default(), &mut analysis)?;
            }
            Ok(analysis)
        })
    }

    /// Keeps what was counted of all events, for the next time.
    pub fn keep(&self, analysis: &Analysis, summary: &Summary) {
        let is_kept = analysis.filter.is_empty() && analysis.events() >= WORTH_KEEPING;
        if let Some(cache) = self.cache.as_ref().filter(|_| is_kept) {
            cache.store(&self.trace, analysis, summary);
        }
    }

    /// Reports damage; returns what became of the trace as a whole.
    pub fn outcome(&self) -> Outcome {
        let damage: Vec<_> = self.trace.notes.lock().expect("notes").iter().map(DamageNote::of).collect();
        let damaged = report_damage(&damage);
        let lost = self.trace.catalog.processes().iter().any(|process| process.lost > process.aggregated);
        let counted = self.analysis.borrow();
        let is_empty = counted.as_ref().is_some_and(|analysis| analysis.events() == 0) && !self.filter.is_empty();
        Outcome { lacking: damaged || lost, nothing_passed: is_empty || self.warning.is_some(), limits: None }
    }
}
