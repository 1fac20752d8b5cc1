//! The only way to standard output and standard error: what a terminal would obey is shown as a mark.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, IsTerminal, Stdout, Write};

use dlio_schemas::secrets::without_logins;
use dlio_schemas::visible::{Visible, visible};

/// Standard output: byte for byte into a file or a pipe.
pub fn stdout() -> Visible<Stdout> {
    let stdout = io::stdout();
    let is_terminal = stdout.is_terminal();
    Visible::new(stdout, is_terminal)
}

/// A line on standard error. That nobody reads it ends nothing, as it does with `eprintln`.
pub fn warn(text: impl Display) {
    let _ = io::stderr().write_all(visible(&without_logins(&format!("{text}\n"))).as_bytes());
}

/// Ends the program over its command line. Arguments that a terminal would obey are printed without colours.
pub fn refuse(error: clap::Error, typed: &[OsString]) -> ! {
    let plain =
        |word: &OsString| word.to_str().is_some_and(|word| visible(word) == word && without_logins(word) == word);
    if !error.use_stderr() || typed.iter().all(plain) {
        error.exit();
    }
    warn(error.to_string().trim_end());
    std::process::exit(error.exit_code())
}
