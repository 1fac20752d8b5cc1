//! Exports for viewers, and opening one: what is asked for, what it will cost, what became of it.

use std::io::Write;
use std::path::{Path, PathBuf};

use dlio_schemas::perfetto::pack::Compression;
use indicatif::{HumanBytes, HumanCount};

use super::arguments::Arguments;
use super::progress;
use super::refusals::destination::Destination;
use super::refusals::failure::Failure;
use super::refusals::no_events;
use super::time_window;
use crate::load::{Trace, inputs};
use crate::scan::Progress;
use crate::summary::figures::units::many;
use crate::viewer::forms::Form;
use crate::viewer::serve::{self, Server, Ui};
use crate::viewer::{Export, Written};

/// Exports of more events are announced: they take longer than one looks away.
const LONG: u64 = 1_000_000;

/// The exports asked for, with paths known to be free before the long work.
pub fn asked(arguments: &Arguments) -> Result<Vec<(PathBuf, Form)>, Failure> {
    let packets = compression(arguments);
    let gzip = |path: &Path| path.extension().is_some_and(|ending| ending == "gz");
    let perfetto = arguments.perfetto.iter().map(|path| {
        let is_tar = path.extension().is_some_and(|ending| ending == "tar");
        (path.clone(), Form::named(if is_tar { "tar" } else { "pftrace" }, packets, false))
    });
    let chrome = arguments
        .chrome
        .iter()
        .map(|path| (path.clone(), Form::named(if arguments.dftracer { "pfw" } else { "json" }, packets, gzip(path))));
    let by_ending = arguments.export.iter().filter_map(|path| Some((path.clone(), Form::of(path, packets)?)));
    let exports: Vec<_> = perfetto.chain(chrome).chain(by_ending).collect();
    exports.iter().try_for_each(|(path, _)| must_be_free(arguments, path))?;
    Ok(exports)
}

/// Refuses to write among the traces, and over what exists where nobody asked for that.
pub fn must_be_free(arguments: &Arguments, path: &Path) -> Result<(), Failure> {
    if is_among(&arguments.traces, path) {
        return Err(Destination::AmongTraces(path.to_path_buf()).into());
    }
    match path.exists() && !arguments.force {
        true => Err(Destination::Exists(path.to_path_buf()).into()),
        false => Ok(()),
    }
}

/// True if a file would be read as part of these traces the next time.
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

/// The server that shows the trace, its port taken before the long work.
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
    let failed = |error| Failure::unwritable(path, error);
    let written =
        exported(arguments, trace, form, |export, progress| export.write(form, path, progress).map_err(failed))?;
    let (events, processes) = (many(written.events, "event", "events"), written.processes as u64);
    let (processes, size) = (many(processes, "process", "processes"), written.bytes as f64 / 1e6);
    notice!("dlio-analyze: {events} of {processes} in {} ({size:.1} MB)", path.display());
    say_more(&written, form);
    Ok(())
}

/// Hands the trace to a browser.
pub fn view(arguments: &Arguments, trace: &Trace, server: Server) -> Result<(), Failure> {
    let form = Form::named("pftrace", compression(arguments), false);
    // Without a name nobody else can open it, and nothing stays behind however this ends.
    let file = tempfile::tempfile().map_err(Failure::Scratch)?;
    let written = exported(arguments, trace, form, |export, progress| {
        export.write_to(form, &file, progress).map_err(Failure::Scratch)
    })?;
    say_more(&written, form);
    let (url, port) = (server.url(), server.port());
    writeln!(crate::terminal::stdout(), "{url}").map_err(Failure::Write)?;
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
fn exported(
    arguments: &Arguments,
    trace: &Trace,
    form: Form,
    write: impl FnOnce(&Export, &Progress) -> Result<Written, Failure>,
) -> Result<Written, Failure> {
    let found = inputs::find(&arguments.traces).map_err(Failure::Load)?;
    let filter = arguments.filter(trace.start());
    let shown = !arguments.no_progress;
    let events = trace.units.iter().map(|unit| unit.events).sum();
    let progress = Progress::default();
    let export = progress::counted(&progress, events, shown, || {
        Export::new(&found, &filter, arguments.all, arguments.threads(), &progress)
    })
    .map_err(Failure::Scratch)?;
    let Some(export) = export else { return Err(nothing_to_export(arguments, trace)) };
    announce(&export, form);
    let progress = Progress::default();
    progress::counted(&progress, export.recorded(), shown, || write(&export, &progress))
}

fn nothing_to_export(arguments: &Arguments, trace: &Trace) -> Failure {
    if trace.units.is_empty() && no_events::lost(trace) > 0 {
        return Failure::NoEvents(no_events::of_an_empty_trace(trace));
    }
    if arguments.filter(trace.start()).is_empty() {
        return Failure::NoEvents("the trace holds no recorded events of ours, so there is nothing to export".into());
    }
    match time_window::filter_warning(arguments, trace) {
        Some(warning) => Failure::NoEvents(warning),
        None => no_events::reason(arguments, trace).map_or_else(|failure| failure, Failure::NoEvents),
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

/// Notes on the file that its user should know.
fn say_more(written: &Written, form: Form) {
    if let Some(overview) = &written.overview {
        notice!("              {overview}; --all writes every event, --from, --to, --epoch, --rank choose some");
    }
    if let Some(remark) = form.remark(written) {
        notice!("              {remark}");
    }
}
