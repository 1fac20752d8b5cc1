//! The command line as it is typed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{CommandFactory, FromArgMatches, Parser};

use super::explanations::{is_topic, sections, sections_with_sql};
use super::selection::Selection;
use super::size::parse_size;
#[cfg(feature = "cluster")]
use crate::cluster::fleet::Workers;
use crate::compare::gate::Limit;
use crate::replay::change::Change;
use crate::tables::output::Format;
use crate::viewer::forms::{parse_path, path_of};
use crate::viewer::serve::Ui;

/// Says where the time of a traced program went.
///
/// Reads what traced programs left behind: files, folders (to the bottom) and patterns, of any kind and mixed. The kind of
/// a file is told by its content.
#[derive(Parser, Clone, Debug)]
#[command(name = "dlio-analyze", version, max_term_width = 100, after_help = AFTER)]
pub struct Arguments {
    /// Trace files, folders or patterns [default: dlio-trace]
    #[arg(value_name = "TRACE")]
    pub traces: Vec<String>,

    /// Print the summary (the default where nothing else is asked for)
    #[arg(long)]
    pub summary: bool,

    /// Print all tables of the summary, and not what fits one screen
    #[arg(long)]
    pub full: bool,

    /// Print these sections of the summary alone, in full: by their names, or by the titles they have there
    #[arg(long, value_name = "SECTION", value_delimiter = ',', ignore_case = true, value_parser = sections(), conflicts_with = "compare")]
    pub section: Vec<String>,

    /// Print what can be done about it alone: all findings, with evidence, what to change and how to verify it, and the rules
    /// that did not fire with what they measured
    #[arg(long)]
    pub findings: bool,

    /// Predict the training time with a change (repeatable; a comma makes several changes together): storage=2, latency=2,
    /// bandwidth=2, workers=N, prefetch=N, order=any, persistent=1, decode=2, handover=0, compute=2, cores=N, quota=none.
    /// Numbers of storage, latency, bandwidth, decode and compute are speedups, inf included
    #[arg(long, value_name = "CHANGE", value_parser = Change::parse, conflicts_with_all = ["compare", "workload", "fail_if"])]
    pub what_if: Vec<Change>,

    /// Change limits of the rules by lines like `input-bound.wait = 0.1`
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,

    /// Do not judge by this rule (repeatable, or separated by commas)
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub ignore: Vec<String>,

    /// Run a query over the tables events, files, processes, hosts, waits, machine; @FILE reads it from a file, - from standard input
    #[arg(long, value_name = "QUERY", allow_hyphen_values = true)]
    pub sql: Vec<String>,

    /// Let queries read and write other files too: CREATE EXTERNAL TABLE, COPY TO
    #[arg(long)]
    pub sql_files: bool,

    /// List the tables and what their columns hold; needs no trace
    #[arg(long)]
    pub tables: bool,

    /// How results are written; json is an object for a summary and an array of rows for a query, in which a second
    /// column of one name is called name:1
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,

