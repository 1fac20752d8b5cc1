//! Exports for viewers, and opening one: what is asked for, what it will cost, what became of it.

use std::io::Write;
use std::path::{Path, PathBuf};

use dlio_schemas::perfetto::pack::Compression;
use indicatif::{HumanBytes, HumanCount};

use super::arguments::Arguments;
use super::failure::Failure;
use super::no_events;
use super::period;
use super::progress;
use crate::load::{Trace, inputs};
use crate::scan::Progress;
use crate::summary::units::many;
use crate::viewer::serve::{self, Server, Ui};
use crate::viewer::{Form, Plan, Written};

/// Exports of more events are announced: they take longer than one looks away.
const LONG: u64 = 1_000_000;

/// What is to be written for viewers, and where: known to be free before the long work.
pub fn asked(arguments: &Arguments) -> Result<Vec<(PathBuf, Form)>, Failure> {
    let ends = |path: &Path, end: &str| path.extension().is_some_and(|ending| ending == end);
    let compression = compression(arguments);
    let perfetto = arguments.perfetto.iter().map(|path| {
        let form = if ends(path, "tar") { Form::Bundle(compression) } else { Form::Perfetto(compression) };
        (path.clone(), form)
    });
    let chrome = arguments.chrome.iter().map(|path| {
        let gzip = ends(path, "gz");
        (path.clone(), if arguments.dftracer { Form::Dftracer { gzip } } else { Form::Chrome { gzip } })
    });
    let exports: Vec<_> = perfetto.chain(chrome).collect();
    exports.iter().try_for_each(|(path, _)| must_be_free(arguments, path))?;
    Ok(exports)
}

/// Refuses to write among the traces, and over what exists where nobody asked for that.
pub fn must_be_free(arguments: &Arguments, path: &Path) -> Result<(), Failure> {
    if is_among(&arguments.traces, path) {
        return Err(Failure::AmongTraces(path.to_path_buf()));
    }
    match path.exists() && !arguments.force {
        true => Err(Failure::Exists(path.to_path_buf())),
        false => Ok(()),
    }
}

/// Whether a file would be read as part of these traces the next time.
fn is_among(traces: &[String], path: &Path) -> bool {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let own = folder.canonicalize().ok().zip(path.file_name()).map(|(folder, name)| folder.join(name));
    let holds = |trace: &String| {
        let trace = Path::new(trace).canonicalize().ok();
        trace.zip(own.as_ref()).is_some_and(|(trace, own)| own.starts_with(trace))
    };
    traces.iter().any(holds)
}

fn compression(arguments: &Arguments) -> Compression {
    match arguments.compress.as_str() {
        "zstd" => Compression::Zstd,
        "none" => Compression::None,
        _ => Compression::Deflate,
    }
}

/// Where the trace is to be opened, its port taken before the long work.
pub fn server(arguments: &Arguments) -> Result<Option<Server>, Failure> {
    if !arguments.view {
        return Ok(None);
    }
    let folder = arguments.traces.first().map(|given| Path::new(given.trim_end_matches('/')));
    let stem = folder.and_then(Path::file_stem).map_or("trace".into(), |stem| stem.to_string_lossy());
    let ui = arguments.ui.clone().unwrap_or(Ui::Site(serve::SITE.into()));
    Server::bind(ui, &format!("{stem}.pftrace")).map(Some).map_err(Failure::Port)
}

/// Writes one export.
pub fn write(arguments: &Arguments, trace: &Trace, path: &Path, form: Form) -> Result<(), Failure> {
    let failed = |error| Failure::Output(path.to_path_buf(), error);
    let written = planned(arguments, trace, form, |plan, progress| plan.write(form, path, progress).map_err(failed))?;
    let (events, processes) = (many(written.events, "event", "events"), written.processes as u64);
    let (processes, size) = (many(processes, "process", "processes"), written.bytes as f64 / 1e6);
    notice!("dlio-analyze: {events} of {processes} in {} ({size:.1} MB)", path.display());
    say_more(&written, form);
    Ok(())
}

