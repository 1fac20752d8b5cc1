//! `--compare` and `--fail-if`: turns every run into a report, and two sides into a comparison.

use std::path::{Path, PathBuf};

use super::answer::{Answer, print};
use crate::atomic_file::Output;
use crate::command::arguments::Arguments;
use crate::command::open_trace::{Input, OpenTrace};
use crate::command::outcome::{Outcome, report_damage};
use crate::command::output_path::must_be_free;
use crate::command::question::Question;
use crate::command::refusals::failure::Failure;
use crate::command::refusals::incomparable::Incomparable;
use crate::command::shared_trace::SharedTrace;
use crate::command::written_report::read_report;
use crate::command::{progress, report_page};
use crate::compare::gate::Limit;
use crate::compare::run::Run;
use crate::compare::{Comparison, Sides, text};
use crate::findings::conclude;
use crate::html::comparison::page;
use crate::replay::change::Change;
use crate::replay::predict::Replay;
use crate::summary::analyse;
use crate::summary::figures::units::grouped;
use crate::summary::report::Summary;
use crate::summary::report::runs::scope;
use crate::summary::report::what_if::replay;
use crate::tables::output::Format;

/// The default number of rows per table.
const ROWS: usize = 8;

struct Compare {
    /// The other side; empty if one side is judged alone.
    other: Vec<String>,
    /// `true` if the side of `--compare` precedes the other on the command line.
    other_first: bool,
    limits: Vec<Limit>,
    page: Option<PathBuf>,
    /// Changes whose predictions, from the runs before, are compared with the runs after.
    changes: Vec<Change>,
}

pub fn requested(typed: &Arguments) -> Option<Box<dyn Answer>> {
    let compare = Compare {
        other: typed.compare.clone(),
        other_first: typed.compared_first,
        limits: typed.fail_if.clone(),
        page: typed.html.clone(),
        changes: typed.what_if.clone(),
    };
    typed.wants_comparison().then(|| Box::new(compare) as Box<dyn Answer>)
}

impl Answer for Compare {
    fn check(&mut self, question: &Question) -> Result<(), Failure> {
        if let Some(limit) = self.limits.iter().find(|limit| limit.needs_two_sides() && self.is_alone()) {
            return Err(Incomparable::OneSide(limit.typed.clone()).into());
        }
        match question.format {
            Format::Text | Format::Json => {}
            Format::Markdown if !self.is_alone() => {}
            other => return Err(Incomparable::Format(other).into()),
        }
        let Some(page) = &self.page else { return Ok(()) };
        if self.is_alone() && question.traces.len() > 1 {
            return Err(Incomparable::PageOfSeveral(question.traces.len()).into());
        }
        must_be_free(question, page)
    }

    /// Compares, prints, and checks the limits.
    fn give(&mut self, trace: &SharedTrace, out: &mut Output) -> Result<Outcome, Failure> {
        let question = &trace.question;
        let mut lacking = false;
        let mut side = |typed: &[String], changes: &[Change]| -> Result<Vec<Run>, Failure> {
            typed.iter().map(|typed| self.run(question, typed, changes, &mut lacking)).collect()
        };
        let (typed, other) = (&question.traces, &self.other);
        let sides = match (self.is_alone(), self.other_first) {
            (true, _) => {
                let runs = side(typed, &[])?;
                Sides { before: runs.clone(), after: runs }
            }
            (_, true) => Sides { before: side(other, &self.changes)?, after: side(typed, &[])? },
            (_, false) => Sides { before: side(typed, &self.changes)?, after: side(other, &[])? },
        };
        let comparison = sides.compare(&self.limits);
        let printed = if self.is_alone() { limits_alone(question, &comparison) } else { shown(question, &comparison) };
        if let Some(path) = self.page.as_ref().filter(|_| !self.is_alone()) {
            let (before, after) = sides.typical();
            report_page::write(path, &page(&comparison, before, after))?;
        }
        print(&printed, out)?;
        let limits = (!comparison.limits.is_empty()).then(|| comparison.verdict());
        Ok(Outcome { lacking, nothing_passed: false, limits })
    }
}

impl Compare {
    /// Returns `true` if limits judge one side without a comparison.
    fn is_alone(&self) -> bool {
        self.other.is_empty()
    }

    /// Returns one run: reads a written report, or counts a trace, and predicts the changes.
    fn run(&self, question: &Question, typed: &str, changes: &[Change], lacking: &mut bool) -> Result<Run, Failure> {
        let unusable = |why: String| -> Failure { Incomparable::Report(typed.into(), why).into() };
        let report = match read_report(Path::new(typed)) {
            Some(_) if !changes.is_empty() => {
                let why = "--what-if needs the trace of the run before, and this is a report".into();
                return Err(unusable(why));
            }
            Some(report) => report,
            None => {
                let (mut summary, predicted) = summary(question, typed, changes)?;
                conclude(&mut summary, &question.limits);
                if predicted.is_some() {
                    summary.what_if = predicted;
                }
                *lacking |= report_damage(&summary.damage) | summary.allocation.lacks_events();
                serde_json::to_string(&summary).expect("a summary of plain values")
            }
        };
        let mut run = Run::written(&report).map_err(unusable)?;
        if let Some(path) = self.page.as_ref().filter(|_| self.is_alone()) {
            let report = serde_json::from_str(&report).map_err(|error| unusable(error.to_string()))?;
            report_page::write_report(&report, typed, path)?;
        }
        if let Some(scope) = scope(&run.runs).filter(|_| self.is_alone()) {
            notice!("dlio-analyze: {typed}: {scope}");
        }
        run.typed = typed.into();
        run.typed_changes = !changes.is_empty();
        match run.allocation.events {
            0 if run.allocation.lost > 0 => {
                Err(unusable(format!("it contains no events: all {} were lost", grouped(run.allocation.lost))))
            }
            0 => Err(unusable("it contains no events, or none that match the filters".into())),
            _ => Ok(run),
        }
    }
}

fn shown(question: &Question, comparison: &Comparison) -> String {
    let top = question.top.unwrap_or(ROWS);
    match question.format {
        Format::Json => serde_json::to_string_pretty(comparison).expect("a comparison of plain values") + "\n",
        Format::Markdown => text::markdown(comparison, top),
        _ => text::print(comparison, question.width, top),
    }
}

fn limits_alone(question: &Question, comparison: &Comparison) -> String {
    match question.format {
        Format::Json => serde_json::to_string_pretty(&comparison.limits).expect("plain values") + "\n",
        _ => text::limits_alone(comparison, question.width),
    }
}

/// Returns the summary of a trace, from its cache or by counting, and the replay with changes.
fn summary(question: &Question, typed: &str, changes: &[Change]) -> Result<(Summary, Option<Replay>), Failure> {
    let input = Input::find(question, &[typed.to_string()])?;
    let known = if question.selection.is_empty() && changes.is_empty() { input.summary() } else { None };
    if let Some(summary) = known {
        return Ok((summary, None));
    }
    let opened = OpenTrace::open(question, input)?;
    let OpenTrace { trace, filter, .. } = &opened;
    let analysis = progress::reading(question, trace, |progress| analyse(trace, filter, question.threads, progress))?;
    let summary = analysis.summary(trace);
    opened.keep(question, &analysis, &summary);
    let predicted = if changes.is_empty() { None } else { replay(&analysis, trace, Some(changes)) };
    Ok((summary, predicted))
}
