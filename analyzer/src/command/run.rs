//! One invocation, from arguments to output.

use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::sync::Arc;

use dlio_schemas::visible::visible;
use serde_json::{Map, Value};

use super::arguments::Arguments;
use super::open_trace::{Input, analysed, keep};
use super::outcome::{Outcome, report_damage, width};
use super::refusals::destination::Destination;
use super::refusals::failure::Failure;
use super::refusals::no_events;
use super::stdout::WatchedStdout;
use super::{
    comparison, explanations, exports, html, limits, listing, progress, run_query, similarity, time_window, workers,
    workload,
};
use crate::atomic_file::Output;
use crate::cache::Cache;
use crate::findings;
use crate::findings::limits::Limits;
use crate::load::Trace;
use crate::scan::Progress;
use crate::summary::analyse;
use crate::summary::analysis::Analysis;
use crate::summary::count::tally::unrecorded;
use crate::summary::exact_quantiles::refine;
use crate::summary::figures::units::many;
use crate::summary::report::Summary;
use crate::summary::report::damage::DamageNote;
use crate::summary::report::screen::Page;
use crate::summary::report::{flat, screen, text};
use crate::tables::export::{self, Before};
use crate::tables::output::Format;
use crate::unfinished;

/// The trace that is meant where none is named.
const DEFAULT_TRACE: &str = "dlio-trace";

/// Runs the command.
pub fn run(typed: &Arguments) -> Result<Outcome, Failure> {
    if writes_files(typed) {
        // In the shell Ctrl-C ends a query and nothing else.
        unfinished::watch(!typed.shell).map_err(Failure::Write)?;
    }
    perform(typed).map_err(|failure| match (failure, &typed.output) {
        (Failure::Write(error), Some(path)) if error.kind() != ErrorKind::BrokenPipe => {
            Failure::unwritable(path.clone(), error)
        }
        (failure, _) => failure,
    })
}

/// True if there may be something to take away when a signal comes.
fn writes_files(arguments: &Arguments) -> bool {
    let named = [&arguments.output, &arguments.parquet, &arguments.perfetto, &arguments.chrome, &arguments.html];
    named.iter().any(|path| path.is_some()) || arguments.export.is_some() || arguments.workload.is_some()
}

fn perform(typed: &Arguments) -> Result<Outcome, Failure> {
    let arguments = &mut typed.clone();
    let mut out = output(arguments)?;
    if let Some(section) = &arguments.show_sql {
        out.write_all(explanations::sql(section).as_bytes()).map_err(Failure::Write)?;
    }
    let explains = arguments.explain.is_some();
    if let Some(topic) = arguments.explain.take() {
        out.write_all(explained(arguments, topic)?.as_bytes()).map_err(Failure::Write)?;
    }
    if arguments.tables {
        out.write_all(listing::everything().as_bytes()).map_err(Failure::Write)?;
    }
    if arguments.needs_no_trace() || explains && arguments.traces.is_empty() {
        return out.finish().map_err(Failure::Write).map(|()| Outcome::default());
    }
    if arguments.traces.is_empty() {
        arguments.traces.push(DEFAULT_TRACE.into());
    }
    if let Some(file) = &arguments.workload {
        return workload::run(arguments, file, out);
    }
    if arguments.similarity {
        return similarity::run(arguments, out);
    }
    if arguments.wants_comparison() {
        return comparison::run(arguments, out);
    }
    if let Some(report) = arguments.traces.iter().find(|typed| comparison::is_report(Path::new(typed))) {
        return Err(Failure::IsReport(report.clone()));
    }
    let queries = queries(arguments)?;
    let limits = limits::asked(arguments)?;
    if let Some(folder) = &arguments.parquet {
        must_be_empty(folder)?;
    }
    let exports = exports::asked(arguments)?;
    html::asked(arguments)?;
    let server = exports::server(arguments)?;
    let input = Input::find(arguments, &arguments.traces)?;
    let known = if arguments.wants_summary_alone() { input.known() } else { None };
    if let Some(mut summary) = known.filter(|summary| !arguments.exact || summary.is_exact()).filter(|summary| {
        // As many files as are shown, or all there are.
        summary.files.len() >= arguments.top.unwrap_or(0) || summary.files.len() as u64 >= summary.dataset.files
    }) {
        summary.findings = findings::judge(&summary, &limits);
        deliver(arguments, &summary, true, &mut out)?;
        out.finish().map_err(Failure::Write)?;
        let lacking = report_damage(&summary.damage) || summary.allocation.lacks_events();
        return Ok(Outcome { lacking, nothing_passed: false, limits: None });
    }
    let cluster = workers::asked(arguments)?;
    let files = if cluster.is_some() { input.files().to_vec() } else { Vec::new() };
    let (trace, cache) = input.open(arguments)?;
    let trace = Arc::new(trace);
    let arguments = &time_window::resolved(arguments, &trace)?;
    let warning = time_window::filter_warning(arguments, &trace).filter(|_| exports.is_empty() && server.is_none());
    if let Some(warning) = &warning {
        notice!("dlio-analyze: {warning}");
    }
    let helpers = cluster.as_ref().map(|cluster| (cluster, files.as_slice()));
    let mut analysis = if arguments.wants_summary() {
        Some(summary(arguments, (&trace, &limits), (cache.as_ref(), helpers), &mut out)?)
    } else {
        None
    };
    if arguments.wants_rows() {
        say_unrecorded(arguments, &trace);
    }
    if let Some(folder) = &arguments.parquet
        && !is_written_by(helpers, arguments, &trace, &mut analysis, folder)?
    {
        write_parquet(arguments, &trace, folder)?;
    }
    for (path, form) in &exports {
        exports::write(arguments, &trace, path, *form)?;
    }
    if !queries.is_empty() || arguments.shell {
        run_query::ask(arguments, (&trace, helpers), &queries, analysis.as_ref(), &mut out)?;
    }
    out.finish().map_err(Failure::Write)?;
    if let Some(server) = server {
        exports::view(arguments, &trace, server)?;
    }
    let notes = trace.notes.lock().expect("notes");
    let damaged = report_damage(&notes.iter().map(DamageNote::of).collect::<Vec<_>>());
    let lost = trace.catalog.processes().iter().any(|process| process.lost > process.aggregated);
    let filtered = !arguments.filter(0).is_empty();
    let is_empty = analysis.is_some_and(|analysis| analysis.events() == 0 && filtered);
    Ok(Outcome { lacking: damaged || lost, nothing_passed: is_empty || warning.is_some(), limits: None })
}

