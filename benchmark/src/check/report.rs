//! The verdict as text for a terminal, as Markdown and as JSON.

use super::edition::Division;
use super::finding::{Finding, TOOL, Verdict};
use super::verdict::{Accepted, Checked};
use crate::system::terminal::wrapped;
use serde_json::json;
use std::fmt::Write;

/// The width of the text.
const WIDTH: usize = 80;

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Fail => "fail",
        // Findings of a division are never this; the name is for a reader of the code.
        Verdict::OpenOnly => "open only",
        Verdict::Unknown => "unknown",
        Verdict::NotApplicable => "not applicable",
    }
}

impl Checked {
    fn number(&self, finding: &Finding) -> &'static str {
        finding.rule.number(self.version).unwrap_or(TOOL)
    }

    /// Returns the workload of a finding, or a name for the whole directory.
    fn about<'a>(&'a self, finding: &'a Finding) -> &'a str {
        if finding.about.is_empty() { "submission" } else { &finding.about }
    }

    fn headline(&self) -> String {
        let counts = self.counts();
        let fails = match counts.fail {
            0 => "No rule fails".to_string(),
            1 => "1 rule fails".to_string(),
            count => format!("{count} rules fail"),
        };
        let version = format!("MLPerf Storage {}, {}", self.version.name(), self.division.name());
        let assumed = if self.version_assumed { "; the version is assumed" } else { "" };
        format!("{fails}, {} pass, {} unknown ({version}{assumed}).", counts.pass, counts.unknown)
    }

    fn acceptance(&self) -> String {
        let say = |division: Division| match self.accepted(division) {
            Accepted::Yes => "all rules pass",
            Accepted::No => "no",
            Accepted::Unknown => "unknown, because the files do not decide all rules",
        };
        format!("Accepted as CLOSED: {}. As OPEN: {}.", say(Division::Closed), say(Division::Open))
    }
}

fn put(text: &mut String, indent: &str, content: &str) {
    text.push_str(&wrapped(content.split_whitespace(), indent, WIDTH));
}

/// Writes a finding: its rule, what was found, and what to do.
fn put_finding(text: &mut String, checked: &Checked, finding: &Finding) {
    let verdict = word(finding.verdict);
    let verdict = if finding.verdict == Verdict::Fail { verdict.to_uppercase() } else { verdict.to_string() };
    let _ = writeln!(text, "  {verdict:<7}  {:<6}  {}", checked.number(finding), finding.rule.title);
    let label = |text: &mut String, name: &str, content: &str| {
        let lines = wrapped(content.split_whitespace(), "                  ", WIDTH);
        let rest = lines.trim_start().to_string();
        let _ = write!(text, "           {name:<7}{rest}");
    };
    label(text, "found", &finding.found);
    if !finding.action.is_empty() {
        label(text, "do", &finding.action);
    }
}

/// Returns the verdict with its failures; with `all`, every rule.
pub fn text(checked: &Checked, all: bool) -> String {
    let mut text = String::new();
    put(&mut text, "", &checked.headline());
    put(&mut text, "", &checked.acceptance());
    let mut abouts: Vec<&str> = checked.findings.iter().map(|finding| checked.about(finding)).collect();
    abouts.dedup();
    for about in abouts {
        let runs = checked.workloads.iter().find(|(label, _)| label == about).map(|(_, runs)| *runs);
        let runs = runs.map(|runs| format!(", {runs} run{}", if runs == 1 { "" } else { "s" })).unwrap_or_default();
        let _ = writeln!(text, "\n{about}{runs}");
        let own: Vec<&Finding> = checked.findings.iter().filter(|finding| checked.about(finding) == about).collect();
        let shown = |finding: &&&Finding| all || finding.verdict == Verdict::Fail;
        own.iter().filter(shown).for_each(|finding| put_finding(&mut text, checked, finding));
        if all {
            continue;
        }
        for verdict in [Verdict::Unknown, Verdict::Pass] {
            let same: Vec<&&Finding> = own.iter().filter(|finding| finding.verdict == verdict).collect();
            let name = |finding: &&&Finding| match verdict {
                Verdict::Unknown => format!("{} {}", checked.number(finding), finding.rule.title),
                _ => checked.number(finding).to_string(),
            };
            let mut names: Vec<String> = same.iter().map(name).collect();
            names.dedup();
            if !names.is_empty() {
                let separator = if verdict == Verdict::Unknown { "; " } else { ", " };
                let lines = wrapped(names.join(separator).split(' '), "           ", WIDTH);
                let _ = write!(text, "  {:<7}  {}", word(verdict), lines.trim_start());
            }
        }
    }
    text.push('\n');
    let hint = if all { "" } else { " --all explains every rule." };
    put(&mut text, "", &format!("Numbers are those of {}; `tool`: no number.{hint}", checked.version.document()));
    text
}

pub fn markdown(checked: &Checked) -> String {
    let mut text = format!("# {}\n\n{}\n\n", checked.headline(), checked.acceptance());
    text.push_str("| | rule | workload | found | to do |\n|---|---|---|---|---|\n");
    // A bar would end the cell.
    let cell = |content: &str| content.replace('|', "\\|");
    for finding in &checked.findings {
        let _ = writeln!(
            text,
            "| {} | {} {} | {} | {} | {} |",
            word(finding.verdict),
            checked.number(finding),
            finding.rule.title,
            cell(checked.about(finding)),
            cell(&finding.found),
            cell(&finding.action)
        );
    }
    let _ = writeln!(text, "\nNumbers are those of {} {}.", checked.version.document(), checked.version.name());
    text
}

pub fn json(checked: &Checked) -> String {
    let counts = checked.counts();
    let of = |finding: &Finding| {
        json!({
            "rule": checked.number(finding),
            "name": finding.rule.name,
            "title": finding.rule.title,
            "verdict": word(finding.verdict),
            "workload": finding.about,
            "found": finding.found,
            "do": finding.action,
        })
    };
    let workloads = checked.workloads.iter().map(|(label, runs)| json!({"workload": label, "runs": runs}));
    let json = json!({
        "directory": checked.folder.display().to_string(),
        "version": checked.version.name(),
        "version_assumed": checked.version_assumed,
        "division": checked.division.name(),
        "accepted": {
            "closed": checked.closed.name(),
            "open": checked.open.name(),
        },
        "fail": counts.fail,
        "pass": counts.pass,
        "unknown": counts.unknown,
        "workloads": workloads.collect::<Vec<_>>(),
        "rules": checked.findings.iter().map(of).collect::<Vec<_>>(),
    });
    serde_json::to_string_pretty(&json).unwrap_or_default() + "\n"
}
