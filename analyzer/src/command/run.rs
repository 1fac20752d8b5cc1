//! One invocation, from arguments to output.

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use futures::StreamExt;

use super::arguments::Arguments;
use super::complaint::complaint;
use super::shell::Step;
use super::{explain, listing, nothing, picture, progress, shell, window};
use crate::cache::{Cache, Remembered};
use crate::load::{LoadError, Trace, inputs};
use crate::scan::Progress;
use crate::summary::model::{Analysis, DamageNote, Summary, damage_sentence};
use crate::summary::precise::refine;
use crate::summary::tally::unrecorded;
use crate::summary::units::many;
use crate::summary::{analyse, flat, text};
use crate::tables::export;
use crate::tables::output::{Format, RowWriter};
use crate::tables::query::Session;
use crate::viewer::serve;

/// Why an invocation failed.
#[derive(Debug)]
pub enum Failure {
    Load(LoadError),
    Query(String, DataFusionError),
    QueryFile(PathBuf, std::io::Error),
    /// As it was typed.
    EmptyQuery(String),
    Output(PathBuf, std::io::Error),
    Write(std::io::Error),
    /// The folder for Parquet holds something already.
    NotEmpty(PathBuf),
    Parquet(PathBuf, ArrowError),
    /// An export would replace a file.
    Exists(PathBuf),
    /// An export would become part of what it was made of.
    AmongTraces(PathBuf),
    /// Nothing passes the filters, and why.
    NothingToExport(String),
    /// The window of time is none.
    Window(String),
    /// The port for a viewer.
    Port(std::io::Error),
    /// A trace could not be read for an export, or a file to be served not be written.
    Scratch(std::io::Error),
    /// The report cannot be written in this format.
    Format(Format),
}

impl Failure {
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Failure::Write(error) if error.kind() == std::io::ErrorKind::BrokenPipe)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Load(error) => write!(f, "{error}"),
            Failure::Query(sql, error) => write!(f, "{}", complaint(sql, error)),
            Failure::EmptyQuery(sql) => {
                write!(f, "the query {sql:?} is empty; try --sql \"select name, count(*) from events group by name\"")
            }
            Failure::QueryFile(path, error) => {
                write!(f, "{}: the query cannot be read ({error}); @FILE takes a file with SQL", path.display())
            }
            Failure::Output(path, error) => {
                write!(f, "{}: cannot be written ({error}); choose another -o", path.display())
            }
            Failure::Write(error) => write!(f, "the result cannot be written: {error}"),
            Failure::NotEmpty(path) => {
                write!(f, "{}: not empty; give --parquet a new folder, or remove this one", path.display())
            }
            Failure::Exists(path) => {
                write!(f, "{}: exists; --force replaces it", path.display())
            }
            Failure::AmongTraces(path) => write!(
                f,
                "{}: lies among the traces, where its events would count once more from then on; choose another folder",
                path.display()
            ),
            Failure::NothingToExport(why) | Failure::Window(why) => write!(f, "{why}"),
            Failure::Port(error) => write!(
                f,
                "port {} of 127.0.0.1 cannot be had ({error}); end what uses it (another --view, trace_processor), or give \
                 --ui a folder with an offline copy of the viewer",
                serve::PORT
            ),
            Failure::Scratch(error) => {
                write!(f, "the trace cannot be prepared for the viewer ({error}); TMPDIR chooses another folder for it")
            }
            Failure::Parquet(path, error) => write!(f, "{}: cannot be written: {error}", path.display()),
            Failure::Format(format) => write!(
                f,
                "a summary cannot be written as {format:?}; use text, json or csv, or a query (--sql) for {format:?}"
            ),
        }
    }
}

