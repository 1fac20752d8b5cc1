//! The result in at most 2,000 tokens, for programs that act on it: the verdict, its numbers, evidence with ids, and the
//! commands that show more.
//!
//! The whole report is a hundred times as long. Rows that do not fit are left out, the least valuable first, and
//! counted.

use serde_json::{Value, json};

use super::Summary;
use super::causes::causes;
use super::commands::named_traces;
use super::findings::{Finding, State};
use super::waits::WaitRow;
use crate::summary::training::RankGroup;
use crate::summary::waits::parts::{Part, Parts};

pub const SCHEMA: &str = "dlio-brief";
pub const VERSION: u32 = 1;

/// The most characters of the printed text: 2,000 tokens of four characters.
const LIMIT: usize = 8_000;

/// The most rows of each list, and sentences per finding.
const FINDINGS: usize = 8;
const SENTENCES: usize = 2;
const WAITS: usize = 3;
const RANKS: usize = 3;

/// The most characters of one text, because paths in it may be long.
const TEXT: usize = 300;

/// Prints the result as JSON. `traces` are the arguments that name the trace.
pub fn print(summary: &Summary, traces: &[String]) -> String {
    let sentences = (0..=SENTENCES).rev().map(|sentences| (FINDINGS, sentences));
    let sizes = sentences.chain((0..FINDINGS).rev().map(|findings| (findings, 0)));
    let texts = sizes.map(|size| serde_json::to_string_pretty(&values(summary, traces, size)).expect("plain values"));
    let mut last = String::new();
    for text in texts {
        last = text + "\n";
        if last.chars().count() <= LIMIT {
            break;
        }
    }
    last
}

fn values(summary: &Summary, traces: &[String], (findings, sentences): (usize, usize)) -> Value {
    let fired: Vec<&Finding> = summary.findings.iter().filter(|finding| finding.fired()).collect();
    let unknown = summary.findings.iter().filter(|finding| finding.state == State::Unknown);
    let head = &summary.headline;
    json!({
        "schema": SCHEMA,
        "version": VERSION,
        "verdict": {
            "text": head.text, "bottleneck": head.bottleneck, "certainty": head.certainty, "share": head.share,
            "confidence": head.confidence, "confidence_reason": head.confidence_reason.as_deref().map(clipped),
            "why": clipped(&head.why), "next": head.next.as_deref().map(clipped), "finding": head.finding,
        },
        "numbers": numbers(summary),
        "findings": fired.iter().take(findings).map(|finding| evidence(finding, sentences)).collect::<Vec<_>>(),
        "longest_waits": waits(summary),
        "longest_waiting_ranks": ranks(&summary.training),
        "not_measured": unknown.map(|finding| finding.id.as_str()).collect::<Vec<_>>(),
        "next_commands": commands(summary, traces),
        "left_out": { "findings": fired.len().saturating_sub(findings) },
    })
}

/// Returns the numbers of the run; `null` is unknown.
fn numbers(summary: &Summary) -> Value {
    let waiting: Vec<&RankGroup> = summary.training.iter().filter(|group| group.waited_ns.is_some()).collect();
    let sum = |of: fn(&RankGroup) -> i64| (!waiting.is_empty()).then(|| seconds(waiting.iter().map(|it| of(it)).sum()));
    let parts = if waiting.is_empty() { None } else { causes(&waiting) };
    json!({
        "run_s": seconds(summary.time.total_ns),
        "training_s": sum(|group| group.trained_ns),
        "wait_s": sum(|group| group.waited_ns.unwrap_or(0)),
        "wait_causes_s": parts.map(by_cause),
        "io_s": summary.time.io_ns.map(seconds),
        "compute_s": summary.time.compute_ns.map(seconds),
        "bytes_read": summary.dataset.bytes_read,
        "bytes_written": summary.dataset.bytes_written,
        "files": summary.dataset.files,
        "hosts": summary.allocation.hosts,
        "processes": summary.allocation.processes,
        "events": summary.allocation.events,
        "events_lost": summary.allocation.lost,
        "damaged_files": summary.damage.len(),
    })
}

