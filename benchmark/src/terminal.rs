//! What is said to whoever called. An answer is the point of its command and must arrive; a word beside a work that goes
//! on may find nobody listening, and the work goes on.
//!
//! ```text
//!                 reader gone (`| head`)    cannot be written (`> /dev/full`)
//! answer          done                      a failure
//! say, line       silence                   one warning, then silence
//! warn            silence                   silence
//! ```

use crate::failure::{Failure, Kind, Outcome};
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// The answer a command was called for, on standard output.
pub fn answer(text: &str) -> Outcome<()> {
    written(&mut io::stdout().lock(), text)
}

fn written(out: &mut impl Write, text: &str) -> Outcome<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(Kind::System, format!("the output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// A text beside the work, on standard output.
pub fn say(text: impl Display) {
    static NOTED: AtomicBool = AtomicBool::new(false);
    if let Err(failure) = written(&mut io::stdout().lock(), &text.to_string())
        && !NOTED.swap(true, Ordering::Relaxed)
    {
        warn(format_args!("warning: {failure}; the run goes on"));
    }
}

/// A line beside the work, on standard output.
pub fn line(text: impl Display) {
    say(format_args!("{text}\n"));
}

/// A line on standard error. If that is gone too there is nobody left to tell.
pub fn warn(text: impl Display) {
    let _ = io::stderr().lock().write_all(format!("{text}\n").as_bytes());
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
    fn a_reader_that_left_is_no_failure_and_a_full_disk_is() {
        assert_eq!(written(&mut Refusing(ErrorKind::BrokenPipe), "x"), Ok(()));
        let failure = written(&mut Refusing(ErrorKind::StorageFull), "x").unwrap_err();
        assert_eq!(failure.exit_code(), 4);
    }
}
