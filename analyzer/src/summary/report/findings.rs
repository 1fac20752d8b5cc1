//! Findings for the person who ran the job: rules that fired and rules that did not, with their measures.
//!
//! This module defines a finding and prints it; the rules are in [`crate`]'s `findings`, which reads this report.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::commands::append_verified;
use super::{Section, Summary};
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::figures::units::{bytes, grouped, many, time};
use crate::summary::report::layout::{heading, hung, more};
use crate::summary::wording::Wording;

/// State of a rule.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Fired,
    /// It fired, but another finding makes it pointless.
    Silenced,
    Quiet,
    /// The trace does not contain the measures; `says` names what to record.
    Unknown,
    /// It was ignored on request.
    Ignored,
}

/// Severity by possible savings, as a share of the run time.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Critical,
    Warning,
    Note,
    /// Good news.
    Good,
}

/// Certainty of a finding.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Counted.
    Exact,
    /// From names or gaps, or divided in proportion.
    Inferred,
    Guess,
}

/// Unit of a value.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// A fraction of one.
    Share,
    Ratio,
    Count,
    Bytes,
    Ns,
    /// One or zero.
    Yes,
}

/// A measured value with its limit.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub struct Measure {
    /// Key of the limit within its rule.
    pub key: String,
    pub what: String,
    /// `null` if it was not measured.
    pub value: Option<f64>,
    pub limit: f64,
    pub unit: Unit,
    /// `true` if the measure holds below the limit instead of at it or above.
    pub below: bool,
}

impl Measure {
    pub fn holds(&self) -> Option<bool> {
        self.value.map(|value| if self.below { value < self.limit } else { value >= self.limit })
    }

    fn text(&self) -> String {
        let value = self.value.map_or("not measured".into(), |value| self.unit.text(value));
        if self.unit == Unit::Yes {
            return format!("{}: {value}", self.what);
        }
        let limit = if self.below { "below" } else { "at least" };
        format!("{}: {value} (threshold: {limit} {})", self.what, self.unit.text(self.limit))
    }
}

impl Unit {
    pub fn text(self, value: f64) -> String {
        // An empty sum is negative zero.
        let value = if value == 0.0 { 0.0 } else { value };
        match self {
            Unit::Share if value > 0.0 && value < 0.001 => "<0.1 %".into(),
            Unit::Share if value < 0.1 => format!("{:.1} %", 100.0 * value),
            Unit::Share if value < 10.0 => format!("{:.0} %", 100.0 * value),
            Unit::Share => format!("{value:.0} times"),
            Unit::Ratio if value >= 100.0 => grouped(value.round() as u64),
            Unit::Ratio => format!("{value:.2}"),
            Unit::Count => grouped(value.max(0.0).round() as u64),
            Unit::Bytes => bytes(value),
            Unit::Ns => time(value),
            Unit::Yes if value >= 1.0 => "yes".into(),
            Unit::Yes => "no".into(),
        }
    }
}

/// One rule and its result.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub struct Finding {
    pub id: String,
    pub state: State,
    pub severity: Option<Severity>,
    pub confidence: Confidence,
    /// A sentence with the number; for unknown results, the reason and the run that would decide it.
    pub says: String,
    /// Upper bound of the savings.
    pub worth_ns: Option<i64>,
    /// Upper bound of the savings, as a share of the run time.
    pub worth_share: Option<f64>,
    /// `true` if the change could not be replayed: it saves at most the wait, and `worth_ns` is unknown.
    #[serde(default)]
    pub at_most_wait: bool,
    /// The savings as a share of the training, if the change shortens the training.
    #[serde(default)]
    pub training_share: Option<f64>,
    /// The name of what `training_share` is a share of.
    #[serde(default)]
    pub share_of: Wording,
    /// The upper bound if `at_most_wait`.
    #[serde(default)]
    pub wait_ns: Option<i64>,
    /// The replayed change and its interval, if `worth_ns` comes from a replay.
    #[serde(default)]
    pub replayed: Option<ReplayedChange>,
    /// The savings by which findings are sorted, also if `worth_ns` is unknown.
    #[serde(skip)]
    pub bound_ns: i64,
    /// `true` if nothing computed during that time; otherwise it is unknown whether compute hid it.
    pub exposed: bool,
    /// The finding that silences it.
    pub silenced_by: Option<String>,
    pub measures: Vec<Measure>,
    /// At most five rows.
    pub evidence: Vec<String>,
    pub remedy: String,
    /// Command that shows whether the change helped.
    pub verify: String,
}

/// A change that was replayed, and the least and the most that it saves, as shares of the training.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub struct ReplayedChange {
    pub change: String,
    pub what: String,
    pub least: f64,
    pub most: f64,
}

/// The savings of a finding, as the JSON report has them.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Savings {
    worth_ns: Option<i64>,
    worth_share: Option<f64>,
    training_share: Option<f64>,
    share_of: Wording,
    at_most_wait: bool,
    wait_ns: Option<i64>,
    replayed: Option<ReplayedChange>,
}

