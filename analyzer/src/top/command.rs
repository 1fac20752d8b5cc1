//! The command `dlio top`.

use std::ffi::OsString;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{CommandFactory, Parser, ValueEnum};
use ratatui::Terminal;

use super::listen::{parse_address, serve};
use super::screen::{View, draw};
use super::snapshot::{Order, Snapshot};
use super::terminal::{Happened, Screen};
use super::watch::Watch;
use super::{openmetrics, text};
use crate::amount::{self, Amount};
use crate::foreign_options;

/// Shows the current activity of traced programs: throughput by operation, the busiest files, each process, and whether
/// training waits for data.
///
/// It reads the traces that programs write anyway, so watching costs them nothing. A call is visible after it has returned.
#[derive(Parser, Debug)]
#[command(name = "dlio-top", version, max_term_width = 100, after_help = AFTER)]
struct Arguments {
    /// Directory that programs trace into
    #[arg(value_name = "DIR", default_value = "dlio-trace")]
    dir: PathBuf,

    /// Print one snapshot and exit; the default without a terminal
    #[arg(long)]
    once: bool,

    /// Output format; all except text print one snapshot
    #[arg(long, value_enum, default_value = "text")]
    format: Format,

    /// Time between snapshots, in seconds or with a unit: 0.1 to 3600, 500ms, 1min
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = parse_interval)]
    interval: Duration,

    /// Serve gauges to Prometheus at http://ADDR:PORT/metrics [default of ADDR: 127.0.0.1, this host only]
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = parse_address, conflicts_with_all = ["once", "format", "interval", "sort"])]
    listen: Option<SocketAddr>,

    /// Sort order of tables
    #[arg(long, value_enum, default_value = "bytes")]
    sort: Order,

    /// Print the completion script for a shell
    #[arg(long, value_name = "SHELL", value_enum)]
    completions: Option<clap_complete::Shell>,

    /// Write the manual page into a directory
    #[arg(long, value_name = "DIR")]
    man: Option<PathBuf>,
}

const AFTER: &str = "\
Keys: b, c, t, n sort by bytes, calls, time, name; space pauses and resumes; + and - change the interval; ? shows the \
keys; q quits.
Formats:
  json         one object: `schema` dlio-top, `version` 1; numbers for the interval, and since the start of each process
  openmetrics  counters since the start of each process, for Prometheus; one snapshot, not measured over an interval
Numbers by operation and file are exact while dlio top can read every event, and marked as a sample otherwise; the number \
of events is always exact. DLIO_TRACE_MODE=summary makes all numbers exact and --once cheap, regardless of the length of \
the run.

Example for Prometheus: dlio-top trace/ --listen 9411

Exit status: 0 done; 1 the directory does not exist or cannot be read; 2 the command line is wrong";

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Format {
    Text,
    Json,
    Openmetrics,
}

const INTERVALS: std::ops::RangeInclusive<f64> = 0.1..=3600.0;

fn parse_interval(text: &str) -> Result<Duration, String> {
    let amount = Amount::parse(text, amount::TIMES).ok_or("expected a time, such as 2, 0.5 or 500ms")?;
    let seconds = amount.scale.map_or(amount.number, |_| amount.in_base() / 1e9);
    match INTERVALS.contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(format!("expected between {} and {} seconds", INTERVALS.start(), INTERVALS.end())),
    }
}

pub fn main() -> ExitCode {
    let typed = plain(std::env::args_os().collect());
    let arguments = Arguments::try_parse_from(&typed)
        .unwrap_or_else(|error| crate::terminal::refuse_with(error, &typed, "dlio-top", foreign_options::TOP));
    if let Some(shell) = arguments.completions {
        return ended(print_completions(shell));
    }
    if let Some(folder) = &arguments.man {
        return ended(write_manual(folder));
    }
    if let Some(address) = arguments.listen {
        return ended(Watch::new(&arguments.dir, false).and_then(|watch| serve(address, watch)));
    }
    let has_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let is_once = arguments.once || arguments.format != Format::Text || !has_terminal;
    let outcome = if is_once { print_once(&arguments) } else { watch(&arguments) };
    ended(outcome)
}

fn ended(outcome: io::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            notice!("dlio-top: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Turns `completions SHELL`, which is how dlio passes it, into the option; a directory named `completions` remains a
/// directory.
fn plain(mut typed: Vec<OsString>) -> Vec<OsString> {
    if typed.len() == 3 && typed[1] == "completions" && !Path::new("completions").exists() {
        typed[1] = "--completions".into();
    }
    typed
}

/// Prints completions. They are generated in memory first, because the generator panics when a write fails.
fn print_completions(shell: clap_complete::Shell) -> io::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "dlio-top", &mut script);
    let mut out = crate::terminal::stdout();
    out.write_all(&script).and_then(|()| out.flush())
}

/// Writes the manual page, which has the content of `--help`.
fn write_manual(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Arguments::command(), folder))
}

