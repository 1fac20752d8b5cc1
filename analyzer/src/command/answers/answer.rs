//! The interface that every answer implements.

use std::io::Write;

use crate::atomic_file::Output;
use crate::command::outcome::Outcome;
use crate::command::question::Question;
use crate::command::refusals::failure::Failure;
use crate::command::shared_trace::SharedTrace;

/// A requested answer, with the options that apply only to it.
pub trait Answer {
    /// Rejects invalid arguments before any work starts.
    fn check(&mut self, _question: &Question) -> Result<(), Failure> {
        Ok(())
    }

    /// Does the work and writes the result.
    fn give(&mut self, trace: &SharedTrace, out: &mut Output) -> Result<Outcome, Failure>;

    /// Continues after the output is complete.
    fn linger(&mut self, _trace: &SharedTrace) -> Result<(), Failure> {
        Ok(())
    }
}

/// Writes a text to the output.
pub fn print(text: &str, out: &mut Output) -> Result<Outcome, Failure> {
    out.write_all(text.as_bytes()).map_err(Failure::Write)?;
    Ok(Outcome::default())
}
