//! The outcome of an invocation that did not fail.

use std::io::IsTerminal;

use crate::compare::gate::Verdict;
use crate::summary::report::damage::{DamageNote, damage_sentence};

/// Damage, empty selections and limit verdicts, which determine the exit status.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Part of the trace is damaged, or events are lost.
    pub lacking: bool,
    /// The filters select nothing.
    pub nothing_passed: bool,
    /// The verdict on the limits, if there are any.
    pub limits: Option<Verdict>,
}

impl Outcome {
    /// Combines the outcomes of two answers.
    pub fn and(self, other: Outcome) -> Outcome {
        Outcome {
            lacking: self.lacking || other.lacking,
            nothing_passed: self.nothing_passed || other.nothing_passed,
            limits: self.limits.or(other.limits),
        }
    }
}

/// Reports damage on standard error, so that a pipe does not swallow it. Returns `true` if there is any.
pub fn report_damage(damage: &[DamageNote]) -> bool {
    let sentence = damage_sentence(damage);
    if let Some(sentence) = &sentence {
        let hint = if std::io::stderr().is_terminal() { " (the report's section Damage lists them)" } else { "" };
        notice!("dlio-analyze: {sentence}{hint}");
    }
    sentence.is_some()
}
