//! Exports a trace for viewers: announces the cost, and reports what the user should know about the result.

use std::path::Path;

use dlio_schemas::perfetto::pack::Compression;
use indicatif::{HumanBytes, HumanCount};

use super::arguments::Arguments;
use super::open_trace::OpenTrace;
use super::progress;
use super::question::Question;
use super::refusals::failure::Failure;
use super::refusals::no_events;
use super::time_window::filter_warning;
use crate::filter::Filter;
use crate::load::inputs;
use crate::scan::Progress;
use crate::summary::figures::units::{bytes, many};
use crate::viewer::forms::Form;
use crate::viewer::{Export, ExportResult};

/// Exports of more events than this are announced, because they take noticeably long.
const LONG: u64 = 1_000_000;

/// The requested kind of export.
#[derive(Clone, Copy)]
pub struct Choice {
    pub form: Form,
    /// `true` if every event is written, regardless of their number.
    pub all: bool,
    /// `true` if calls that connect threads and processes are written also outside the selected time.
    pub relations: bool,
}

/// Returns the compression of Perfetto packets.
pub fn compression(typed: &Arguments) -> Compression {
    match typed.compress.as_str() {
        "zstd" => Compression::Zstd,
        "none" => Compression::None,
        _ => Compression::Deflate,
    }
}

/// Writes a file and reports its size.
pub fn write(question: &Question, opened: &OpenTrace, choice: Choice, path: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::unwritable(path, error);
    let written = exported(question, opened, choice, |export, progress| {
        export.write(choice.form, path, progress).map_err(failed)
    })?;
    let (events, processes) = (many(written.events, "event", "events"), written.processes as u64);
    let (processes, size) = (many(processes, "process", "processes"), bytes(written.bytes as f64));
    notice!("dlio-analyze: wrote {events} of {processes} to {} ({size})", path.display());
    add_notes(&written, choice.form);
    Ok(())
}

/// Counts the selected events, announces a high cost, and exports them.
pub fn exported(
    question: &Question,
    opened: &OpenTrace,
    choice: Choice,
    write: impl FnOnce(&Export, &Progress) -> Result<ExportResult, Failure>,
) -> Result<ExportResult, Failure> {
    let found = inputs::find(&question.traces).map_err(Failure::Load)?;
    let filter = &Filter { relations: choice.relations, ..opened.filter.with_run_as_window() };
    let shown = question.progress;
    let events = opened.trace.units.iter().map(|unit| unit.events).sum();
    let progress = Progress::default();
    let count = || Export::new(&found, filter, choice.all, question.threads, &progress);
    let export = progress::counted(&progress, events, shown, count).map_err(Failure::Scratch)?;
    let Some(mut export) = export else { return Err(nothing_to_export(question, opened)) };
    if choice.form.holds_profiles() {
        let note = export.add_profiles(&found).map_err(Failure::Unaligned)?;
        note.into_iter().for_each(|note| notice!("dlio-analyze: {note}"));
    }
    if choice.form.draws_waits() && export.has_waits() {
        opened.analyse(question)?;
        if let Some(analysis) = &*opened.analysis.borrow() {
            export.draw(&analysis.measured.waits, &opened.trace.catalog);
        }
    }
    announce(&export, choice.form);
    let progress = Progress::default();
    progress::counted(&progress, export.recorded(), shown, || write(&export, &progress))
}

fn nothing_to_export(question: &Question, OpenTrace { trace, filter, .. }: &OpenTrace) -> Failure {
    if trace.units.is_empty() && no_events::lost(trace) > 0 {
        return Failure::NoEvents(no_events::of_an_empty_trace(trace));
    }
    if filter.is_empty() {
        return Failure::NoEvents(
            "the trace contains no recorded events of dlio, so there is nothing to export".into(),
        );
    }
    match filter_warning(filter, trace) {
        Some(warning) => Failure::NoEvents(warning),
        None => no_events::reason(question, trace, filter).map_or_else(|failure| failure, Failure::NoEvents),
    }
}

fn announce(export: &Export, form: Form) {
    let estimate = export.estimate(form);
    if estimate.events <= LONG {
        return;
    }
    let what = if estimate.is_overview { "events, as an overview" } else { "events to write" };
    let (size, seconds) = (HumanBytes(estimate.bytes), estimate.seconds);
    notice!("dlio-analyze: {} {what}: at most {size}, about {seconds} s", HumanCount(estimate.events));
}

/// Prints notes on the written file.
pub fn add_notes(written: &ExportResult, form: Form) {
    if let Some(overview) = &written.overview {
        notice!("              {overview}; --all writes every event; --from, --to, --epoch, --rank select some");
    }
    if let Some(remark) = form.remark(written) {
        notice!("              {remark}");
    }
}