impl Savings {
    /// Returns text such as `saves up to 3.1 s (31 % of the run)`. Each share names its whole.
    pub fn text(&self) -> Option<String> {
        if self.at_most_wait {
            let wait = self.wait_ns.map(|ns| time(ns as f64))?;
            return Some(format!("saves at most {wait}{}", self.of_training()));
        }
        let saved = time(self.worth_ns? as f64);
        if let Some(ReplayedChange { what, least, most, .. }) = &self.replayed {
            let [least, most] = [least, most].map(|share| Unit::Share.text(*share));
            let whole = self.share_of.noun();
            let part = self.training_share.map_or(String::new(), |share| Unit::Share.text(share));
            return Some(format!("saves about {saved} ({part} of {whole}; {least} to {most} by replay of {what})"));
        }
        Some(match (self.training_share, self.worth_share) {
            (None, Some(share)) => format!("saves up to {saved} ({} of the run)", Unit::Share.text(share)),
            _ => format!("saves up to {saved}{}", self.of_training()),
        })
    }

    fn of_training(&self) -> String {
        let of_loop = |share| format!(" ({} of {})", Unit::Share.text(share), self.share_of.noun());
        self.training_share.map_or(String::new(), of_loop)
    }
}

impl Finding {
    pub fn fired(&self) -> bool {
        self.state == State::Fired
    }

    /// Returns `true` if the change saves something, even if it is unknown how much.
    pub fn saves(&self) -> bool {
        self.worth_ns.is_some() || self.at_most_wait
    }

    /// Returns its savings as text.
    pub fn worth(&self) -> Option<String> {
        let savings = Savings {
            worth_ns: self.worth_ns,
            worth_share: self.worth_share,
            training_share: self.training_share,
            share_of: self.share_of,
            at_most_wait: self.at_most_wait,
            wait_ns: self.wait_ns,
            replayed: self.replayed.clone(),
        };
        savings.text()
    }
}

impl Confidence {
    pub fn word(self) -> &'static str {
        match self {
            Confidence::Exact => "measured",
            Confidence::Inferred => "inferred",
            Confidence::Guess => "guess",
        }
    }
}

impl Severity {
    pub fn word(self) -> &'static str {
        match self {
            Severity::Critical => "critical",
            Severity::Warning => "warning",
            Severity::Note => "note",
            Severity::Good => "good",
        }
    }
}

/// Text if no rule that recommends a change fired.
pub const NOTHING: &str = "none";

/// Text if no rule fired and calls were not recorded.
pub const NO_CALLS: &str = "no rule fired; most rules check calls, and the trace contains none";

/// Reference to the descriptions of rules.
pub const DESCRIBED: &str = "--explain RULE shows what a rule checks and its thresholds; analyzer/FINDINGS.md in the \
    dlio sources lists all rules.";

/// The end of the description of one rule.
pub const LISTED: &str = "analyzer/FINDINGS.md in the dlio sources lists all rules.";

/// How the savings of findings relate to each other.
pub const OVERLAP: &str = "Savings overlap: fixing one finding may also save time listed under another.";

/// The section on findings.
pub struct Findings;

impl Section for Findings {
    type Values = Vec<Finding>;

    const MEANING: &'static str = "\
        Findings: the time that changes could save, by rule. Each rule checks for a pattern and its cost; a pattern \
        that costs less than 1 % of the run time is not a finding. Savings are the whole time that the problem \
        costs: time in which nothing computed, divided among calls in proportion to their duration. A finding is critical if it could save 20 % of \
        the run time or more, a warning at 5 % or more, and otherwise a note. A guess, savings of less than 10 ms, and a start of \
        which little was I/O are always notes. Without compute spans it is unknown which I/O was hidden, so nothing is critical. \
        A change to the loader is replayed: its savings are a prediction with an interval. If the replay cannot predict the \
        change, the savings are at most the wait. Confidence: measured (in JSON: exact) means counted; inferred means derived \
        from names, gaps or proportions; guess means uncertain. \
        --full lists rules that did not fire, with their measurements and thresholds; --rules FILE changes the thresholds.";
    const FIELDS: &'static str = "\
        a list, one row per rule, fired rules first: `id`, `state` (`fired`, `silenced`, `quiet`, `unknown`, \
        `ignored`), `severity` (`critical`, `warning`, `note`, `good`; `null` if it did not fire), `confidence` \
        (`exact`, `inferred`, `guess`), `says` (a sentence), `worth_ns`, `worth_share` (the most that can be saved, \
        as a share of the run time; `null` if unknown), `at_most_wait` (`true` if the change could not be replayed: \
        it saves at most the wait), `training_share` (the savings as a share of the training; `null` if the change \
        does not shorten it), `share_of` (`training`, or `main-loop` if nothing shows that it trains), `wait_ns` (the wait, if `at_most_wait`), `replayed` (the change that was replayed for \
        `worth_ns`, or `null`: `change`, `what`, `least` and `most` (its savings, as shares of the training)), `exposed` (whether nothing computed during that time; otherwise that is \
        unknown), `silenced_by`, `measures` (a list: `key`, `what`, `value`, `limit`, `unit`, `below`), `evidence` \
        (at most five sentences), `remedy`, `verify` (a command)";