    /// Write results here instead of to standard output (-); what was there is replaced when they are complete
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Write the report as a page for a browser, one file that needs no other and no network; - is standard output
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Derive a workload of `dlio bench` that does the same I/O, each value with what tells it; - is standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["compare", "sql", "html", "parquet", "perfetto", "chrome", "export", "view", "shell", "fail_if"])]
    pub workload: Option<PathBuf>,

    /// Write the events, files, processes, hosts, waits and the summary as Parquet into this new folder
    #[arg(long, value_name = "DIR")]
    pub parquet: Option<PathBuf>,

    /// Write the events for a viewer, in the format that the extension of FILE names (repeatable): .pftrace is for
    /// ui.perfetto.dev, .tar the same with a file per host (viewers from v58 on), .json and .json.gz are Chrome's trace events,
    /// .pfw and .pfw.gz the lines that DFTracer's tools read
    #[arg(long, value_name = "FILE", value_parser = parse_path)]
    pub export: Vec<PathBuf>,

    /// How .pftrace and .tar are compressed; viewers before v58 show nothing of zstd
    #[arg(long, value_name = "HOW", default_value = "deflate", value_parser = ["deflate", "zstd", "none"])]
    pub compress: String,

    /// As `--export` with .pftrace or .tar, for a file of any name
    #[arg(long, hide = true, value_name = "FILE", value_parser = |text: &str| path_of("--perfetto", &["pftrace", "tar"], text))]
    pub perfetto: Option<PathBuf>,

    /// As `--export` with .json, for a file of any name
    #[arg(long, hide = true, value_name = "FILE", value_parser = |text: &str| path_of("--chrome", &["json", "pfw"], text))]
    pub chrome: Option<PathBuf>,

    /// Makes --chrome the lines of .pfw
    #[arg(long, hide = true, requires = "chrome")]
    pub dftracer: bool,

    /// Open the trace in ui.perfetto.dev: it is served on 127.0.0.1 until the browser has it, and never leaves this machine
    #[arg(long)]
    pub view: bool,

    /// The viewer that --view opens: a folder with an offline copy of it, or its address
    #[arg(long, value_name = "DIR|URL", requires = "view", value_parser = Ui::parse)]
    pub ui: Option<Ui>,

    /// Export every event, where there are more than a viewer likes; else they become an overview
    #[arg(long)]
    pub all: bool,

    /// Replace an output that exists
    #[arg(long)]
    pub force: bool,

    /// Ask queries one after another, on a terminal with a history; .help lists what else there is
    #[arg(long)]
    pub shell: bool,

    /// Exact quantiles of times whatever the number of events: the trace is read twice
    #[arg(long)]
    pub exact: bool,

    /// Rows shown of each table of the summary [default: what fits one screen; 15 with --full and --section, 20 waits]
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,

    /// Say what each section of the summary, each rule of the findings and each figure of a comparison means, or the one that
    /// is named
    #[arg(long, value_name = "SECTION|RULE", num_args = 0..=1, default_missing_value = "")]
    pub explain: Option<String>,

    /// Print the SQL that gives a section of the summary
    #[arg(long, value_name = "SECTION", value_parser = sections_with_sql())]
    pub show_sql: Option<String>,

    /// Compare with these runs. TRACE is as above, or a report written with --format json. The side that is typed first is
    /// the one before; several runs a side know how much runs differ: --compare A1 A2 A3 A4 -- B1 B2 B3 B4
    #[arg(long, value_name = "TRACE", num_args = 1.., help_heading = "Comparing")]
    pub compare: Vec<String>,

    /// Say how alike both runs are in their I/O: a cosine of the features of DLIO's paper, each feature's own difference, and
    /// distances of whole distributions; one trace a side, text or JSON
    #[arg(long, requires = "compare", conflicts_with = "fail_if", help_heading = "Comparing")]
    pub similarity: bool,

    /// True if the side of --compare was typed first.
    #[arg(skip)]
    pub compared_first: bool,

    /// Fail with status 1 where a figure is beyond this: 'wait.share > 5%', and with --compare 'io.s > +10%', 'wall_s > +2'
    /// (repeatable; --explain lists the figures)
    #[arg(long, value_name = "LIMIT", value_parser = Limit::parse, help_heading = "Comparing")]
    pub fail_if: Vec<Limit>,

    /// Succeed where the runs do not tell whether a limit is kept
    #[arg(long, requires = "fail_if", help_heading = "Comparing")]
    pub lenient: bool,

    #[command(flatten)]
    pub selection: Selection,

    /// Fail with status 3 where part of the trace is damaged or events are lost
    #[arg(long)]
    pub strict: bool,

    /// Count all events again, even if nothing changed since they were counted, and keep nothing beside the trace
    #[arg(long)]
    pub no_cache: bool,

    /// Memory that queries and the row groups of --parquet may take: 512MB, 4GiB. Queries go on on disk (in TMPDIR) where
    /// it is not enough. It does not bound reading and counting (by files, processes and intervals; packed traces
    /// that are no stream of blocks lie unpacked, up to 1 GiB) nor --export (all strings of a process)
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "1GiB")]
    pub memory: u64,

    /// Threads that read [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,

    /// Have these workers read, count and answer queries: host:port,host:port, or @FILE with one a line; local:N starts N
    /// processes here, slurm one on each node of the allocation. `dlio-analyze worker --help` says how others are started
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "WORKERS", value_parser = Workers::parse, help_heading = "Many machines",
          conflicts_with_all = ["compare", "fail_if", "workload", "similarity", "perfetto", "chrome", "export", "view"])]
    pub workers: Option<Workers>,

    /// File with the token that workers of other machines were started with [default: DLIO_CLUSTER_TOKEN]
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "FILE", requires = "workers", help_heading = "Many machines")]
    pub token: Option<PathBuf>,

    /// No progress bar, even on a terminal
    #[arg(long)]
    pub no_progress: bool,

    /// Print what a shell needs to complete this command
    #[arg(long, value_name = "SHELL", value_enum)]
    pub completions: Option<clap_complete::Shell>,

    /// Write the page of the manual into a folder
    #[arg(long, value_name = "FOLDER")]
    pub man: Option<PathBuf>,
}

