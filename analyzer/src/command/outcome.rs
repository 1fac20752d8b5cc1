//! The outcome of an invocation, and how wide it may be printed.

use std::io::IsTerminal;

use super::arguments::Arguments;
use crate::compare::gate::Verdict;
use crate::summary::report::damage::{DamageNote, damage_sentence};

/// The outcome of an invocation that did not fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Part of the trace is damaged, or events are lost.
    pub lacking: bool,
    /// Filters let nothing through.
    pub nothing_passed: bool,
    /// The verdict on the limits that were given.
    pub limits: Option<Verdict>,
}

/// Damage is said on stderr too, so that a pipe does not swallow it.
pub fn report_damage(damage: &[DamageNote]) -> bool {
    let sentence = damage_sentence(damage);
    if let Some(sentence) = &sentence {
        let hint = if std::io::stderr().is_terminal() { " (the report's section Damage names them)" } else { "" };
        notice!("dlio-analyze: {sentence}{hint}");
    }
    sentence.is_some()
}

/// Lines wider than this are hard to read, and narrower ones hold no table.
const WIDTHS: std::ops::RangeInclusive<usize> = 40..=100;

/// Of the terminal, where one is written to; everywhere else what all of them have.
pub fn width(arguments: &Arguments) -> usize {
    let terminal = terminal_size::terminal_size_of(std::io::stdout()).filter(|_| arguments.output.is_none());
    terminal.map_or(80, |(width, _)| (width.0 as usize).clamp(*WIDTHS.start(), *WIDTHS.end()))
}
