//! The command-line arguments.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches, Parser};

use super::explanations::{is_topic, sections, sections_with_sql};
use super::selection::Selection;
use super::size::parse_size;
#[cfg(feature = "cluster")]
use crate::cluster::fleet::Workers;
use crate::compare::gate::Limit;
use crate::foreign_options;
use crate::replay::change::Change;
use crate::tables::output::Format;
use crate::viewer::forms::{parse_path, path_of};
use crate::viewer::serve::Ui;

/// Shows where the time of a traced program went.
///
/// Analyzes traces: files, directories (recursively) and patterns, in any supported format; formats can be mixed. The
/// format of a file is detected from its content.
#[derive(Parser, Clone, Debug)]
#[command(name = "dlio-analyze", version, max_term_width = 100, after_help = AFTER)]
pub struct Arguments {
    /// Trace files, directories or patterns [default: dlio-trace]
    #[arg(value_name = "TRACE")]
    pub traces: Vec<String>,

    /// Print the summary (the default if no other result is requested)
    #[arg(long)]
    pub summary: bool,

    /// Print all tables of the summary instead of one screen
    #[arg(long)]
    pub full: bool,

    /// Print only these sections of the summary, in full (--explain describes each)
    #[arg(long, value_name = "SECTION", value_delimiter = ',', ignore_case = true, value_parser = sections(), conflicts_with = "compare")]
    pub section: Vec<String>,

    /// Print only the findings, each with its evidence, the change to make and how to verify it (--full, instead of this
    /// option, also lists the measurements of the other rules)
    #[arg(long)]
    pub findings: bool,

    /// Print the result as JSON of at most 2,000 tokens, for programs that act on it: the verdict, its numbers, findings, the
    /// longest waits, and the commands that show more
    #[arg(long)]
    pub brief: bool,

    /// Predict the training time with a change (repeatable; a comma makes several changes together): storage=2, latency=2,
    /// bandwidth=2, workers=N, prefetch=N, order=any, persistent=1, decode=2, handover=0, compute=2, cores=N, quota=none (--explain what_if).
    /// Values of storage, latency, bandwidth, decode and compute are speedups; inf is allowed. With --compare, print
    /// the time predicted from the first run next to the measured time of the second
    #[arg(long, value_name = "CHANGE", value_parser = Change::parse, conflicts_with_all = ["workload", "fail_if"])]
    pub what_if: Vec<Change>,

    /// Read the rules' thresholds from FILE, with lines like `input-bound.wait = 0.1`
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,

    /// Ignore this rule (repeatable, or separated by commas)
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub ignore: Vec<String>,

    /// Run a query on the tables events, files, processes, hosts, waits, machine, jobs, counters, summary; @FILE reads the query
    /// from a file, - from standard input
    #[arg(long, value_name = "QUERY", allow_hyphen_values = true)]
    pub sql: Vec<String>,

    /// Allow queries to read and write other files: CREATE EXTERNAL TABLE, COPY TO
    #[arg(long)]
    pub sql_files: bool,

    /// List the tables and their columns; needs no trace
    #[arg(long)]
    pub tables: bool,

    /// Format of results; json is an object for a summary and an array of rows for a query. If two columns have the same
    /// name, the second is called name:1
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,

    /// Write results to FILE instead of standard output (-); an existing file is replaced when the results are complete
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Write the report as a single HTML page without external resources; - writes to standard output
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Write a `dlio bench` workload that reproduces the I/O in the trace, with the evidence for each value; - writes to standard
    /// output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["compare", "sql", "html", "parquet", "perfetto", "chrome", "export", "cut", "view", "shell", "fail_if"])]
    pub workload: Option<PathBuf>,

    /// Write the tables events, files, processes, hosts, waits, machine and summary as Parquet into this new directory
    #[arg(long, value_name = "DIR")]
    pub parquet: Option<PathBuf>,

    /// Write the events for a viewer; the extension of FILE selects the format (repeatable). For ui.perfetto.dev: .pftrace; .tar
    /// with one file per host (viewer v58 or later); .zip with one file per host and all torch.profiler profiles given as TRACE,
    /// on one timeline. For other tools: .json and .json.gz with Chrome's trace events, .pfw and .pfw.gz for DFTracer's tools
    #[arg(long, value_name = "FILE", value_parser = parse_path)]
    pub export: Vec<PathBuf>,

    /// Write the selected events as a trace of its own into this new directory, with the samples of its hosts and a note of its
    /// origin
    #[arg(long, value_name = "DIR")]
    pub cut: Option<PathBuf>,

    /// Compression of .pftrace and .tar; viewers before v58 cannot read zstd
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

    /// Open the trace in ui.perfetto.dev: it is served on 127.0.0.1 until the browser has fetched it, and never leaves this host
    #[arg(long)]
    pub view: bool,

