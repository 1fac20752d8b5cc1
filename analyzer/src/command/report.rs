//! The report of a trace, counted now or read from the cache.

use super::open_trace::{Input, OpenTrace};
use super::outcome::{Outcome, report_damage};
use super::question::Question;
use super::refusals::failure::Failure;
use super::refusals::no_events;
use crate::findings::conclude;
use crate::summary::report::Summary;
use crate::summary::report::headline::Headline;
use crate::tables::output::Format;

/// A summary and its origin.
pub struct Report {
    pub summary: Summary,
    /// `true` if it comes from the cache.
    pub remembered: bool,
}

/// Rejects formats that reports do not support.
pub fn check_format(format: Format) -> Result<(), Failure> {
    match format {
        Format::Text | Format::Markdown | Format::Json | Format::Csv => Ok(()),
        other => Err(Failure::Format(other)),
    }
}

impl Report {
    /// Returns the cached report of a trace, if it suffices.
    pub fn remembered(question: &Question, input: &Input) -> Option<Report> {
        let mut summary = input.summary().filter(|summary| !question.exact || summary.is_exact())?;
        let listed = summary.files.len();
        if listed < question.top.unwrap_or(0) && (listed as u64) < summary.dataset.files {
            return None;
        }
        conclude(&mut summary, &question.limits);
        summary.name_traces(&question.traces);
        Some(Report { summary, remembered: true })
    }

    /// Counts the trace. If the filters select nothing, the text format prints the reason, and other formats contain
    /// it.
    pub fn counted(question: &Question, opened: &OpenTrace) -> Result<Report, Failure> {
        opened.analyse(question)?;
        let mut analysis = opened.analysis.borrow_mut();
        let analysis = analysis.as_mut().expect("it was counted");
        analysis.files_listed = analysis.files_listed.max(question.top.unwrap_or(0));
        let mut summary = analysis.summary(&opened.trace);
        if summary.allocation.events == 0 && !opened.filter.takes_whole_runs() {
            let reason = no_events::reason(question, &opened.trace, &opened.filter)?;
            if matches!(question.format, Format::Text | Format::Markdown) && !question.makes_page {
                return Err(Failure::NoEvents(reason));
            }
            summary.headline = Headline::without_events(&reason);
            summary.verdict = vec![reason];
        }
        conclude(&mut summary, &question.limits);
        summary.name_traces(&question.traces);
        Ok(Report { summary, remembered: false })
    }

    /// Reports cached damage; returns the outcome for the whole trace.
    pub fn outcome(&self) -> Outcome {
        let damaged = report_damage(&self.summary.damage);
        Outcome { lacking: damaged || self.summary.allocation.lacks_events(), ..Outcome::default() }
    }
}
