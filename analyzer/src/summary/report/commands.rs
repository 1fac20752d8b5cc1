//! Commands in the texts of a report: rules write `TRACE` for the trace, and a report names the trace that was given.

use std::fmt::Write;

use dlio_schemas::secrets::MASK;

use super::Summary;
use super::layout::hung;
use crate::catalog::Process;
use crate::shell_word::shell_word;

/// Longer lists of traces keep the placeholder.
const NAMES_MAX: usize = 120;

/// The end of a command that compares a run with a later one.
const COMPARES: &str = " --compare after";

/// Returns `true` for a command that compares a run with a later one, which is to be recorded first.
pub fn compares(command: &str) -> bool {
    command.ends_with(COMPARES)
}

/// Stands for the traced command where that is unknown.
const PLACEHOLDER: &str = "COMMAND";

/// Longer commands are not repeated.
const COMMAND_MAX: usize = 100;

/// Returns the command that records a later run of a traced command.
pub fn record_again(traced: Option<&str>) -> String {
    format!("dlio trace -o after -- {}", traced.unwrap_or(PLACEHOLDER))
}

/// Appends the commands that verify a change of the traced command, each on a line of its own of any length: they can be copied.
pub fn append_verified(
    first: &str,
    (traced, command): (Option<&str>, &str),
    (indent, width): (usize, usize),
    out: &mut String,
) {
    if !compares(command) {
        return hung(first, command, (indent, width), out);
    }
    let _ = writeln!(out, "{first}{}\n{}{command}", record_again(traced), " ".repeat(indent));
}

/// Returns the command of the only process that no traced process started, if it can be repeated as recorded: without masked
/// words, and without spans that a wrapper or a variable may have switched on.
pub fn traced_command(summary: &Summary, processes: &[Process]) -> Option<String> {
    let roots = summary.processes.iter().filter(|row| row.parent.is_none());
    let images: Vec<&Process> = roots.filter_map(|row| processes.get(row.proc as usize)).collect();
    // The first of those that a process executed one after the other.
    let first = images.iter().min_by_key(|image| image.end_ts.unwrap_or(i64::MAX))?;
    let is_only = images.iter().all(|image| (image.host, image.pid) == (first.host, first.pid));
    let is_repeatable = |command: &&String| {
        let is_masked = command.as_bytes().windows(MASK.len()).any(|word| word == MASK);
        let is_plain = !is_masked && !command.contains(['\n', '\u{fffd}']);
        let shows_spans = summary.spans.is_empty() || command.contains("dliotrace");
        is_only && is_plain && shows_spans && command.chars().count() <= COMMAND_MAX
    };
    first.command.as_ref().filter(is_repeatable).cloned()
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