    /// Viewer that --view opens: a directory with an offline copy, or an address
    #[arg(long, value_name = "DIR|URL", requires = "view", value_parser = Ui::parse)]
    pub ui: Option<Ui>,

    /// With --export and --view: include every event, even if there are more than a viewer can handle [default: an overview if
    /// there are too many events]
    #[arg(long)]
    pub all: bool,

    /// Replace an existing output
    #[arg(long)]
    pub force: bool,

    /// Run queries interactively, with a history on a terminal; .help lists the commands
    #[arg(long)]
    pub shell: bool,

    /// Compute exact quantiles of times for any number of events; reads the trace twice
    #[arg(long)]
    pub exact: bool,

    /// Rows per table of the summary [default: as many as fit on one screen; 15 with --full or --section, 20 in waits]
    #[arg(long, value_name = "N", value_parser = rows)]
    pub top: Option<usize>,

    /// Explain all sections of the summary, all rules and all metrics of a comparison, or only the one that is named
    #[arg(long, value_name = "SECTION|RULE", num_args = 0..=1, default_missing_value = "")]
    pub explain: Option<String>,

    /// Print the SQL for a section of the summary
    #[arg(long, value_name = "SECTION", value_parser = sections_with_sql())]
    pub show_sql: Option<String>,

    /// Compare with these runs; those before --compare are the baseline. TRACE is as above, or a report written with --format
    /// json. With several runs per side, run-to-run variation is taken into account: A1 A2 A3 A4 --compare B1 B2 B3 B4
    #[arg(long, value_name = "TRACE", num_args = 1.., help_heading = "Comparing")]
    pub compare: Vec<String>,

    /// Show how similar the I/O of both runs is: the cosine similarity of the features in DLIO's paper, the difference
    /// of each feature, and the distance between their distributions; one trace per side, text or JSON
    #[arg(long, requires = "compare", conflicts_with = "fail_if", help_heading = "Comparing")]
    pub similarity: bool,

    /// `true` if the side of --compare comes first on the command line.
    #[arg(skip)]
    pub compared_first: bool,

    /// The ids of the options given on the command line.
    #[arg(skip)]
    pub given: Vec<String>,

    /// Exit with status 1 if a metric exceeds this limit: 'wait.share > 5%', or with --compare 'io.s > +10%', 'wall_s > +2'
    /// (repeatable; --explain lists the metrics)
    #[arg(long, value_name = "LIMIT", value_parser = Limit::parse, help_heading = "Comparing")]
    pub fail_if: Vec<Limit>,

    /// Exit with 0 instead of 3 if the runs do not show whether a limit is exceeded
    #[arg(long, requires = "fail_if", help_heading = "Comparing")]
    pub lenient: bool,

    #[command(flatten)]
    pub selection: Selection,

    /// Exit with status 3 if part of the trace is damaged or events are lost
    #[arg(long)]
    pub strict: bool,

    /// Count all events again, even if nothing has changed, and store no cache next to the trace
    #[arg(long)]
    pub no_cache: bool,

    /// Memory for queries and --parquet, such as 512MB or 4GiB; queries that need more spill to disk (TMPDIR). Reading, counting
    /// and --export are not limited
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "1GiB")]
    pub memory: u64,

    /// Number of threads that read the trace [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,

    /// Read, count and query on these workers: host:port,host:port, or @FILE with one per line; local:N starts N processes here,
    /// slurm one on each node of the allocation. `dlio-analyze worker --help` shows how to start workers on other hosts
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "WORKERS", value_parser = Workers::parse, help_heading = "Several hosts",
          conflicts_with_all = ["compare", "fail_if", "workload", "similarity", "perfetto", "chrome", "export", "cut", "view"])]
    pub workers: Option<Workers>,

    /// File with the token that workers on other hosts were started with [default: DLIO_CLUSTER_TOKEN]
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "FILE", requires = "workers", help_heading = "Several hosts")]
    pub token: Option<PathBuf>,

    /// Hide the progress bar, even on a terminal
    #[arg(long)]
    pub no_progress: bool,

    /// Write progress to standard error as lines `progress DONE ALL EVENTS`, in bytes and events, for a program that draws it
    #[arg(long, hide = true, conflicts_with = "no_progress")]
    pub progress_lines: bool,

    /// Print the completion script for a shell
    #[arg(long, value_name = "SHELL", value_enum)]
    pub completions: Option<clap_complete::Shell>,

    /// Write the manual page into a directory
    #[arg(long, value_name = "DIR")]
    pub man: Option<PathBuf>,
}

fn rows(typed: &str) -> Result<usize, String> {
    typed.trim().parse().map_err(|_| "expected a number of rows, such as 20".into())
}