/// Runs the command; says whether the trace is damaged.
pub fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let mut out = output(arguments)?;
    if let Some(section) = arguments.show_sql {
        out.write_all(section.sql().as_bytes()).map_err(Failure::Write)?;
    }
    if arguments.explain {
        out.write_all(explain::explanation().as_bytes()).map_err(Failure::Write)?;
    }
    if arguments.tables {
        out.write_all(listing::everything().as_bytes()).map_err(Failure::Write)?;
    }
    if arguments.traces.is_empty() || arguments.tables || arguments.show_sql.is_some() {
        return out.flush().map_err(Failure::Write).map(|()| false);
    }
    let queries = queries(arguments)?;
    if let Some(folder) = arguments.parquet.as_ref().filter(|folder| holds_something(folder)) {
        return Err(Failure::NotEmpty(folder.clone()));
    }
    let exports = picture::exports(arguments)?;
    let server = picture::server(arguments)?;
    let files = inputs::expand(&arguments.traces).map_err(Failure::Load)?;
    let cache = if arguments.no_cache { None } else { Cache::of(&arguments.traces, &files) };
    let remembered = cache.as_ref().and_then(Cache::load);
    let known = remembered.as_ref().filter(|_| arguments.wants_summary_alone()).and_then(Remembered::summary);
    if let Some(summary) = known.filter(|summary| !arguments.exact || summary.is_exact()) {
        print_summary(arguments, &summary, true, &mut out)?;
        out.flush().map_err(Failure::Write)?;
        return Ok(report_damage(&summary.damage));
    }
    let found = inputs::tell(files).map_err(Failure::Load)?;
    let mut trace = Trace::of(found, &arguments.traces, arguments.threads()).map_err(Failure::Load)?;
    if let (Some(cache), Some(remembered)) = (&cache, &remembered) {
        cache.recall(remembered, &mut trace);
    }
    let trace = Arc::new(trace);
    let arguments = &window::settled(arguments, &trace)?;
    if let Some(doubt) = window::doubts(arguments, &trace).filter(|_| exports.is_empty() && server.is_none()) {
        eprintln!("dlio-analyze: {doubt}");
    }
    let analysis =
        if arguments.wants_summary() { Some(summary(arguments, &trace, cache.as_ref(), &mut out)?) } else { None };
    if arguments.wants_rows() {
        say_unrecorded(arguments, &trace);
    }
    if let Some(folder) = &arguments.parquet {
        write_parquet(arguments, &trace, folder)?;
    }
    for (path, form) in &exports {
        picture::write(arguments, &trace, path, *form)?;
    }
    if !queries.is_empty() || arguments.shell {
        ask(arguments, &trace, &queries, analysis.as_ref(), &mut out)?;
    }
    out.flush().map_err(Failure::Write)?;
    if let Some(server) = server {
        picture::view(arguments, &trace, server)?;
    }
    let notes = trace.notes.lock().expect("notes");
    Ok(report_damage(&notes.iter().map(DamageNote::of).collect::<Vec<_>>()))
}

/// Rows and exports hold what was recorded. What was only counted would be missing from them without a word.
fn say_unrecorded(arguments: &Arguments, trace: &Trace) {
    let events = unrecorded(trace, &arguments.filter(trace.start()));
    if events > 0 {
        eprintln!(
            "dlio-analyze: {} counted and not recorded (--mode summary, or beyond --max-mb): the summary and the tables \
             files and processes have them, the table events and exports do not",
            many(events, "event was", "events were")
        );
    }
}

