//! `--compare` and `--fail-if`: every run becomes a report, two sides a comparison.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use super::arguments::Arguments;
use super::open_trace::{Input, analysed, keep};
use super::outcome::{Outcome, report_damage, width};
use super::refusals::failure::Failure;
use super::refusals::incomparable::Incomparable;
use super::{html, limits, time_window};
use crate::compare::run::{Run, SCHEMA};
use crate::compare::{Comparison, Sides, text};
use crate::findings::judge;
use crate::findings::limits::Limits;
use crate::html::comparison::page;
use crate::summary::analyse;
use crate::summary::figures::units::grouped;
use crate::summary::report::Summary;
use crate::tables::output::Format;

/// Rows shown of each table.
const ROWS: usize = 8;

/// Reports are small; what begins like one and is longer is something else.
const REPORT_MAX: u64 = 256 << 20;

/// Compares, prints, and holds what came out against the limits.
pub fn run(arguments: &Arguments, mut out: Output) -> Result<Outcome, Failure> {
    if let Some(limit) = arguments.fail_if.iter().find(|limit| limit.needs_two_sides() && arguments.compare.is_empty())
    {
        return Err(Incomparable::OneSide(limit.typed.clone()).into());
    }
    refuse_forms(arguments)?;
    let limits = limits::asked(arguments)?;
    let mut lacking = false;
    let mut side = |typed: &[String]| -> Result<Vec<Run>, Failure> {
        typed.iter().map(|typed| run_of(arguments, &limits, typed, &mut lacking)).collect()
    };
    let typed = side(&arguments.traces)?;
    let sides = match (arguments.compare.is_empty(), arguments.compared_first) {
        (true, _) => Sides { before: typed.clone(), after: typed },
        (_, true) => Sides { before: side(&arguments.compare)?, after: typed },
        (_, false) => Sides { before: typed, after: side(&arguments.compare)? },
    };
    let comparison = sides.compare(&arguments.fail_if);
    let printed = match arguments.compare.is_empty() {
        true => limits_alone(arguments, &comparison)?,
        false => shown(arguments, &comparison)?,
    };
    if let Some(path) = arguments.html.as_ref().filter(|_| !arguments.compare.is_empty()) {
        let (before, after) = sides.typical();
        html::write(path, &page(&comparison, before, after))?;
    }
    out.write_all(printed.as_bytes()).map_err(Failure::Write)?;
    out.finish().map_err(Failure::Write)?;
    let limits = (!comparison.limits.is_empty()).then(|| comparison.verdict());
    Ok(Outcome { lacking, nothing_passed: false, limits })
}

/// Before anything is counted: forms in which a comparison cannot be had.
fn refuse_forms(arguments: &Arguments) -> Result<(), Failure> {
    let is_compared = !arguments.compare.is_empty();
    match arguments.format {
        Format::Text | Format::Json => {}
        Format::Markdown if is_compared => {}
        other => return Err(Incomparable::Format(other).into()),
    }
    if arguments.html.is_some() && !is_compared && arguments.traces.len() > 1 {
        return Err(Incomparable::PageOfSeveral(arguments.traces.len()).into());
    }
    html::asked(arguments)
}

fn shown(arguments: &Arguments, comparison: &Comparison) -> Result<String, Failure> {
    let top = arguments.top.unwrap_or(ROWS);
    Ok(match arguments.format {
        Format::Text => text::print(comparison, width(arguments), top),
        Format::Markdown => text::markdown(comparison, top),
        Format::Json => serde_json::to_string_pretty(comparison).expect("a comparison of plain values") + "\n",
        other => return Err(Incomparable::Format(other).into()),
    })
}

fn limits_alone(arguments: &Arguments, comparison: &Comparison) -> Result<String, Failure> {
    Ok(match arguments.format {
        Format::Text => text::limits_alone(comparison, width(arguments)),
        Format::Json => serde_json::to_string_pretty(&comparison.limits).expect("plain values") + "\n",
        other => return Err(Incomparable::Format(other).into()),
    })
}

/// One run: a report that was written, or a trace that is counted now.
fn run_of(arguments: &Arguments, limits: &Limits, typed: &str, lacking: &mut bool) -> Result<Run, Failure> {
    let unusable = |why: String| -> Failure { Incomparable::Report(typed.into(), why).into() };
    let report = match written_report(Path::new(typed)) {
        Some(report) => report,
        None => {
            let mut summary = summary(arguments, typed)?;
            summary.findings = judge(&summary, limits);
            *lacking |= report_damage(&summary.damage) | summary.allocation.lacks_events();
            serde_json::to_string(&summary).expect("a summary of plain values")
        }
    };
    let mut run = Run::written(&report).map_err(unusable)?;
    if let Some(path) = arguments.html.as_ref().filter(|_| arguments.compare.is_empty()) {
        let report = serde_json::from_str(&report).map_err(|error| unusable(error.to_string()))?;
        html::write_report(&report, typed, path)?;
    }
    run.typed = typed.into();
    match run.allocation.events {
        0 if run.allocation.lost > 0 => {
            Err(unusable(format!("it holds no events: all {} that happened are lost", grouped(run.allocation.lost))))
        }
        0 => Err(unusable("it holds no events, or none that pass the filters".into())),
        _ => Ok(run),
    }
}

/// The text of a file that is a report; `None` where it is anything else.
fn written_report(path: &Path) -> Option<String> {
    is_report(path).then(|| std::fs::read_to_string(path).ok())?
}

/// True if a file begins like a report.
pub fn is_report(path: &Path) -> bool {
    begins_like_one(path) == Some(true)
}

fn begins_like_one(path: &Path) -> Option<bool> {
    let meta = std::fs::metadata(path).ok().filter(|meta| meta.is_file() && meta.len() < REPORT_MAX)?;
    let mut start = [0; 256];
    let length = File::open(path).and_then(|mut file| file.read(&mut start)).ok()?;
    let start = String::from_utf8_lossy(&start[..length.min(meta.len() as usize)]);
    Some(start.trim_start().starts_with('{') && start.contains(SCHEMA))
}

fn summary(arguments: &Arguments, typed: &str) -> Result<Summary, Failure> {
    let input = Input::find(arguments, &[typed.to_string()])?;
    let known = if arguments.filter(0).is_empty() { input.known() } else { None };
    if let Some(summary) = known {
        return Ok(summary);
    }
    let (trace, cache) = input.open(arguments)?;
    let arguments = &time_window::resolved(arguments, &trace)?;
    let filter = arguments.filter(trace.start());
    let analysis = analysed(arguments, &trace, |progress| analyse(&trace, &filter, arguments.threads(), progress))?;
    let summary = analysis.summary(&trace);
    keep(cache.as_ref(), &trace, &analysis, &summary);
    Ok(summary)
}