/// Hands the trace to a browser.
pub fn view(arguments: &Arguments, trace: &Trace, server: Server) -> Result<(), Failure> {
    let form = Form::Perfetto(compression(arguments));
    // Without a name nobody else can open it, and nothing stays behind however this ends.
    let file = tempfile::tempfile().map_err(Failure::Scratch)?;
    let written = planned(arguments, trace, form, |plan, progress| {
        plan.write_to(form, &file, progress).map_err(Failure::Scratch)
    })?;
    say_more(&written, form);
    let (url, port) = (server.url(), server.port());
    writeln!(std::io::stdout(), "{url}").map_err(Failure::Write)?;
    let until = if arguments.ui_is_served() { "until Ctrl-C" } else { "until the viewer has fetched them" };
    let events = HumanCount(written.events);
    notice!("dlio-analyze: {events} events are served on 127.0.0.1:{port} {until}");
    if !serve::open(&url) {
        notice!(
            "              open the address above in a browser; from another machine, first: ssh -L {port}:127.0.0.1:{port} HOST"
        );
    }
    server.serve(file).map_err(Failure::Scratch)
}

/// Counts what passes, says what it will cost if that is much, and has it written.
fn planned(
    arguments: &Arguments,
    trace: &Trace,
    form: Form,
    write: impl FnOnce(&Plan, &Progress) -> Result<Written, Failure>,
) -> Result<Written, Failure> {
    let found = inputs::find(&arguments.traces).map_err(Failure::Load)?;
    let filter = arguments.filter(trace.start());
    let shown = !arguments.no_progress;
    let events = trace.units.iter().map(|unit| unit.events).sum();
    let progress = Progress::default();
    let plan = progress::counted(&progress, events, shown, || {
        Plan::new(&found, &filter, arguments.all, arguments.threads(), &progress)
    })
    .map_err(Failure::Scratch)?;
    let Some(plan) = plan else { return Err(nothing_to_export(arguments, trace)) };
    announce(&plan, form);
    let progress = Progress::default();
    progress::counted(&progress, plan.recorded(), shown, || write(&plan, &progress))
}

fn nothing_to_export(arguments: &Arguments, trace: &Trace) -> Failure {
    if trace.units.is_empty() && no_events::lost(trace) > 0 {
        return Failure::NothingToExport(no_events::of_an_empty_trace(trace));
    }
    if arguments.filter(trace.start()).is_empty() {
        return Failure::NothingToExport(
            "the trace holds no recorded events of ours, so there is nothing to export".into(),
        );
    }
    match period::filter_warning(arguments, trace) {
        Some(warning) => Failure::NothingToExport(warning),
        None => no_events::reason(arguments, trace).map_or_else(|failure| failure, Failure::NothingToExport),
    }
}

fn announce(plan: &Plan, form: Form) {
    let estimate = plan.estimate(form);
    if estimate.events <= LONG {
        return;
    }
    let what = if estimate.is_overview { "events, as an overview" } else { "events to write" };
    let (size, seconds) = (HumanBytes(estimate.bytes), estimate.seconds);
    notice!("dlio-analyze: {} {what}: at most {size}, about {seconds} s", HumanCount(estimate.events));
}

/// What the user should know of the file.
fn say_more(written: &Written, form: Form) {
    if let Some(overview) = &written.overview {
        notice!("              {overview}; --all writes every event, --from, --to, --epoch, --rank choose some");
    }
    if matches!(form, Form::Perfetto(Compression::Zstd) | Form::Bundle(Compression::Zstd)) {
        notice!("              packed with zstd: viewers before v58 show nothing of it");
    }
    if written.hosts > 1 && matches!(form, Form::Perfetto(_)) {
        let hosts = written.hosts;
        notice!(
            "              {hosts} hosts on one clock, by their wall clocks; FILE.tar keeps them apart as machines (viewers from v58)"
        );
    }
}