fn holds_something(folder: &std::path::Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

fn write_parquet(arguments: &Arguments, trace: &Trace, folder: &Path) -> Result<(), Failure> {
    let filter = arguments.filter(trace.start());
    let progress = Progress::default();
    let work = || export::write(trace, &filter, (arguments.threads(), arguments.memory), &progress, folder);
    progress::shown(&progress, trace.size(), !arguments.no_progress, work)
        .map(|_| ())
        .map_err(|error| Failure::Parquet(folder.to_path_buf(), error))
}

/// Standard output or a file, opened before the long work.
fn output(arguments: &Arguments) -> Result<Box<dyn Write + Send>, Failure> {
    Ok(match &arguments.output {
        None => Box::new(BufWriter::new(std::io::stdout())),
        Some(path) => {
            let file = File::create(path).map_err(|error| Failure::Output(path.clone(), error))?;
            Box::new(BufWriter::new(file))
        }
    })
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

/// Traces of fewer events are counted again in less time than it takes to look for what is known of them.
const WORTH_KEEPING: u64 = 1_000_000;

fn summary(
    arguments: &Arguments,
    trace: &Trace,
    cache: Option<&Cache>,
    out: &mut impl Write,
) -> Result<Analysis, Failure> {
    check_format(arguments)?;
    let filter = arguments.filter(trace.start());
    let progress = Progress::default();
    let work = || -> std::io::Result<Analysis> {
        let mut analysis = analyse(trace, &filter, arguments.threads(), &progress)?;
        if arguments.exact && analysis.durations.is_none() {
            refine(trace, &filter, arguments.threads(), &Progress::default(), &mut analysis)?;
        }
        Ok(analysis)
    };
    let analysis = progress::shown(&progress, trace.size(), !arguments.no_progress, work)
        .map_err(|e| Failure::Load(LoadError::Memory(e)))?;
    let mut summary = analysis.summary(trace);
    if summary.allocation.events == 0 && !filter.is_empty() {
        summary.verdict = vec![nothing::passes(arguments, trace)?];
    }
    print_summary(arguments, &summary, false, out)?;
    if let Some(cache) = cache.filter(|_| filter.is_empty() && summary.allocation.events >= WORTH_KEEPING) {
        cache.store(trace, &analysis, &summary);
    }
    Ok(analysis)
}

fn check_format(arguments: &Arguments) -> Result<(), Failure> {
    match arguments.format {
        Format::Text | Format::Json | Format::Csv => Ok(()),
        other => Err(Failure::Format(other)),
    }
}

fn print_summary(
    arguments: &Arguments,
    summary: &Summary,
    remembered: bool,
    out: &mut impl Write,
) -> Result<(), Failure> {
    check_format(arguments)?;
    let mut printed = match arguments.format {
        Format::Json => serde_json::to_string_pretty(summary).expect("a summary of plain values") + "\n",
        Format::Csv => flat::csv(summary),
        _ => text::print(summary, arguments.top),
    };
    if remembered && arguments.format == Format::Text {
        printed.push_str("Counted earlier, and no file has changed since; --no-cache counts again.\n");
    }
    out.write_all(printed.as_bytes()).map_err(Failure::Write)
}

fn ask(
    arguments: &Arguments,
    trace: &Arc<Trace>,
    queries: &[String],
    analysis: Option<&Analysis>,
    out: &mut (impl Write + Send),
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(arguments.threads())
        .build()
        .map_err(Failure::Write)?;
    let filter = arguments.filter(trace.start());
    let wrong = |sql: &str| {
        let sql = sql.to_string();
        move |error| Failure::Query(sql, error)
    };
    let mut session = Session::new(trace.clone(), filter, arguments.threads(), arguments.memory).map_err(wrong(""))?;
    if let Some(analysis) = analysis {
        session.fill(analysis).map_err(wrong(""))?;
    }
    for sql in queries {
        runtime.block_on(answer(&mut session, sql, arguments.format, out))?;
    }
    if arguments.shell {
        shell::run(|step| {
            match step {
                Step::Ask(sql) => runtime.block_on(answer(&mut session, sql, arguments.format, out))?,
                Step::Say(text) => out.write_all(text.as_bytes()).map_err(Failure::Write)?,
                Step::Leave => {}
            }
            out.flush().map_err(Failure::Write)
        })?;
    }
    Ok(())
}

async fn answer(
    session: &mut Session,
    sql: &str,
    format: Format,
    out: &mut (impl Write + Send),
) -> Result<(), Failure> {
    let wrong = |error| Failure::Query(sql.to_string(), error);
    let (schema, mut rows) = session.run(sql).await.map_err(wrong)?;
    let mut writer = RowWriter::new(format, schema, out).map_err(written)?;
    while let Some(batch) = rows.next().await {
        writer.write(&batch.map_err(wrong)?).map_err(written)?;
    }
    writer.finish().map_err(written)
}

fn written(error: ArrowError) -> Failure {
    Failure::Write(match error {
        ArrowError::IoError(_, error) => error,
        other => std::io::Error::other(other.to_string()),
    })
}

/// Damage is said on stderr too, so that a pipe does not swallow it.
fn report_damage(damage: &[DamageNote]) -> bool {
    let sentence = damage_sentence(damage);
    if let Some(sentence) = &sentence {
        let hint = if std::io::stderr().is_terminal() { " (the report's section Damage names them)" } else { "" };
        eprintln!("dlio-analyze: {sentence}{hint}");
    }
    sentence.is_some()
}
