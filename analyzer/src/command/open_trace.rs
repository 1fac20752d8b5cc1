//! Opens a trace, counts it, and reads its cached summary.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::outcome::{Outcome, report_damage};
use super::progress;
use super::question::Question;
use super::refusals::failure::Failure;
use super::runs::{ByDefault, chosen};
use super::time_window::{self, filter_warning};
use super::workers::{self, WorkerInputs};
use crate::cache::{Cache, CachedResult};
use crate::filter::Filter;
use crate::load::origin::Origin;
use crate::load::{Trace, inputs, origin};
use crate::scan::Progress;
use crate::summary::analyse;
use crate::summary::analysis::Analysis;
use crate::summary::exact_quantiles::refine;
use crate::summary::report::Summary;
use crate::summary::report::damage::notes;
use crate::summary::report::runs::{Run, runs};

/// Trace files that exist but are not open yet.
pub struct Input {
    typed: Vec<String>,
    files: Vec<(PathBuf, bool)>,
    cache: Option<Cache>,
    remembered: Option<CachedResult>,
}

impl Input {
    /// Finds the trace files and their cache.
    pub fn find(question: &Question, typed: &[String]) -> Result<Input, Failure> {
        let files = inputs::expand(typed).map_err(Failure::Load)?;
        for typed in typed {
            if let Some(Origin { from, command, .. }) = origin::read(Path::new(typed)) {
                notice!("dlio-analyze: {typed} is a part of {from}, cut by: {command}");
            }
        }
        let cache = if question.uses_cache { Cache::of(typed, &files) } else { None };
        let remembered = cache.as_ref().and_then(Cache::load);
        Ok(Input { typed: typed.to_vec(), files, cache, remembered })
    }

    /// Returns the cached summary of all events, if nothing has changed since.
    pub fn summary(&self) -> Option<Summary> {
        self.remembered.as_ref().and_then(CachedResult::summary)
    }

    fn open(self, question: &Question) -> Result<(Trace, Option<Cache>), Failure> {
        let found = inputs::classify(self.files).map_err(Failure::Load)?;
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

/// With fewer events, counting again is faster than looking for a cache.
const WORTH_KEEPING: u64 = 1_000_000;

/// An open trace and its selected events.
pub struct OpenTrace {
    pub trace: Arc<Trace>,
    pub filter: Filter,
    /// The runs in the trace, as far as they are known before it is read.
    pub runs: Vec<Run>,
    /// The workers that read and count the trace, if there are any.
    pub workers: Option<WorkerInputs>,
    /// The count of all selected events, once it was needed.
    pub analysis: RefCell<Option<Analysis>>,
    /// The reason why the filter selects nothing, as far as the file headers show it.
    warning: Option<String>,
    cache: Option<Cache>,
    typed: Vec<String>,
}

impl OpenTrace {
    /// Opens the trace for a report, which covers the last run by default.
    pub fn open(question: &Question, input: Input) -> Result<OpenTrace, Failure> {
        let typed = input.typed.clone();
        let (trace, cache) = input.open(question)?;
        let runs = runs(&trace);
        let filter = filter(question, (&trace, &runs, &typed), ByDefault::LastRun)?;
        let (trace, analysis) = (Arc::new(trace), RefCell::default());
        Ok(OpenTrace { trace, filter, runs, workers: None, analysis, warning: None, cache, typed })
    }

    /// Returns the trace for an answer that covers all runs by default; `None` if the report covers the same events.
    pub fn of_all_runs(&self, question: &Question) -> Result<Option<OpenTrace>, Failure> {
        let filter = filter(question, (&self.trace, &self.runs, &self.typed), ByDefault::AllRuns)?;
        Ok((filter.run != self.filter.run).then(|| OpenTrace {
            trace: self.trace.clone(),
            filter,
            runs: self.runs.clone(),
            workers: self.workers.clone(),
            analysis: RefCell::default(),
            warning: self.warning.clone(),
            cache: None,
            typed: self.typed.clone(),
        }))
    }

    /// Opens the trace for several answers: connects workers, and warns if filters select nothing.
    pub fn open_shared(question: &Question, input: Input) -> Result<OpenTrace, Failure> {
        let files = input.files.clone();
        let opened = OpenTrace::open(question, input)?;
        let cluster = workers::connect(question, opened.trace.sources.len())?;
        let workers = cluster.map(|cluster| WorkerInputs { cluster, files });
        let warning = filter_warning(&opened.filter, &opened.trace).filter(|_| !question.exports);
        if let Some(warning) = &warning {
            notice!("dlio-analyze: {warning}");
        }
        Ok(OpenTrace { workers, warning, ..opened })
    }

    /// Counts all selected events, unless they are already counted.
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

    /// Caches a count without filters.
    pub fn keep(&self, question: &Question, analysis: &Analysis, summary: &Summary) {
        let is_kept = question.selection.is_empty() && analysis.events() >= WORTH_KEEPING;
        if let Some(cache) = self.cache.as_ref().filter(|_| is_kept) {
            cache.store(&self.trace, analysis, summary);
        }
    }

    /// Reports damage; returns the outcome for the whole trace.
    pub fn outcome(&self) -> Outcome {
        let damaged = report_damage(&notes(&self.trace, &self.filter));
        let processes = self.trace.catalog.processes();
        let mut of_run = processes.iter().filter(|process| self.filter.takes_run_of(process));
        let lost = of_run.any(|process| process.lost > process.aggregated);
        let counted = self.analysis.borrow();
        let nothing = counted.as_ref().is_some_and(|analysis| analysis.events() == 0);
        let is_empty = nothing && !self.filter.takes_whole_runs();
        Outcome { lacking: damaged || lost, nothing_passed: is_empty || self.warning.is_some(), limits: None }
    }
}

/// Returns the filter of a question for a trace with these runs.
fn filter(
    question: &Question,
    (trace, runs, typed): (&Trace, &[Run], &[String]),
    by_default: ByDefault,
) -> Result<Filter, Failure> {
    let run = chosen(runs, &question.selection, typed, by_default).map_err(Failure::Window)?;
    let mut filter = time_window::filter(&question.selection, run, trace, question.threads)?;
    if let [one] = typed
        && let Some(Origin { window: (from, to), .. }) = origin::read(Path::new(one))
    {
        filter.from = filter.from.max(from);
        filter.to = filter.to.map_or(to, |own| Some(to.map_or(own, |to| own.min(to))));
    }
    if filter.run.is_some() || runs.len() < 2 {
        start_where_kept(&mut filter, trace)?;
    }
    Ok(filter)
}

/// Excludes the time before which processes of a flight recorder lack events: without them it would look idle.
fn start_where_kept(filter: &mut Filter, trace: &Trace) -> Result<(), Failure> {
    let Some(kept_from) = trace.catalog.kept_from(|process| filter.takes_run_of(process)) else { return Ok(()) };
    if filter.to.is_some_and(|to| to <= kept_from) {
        let ago = Duration::from_nanos(kept_from.saturating_sub(trace.start()).max(0) as u64);
        return Err(Failure::Window(format!(
            "the window ends before the first event that the flight recorder kept (dlio trace --last), which is {ago:.1?} \
             after the first event in the files"
        )));
    }
    filter.from = filter.from.max(Some(kept_from));
    Ok(())
}
