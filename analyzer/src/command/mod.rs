//! The command `dlio-analyze`: what was typed becomes a scan, a report, queries, files.

mod arguments;
mod comparison;
mod explanations;
mod exports;
mod html;
mod interrupts;
mod limits;
mod listing;
mod open_trace;
mod outcome;
mod progress;
mod refusals;
mod run;
mod run_query;
mod runs;
mod shell;
mod similarity;
pub mod size;
mod stdout;
pub mod time_argument;
mod time_range;
mod time_window;
#[cfg(feature = "cluster")]
mod worker;
#[cfg(feature = "cluster")]
mod workers;
#[cfg(not(feature = "cluster"))]
#[path = "workers_disabled.rs"]
mod workers;
mod workload;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;

use crate::compare::gate::Verdict;
pub use arguments::Arguments;
use outcome::Outcome;
use refusals::failure;

/// Exit status when damage was found and `--strict` asked for it.
const DAMAGED: u8 = 3;

/// Exit statuses where limits are asked about and not answered.
const UNUSABLE: u8 = 2;
const UNDECIDED: u8 = 3;

/// `dlio-analyze completions bash` is how dlio says it; a trace of that name is one.
fn plain(mut typed: Vec<OsString>) -> Vec<OsString> {
    if typed.len() == 3 && typed[1] == "completions" && !Path::new("completions").exists() {
        typed[1] = "--completions".into();
    }
    typed
}

/// Made in memory first: the generator takes every write for granted.
fn print_completions(shell: clap_complete::Shell) -> Result<(), failure::Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "dlio-analyze", &mut script);
    let mut out = crate::terminal::stdout();
    out.write_all(&script).and_then(|()| out.flush()).map_err(failure::Failure::Write)
}

/// The manual page: `--help` for `man`.
fn write_manual(folder: &Path) -> Result<(), failure::Failure> {
    let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Arguments::command(), folder));
    written.map_err(|error| failure::Failure::unwritable(folder, error))
}

pub fn main() -> ExitCode {
    let typed: Vec<OsString> = std::env::args_os().collect();
    #[cfg(feature = "cluster")]
    if worker::is_meant(&typed) {
        return worker::main(&typed);
    }
    let arguments = Arguments::parse_in_order(plain(typed));
    let outcome = match (arguments.completions, &arguments.man) {
        (Some(shell), _) => print_completions(shell).map(|()| Outcome::default()),
        (None, Some(folder)) => write_manual(folder).map(|()| Outcome::default()),
        (None, None) => run::run(&arguments),
    };
    match outcome {
        Ok(Outcome { limits: Some(Verdict::Exceeded), .. }) => ExitCode::FAILURE,
        Ok(Outcome { limits: Some(Verdict::Undecided), .. }) if !arguments.lenient => ExitCode::from(UNDECIDED),
        Ok(outcome) if outcome.lacking && arguments.strict => ExitCode::from(DAMAGED),
        Ok(outcome) if outcome.nothing_passed => ExitCode::FAILURE,
        Ok(_) => ExitCode::SUCCESS,
        // `dlio-analyze ... | head` is no error.
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            notice!("dlio-analyze: {error}");
            if arguments.fail_if.is_empty() { ExitCode::FAILURE } else { ExitCode::from(UNUSABLE) }
        }
    }
}