/// Adds the path and a hint to an error.
fn trouble(dir: &Path, error: &io::Error) -> io::Error {
    let what = match error.kind() {
        ErrorKind::NotFound => {
            format!(
                "cannot watch {}: the directory does not exist yet; dlio top waits for it only if it runs on a terminal, without --once",
                dir.display()
            )
        }
        ErrorKind::NotADirectory => {
            format!("{}: not a directory; pass the directory that programs trace into", dir.display())
        }
        _ => format!("cannot read {}: {error}", dir.display()),
    };
    io::Error::other(what)
}

fn print_once(arguments: &Arguments) -> io::Result<()> {
    let mut watch = Watch::new(&arguments.dir, true)?;
    let look = |watch: &mut Watch| watch.look().map_err(|error| trouble(&arguments.dir, &error));
    let mut snapshot = look(&mut watch)?;
    // Scrapers compute rates themselves. Without processes there are no rates.
    if arguments.format != Format::Openmetrics && !snapshot.processes.is_empty() {
        std::thread::sleep(arguments.interval);
        snapshot = look(&mut watch)?;
    }
    snapshot.sort(arguments.sort);
    let printed = match arguments.format {
        Format::Text => dlio_schemas::visible::visible(&text::print(&snapshot)),
        Format::Json => serde_json::to_string_pretty(&snapshot)? + "\n",
        Format::Openmetrics => openmetrics::print(&snapshot),
    };
    let mut out = crate::terminal::stdout();
    out.write_all(printed.as_bytes())?;
    out.flush()
}

/// The first snapshot has no rates, so the second one follows soon.
const SOON: Duration = Duration::from_millis(500);

fn watch(arguments: &Arguments) -> io::Result<()> {
    let mut watch = Watch::new(&arguments.dir, false)?;
    let mut view = View { order: arguments.sort, interval: arguments.interval, is_paused: false, is_help: false };
    let mut terminal = Terminal::new(Screen::take()?)?;
    let mut snapshot = look(&mut watch)?;
    let mut until = Instant::now() + view.interval.min(SOON);
    loop {
        if let Ok(snapshot) = &mut snapshot {
            snapshot.sort(view.order);
        }
        terminal.draw(|frame| draw(frame, snapshot.as_ref().map_err(String::as_str), &view))?;
        match terminal.backend_mut().wait(until)? {
            Happened::Stop | Happened::Key('q' | 'Q') => return Ok(()),
            Happened::Key(key) => {
                let before = view.interval;
                view = pressed(view, key);
                if view.interval != before {
                    until = until.min(Instant::now() + view.interval);
                }
            }
            Happened::Resized | Happened::Nothing => {}
        }
        if Instant::now() >= until {
            until = Instant::now() + view.interval;
            if !view.is_paused {
                snapshot = look(&mut watch)?;
            }
        }
    }
}

/// Takes a snapshot; returns a message if the directory does not exist yet.
fn look(watch: &mut Watch) -> io::Result<Result<Snapshot, String>> {
    match watch.look() {
        Ok(snapshot) => Ok(Ok(snapshot)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let dir = watch.dir().display();
            Ok(Err(format!(
                "Waiting for {dir}: no program has traced into it yet. dlio trace -o {dir} -- COMMAND starts one."
            )))
        }
        Err(error) => Err(trouble(watch.dir(), &error)),
    }
}

/// Returns the view after a key press.
fn pressed(view: View, key: char) -> View {
    let scaled = |times: f64| {
        let seconds = (view.interval.as_secs_f64() * times).clamp(*INTERVALS.start(), *INTERVALS.end());
        Duration::from_secs_f64((seconds * 1000.0).round() / 1000.0)
    };
    match key {
        'b' => View { order: Order::Bytes, ..view },
        'c' => View { order: Order::Calls, ..view },
        't' => View { order: Order::Time, ..view },
        'n' => View { order: Order::Name, ..view },
        ' ' => View { is_paused: !view.is_paused, ..view },
        '?' | 'h' => View { is_help: !view.is_help, ..view },
        '+' => View { interval: scaled(2.0), ..view },
        '-' => View { interval: scaled(0.5), ..view },
        _ => view,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
        for (text, ms) in [("0.5", 500), ("500ms", 500), ("2s", 2000), ("1min", 60_000)] {
            assert_eq!(parse_interval(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert!(["0", "-1", "nan", "inf", "two", "1e9", "2h", "1us"].iter().all(|text| parse_interval(text).is_err()));
    }

    #[test]
    fn keys_choose_and_other_keys_do_nothing() {
        let view = View { order: Order::Bytes, interval: Duration::from_secs(2), is_paused: false, is_help: false };
        assert_eq!(pressed(view, 'c').order, Order::Calls);
        assert!(pressed(view, ' ').is_paused && !pressed(pressed(view, ' '), ' ').is_paused);
        assert_eq!(pressed(view, '-').interval, Duration::from_secs(1));
        let fastest = (0..20).fold(view, |view, _| pressed(view, '-'));
        assert_eq!(fastest.interval, Duration::from_millis(100));
        assert_eq!(pressed(view, 'x'), view);
        assert!(pressed(view, '?').is_help && !pressed(pressed(view, '?'), '?').is_help);
    }
}
