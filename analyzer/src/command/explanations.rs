//! `--explain` and `--show-sql`: explains sections, rules and metrics, and gives the SQL that computes a section's
//! numbers from the tables.

use std::fmt::Write;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use dlio_schemas::words::nearest;

use crate::compare::metrics::{self, METRICS};
use crate::findings::limits::{ALL, LIMITS, Limit, Limits};
use crate::findings::rules::RULES;
use crate::findings::{Cost, OF_MANY_CALLS, Rule};
use crate::similarity::{self, features};
use crate::summary::report::commands::append_verified;
use crate::summary::report::findings::{DESCRIBED, LISTED};
use crate::summary::report::layout::{hung, wrapped};
use crate::summary::report::{About, SECTIONS};

const COMPARING: &str = "\
    Comparing (--compare, --fail-if): counts and bytes are exact: any change of them is real. With one run per side, \
    times are tested by their steps (ten or more) with a block bootstrap. The mean of the faster half of the steps is \
    taken as the undisturbed duration of a step; a change of 5 % or more counts if its whole 95 % interval is beyond 2 \
    %. The mean of all steps, which also varies with other load on the host, counts as changed if its interval is \
    beyond 10 %. With four or more runs per side, the U test decides; it is wrong in one of twenty cases. Savings of \
    findings are compared like times. The metrics:";

/// Returns the sections that have a SQL query.
pub fn sections_with_sql() -> PossibleValuesParser {
    PossibleValuesParser::new(SECTIONS.iter().filter(|section| section.sql.is_some()).map(|section| section.name))
}

/// Accepts all sections, by name or by their title in the report.
pub fn sections() -> impl TypedValueParser<Value = String> {
    let value = |section: &About| PossibleValue::new(section.name).aliases(titles(section));
    PossibleValuesParser::new(SECTIONS.iter().map(value))
        .map(|typed| section_called(&typed).map_or(typed.clone(), |section| section.name.into()))
}

/// Titles in the report that are neither a section's name nor the start of its meaning.
const TITLES: [(&str, &str); 16] = [
    ("jobs", "Job"),
    ("time", "Time"),
    ("functions", "File calls"),
    ("past_files", "Past files"),
    ("passed_over", "Passed over"),
    ("directories", "Directories"),
    ("directories", "Folders"),
    ("heat", "Bytes by rank and time"),
    ("heat", "Bytes by process and time"),
    ("patterns", "Names of files"),
    ("damage", "Notes"),
    ("damage", "Remarks"),
    ("recorder", "Flight recorder"),
    ("tally", "Counted while the programs ran"),
    ("allocation", "Processes and events"),
    ("dataset", "Files and bytes"),
];

/// Returns the other titles of a section.
fn titles(section: &About) -> Vec<&'static str> {
    let begins = section.meaning.split([':', '(']).next().unwrap_or_default().trim();
    let others = TITLES.iter().filter(|(name, _)| *name == section.name).map(|(_, title)| *title);
    others.chain([begins]).filter(|title| *title != section.name).collect()
}

fn section_called(typed: &str) -> Option<&'static About> {
    let is_it = |called: &str| called.eq_ignore_ascii_case(typed);
    SECTIONS.iter().find(|section| is_it(section.name) || titles(section).into_iter().any(is_it))
}

/// Returns the query for a section.
pub fn sql(section: &str) -> String {
    SECTIONS.iter().find(|known| known.name == section).and_then(About::query).unwrap_or_default()
}

/// Explains one section, rule or metric, or everything if the topic is empty; returns `None` for an unknown topic.
pub fn explained(topic: &str, limits: &Limits, width: usize) -> Option<String> {
    let topic = topic.trim();
    if topic.is_empty() {
        return Some(explanation(width));
    }
    if let Some(rule) = RULES.iter().find(|rule| rule.id.eq_ignore_ascii_case(topic)) {
        return Some(of_rule(rule, limits, width));
    }
    if let Some(section) = section_called(topic) {
        return Some(of_section(section, width));
    }
    let metric = METRICS.iter().find(|metric| metric.name == topic)?;
    Some(wrapped(&format!("{} ({}): {}.", metric.name, metric.unit.name(), metric.meaning), width))
}

/// Returns `true` if the topic can be explained.
pub fn is_topic(topic: &str) -> bool {
    explained(topic, &Limits::default(), 80).is_some()
}

/// Returns the topic that was probably meant.
pub fn suggestion(typed: &str) -> Option<&'static str> {
    let sections = SECTIONS.iter().map(|section| section.name);
    nearest(typed, sections.chain(RULES.iter().map(|rule| rule.id)).chain(METRICS.iter().map(|metric| metric.name)))
}

