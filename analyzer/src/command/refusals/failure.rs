//! Why an invocation failed, and what to do about it.

use std::path::PathBuf;

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;

use super::query_error::complaint;
use crate::atomic_file::system_error;
use crate::load::sources::errors::LoadError;
use crate::tables::output::Format;
use crate::viewer::serve;
use crate::workload::Refusal;

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
    /// Another program writes Parquet there.
    BeingWritten(PathBuf),
    Parquet(PathBuf, ArrowError),
    /// An export would replace a file.
    Exists(PathBuf),
    /// An export would become part of what it was made of.
    AmongTraces(PathBuf),
    /// Nothing passes the filters, and why.
    NothingToExport(String),
    /// A file with limits of rules, and what is wrong with it.
    Rules(PathBuf, String),
    /// There is no rule of this name.
    NoRule(String),
    /// What may have been meant, and what was to be explained.
    NoTopic(Option<&'static str>, String),
    /// The window of time is none.
    Window(String),
    /// The port for a viewer.
    Port(std::io::Error),
    /// A trace could not be read for an export, or a file to be served not be written.
    Scratch(std::io::Error),
    /// The report cannot be written in this format.
    Format(Format),
    /// The comparison cannot be written in this format, or the limits alone cannot.
    ComparisonFormat(Format),
    /// How alike runs are cannot be written in this format.
    SimilarityFormat(Format),
    /// More than one run a side, where two are held against each other.
    TwoRuns,
    /// No workload can be made of a trace.
    NoWorkload(String, Refusal),
    /// One page is asked for of so many runs that are held against limits.
    PageOfSeveral(usize),
    /// A report where a trace is meant.
    IsReport(String),
    /// A file that is no trace and no report either.
    Report(PathBuf, String),
    /// A limit on a change, with nothing it changed from.
    OneSide(String),
    /// Workers that are not there, do not answer or went away.
    Cluster(String),
    /// Ctrl-C, in the shell.
    Interrupted,
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
                write!(f, "{}: cannot be written ({error}); {}", path.display(), remedy(error))
            }
            Failure::Write(error) => write!(f, "the result cannot be written: {error}"),
            Failure::NotEmpty(path) => {
                write!(f, "{}: not empty; give --parquet a new folder, or remove this one", path.display())
            }
            Failure::BeingWritten(path) => {
                write!(f, "{}: another dlio-analyze writes there; give --parquet another folder", path.display())
            }
            Failure::Exists(path) => {
                write!(f, "{}: exists; --force replaces it", path.display())
            }
            Failure::AmongTraces(path) => write!(
                f,
                "{}: lies among the traces, where it would be read as one of them from then on; choose another folder",
                path.display()
            ),
            Failure::Rules(path, why) => write!(f, "{}: {why}", path.display()),
            Failure::NoRule(id) => write!(f, "there is no rule {id}; --findings lists all of them"),
            Failure::NoTopic(meant, topic) => {
                let meant = meant.map_or(".".into(), |meant| format!("; did you mean {meant}?"));
                write!(
                    f,
                    "there is no section, rule, figure or trace {topic:?}{meant} --explain lists what is explained"
                )
            }
            Failure::NothingToExport(why) | Failure::Window(why) | Failure::Cluster(why) => write!(f, "{why}"),
            Failure::Port(error) => write!(
                f,
                "port {} of 127.0.0.1 cannot be had ({error}); end what uses it (another --view, trace_processor), or give \
                 --ui a folder with an offline copy of the viewer",
                serve::PORT
            ),
            Failure::Scratch(error) => {
                write!(f, "the trace cannot be prepared for the viewer ({error}); TMPDIR chooses another folder for it")
            }
            Failure::ComparisonFormat(format) => {
                write!(
                    f,
                    "a comparison cannot be written as {format:?}; use text, json or markdown (limits alone: text or json)"
                )
            }
            Failure::SimilarityFormat(format) => {
                write!(f, "a similarity cannot be written as {format:?}; use text or json")
            }
            Failure::TwoRuns => {
                write!(f, "--similarity holds two runs against each other; give one trace, and one to --compare")
            }
            Failure::NoWorkload(typed, why) => write!(f, "{typed}: no workload can be made of it: {why}"),
            Failure::PageOfSeveral(runs) => write!(
                f,
                "{runs} runs are held against limits, and --html makes a page of one run or of two sides: give one, or --compare"
            ),
            Failure::IsReport(path) => write!(
                f,
                "{path}: it is a report of dlio-analyze and holds no events; give the trace that it was made of, or the report \
                 to --compare or --fail-if"
            ),
            Failure::Report(path, why) => write!(
                f,
                "{}: cannot be compared: {why}; give a trace, or a report written with --format json",
                path.display()
            ),
            Failure::OneSide(limit) => write!(f, "{limit:?} limits a change; --compare says from what"),
            Failure::Interrupted => write!(f, "interrupted"),
            Failure::Parquet(path, error) => match system_error(&error.to_string()) {
                Some(error) => write!(f, "{}: cannot be written ({error}); {}", path.display(), remedy(&error)),
                None => write!(f, "{}: cannot be written: {error}", path.display()),
            },
            Failure::Format(format) => write!(
                f,
                "a summary cannot be written as {format:?}; use text, json or csv, or a query (--sql) for {format:?}"
            ),
        }
    }
}

/// The remedy for a place that cannot be written to.
fn remedy(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind::{FileTooLarge, NotFound, QuotaExceeded, StorageFull};
    match error.kind() {
        NotFound => "make its folder first, or choose another place",
        StorageFull | QuotaExceeded => "make room there, or choose another disk",
        FileTooLarge => "raise the limit on a file's size (ulimit -f), or write less",
        _ => "choose another place",
    }
}
