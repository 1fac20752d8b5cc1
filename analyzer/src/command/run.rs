//! Runs one invocation, from the arguments to the exit status.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

use super::answers;
use super::arguments::Arguments;
use super::combinations::without_effect;
use super::completions::{print_completions, write_manual};
use super::outcome::Outcome;
use super::question::Question;
use super::refusals::failure::Failure;
use super::shared_trace::SharedTrace;
use super::stdout::WatchedStdout;
#[cfg(feature = "cluster")]
use super::worker;
use crate::atomic_file::Output;
use crate::compare::gate::Verdict;
use crate::terminal::unbuffered_stdout;
use crate::unfinished;

/// Exit status if damage was found and `--strict` was given.
const DAMAGED: u8 = 3;

/// Exit status if the command line is wrong, or limits were set but cannot be judged.
const UNUSABLE: u8 = 2;
const UNDECIDED: u8 = 3;

pub fn main() -> ExitCode {
    let typed: Vec<OsString> = std::env::args_os().collect();
    #[cfg(feature = "cluster")]
    if worker::is_meant(&typed) {
        return worker::main(&typed);
    }
    let arguments = Arguments::parse_in_order(plain(typed));
    let outcome = match without_effect(&arguments) {
        Some(why) => Err(Failure::WithoutEffect(why)),
        None => run(&arguments),
    };
    match outcome {
        Ok(Outcome { limits: Some(Verdict::Exceeded), .. }) => ExitCode::FAILURE,
        Ok(Outcome { limits: Some(Verdict::Undecided), .. }) if !arguments.lenient => ExitCode::from(UNDECIDED),
        Ok(outcome) if outcome.lacking && arguments.strict => ExitCode::from(DAMAGED),
        Ok(outcome) if outcome.nothing_passed => ExitCode::FAILURE,
        Ok(_) => ExitCode::SUCCESS,
        // `dlio-analyze ... | head` is not an error.
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            notice!("dlio-analyze: {error}");
            let is_usage = error.is_usage() || !arguments.fail_if.is_empty();
            if is_usage { ExitCode::from(UNUSABLE) } else { ExitCode::FAILURE }
        }
    }
}

/// Turns `dlio-analyze completions bash`, which is how dlio passes it, into an option, unless a trace of that name
/// exists.
fn plain(mut typed: Vec<OsString>) -> Vec<OsString> {
    if typed.len() == 3 && typed[1] == "completions" && !Path::new("completions").exists() {
        typed[1] = "--completions".into();
    }
    typed
}

fn run(typed: &Arguments) -> Result<Outcome, Failure> {
    match (typed.completions, &typed.man) {
        (Some(shell), _) => return print_completions(shell).map(|()| Outcome::default()),
        (None, Some(folder)) => return write_manual(folder).map(|()| Outcome::default()),
        (None, None) => {}
    }
    if typed.writes_files() {
        // In the shell, Ctrl-C only ends a query.
        unfinished::watch(!typed.shell).map_err(Failure::Write)?;
    }
    perform(typed).map_err(|failure| match (failure, &typed.output) {
        (Failure::Write(error), Some(path)) if error.kind() != ErrorKind::BrokenPipe => {
            Failure::unwritable(path, error)
        }
        (failure, _) => failure,
    })
}

/// Checks all requested answers, then gives them.
fn perform(typed: &Arguments) -> Result<Outcome, Failure> {
    let mut out = output(typed.output.as_deref())?;
    let trace = SharedTrace::new(Question::of(typed)?);
    let mut answers = answers::requested(typed);
    for answer in &mut answers {
        answer.check(&trace.question)?;
    }
    let mut outcome = Outcome::default();
    for answer in &mut answers {
        outcome = outcome.and(answer.give(&trace, &mut out)?);
    }
    out.finish().map_err(Failure::Write)?;
    for answer in &mut answers {
        answer.linger(&trace)?;
    }
    Ok(outcome.and(trace.outcome()))
}

/// Opens the output before the long work.
fn output(path: Option<&Path>) -> Result<Output, Failure> {
    let opened = unbuffered_stdout().and_then(|stdout| Output::to(path, WatchedStdout(stdout)));
    opened.map_err(|error| Failure::unwritable(path.unwrap_or(Path::new("-")), error))
}