    /// Returns no values: rules judge the finished report, see `findings::judge`.
    fn values(_analysis: &Analysis, _trace: &Trace) -> Self::Values {
        Vec::new()
    }

    fn print(summary: &Summary, top: usize, out: &mut String) {
        Self::print_within(summary, top, WIDTH, out);
    }

    fn print_within(summary: &Summary, top: usize, width: usize, out: &mut String) {
        if summary.findings.is_empty() {
            return;
        }
        print_all_fired(summary, top, width, out);
        print_others(&summary.findings, &OTHERS[0], width, out);
        let count = |state: State| summary.findings.iter().filter(|finding| finding.state == state).count() as u64;
        out.push('\n');
        hung("  ", &others(count(State::Quiet), count(State::Unknown)), (2, width), out);
        hung("  ", DESCRIBED, (2, width), out);
    }

    fn print_in_full(summary: &Summary, top: usize, width: usize, out: &mut String) {
        if summary.findings.is_empty() {
            return;
        }
        print_all_fired(summary, top, width, out);
        OTHERS.iter().for_each(|others| print_others(&summary.findings, others, width, out));
        out.push('\n');
        hung("  ", DESCRIBED, (2, width), out);
    }
}

/// The findings that did not fire, in the order in which they are printed.
const OTHERS: [(State, &str); 4] = [
    (State::Silenced, "Suppressed by another finding"),
    (State::Quiet, "Did not fire"),
    (State::Unknown, "Not measured"),
    (State::Ignored, "Ignored"),
];

/// Returns how many rules did not fire, and how to see what they measured.
fn others(quiet: u64, unknown: u64) -> String {
    let unknown = if unknown > 0 { format!(", and {unknown} lack measurements") } else { String::new() };
    format!("{} did not fire{unknown}: --full lists them with their thresholds.", many(quiet, "rule", "rules"))
}

fn print_all_fired(summary: &Summary, top: usize, width: usize, out: &mut String) {
    heading("Findings", out);
    let fired: Vec<_> = summary.findings.iter().filter(|finding| finding.fired()).collect();
    if !fired.iter().any(|finding| finding.severity < Some(Severity::Good)) {
        let _ = writeln!(out, "  {}", if summary.knows_calls() { NOTHING } else { NO_CALLS });
    }
    let command = summary.headline.command.as_deref();
    fired.iter().take(top).for_each(|finding| print_fired(finding, command, width, out));
    more(fired.len(), top, out);
    if fired.iter().filter(|finding| finding.saves()).count() > 1 {
        out.push('\n');
        hung("  ", OVERLAP, (2, width), out);
    }
}

/// Width of lines if none is given.
const WIDTH: usize = 80;

fn print_fired(finding: &Finding, command: Option<&str>, width: usize, out: &mut String) {
    let severity = finding.severity.map_or("", Severity::word);
    let worth = finding.worth().map_or(String::new(), |worth| format!(", {worth}"));
    let _ = writeln!(out, "\n  {severity}: {}{worth} ({})", finding.id, finding.confidence.word());
    hung("    ", &shown(&finding.says), (4, width), out);
    for evidence in &finding.evidence {
        hung("      ", &shown(evidence), (8, width), out);
    }
    // If one of several measures is sufficient, list those that hold.
    // The savings that are stated at most are not those of the limit.
    let is_other = |measure: &&Measure| finding.at_most_wait && measure.key == "worth";
    for measure in finding.measures.iter().filter(|measure| measure.holds() != Some(false) && !is_other(measure)) {
        // Savings are computed, the other values are measured.
        let label = if measure.key == "worth" { "    estimate: " } else { "    measured: " };
        hung(label, &measure.text(), (14, width), out);
    }
    if !finding.remedy.is_empty() {
        hung("    change:   ", &finding.remedy, (14, width), out);
    }
    if !finding.verify.is_empty() {
        append_verified("    verify:   ", (command, &finding.verify), (14, width), out);
    }
}

/// Mark of a condition that does not hold.
const FAILED: char = 'x';

fn print_others(findings: &[Finding], &(state, title): &(State, &str), width: usize, out: &mut String) {
    let rows: Vec<_> = findings.iter().filter(|finding| finding.state == state).collect();
    if rows.is_empty() {
        return;
    }
    let marks =
        if state == State::Quiet { format!("; {FAILED} marks a condition that is not met") } else { String::new() };
    let _ = writeln!(out, "\n  {title} ({}{marks})", many(rows.len() as u64, "rule", "rules"));
    for finding in rows {
        let _ = writeln!(out, "    {}", finding.id);
        match (&finding.silenced_by, state) {
            (Some(other), _) => {
                hung("      ", &shown(&format!("suppressed by {other}, would say: {}", finding.says)), (6, width), out);
            }
            (_, State::Unknown) => hung("      ", &shown(&finding.says), (6, width), out),
            _ => finding.measures.iter().for_each(|measure| {
                let mark = if measure.holds() == Some(false) && state == State::Quiet { FAILED } else { ' ' };
                hung(&format!("      {mark} "), &measure.text(), (10, width), out);
            }),
        }
    }
}

/// Escapes names, which come from the traced host.
fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
