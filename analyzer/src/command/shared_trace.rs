//! The trace that several answers share: opened, counted and reported once, whichever of them needs it first.

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

/// See the module.
pub struct SharedTrace {
    pub question: Question,
    opened: OnceCell<OpenTrace>,
    /// The trace for answers made of single events, where the report is about one of several runs and they are not;
    /// `None` where they share [`SharedTrace::opened`].
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

    /// Returns the open trace for an answer made of single events, which are those of all runs where none is asked for. Warns
    /// of that, and of events that were counted and not recorded, which such an answer lacks.
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

    /// Keeps the report for the next time, once it is where the user can read it.
    pub fn keep_report(&self) {
        let (Some(opened), Some(report)) = (self.opened.get(), self.report.get()) else { return };
        if let Some(analysis) = &*opened.analysis.borrow()
            && !self.is_kept.replace(true)
        {
            opened.keep(&self.question, analysis, &report.summary);
        }
    }

    /// Returns the tables for queries, which keep what a query creates for the next one.
    pub fn queries(&self) -> Result<&Queries, Failure> {
        once(&self.queries, || Queries::of(&self.question, self.open_rows()?))
    }

    /// Reports damage of the trace, if it was read; returns what became of it.
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

/// Returns what a cell contains; makes it if there is nothing yet.
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