const AFTER: &str = "\
Examples:
  dlio-analyze                          the trace in ./dlio-trace
  dlio-analyze dlio-trace/ --full
  dlio-analyze dlio-trace/ --from 10s --to 20s --cat posix
  dlio-analyze dlio-trace/ --sql \"select name, count(*) n, sum(bytes) b from events group by name order by n desc\"
  dlio-analyze dlio-trace/ --html report.html
  dlio-analyze 'runs/*/trace' --format json -o summary.json
  dlio-analyze --tables
  dlio-analyze trace/ --sql @slow.sql --format csv
  dlio-analyze trace/ --export all.pftrace --from 10s --to 20s
  dlio-analyze trace/ --view --epoch 2 --rank 0
  dlio-analyze before/ --compare after/ --fail-if 'step.mean_s > +5%'
  dlio-analyze trace/ --parquet tables/ && dlio-analyze tables/ --shell
  dlio-analyze /scratch/trace --workers node1:7070,node2:7070 --token ~/.dlio-token

Exit status:
  0  done; damage, if any, is named in the report
  1  nothing could be read, nothing passes the filters, a query failed, or a result could not be written
  2  the command line is wrong
  3  done, but part of the trace is damaged or events are lost, and --strict was given
With --fail-if: 0 all limits kept, 1 one exceeded, 2 wrong or unreadable, 3 the runs do not tell (0 with --lenient)";

impl Arguments {
    /// Parses a command line. The order alone shows which side of a comparison was typed first.
    pub fn parse_in_order(typed: Vec<OsString>) -> Arguments {
        let matches = Arguments::command().try_get_matches_from(&typed);
        let matches = matches.unwrap_or_else(|error| crate::terminal::refuse(error, &typed));
        let mut arguments =
            Arguments::from_arg_matches(&matches).unwrap_or_else(|error| crate::terminal::refuse(error, &typed));
        let first = |name: &str| matches.indices_of(name).and_then(|mut indices| indices.next());
        arguments.compared_first = first("compare").is_some_and(|at| first("traces").is_none_or(|traces| at < traces));
        arguments.take_trace_from_explain();
        arguments.output.take_if(|path| path == Path::new("-"));
        arguments
    }

    /// Moves a trace behind `--explain`, which takes a topic there, to the other traces.
    fn take_trace_from_explain(&mut self) {
        let is_trace = |topic: &str| Path::new(topic).exists() || topic.contains(['/', '*', '?']);
        if let Some(topic) = self.explain.take_if(|topic| !is_topic(topic) && is_trace(topic)) {
            self.traces.push(topic);
            self.explain = Some(String::new());
        }
    }