const AFTER: &str = "\
Examples:
  dlio-analyze                          the trace in ./dlio-trace
  dlio-analyze dlio-trace/ --full
  dlio-analyze dlio-trace/ --from 10s --to 20s --cat posix
  dlio-analyze dlio-trace/ --sql \"select name, count(*) n, sum(bytes) b from events group by name order by n desc\"
  dlio-analyze dlio-trace/ --html report.html
  dlio-analyze 'runs/*/trace' --format json -o summary.json
  dlio-analyze trace/ --brief           the result for a program, as JSON of at most 2,000 tokens
  dlio-analyze --tables
  dlio-analyze trace/ --sql @slow.sql --format csv
  dlio-analyze trace/ --export all.pftrace --from 10s --to 20s
  dlio-analyze trace/ torch/*.json.gz --export run.zip
  dlio-analyze trace/ --view --epoch 2 --rank 0
  dlio-analyze trace/ --cut small/ --step 4210..4220 --rank 3
  dlio-analyze before/ --compare after/ --fail-if 'step.mean_s > +5%'
  dlio-analyze before/ --compare after/ --format markdown -o comment.md
  dlio-analyze trace/ --parquet tables/ && dlio-analyze tables/ --shell
  dlio-analyze /scratch/trace --workers node1:7070,node2:7070 --token ~/.dlio-token

Exit status:
  0  done; the report lists damage, if any
  1  nothing could be read, no event matches the filters, a query failed, or a result could not be written
  2  the command line is wrong
  3  done, but part of the trace is damaged or events are lost, and --strict was given
With --fail-if: 0 if all limits are kept, 1 if at least one is exceeded, 2 if a limit is malformed or a run cannot be read, 3 (0 with \
--lenient) if the runs do not show which is the case";

impl Arguments {
    /// Parses a command line. The order of arguments decides which side of a comparison is the first.
    pub fn parse_in_order(typed: Vec<OsString>) -> Arguments {
        let matches = Arguments::command().try_get_matches_from(&typed);
        let matches = matches.unwrap_or_else(|error| {
            crate::terminal::refuse_with(error, &typed, "dlio-analyze", foreign_options::ANALYZE)
        });
        let mut arguments =
            Arguments::from_arg_matches(&matches).unwrap_or_else(|error| crate::terminal::refuse(error, &typed));
        let first = |name: &str| matches.indices_of(name).and_then(|mut indices| indices.next());
        arguments.compared_first = first("compare").is_some_and(|at| first("traces").is_none_or(|traces| at < traces));
        let is_typed = |id: &&clap::Id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine);
        arguments.given = matches.ids().filter(is_typed).map(|id| id.to_string()).collect();
        arguments.take_trace_from_explain();
        arguments.output.take_if(|path| path == Path::new("-"));
        arguments
    }

    /// Moves a trace that follows `--explain`, where a topic is expected, to the other traces.
    fn take_trace_from_explain(&mut self) {
        let is_trace = |topic: &str| Path::new(topic).exists() || topic.contains(['/', '*', '?']);
        if let Some(topic) = self.explain.take_if(|topic| !is_topic(topic) && is_trace(topic)) {
            self.traces.push(topic);
            self.explain = Some(String::new());
        }
    }

    /// Returns `true` if no requested answer needs a trace.
    pub fn needs_no_trace(&self) -> bool {
        self.tables || self.show_sql.is_some() || self.explain.is_some() && self.traces.is_empty()
    }

    /// Returns `true` if completions or a manual page are requested.
    pub fn is_about_itself(&self) -> bool {
        self.completions.is_some() || self.man.is_some()
    }

    /// Returns `true` if the report is printed, which is the default.
    pub fn prints_report(&self) -> bool {
        let requested = self.summary || self.full || self.findings || !self.section.is_empty();
        let others = self.wants_rows() || self.wants_comparison() || !self.what_if.is_empty() || self.brief;
        requested || !others && self.html.is_none()
    }

    /// Returns `true` if the report is printed or written as a page.
    pub fn wants_report(&self) -> bool {
        self.prints_report() || self.html.is_some() || self.brief
    }

    /// Returns `true` if runs are compared, or limits judge one run.
    pub fn wants_comparison(&self) -> bool {
        !self.compare.is_empty() || !self.fail_if.is_empty()
    }

    /// Returns `true` if single events are needed, as rows or for an export.
    pub fn wants_rows(&self) -> bool {
        self.exports_events() || self.parquet.is_some() || !self.sql.is_empty() || self.shell
    }

    /// Returns `true` if events are exported for a viewer.
    pub fn exports_events(&self) -> bool {
        self.perfetto.is_some() || self.chrome.is_some() || !self.export.is_empty() || self.cut.is_some() || self.view
    }

    /// Returns `true` if a signal may have to remove unfinished files.
    pub fn writes_files(&self) -> bool {
        let files = [&self.output, &self.parquet, &self.cut, &self.perfetto, &self.chrome, &self.html, &self.workload];
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
