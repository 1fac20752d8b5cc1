//! What every answer does.

use std::io::Write;

use crate::atomic_file::Output;
use crate::command::outcome::Outcome;
use crate::command::question::Question;
use crate::command::refusals::failure::Failure;
use crate::command::shared_trace::SharedTrace;

/// An answer that was requested, with the options that are its own.
pub trait Answer {
    /// Refuses what was typed wrong, before any work.
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