    /// Says which option has no effect beside the others; `None` where all have one.
    pub fn without_effect(&self) -> Option<&'static str> {
        let prints_report = self.prints_report();
        if self.needs_no_trace() || self.wants_comparison() || self.workload.is_some() {
            return None;
        }
        if self.format == Format::Json
            && usize::from(prints_report) + usize::from(!self.what_if.is_empty()) + self.sql.len() > 1
        {
            return Some(
                "--format json writes one document; ask for one thing at a time, or for rows by --format ndjson alone",
            );
        }
        if self.html.is_some() && self.format != Format::Text && !prints_report && !self.wants_rows() {
            return Some(
                "--format says nothing of a page (--html); leave it out, or add --summary for a report beside it",
            );
        }
        if self.top.is_some() && !self.sql.is_empty() && !self.wants_report() {
            return Some("--top is about tables of the summary; write `limit N` into the query");
        }
        let pages_to_stdout = [&self.html, &self.workload].iter().any(|path| path.as_deref() == Some(Path::new("-")));
        if pages_to_stdout && self.output.is_none() && (prints_report || !self.sql.is_empty()) {
            return Some(
                "--html - writes a page to standard output, where other results go too; give them a file by -o",
            );
        }
        None
    }

    /// Returns `true` if everything that is requested is known without a trace.
    pub fn needs_no_trace(&self) -> bool {
        self.tables || self.show_sql.is_some() || self.explain.is_some() && self.traces.is_empty()
    }

    /// Returns `true` if the report is printed: it is what one gets without options.
    pub fn prints_report(&self) -> bool {
        let requested = self.summary || self.full || self.findings || !self.section.is_empty();
        let others = self.wants_rows() || self.wants_comparison() || !self.what_if.is_empty();
        requested || !others && self.html.is_none()
    }

    /// Returns `true` if the report is printed or becomes a page.
    pub fn wants_report(&self) -> bool {
        self.prints_report() || self.html.is_some()
    }

    /// Returns `true` if runs are compared, or one is judged by limits.
    pub fn wants_comparison(&self) -> bool {
        !self.compare.is_empty() || !self.fail_if.is_empty()
    }

    /// Returns `true` if single events are wanted: as rows, or as an export.
    pub fn wants_rows(&self) -> bool {
        self.exports_events() || self.parquet.is_some() || !self.sql.is_empty() || self.shell
    }

    /// Returns `true` if events are exported for a viewer.
    pub fn exports_events(&self) -> bool {
        self.perfetto.is_some() || self.chrome.is_some() || !self.export.is_empty() || self.view
    }

    /// Returns `true` if there may be something to remove when a signal comes.
    pub fn writes_files(&self) -> bool {
        let files = [&self.output, &self.parquet, &self.perfetto, &self.chrome, &self.html, &self.workload];
        files.iter().any(|path| path.is_some()) || !self.export.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_summary_is_what_one_gets_without_asking() {
        let parsed = |words: &[&str]| Arguments::try_parse_from([&["dlio-analyze"], words].concat());
        assert!(parsed(&["trace"]).unwrap().wants_report());
        assert!(!parsed(&["trace", "--sql", "select 1"]).unwrap().wants_report());
        assert!(!parsed(&["trace", "--view"]).unwrap().wants_report());
        assert!(parsed(&["trace", "--ui", "http://127.0.0.1:10000"]).is_err());
        assert!(parsed(&["trace", "--window", "1s..2s", "--from", "1s"]).is_err());
        assert!(parsed(&[]).unwrap().wants_report() && !parsed(&[]).unwrap().needs_no_trace());
        assert!(parsed(&["--explain"]).is_ok());
    }

    #[test]
    fn options_that_do_nothing_together_are_told() {
        let told = |words: &[&str]| {
            let words = [&["dlio-analyze", "t"], words].concat();
            Arguments::parse_in_order(words.into_iter().map(OsString::from).collect()).without_effect()
        };
        for (words, option) in [
            (&["--format", "json", "--html", "x.html"][..], "--format"),
            (&["--top", "3", "--sql", "select 1"], "--top"),
            (&["--format", "json", "--summary", "--sql", "select 1"], "--format json"),
            (&["--format", "json", "--sql", "select 1", "--sql", "select 2"], "--format json"),
            (&["--html", "-", "--summary"], "--html -"),
        ] {
            assert!(told(words).is_some_and(|why| why.starts_with(option)), "{words:?}");
        }
        for words in [
            &["--format", "json"][..],
            &["--html", "-"],
            &["--html", "x.html", "--summary", "--format", "json"],
            &["--top", "3", "--summary", "--sql", "select 1"],
            &["--html", "-", "--sql", "select 1", "-o", "rows"],
            &["--format", "csv", "--sql", "select 1", "--sql", "select 2"],
        ] {
            assert_eq!(told(words), None, "{words:?}");
        }
    }

    #[test]
    fn the_side_that_is_typed_first_is_the_one_before() {
        let parsed = |words: &[&str]| {
            let words = [&["dlio-analyze"], words].concat();
            let arguments = Arguments::parse_in_order(words.into_iter().map(OsString::from).collect());
            (arguments.compared_first, arguments.traces.len(), arguments.compare.len())
        };
        assert_eq!(parsed(&["a", "--compare", "b"]), (false, 1, 1));
        assert_eq!(parsed(&["--compare", "a1", "a2", "--", "b1", "b2", "b3"]), (true, 3, 2));
        assert_eq!(parsed(&["--compare", "a"]), (true, 0, 1));
    }

    #[test]
    fn filters_become_nanoseconds() {
        let words = ["dlio-analyze", "t", "--from", "10s", "--to", "1795226887.5", "--min-dur", "10us", "--pid", "1,2"];
        let selection = Arguments::try_parse_from(words).unwrap().selection;
        assert_eq!(selection.bounds(5), (Some(10_000_000_005), Some(1_795_226_887_500_000_000)));
        assert_eq!((selection.min_dur, selection.pid), (Some(10_000), vec![1, 2]));
    }
}