/// Explains every section, the rules, and the metrics of comparisons.
pub fn explanation(width: usize) -> String {
    let mut out = String::from("Sections of the report: --section prints one, by its name or its title\n\n");
    for section in SECTIONS {
        out += &of_section(section, width);
        out.push('\n');
    }
    out += "Rules of the findings\n\n";
    let longest = RULES.iter().map(|rule| rule.id.len()).max().unwrap_or(0);
    for rule in RULES {
        hung(&format!("  {:<longest$}  ", rule.id), rule.asks, (longest + 4, width), &mut out);
    }
    hung("  ", DESCRIBED, (2, width), &mut out);
    out.push('\n');
    out += &wrapped(COMPARING, width);
    out += &metrics::listing(width);
    out.push('\n');
    out += &wrapped(similarity::MEANING, width);
    out + &features::listing(width)
}

fn of_section(section: &About, width: usize) -> String {
    let mut out = format!("{}\n", section.name);
    hung("  ", section.meaning, (2, width), &mut out);
    out
}

fn of_rule(rule: &Rule, limits: &Limits, width: usize) -> String {
    let mut out = wrapped(&format!("{}: a rule of the findings. It fires if {}.", rule.id, rule.asks), width);
    out.push('\n');
    out += &wrapped("Its measurements and their thresholds, which --rules FILE changes:", width);
    // The common limits apply only to rules that fire by their cost, and to those that need many calls.
    let is_asked = |limit: &&Limit| match (limit.rule, limit.key) {
        (ALL, "worth") => rule.cost == Cost::Worth,
        (ALL, "calls") => OF_MANY_CALLS.contains(&rule.id),
        (of, _) => of == rule.id,
    };
    let mut asked: Vec<&Limit> = LIMITS.iter().filter(is_asked).collect();
    asked.sort_by_key(|limit| limit.rule == ALL);
    for limit in asked {
        let value = limits.find(limit.rule, limit.key).map_or(limit.value, |(_, value)| value);
        let text = format!("{} ({}.{})", limit.what, limit.rule, limit.key);
        hung(&format!("  {:>8}  ", limit.unit.text(value)), &text, (12, width), &mut out);
    }
    out.push('\n');
    let changes =
        [("Change", rule.remedy), ("With PyTorch", rule.torch), ("If the trace shows no training", rule.elsewhere)];
    for (whose, change) in changes.into_iter().filter(|(_, change)| !change.is_empty()) {
        hung("", &format!("{whose}: {change}."), (2, width), &mut out);
    }
    append_verified("Verify: ", (None, rule.verify), (2, width), &mut out);
    hung("", &format!("Confidence at best: {}.", rule.confidence.word()), (2, width), &mut out);
    let silenced = RULES.iter().filter(|other| rule.silences_one(other)).map(|other| other.id);
    let silenced: Vec<_> = silenced.collect();
    if !silenced.is_empty() {
        hung(
            "",
            &format!("It suppresses {}, whose changes would then have no effect.", silenced.join(", ")),
            (2, width),
            &mut out,
        );
    }
    out.push('\n');
    let _ = write!(out, "{}", wrapped(LISTED, width));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_one_line(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_section_and_rule_is_explained_in_lines_that_fit() {
        let all = explanation(80);
        let told = in_one_line(&all);
        let is_told = |text: &str| text.len() > 20 && told.contains(&in_one_line(text));
        assert!(SECTIONS.iter().all(|section| is_told(section.meaning)) && RULES.iter().all(|rule| is_told(rule.asks)));
        let long = all.lines().find(|line| line.chars().count() > 80);
        assert_eq!(long, None);
        let with_sql = SECTIONS.iter().filter(|section| section.sql.is_some());
        assert!(with_sql.clone().count() >= 9 && with_sql.clone().all(|section| sql(section.name).starts_with("--")));
    }

    #[test]
    fn one_topic_is_explained_by_itself() {
        let of = |topic: &str| explained(topic, &Limits::default(), 80);
        let rule = of("small-reads").unwrap();
        for part in [
            "It fires if reads of less than",
            "50 %",
            "(small-reads.fixed)",
            "(all.worth)",
            "(all.calls)",
            "Verify: dlio trace -o after",
            "Change: ",
            "FINDINGS.md",
        ] {
            assert!(rule.contains(part), "{part}\n{rule}");
        }
        assert!(rule.lines().all(|line| line.chars().count() <= 80), "{rule}");
        assert!(of("Split of time").is_some_and(|text| text.starts_with("time\n")));
        assert!(of("wait.share").is_some_and(|text| text.contains("wait.s as a share of trained_s")));
        assert_eq!((of("smal-reads"), suggestion("smal-reads")), (None, Some("small-reads")));
        let mut changed = Limits::default();
        changed.amend("small-reads.time = 0.25").unwrap();
        assert!(explained("small-reads", &changed, 80).unwrap().contains("25 %"));
    }
}
