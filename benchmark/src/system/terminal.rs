//! Output for the user. An answer is the purpose of its command and must arrive; a progress line may have no reader,
//! and the work continues.
//!
//! ```text
//!                 reader gone (`| head`)    cannot be written (`> /dev/full`)
//! answer          done                      a failure
//! say, line       silence                   one warning, then silence
//! warn            silence                   silence
//! ```

use crate::failure::{Failure, Kind, Outcome};
use dlio_schemas::secrets::without_logins;
use dlio_schemas::usage_errors;
use dlio_schemas::visible::{Visible, visible};
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Prints the answer of a command on standard output.
pub fn answer(text: &str) -> Outcome<()> {
    written(&mut stdout(), text)
}

fn written(out: &mut impl Write, text: &str) -> Outcome<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(Kind::System, format!("cannot write the output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints progress text on standard output.
pub fn say(text: impl Display) {
    static NOTED: AtomicBool = AtomicBool::new(false);
    if let Err(failure) = written(&mut stdout(), &without_logins(&text.to_string()))
        && !NOTED.swap(true, Ordering::Relaxed)
    {
        warn(format_args!("warning: {failure}; the run continues"));
    }
}

/// Prints a progress line on standard output.
pub fn line(text: impl Display) {
    say(format_args!("{text}\n"));
}

/// Prints a line on standard error; a failure to print it is ignored.
pub fn warn(text: impl Display) {
    let _ = io::stderr().lock().write_all(visible(&without_logins(&format!("{text}\n"))).as_bytes());
}

/// Returns standard output, with control characters escaped for a terminal.
fn stdout() -> Visible<Stdout> {
    let stdout = io::stdout();
    let is_terminal = stdout.is_terminal();
    Visible::new(stdout, is_terminal)
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

/// Wraps words into lines that start with `indent`.
pub fn wrapped<'a>(words: impl Iterator<Item = &'a str>, indent: &str, width: usize) -> String {
    let (mut out, mut line) = (String::new(), String::new());
    for word in words {
        if !line.is_empty() && line.chars().count() + word.chars().count() + 1 > width {
            out = out + &line + "\n";
            line.clear();
        }
        line += if line.is_empty() { indent } else { " " };
        line += word;
    }
    out + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Refusing(ErrorKind);

    impl Write for Refusing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn closed_pipe_is_ignored_but_full_disk_fails() {
        assert_eq!(written(&mut Refusing(ErrorKind::BrokenPipe), "x"), Ok(()));
        let failure = written(&mut Refusing(ErrorKind::StorageFull), "x").unwrap_err();
        assert_eq!(failure.exit_code(), 4);
    }
}
