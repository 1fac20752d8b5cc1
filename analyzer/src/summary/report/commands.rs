//! Commands in the texts of a report: rules write `TRACE` for the trace, and a report names the trace that was given.

use std::fmt::Write;

use super::Summary;
use super::layout::hung;
use crate::shell_word::shell_word;

/// Longer lists of traces keep the placeholder.
const NAMES_MAX: usize = 120;

/// The end of a command that compares a run with a later one.
const COMPARES: &str = " --compare after";

/// The command before it, which records the later run.
const RECORDS: &str = "dlio trace -o after -- COMMAND";

/// Appends the commands that verify a change, each on a line of its own of any length: they can be copied.
pub fn append_verified(first: &str, command: &str, (indent, width): (usize, usize), out: &mut String) {
    if !command.ends_with(COMPARES) {
        return hung(first, command, (indent, width), out);
    }
    let _ = writeln!(out, "{first}{RECORDS}\n{}{command}", " ".repeat(indent));
}

/// Returns traces as words of a command, unless they are too many for a text.
pub fn named_traces(given: &[String]) -> Option<String> {
    let names = given.iter().map(|name| shell_word(name)).collect::<Vec<_>>().join(" ");
    Some(names).filter(|names| !names.is_empty() && names.chars().count() <= NAMES_MAX)
}

impl Summary {
    /// Names the traces in the commands of the headline and of the findings.
    pub fn name_traces(&mut self, given: &[String]) {
        let Some(names) = named_traces(given) else { return };
        let name = |text: &mut String| *text = text.replace("dlio-analyze TRACE", &format!("dlio-analyze {names}"));
        [&mut self.headline.next, &mut self.headline.verify].into_iter().flatten().for_each(name);
        self.findings.iter_mut().map(|finding| &mut finding.verify).for_each(name);
    }
}