/// What is to be explained. What stands behind `--explain` may be the trace whose report is asked for with it, too.
fn explained(arguments: &mut Arguments, topic: String) -> Result<String, Failure> {
    let (limits, width) = (limits::asked(arguments)?, width(arguments));
    match explanations::explained(&topic, &limits, width) {
        Some(text) => Ok(text),
        None if Path::new(&topic).exists() || topic.contains(['/', '*', '?']) => {
            arguments.traces.push(topic);
            Ok(explanations::explanation(width))
        }
        None => Err(Failure::NoTopic(explanations::suggestion(&topic), topic)),
    }
}

/// Rows and exports hold what was recorded. What was only counted would be missing from them without a word.
fn say_unrecorded(arguments: &Arguments, trace: &Trace) {
    let events = unrecorded(trace, &arguments.filter(trace.start()));
    if events > 0 {
        notice!(
            "dlio-analyze: {} counted and not recorded (--mode summary, or beyond --max-mb): the summary and the tables \
             files and processes have them, the table events and exports do not",
            many(events, "event was", "events were")
        );
    }
}

/// Refuses a folder that holds something, but for half an export of a writer that was killed.
fn must_be_empty(folder: &Path) -> Result<(), Failure> {
    match export::before(folder).map_err(|error| Failure::unwritable(folder, error))? {
        Before::Nothing => Ok(()),
        Before::Half => {
            notice!("dlio-analyze: {}: held half an export, whose writer was killed; it is replaced", folder.display());
            Ok(())
        }
        Before::Written => Err(Destination::BeingWritten(folder.to_path_buf()).into()),
        Before::Other => Err(Destination::NotEmpty(folder.to_path_buf()).into()),
    }
}

/// Has workers write Parquet, if there are any. They count first: the numbers of files are those of the count.
fn is_written_by(
    helpers: Option<workers::Helpers>,
    arguments: &Arguments,
    trace: &Trace,
    analysis: &mut Option<Analysis>,
    folder: &Path,
) -> Result<bool, Failure> {
    let Some(helpers) = helpers else { return Ok(false) };
    let analysis = match analysis {
        Some(known) => known,
        none => none.insert(workers::analysed(arguments, helpers, trace, &arguments.filter(trace.start()))?),
    };
    // Its table of the summary is the one that is counted in passing.
    let (durations, listed) = (analysis.durations.take(), std::mem::take(&mut analysis.files_listed));
    let written = workers::wrote_parquet(arguments, helpers, trace, analysis, folder);
    (analysis.durations, analysis.files_listed) = (durations, listed);
    written
}

fn write_parquet(arguments: &Arguments, trace: &Trace, folder: &Path) -> Result<(), Failure> {
    let filter = arguments.filter(trace.start());
    let progress = Progress::default();
    let work = || export::write(trace, &filter, (arguments.threads(), arguments.memory), &progress, folder);
    progress::shown(&progress, trace.size(), !arguments.no_progress, work)
        .map(|_| ())
        .map_err(|error| Destination::Parquet(folder.to_path_buf(), error).into())
}

/// Standard output or a file, opened before the long work.
fn output(arguments: &Arguments) -> Result<Output, Failure> {
    let path = arguments.output.as_deref();
    Output::to(path, WatchedStdout(crate::terminal::stdout()))
        .map_err(|error| Failure::unwritable(path.unwrap_or(Path::new("-")), error))
}

