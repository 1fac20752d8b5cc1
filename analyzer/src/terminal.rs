//! The only access to standard output and standard error: control characters are replaced by a visible mark on a
//! terminal.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, IsTerminal, Stdout, Write};
use std::os::fd::AsFd;

use dlio_schemas::secrets::without_logins;
use dlio_schemas::usage_errors;
use dlio_schemas::visible::{Visible, visible};
use dlio_schemas::words::without_error_numbers;

use crate::foreign_options::{self, Equivalents};

/// Returns standard output: unchanged bytes for a file or a pipe.
pub fn stdout() -> Visible<Stdout> {
    let stdout = io::stdout();
    let is_terminal = stdout.is_terminal();
    Visible::new(stdout, is_terminal)
}

/// Returns standard output without a buffer, for large writes: the library's own buffer searches each of them for the end
/// of a line.
pub fn unbuffered_stdout() -> io::Result<Visible<File>> {
    let stdout = io::stdout();
    let is_terminal = stdout.is_terminal();
    Ok(Visible::new(File::from(stdout.as_fd().try_clone_to_owned()?), is_terminal))
}

/// Prints a line on standard error. Unlike with `eprintln`, a failure to print it is ignored.
pub fn warn(text: impl Display) {
    let text = without_logins(&without_error_numbers(&format!("{text}\n")));
    let _ = io::stderr().write_all(visible(&text).as_bytes());
}

/// Ends the program with an error in its command line; an option of other tools is answered with the one that does the
/// same here.
pub fn refuse_with(error: clap::Error, typed: &[OsString], program: &str, known: Equivalents) -> ! {
    if let Some(message) = foreign_options::message(&error, program, known) {
        warn(message);
        std::process::exit(error.exit_code());
    }
    refuse(error, typed)
}

/// Ends the program with an error in its command line. Arguments with control characters are printed without colors.
pub fn refuse(error: clap::Error, typed: &[OsString]) -> ! {
    if let Some(message) = usage_errors::message(&error, typed) {
        warn(message);
        std::process::exit(error.exit_code());
    }
    let plain =
        |word: &OsString| word.to_str().is_some_and(|word| visible(word) == word && without_logins(word) == word);
    if !error.use_stderr() || typed.iter().all(plain) {
        error.exit();
    }
    warn(error.to_string().trim_end());
    std::process::exit(error.exit_code())
}
