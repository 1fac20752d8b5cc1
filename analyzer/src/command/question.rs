//! The question: the meaning of all arguments, determined once.
//!
//! [`Arguments`] is the parsed command line; the [`Question`] is its meaning. Answers take their specific options from
//! the arguments and everything they share from the question.

#[cfg(feature = "cluster")]
use std::path::PathBuf;

use super::arguments::Arguments;
use super::limits;
use super::refusals::failure::Failure;
use super::selection::Selection;
#[cfg(feature = "cluster")]
use crate::cluster::fleet::Workers;
use crate::findings::limits::Limits;
use crate::tables::output::Format;

/// The trace that is read by default.
const DEFAULT_TRACE: &str = "dlio-trace";

/// Longer lines are hard to read, and shorter ones do not fit a table.
const WIDTHS: std::ops::RangeInclusive<usize> = 40..=100;

/// The line width if the output is not a terminal.
const WIDTH: usize = 80;

/// The settings that all answers share.
pub struct Question {
    /// Files, directories and patterns from the command line.
    pub traces: Vec<String>,
    pub selection: Selection,
    /// The limits of the rules of the findings.
    pub limits: Limits,
    pub format: Format,
    /// The number of rows per table.
    pub top: Option<usize>,
    /// Characters per line.
    pub width: usize,
    /// `true` if quantiles are exact for any number of events.
    pub exact: bool,
    pub threads: usize,
    /// The memory limit of queries and row groups, in bytes.
    pub memory: u64,
    pub progress: ProgressDisplay,
    /// `true` if cached counts are used and new ones stored.
    pub uses_cache: bool,
    /// `true` if existing files are replaced.
    pub replaces: bool,
    /// `true` if queries may access files other than the trace.
    pub opens_files: bool,
    /// `true` if only the report of all events is needed, which the cache may have.
    pub report_alone: bool,
    /// `true` if the report is written as an HTML page.
    pub makes_page: bool,
    /// `true` if events are exported: an export without events explains the reason itself.
    pub exports: bool,
    #[cfg(feature = "cluster")]
    pub workers: Option<WorkersWanted>,
}

/// How progress is shown on standard error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProgressDisplay {
    Hidden,
    /// A bar, if standard error is a terminal.
    Bar,
    /// Lines for the program that started this one.
    Lines,
}

/// The workers that read the trace.
#[cfg(feature = "cluster")]
pub struct WorkersWanted {
    pub workers: Workers,
    /// The file with the workers' token.
    pub token: Option<PathBuf>,
    /// The directory into which the workers write Parquet.
    pub writes: Option<PathBuf>,
}

impl Question {
    /// Interprets the arguments. Rejects limits of rules that do not exist.
    pub fn of(typed: &Arguments) -> Result<Question, Failure> {
        let traces = if typed.traces.is_empty() { vec![DEFAULT_TRACE.into()] } else { typed.traces.clone() };
        Ok(Question {
            traces,
            selection: typed.selection.clone(),
            limits: limits::read(typed.rules.as_deref(), &typed.ignore)?,
            format: typed.format,
            top: typed.top,
            width: width(typed.output.is_some()),
            exact: typed.exact,
            threads: typed.threads.map_or_else(cores, usize::from),
            memory: typed.memory,
            progress: progress(typed),
            uses_cache: !typed.no_cache,
            replaces: typed.force,
            opens_files: typed.sql_files,
            report_alone: typed.wants_report() && !typed.wants_rows() && typed.selection.is_empty(),
            makes_page: typed.html.is_some(),
            exports: typed.exports_events(),
            #[cfg(feature = "cluster")]
            workers: typed.workers.clone().map(|workers| WorkersWanted {
                workers,
                token: typed.token.clone(),
                writes: typed.parquet.as_ref().and_then(|folder| std::path::absolute(folder).ok()),
            }),
        })
    }
}

fn progress(typed: &Arguments) -> ProgressDisplay {
    match (typed.progress_lines, typed.no_progress) {
        (true, _) => ProgressDisplay::Lines,
        (false, true) => ProgressDisplay::Hidden,
        (false, false) => ProgressDisplay::Bar,
    }
}

/// Returns the width of the output terminal, within reason.
fn width(into_file: bool) -> usize {
    let terminal = terminal_size::terminal_size_of(std::io::stdout()).filter(|_| !into_file);
    terminal.map_or(WIDTH, |(width, _)| (width.0 as usize).clamp(*WIDTHS.start(), *WIDTHS.end()))
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}