fn evidence(finding: &Finding, sentences: usize) -> Value {
    let sentences = finding.evidence.iter().take(sentences);
    json!({
        "id": finding.id,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "says": clipped(&finding.says),
        "saves_at_most_s": finding.worth_ns.map(seconds),
        "evidence": sentences.map(|sentence| clipped(sentence)).collect::<Vec<_>>(),
        "remedy": clipped(&finding.remedy),
    })
}

fn waits(summary: &Summary) -> Vec<Value> {
    let limiter = |row: &WaitRow| row.limiter.as_ref().map(|it| clipped(&format!("{} ({})", it.name, it.pid)));
    let row = |(at, row): (usize, &WaitRow)| {
        json!({
            "id": format!("wait-{}", at + 1),
            "proc": row.proc,
            "from_s": seconds(row.start_ts - summary.time.start_ts),
            "wait_s": seconds(row.wait_ns),
            "cause": row.causes.largest().name(),
            "limiter": limiter(row),
        })
    };
    summary.waits.iter().take(WAITS).enumerate().map(row).collect()
}

/// Returns the ranks that waited longest, if there are several.
fn ranks(training: &[RankGroup]) -> Vec<Value> {
    if training.len() < 2 {
        return Vec::new();
    }
    let mut ranks: Vec<(i64, &RankGroup)> =
        training.iter().filter_map(|group| Some((group.waited_ns?, group))).collect();
    ranks.sort_by_key(|(waited, group)| (std::cmp::Reverse(*waited), group.proc));
    let row = |(waited, group): &(i64, &RankGroup)| {
        json!({
            "rank": group.rank,
            "host": clipped(&group.host),
            "pid": group.pid,
            "wait_s": seconds(*waited),
            "cause": group.causes.as_ref().map(|causes| causes.largest().name()),
        })
    };
    ranks.iter().take(RANKS).map(row).collect()
}

/// Returns commands that show more, the most useful first.
fn commands(summary: &Summary, traces: &[String]) -> Vec<Value> {
    let trace = named_traces(traces).unwrap_or_else(|| "TRACE".into());
    let mut commands = Vec::new();
    let mut add = |shows: &str, options: String| {
        commands.push(json!({ "shows": shows, "run": format!("dlio-analyze {trace} {options}") }));
    };
    if let Some(first) = summary.findings.iter().find(|finding| finding.fired()) {
        add("all findings with their measurements", "--findings --format json".into());
        add("the rule and its limits", format!("--explain {}", first.id));
    }
    if let Some(wait) = summary.waits.first() {
        let (from, length) = (seconds(wait.start_ts - summary.time.start_ts), seconds(wait.wait_ns).max(0.001));
        add("files read during wait-1", format!("--from {from}s --for {length}s --section files"));
        add("all waits", "--sql \"select * from waits order by ns desc limit 20\"".into());
    }
    if summary.what_if.is_some() {
        add("the effect of changes", "--section what_if".into());
    }
    add("whether a change helped", "--compare after".into());
    commands
}

fn by_cause(parts: Parts) -> Value {
    let causes = Part::CAUSES.into_iter().filter(|part| parts.get(*part) != 0);
    causes
        .map(|part| (part.name().to_string(), json!(seconds(parts.get(part)))))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// Returns nanoseconds as seconds with milliseconds.
fn seconds(ns: i64) -> f64 {
    (ns as f64 / 1e6).round() / 1e3
}

fn clipped(text: &str) -> String {
    if text.chars().count() <= TEXT {
        return text.into();
    }
    text.chars().take(TEXT - 3).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_clipped_by_characters() {
        assert_eq!(clipped(&"é".repeat(TEXT)), "é".repeat(TEXT));
        assert_eq!(clipped(&"é".repeat(TEXT + 1)).chars().count(), TEXT);
    }
}
