//! The command `dlio-analyze`: what was typed becomes a scan, a report, queries, files.

mod arguments;
mod complaint;
mod explain;
mod listing;
mod nothing;
mod picture;
mod progress;
mod run;
mod shell;
mod size;
mod when;
mod window;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

pub use arguments::Arguments;

/// Exit status when damage was found and `--strict` asked for it.
const DAMAGED: u8 = 3;

/// `dlio-analyze completions bash` is how dlio says it; a trace of that name is one.
fn plain(mut typed: Vec<OsString>) -> Vec<OsString> {
    if typed.len() == 3 && typed[1] == "completions" && !Path::new("completions").exists() {
        typed[1] = "--completions".into();
    }
    typed
}

/// Made in memory first: the generator takes every write for granted.
fn print_completions(shell: clap_complete::Shell) -> Result<(), run::Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "dlio-analyze", &mut script);
    let mut out = std::io::stdout().lock();
    out.write_all(&script).and_then(|()| out.flush()).map_err(run::Failure::Write)
}

pub fn main() -> ExitCode {
    let arguments = Arguments::parse_from(plain(std::env::args_os().collect()));
    let outcome = match arguments.completions {
        Some(shell) => print_completions(shell).map(|()| false),
        None => run::run(&arguments),
    };
    match outcome {
        Ok(damaged) if damaged && arguments.strict => ExitCode::from(DAMAGED),
        Ok(_) => ExitCode::SUCCESS,
        // `dlio-analyze ... | head` is no error.
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dlio-analyze: {error}");
            ExitCode::FAILURE
        }
    }
}
