//! The filters of the command line, which select events of a trace.
//!
//! [`super::time_window`] turns them into a [`Filter`](crate::filter::Filter) once the trace is open.

use super::run_argument::{RunChoice, parse_run};
use super::time_argument::{When, parse_duration, parse_when};
use super::time_range::{Numbers, Window, parse_numbers, parse_window};

/// Filters that were typed. Times may count from the start of the trace.
#[derive(clap::Args, Clone, Debug)]
pub struct Selection {
    /// If a directory contains several runs: only the run with this number, counted from 1, the last one, or all combined
    /// [default: last for reports, comparisons and workloads, all for --sql, --shell, --parquet, --export and --view]
    #[arg(long, value_name = "N|last|all", value_parser = parse_run, help_heading = "Filters")]
    pub run: Option<RunChoice>,

    /// Only events that end after this: 10s (since the start of the selected run, or of the trace), 1795226887.5 (Unix time) or 2026-11-21T02:08:07
    #[arg(long, value_name = "TIME", value_parser = parse_when, allow_hyphen_values = true, help_heading = "Filters")]
    pub from: Option<When>,

    /// Only events that start before this
    #[arg(long, value_name = "TIME", value_parser = parse_when, allow_hyphen_values = true, help_heading = "Filters")]
    pub to: Option<When>,

    /// Only this long from --from, or from the start: 10s
    #[arg(id = "for", long = "for", value_name = "TIME", value_parser = parse_duration, conflicts_with_all = ["to", "window"], help_heading = "Filters")]
    pub length: Option<i64>,

    /// As `--from` and `--to` in one: 10s..20s, 10s.. or ..20s
    #[arg(long, value_name = "FROM..TO", value_parser = parse_window, allow_hyphen_values = true, hide = true, conflicts_with_all = ["from", "to"], help_heading = "Filters")]
    pub window: Option<Window>,

    /// Only the time from the first start to the last end of these epochs, as numbered by spans: 2, or 2..4
    #[arg(long, value_name = "N[..M]", value_parser = parse_numbers, help_heading = "Filters")]
    pub epoch: Option<Numbers>,

    /// Only the time of these steps (with --epoch, of these steps of these epochs): 10, or 10..20
    #[arg(long, value_name = "N[..M]", value_parser = parse_numbers, help_heading = "Filters")]
    pub step: Option<Numbers>,

    /// Only these processes (repeatable, or separated by commas)
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = process_id, help_heading = "Filters")]
    pub pid: Vec<i32>,

    /// Only these ranks
    #[arg(long, value_name = "RANK", value_delimiter = ',', value_parser = rank, help_heading = "Filters")]
    pub rank: Vec<i32>,

    /// Only events on files that match: * and ? match / too
    #[arg(long, value_name = "GLOB", value_parser = glob::Pattern::new, help_heading = "Filters")]
    pub file: Vec<glob::Pattern>,

    /// Only these categories: posix, stdio, process, wait, net, app, or those of spans
    #[arg(long, value_name = "CAT", value_delimiter = ',', help_heading = "Filters")]
    pub cat: Vec<String>,

    /// Only these calls or spans, by name: open,read (repeatable; the events table lists the names)
    #[arg(short = 'e', long, value_name = "NAME", value_delimiter = ',', value_parser = call_name, help_heading = "Filters")]
    pub call: Vec<String>,

    /// Only events that took at least this long: 10us, 1ms
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Filters")]
    pub min_dur: Option<i64>,
}

impl Selection {
    /// Returns `true` if every event is selected.
    pub fn is_empty(&self) -> bool {
        let kinds = self.cat.is_empty() && self.call.is_empty();
        let lists = self.pid.is_empty() && self.rank.is_empty() && self.file.is_empty() && kinds;
        lists && self.run.is_none() && !self.cuts_runs() && self.min_dur.is_none_or(|shortest| shortest <= 0)
    }

    /// Returns `true` if a process or a date is selected, regardless of its run.
    pub fn chooses_runs(&self) -> bool {
        let ends = self.ends();
        let is_date = |when: Option<When>| matches!(when, Some(When::Unix(_)));
        !self.pid.is_empty() || is_date(ends.from) || is_date(ends.to)
    }

    /// Returns `true` if a filter of time, epoch or step may cut a run.
    pub fn cuts_runs(&self) -> bool {
        let ends = self.ends();
        ends.from.is_some() || ends.to.is_some() || self.epoch.is_some() || self.step.is_some()
    }

    /// Returns `true` if a time is relative to the start of the trace.
    pub fn is_relative(&self) -> bool {
        let ends = self.ends();
        [ends.from, ends.to].iter().any(|when| matches!(when, Some(When::Since(_))))
    }

    /// Returns both ends of the window in Unix nanoseconds, for a trace that starts at `start`.
    pub fn bounds(&self, start: i64) -> (Option<i64>, Option<i64>) {
        let ends = self.ends();
        (ends.from.map(|when| when.ts(start)), ends.to.map(|when| when.ts(start)))
    }

    fn ends(&self) -> Window {
        let end = |length: i64| self.from.map_or(When::Since(length), |from| from.after(length));
        let to = self.to.or(self.length.map(end));
        self.window.unwrap_or(Window { from: self.from, to })
    }
}

fn process_id(typed: &str) -> Result<i32, String> {
    typed
        .trim()
        .parse()
        .map_err(|_| "expected the number of a process, as in --sql 'select pid, name from processes'".into())
}

fn rank(typed: &str) -> Result<i32, String> {
    typed.trim().parse().map_err(|_| "expected the number of a rank: 0, or 0,1".into())
}

/// Parses the name of a call. strace writes `trace=` before the first.
fn call_name(typed: &str) -> Result<String, String> {
    match typed.trim().trim_start_matches("trace=") {
        "" => Err("expected the name of a call or span, as in open,read".into()),
        name => Ok(name.to_string()),
    }
}
