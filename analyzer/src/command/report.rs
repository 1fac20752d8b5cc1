//! The report of a trace: counted now, or remembered from an earlier count.

use super::open_trace::{Input, OpenTrace};
use super::outcome::{Outcome, report_damage};
use super::question::Question;
use super::refusals::failure::Failure;
use super::refusals::no_events;
use crate::findings::conclude;
use crate::summary::report::Summary;
use crate::summary::report::headline::Headline;
use crate::tables::output::Format;

/// See the module.
pub struct Report {
    pub summary: Summary,
    /// True if it was counted earlier.
    pub remembered: bool,
}

/// Refuses formats that a report does not have.
pub fn check_format(format: Format) -> Result<(), Failure> {
    match format {
        Format::Text | Format::Json | Format::Csv => Ok(()),
        other => Err(Failure::Format(other)),
    }
}

impl Report {
    /// Returns what is remembered of a trace, if that is as much as is wanted.
    pub fn remembered(question: &Question, input: &Input) -> Option<Report> {
        let mut summary = input.summary().filter(|summary| !question.exact || summary.is_exact())?;
        let listed = summary.files.len();
        if listed < question.top.unwrap_or(0) && (listed as u64) < summary.dataset.files {
            return None;
        }
        conclude(&mut summary, &question.limits);
        Some(Report { summary, remembered: true })
    }

    /// Counts the trace. If nothing passes the filters, a text says so, and other formats contain the reason.
    pub fn counted(question: &Question, opened: &OpenTrace) -> Result<Report, Failure> {
        opened.analyse(question)?;
        let mut analysis = opened.analysis.borrow_mut();
        let analysis = analysis.as_mut().expect("it was counted");
        analysis.files_listed = analysis.files_listed.max(question.top.unwrap_or(0));
        let mut summary = analysis.summary(&opened.trace);
        if summary.allocation.events == 0 && !opened.filter.takes_whole_runs() {
            let reason = no_events::reason(question, &opened.trace, &opened.filter)?;
            if question.format == Format::Text && !question.makes_page {
                return Err(Failure::NoEvents(reason));
            }
            summary.headline = Headline::without_events(&reason);
            summary.verdict = vec![reason];
        }
        conclude(&mut summary, &question.limits);
        Ok(Report { summary, remembered: false })
    }

    /// Reports damage that is remembered; returns what became of the trace as a whole.
    pub fn outcome(&self) -> Outcome {
        let damaged = report_damage(&self.summary.damage);
        Outcome { lacking: damaged || self.summary.allocation.lacks_events(), ..Outcome::default() }
    }
}
