//! The trace that several answers share: the first answer that needs it opens, counts or reports it, once for all of
//! them.

use std::cell::{Cell, OnceCell};
use std::path::Path;

use super::open_trace::{Input, OpenTrace};
use super::outcome::Outcome;
use super::question::Question;
use super::refusals::failure::Failure;
use super::report::Report;
use super::run_query::Queries;
use super::written_report::is_report;
use crate::summary::count::tally::unrecorded;
use crate::summary::figures::units::many;

/// A trace, opened and counted on first use.
pub struct SharedTrace {
    pub question: Question,
    opened: OnceCell<OpenTrace>,
    /// The trace for answers from single events, if the report covers one of several runs but these answers cover all;
    /// `None` if they share [`SharedTrace::opened`].
    rows: OnceCell<Option<OpenTrace>>,
    report: OnceCell<Report>,
    queries: OnceCell<Queries>,
    is_kept: Cell<bool>,
    has_warned: Cell<bool>,
}

impl SharedTrace {
    pub fn new(question: Question) -> SharedTrace {
        let (opened, rows, report, queries) = Default::default();
        SharedTrace { question, opened, rows, report, queries, is_kept: Cell::new(false), has_warned: Cell::new(false) }
    }

    /// Returns the open trace.
    pub fn open(&self) -> Result<&OpenTrace, Failure> {
        once(&self.opened, || OpenTrace::open_shared(&self.question, self.find()?))
    }

    /// Returns the open trace for an answer from single events, which covers all runs by default. Warns about that, and
    /// about events that were counted but not recorded, which the answer lacks.
    pub fn open_rows(&self) -> Result<&OpenTrace, Failure> {
        let opened = self.open()?;
        let rows = once(&self.rows, || opened.of_all_runs(&self.question))?.as_ref();
        if !self.has_warned.replace(true) {
            if rows.is_some() {
                notice!(
                    "dlio-analyze: the trace contains {} runs; tables and exports include all of them, reports the \
                     last one (--run last, --run N, --run all)",
                    opened.runs.len()
                );
            }
            warn_of_unrecorded(rows.unwrap_or(opened));
        }
        Ok(rows.unwrap_or(opened))
    }

    /// Returns the report.
    pub fn report(&self) -> Result<&Report, Failure> {
        once(&self.report, || {
            if self.question.report_alone {
                let input = self.find()?;
                if let Some(report) = Report::remembered(&self.question, &input) {
                    return Ok(report);
                }
                once(&self.opened, || OpenTrace::open_shared(&self.question, input))?;
            }
            Report::counted(&self.question, self.open()?)
        })
    }

    /// Caches the report, once the user can read it.
    pub fn keep_report(&self) {
        let (Some(opened), Some(report)) = (self.opened.get(), self.report.get()) else { return };
        if let Some(analysis) = &*opened.analysis.borrow()
            && !self.is_kept.replace(true)
        {
            opened.keep(&self.question, analysis, &report.summary);
        }
    }

    /// Returns the tables for queries. Tables that one query creates remain for the next.
    pub fn queries(&self) -> Result<&Queries, Failure> {
        once(&self.queries, || Queries::of(&self.question, self.open_rows()?))
    }

    /// Reports damage of the trace, if it was read, and returns the outcome.
    pub fn outcome(&self) -> Outcome {
        let rows = self.rows.get().and_then(Option::as_ref);
        match (rows.or(self.opened.get()), self.report.get()) {
            (Some(opened), _) => opened.outcome(),
            (None, Some(report)) => report.outcome(),
            (None, None) => Outcome::default(),
        }
    }

    fn find(&self) -> Result<Input, Failure> {
        let traces = &self.question.traces;
        match traces.iter().find(|typed| is_report(Path::new(typed))) {
            Some(report) => Err(Failure::IsReport(report.clone())),
            None => Input::find(&self.question, traces),
        }
    }
}

/// Returns the content of a cell; creates it on first use.
fn once<T>(cell: &OnceCell<T>, make: impl FnOnce() -> Result<T, Failure>) -> Result<&T, Failure> {
    match cell.get() {
        Some(made) => Ok(made),
        None => {
            let made = make()?;
            Ok(cell.get_or_init(|| made))
        }
    }
}

fn warn_of_unrecorded(opened: &OpenTrace) {
    let events = unrecorded(&opened.trace, &opened.filter);
    if events > 0 {
        notice!(
            "dlio-analyze: {} counted, not recorded (--mode summary, or beyond --max-mb): the summary and the tables \
             files and processes include them, the table events and exports do not",
            many(events, "event was", "events were")
        );
    }
}
