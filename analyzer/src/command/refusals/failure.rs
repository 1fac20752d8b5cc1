//! The reasons why an invocation fails, with hints.

use std::path::PathBuf;

use datafusion::error::DataFusionError;

use super::destination::Destination;
use super::incomparable::Incomparable;
use super::query_error::query_error;
use crate::load::sources::errors::LoadError;
use crate::tables::output::Format;
use crate::viewer::serve;
use crate::workload::Refusal;

/// The reason why an invocation failed.
#[derive(Debug)]
pub enum Failure {
    Load(LoadError),
    Query(String, DataFusionError),
    QueryFile(PathBuf, std::io::Error),
    /// An empty query, as it was given.
    EmptyQuery(String),
    /// Standard output does not accept the result.
    Write(std::io::Error),
    Destination(Destination),
    /// The filters select no events, or there are no events to export.
    NoEvents(String),
    /// A file with limits of rules, and its error.
    Rules(PathBuf, String),
    NoRule(String),
    /// The nearest known topic, and the requested one.
    NoTopic(Option<&'static str>, String),
    /// A profile cannot be placed on the timeline of the trace.
    Unaligned(String),
    /// The time filters select nothing.
    Window(String),
    /// The port for a viewer cannot be used.
    Port(std::io::Error),
    /// A trace cannot be read for an export, or the viewer's file cannot be written.
    Scratch(std::io::Error),
    /// An option that has no effect in combination with the rest, and a hint.
    WithoutEffect(String),
    /// Summaries do not support this format.
    Format(Format),
    Incomparable(Incomparable),
    /// No workload can be derived from the trace.
    NoWorkload(String, Refusal),
    /// A report was given instead of a trace.
    IsReport(String),
    /// Workers are missing, do not respond or disconnected.
    Cluster(String),
    /// Ctrl-C in the shell.
    Interrupted,
}

impl From<Destination> for Failure {
    fn from(destination: Destination) -> Failure {
        Failure::Destination(destination)
    }
}

impl From<Incomparable> for Failure {
    fn from(incomparable: Incomparable) -> Failure {
        Failure::Incomparable(incomparable)
    }
}

impl Failure {
    /// Returns the failure for a path that the system does not allow to write.
    pub fn unwritable(path: impl Into<PathBuf>, error: std::io::Error) -> Failure {
        Failure::Destination(Destination::Unwritable(path.into(), error))
    }

    /// Returns `true` if the command line is wrong.
    pub fn is_usage(&self) -> bool {
        match self {
            Failure::WithoutEffect(_) | Failure::Format(_) | Failure::EmptyQuery(_) => true,
            Failure::NoRule(_) | Failure::NoTopic(..) => true,
            Failure::Incomparable(incomparable) => incomparable.is_usage(),
            _ => false,
        }
    }

    /// Returns `true` if the reader of the output has closed the pipe.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Failure::Write(error) if error.kind() == std::io::ErrorKind::BrokenPipe)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Load(error) => write!(f, "{error}"),
            Failure::Query(sql, error) => write!(f, "{}", query_error(sql, error)),
            Failure::EmptyQuery(sql) => {
                write!(
                    f,
                    "cannot run the query {sql:?}: it is empty; try --sql \"select name, count(*) from events group by name\""
                )
            }
            Failure::QueryFile(path, error) => {
                write!(f, "cannot read the query {}: {error}; @FILE expects a file with SQL", path.display())
            }
            Failure::Write(error) => write!(f, "cannot write the result: {error}"),
            Failure::Destination(destination) => write!(f, "{destination}"),
            Failure::NoEvents(why) | Failure::Unaligned(why) | Failure::Window(why) | Failure::Cluster(why) => {
                write!(f, "{why}")
            }
            Failure::WithoutEffect(why) => write!(f, "cannot combine these options: {why}"),
            Failure::Rules(path, why) => write!(f, "cannot read the thresholds in {}: {why}", path.display()),
            Failure::NoRule(id) => {
                write!(f, "cannot ignore rule {id}: there is no such rule; --explain lists all rules")
            }
            Failure::NoTopic(meant, topic) => {
                let meant = meant.map_or(".".into(), |meant| format!("; did you mean {meant}?"));
                write!(
                    f,
                    "cannot explain {topic:?}: no section, rule or metric has this name, and no trace has this path{meant} --explain lists all \
                     topics"
                )
            }
            Failure::Port(error) => write!(
                f,
                "cannot listen on 127.0.0.1:{}: {error}; stop the program that uses this port (another --view, \
                 trace_processor), or give --ui a directory with an offline copy of the viewer",
                serve::PORT
            ),
            Failure::Scratch(error) => {
                write!(f, "cannot prepare the trace for the viewer: {error}; TMPDIR selects another directory for it")
            }
            Failure::Format(format) => write!(
                f,
                "cannot write a summary as {format:?}; use text, markdown, json or csv, or a query (--sql) for {format:?}"
            ),
            Failure::Incomparable(incomparable) => write!(f, "{incomparable}"),
            Failure::NoWorkload(typed, why) => write!(f, "{typed}: cannot derive a workload: {why}"),
            Failure::IsReport(path) => write!(
                f,
                "{path}: this is a report of dlio-analyze, which contains no events; pass the original trace, or pass \
                 the report to --compare or --fail-if"
            ),
            Failure::Interrupted => write!(f, "interrupted"),
        }
    }
}
