//! The question: everything that was typed, understood once.
//!
//! [`Arguments`] is what was typed; the [`Question`] is what it means. Answers take their own options from the former and
//! everything they share from the latter.

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

/// The trace that is read if none is named.
const DEFAULT_TRACE: &str = "dlio-trace";

/// Lines wider than this are hard to read, and narrower ones hold no table.
const WIDTHS: std::ops::RangeInclusive<usize> = 40..=100;

/// The width of output that is not printed on a terminal.
const WIDTH: usize = 80;

/// What all answers need to know of an invocation.
pub struct Question {
    /// Files, directories and patterns as they were typed.
    pub traces: Vec<String>,
    pub selection: Selection,
    /// The limits that findings are judged by.
    pub limits: Limits,
    pub format: Format,
    /// Rows of each table.
    pub top: Option<usize>,
    /// Characters per line.
    pub width: usize,
    /// True if quantiles are to be exact whatever the number of events.
    pub exact: bool,
    pub threads: usize,
    /// Bytes that queries and row groups may take.
    pub memory: u64,
    pub shows_progress: bool,
    /// True if earlier counts are used and new ones kept.
    pub uses_cache: bool,
    /// True if files that exist are replaced.
    pub replaces: bool,
    /// True if queries may read and write files other than the trace.
    pub opens_files: bool,
    /// True if nothing but the report of all events is wanted, which an earlier count can give.
    pub report_alone: bool,
    /// True if the report becomes a page for a browser.
    pub makes_page: bool,
    /// True if events are exported: an export that finds none says why by itself.
    pub exports: bool,
    #[cfg(feature = "cluster")]
    pub workers: Option<WorkersWanted>,
}

/// Workers that are to read the trace.
#[cfg(feature = "cluster")]
pub struct WorkersWanted {
    pub workers: Workers,
    /// The file with the token that they know.
    pub token: Option<PathBuf>,
    /// The directory into which they write Parquet.
    pub writes: Option<PathBuf>,
}

impl Question {
    /// Understands what was typed. Refuses limits of rules that do not exist.
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
            shows_progress: !typed.no_progress,
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

/// Returns the width of the terminal that is printed on, within reason.
fn width(into_file: bool) -> usize {
    let terminal = terminal_size::terminal_size_of(std::io::stdout()).filter(|_| !into_file);
    terminal.map_or(WIDTH, |(width, _)| (width.0 as usize).clamp(*WIDTHS.start(), *WIDTHS.end()))
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}