fn queries(arguments: &Arguments) -> Result<Vec<String>, Failure> {
    arguments.sql.iter().map(|typed| query(typed).and_then(|sql| some_query(typed, sql))).collect()
}

fn some_query(typed: &str, sql: String) -> Result<String, Failure> {
    match sql.trim_matches(|c: char| c.is_whitespace() || c == ';').is_empty() {
        true => Err(Failure::EmptyQuery(typed.into())),
        false => Ok(sql),
    }
}

fn query(sql: &str) -> Result<String, Failure> {
    if let Some(path) = sql.strip_prefix('@') {
        return std::fs::read_to_string(path).map_err(|error| Failure::QueryFile(path.into(), error));
    }
    if sql == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(|error| Failure::QueryFile("-".into(), error))?;
        return Ok(text);
    }
    Ok(sql.into())
}

fn summary(
    arguments: &Arguments,
    (trace, limits): (&Trace, &Limits),
    (cache, helpers): (Option<&Cache>, Option<workers::Helpers>),
    out: &mut impl Write,
) -> Result<Analysis, Failure> {
    check_format(arguments)?;
    let filter = arguments.filter(trace.start());
    let mut analysis = match helpers {
        Some(helpers) => workers::analysed(arguments, helpers, trace, &filter)?,
        None => analysed(arguments, trace, |progress| {
            let mut analysis = analyse(trace, &filter, arguments.threads(), progress)?;
            if arguments.exact && analysis.durations.is_none() {
                refine(trace, &filter, arguments.threads(), &Progress::default(), &mut analysis)?;
            }
            Ok(analysis)
        })?,
    };
    analysis.files_listed = analysis.files_listed.max(arguments.top.unwrap_or(0));
    let mut summary = analysis.summary(trace);
    if summary.allocation.events == 0 && !filter.is_empty() {
        let reason = no_events::reason(arguments, trace)?;
        // Programs that read the other forms find the same in them.
        if arguments.format == Format::Text && arguments.html.is_none() {
            return Err(Failure::NoEvents(reason));
        }
        summary.verdict = vec![reason];
    }
    summary.findings = findings::judge(&summary, limits);
    deliver(arguments, &summary, false, out)?;
    keep(cache, trace, &analysis, &summary);
    Ok(analysis)
}

fn check_format(arguments: &Arguments) -> Result<(), Failure> {
    match arguments.format {
        Format::Text | Format::Json | Format::Csv => Ok(()),
        other => Err(Failure::Format(other)),
    }
}

/// Prints the summary and writes its page, whichever was asked for.
fn deliver(arguments: &Arguments, summary: &Summary, remembered: bool, out: &mut impl Write) -> Result<(), Failure> {
    if arguments.prints_summary() {
        print_summary(arguments, summary, remembered, out)?;
    }
    arguments.html.iter().try_for_each(|path| {
        let report = serde_json::to_value(summary).expect("a summary of plain values");
        html::write_report(&report, &arguments.traces.join(" "), path)
    })
}

fn print_summary(
    arguments: &Arguments,
    summary: &Summary,
    remembered: bool,
    out: &mut impl Write,
) -> Result<(), Failure> {
    check_format(arguments)?;
    let mut printed = match arguments.format {
        Format::Json => serde_json::to_string_pretty(&asked(arguments, summary)).expect("plain values") + "\n",
        Format::Csv => flat::csv(&asked(arguments, summary)),
        _ => visible(&report(arguments, summary)),
    };
    if remembered && arguments.format == Format::Text {
        printed.push_str("Counted earlier, and no file has changed since; --no-cache counts again.\n");
    }
    out.write_all(printed.as_bytes()).map_err(Failure::Write)
}

/// The report as plain values: of sections that were asked for, these alone and what says that it is a report.
fn asked(arguments: &Arguments, summary: &Summary) -> Map<String, Value> {
    let mut values = summary.values();
    let sections = sections(arguments);
    if !sections.is_empty() && !arguments.full {
        values.retain(|name, _| ["schema", "version"].contains(&name.as_str()) || sections.contains(name));
    }
    values
}

/// Sections that were asked for; none where the whole report is.
fn sections(arguments: &Arguments) -> Vec<String> {
    let findings = arguments.findings.then(|| "findings".to_string());
    findings.into_iter().chain(arguments.section.iter().cloned()).collect()
}

/// Rows of a table that is printed in full.
const ROWS: usize = 15;

fn report(arguments: &Arguments, summary: &Summary) -> String {
    let (rows, width) = (arguments.top.unwrap_or(ROWS), width(arguments));
    let sections = sections(arguments);
    match (arguments.full, sections.is_empty()) {
        (true, _) => text::print(summary, (rows, width)),
        (_, true) => screen::print(summary, Page { width, rows: arguments.top }),
        (_, false) => text::print_some(summary, &sections, (rows, width)),
    }
}
