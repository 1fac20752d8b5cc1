//! Reports limits of the data: loss, damage, clock differences.

use std::collections::BTreeSet;

use super::super::{Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, part};
use crate::summary::figures::units::{grouped, many, time};
use crate::summary::report::findings::{Confidence, Severity};
use crate::summary::report::verdict::LACKS;

pub const RULE: Rule = Rule {
    id: "trust",
    group: Group::Run,
    cost: Cost::Always,
    confidence: Confidence::Exact,
    asks: "events were lost or out of order, files are truncated, or a clock was stepped by 1 ms or more",
    silences: &[],
    silences_rules: &[],
    remedy: "record the missing parts again: whole files, a steady clock",
    torch: "",
    elsewhere: "",
    verify: "dlio-analyze TRACE --section damage,allocation,hosts",
    judge,
};

/// Change to make if events were lost because the trace ran out of space.
const MAKE_ROOM: &str = "record again with space on the disk of the trace (-o DIR selects another one) and within the \
    limits on file sizes and memory, or with fewer calls (DLIO_TRACE_MIN_US, DLIO_TRACE_EXCLUDE)";

/// If at least this share of events was lost, some numbers are wrong.
const LACKS_SOME: f64 = 0.01;

fn judge(case: &Case) -> Judgement {
    let summary = case.summary;
    let lost = summary.allocation.lost.saturating_sub(summary.allocation.aggregated);
    let kept = summary.allocation.events;
    let severity = match part(lost as f64, (lost + kept) as f64).unwrap_or(0.0) {
        share if share >= LACKS => Some(Severity::Critical),
        share if share >= LACKS_SOME => Some(Severity::Warning),
        _ => None,
    };
    let damaged = || summary.damage.iter().filter(|note| !note.remark);
    let cut = damaged().map(|note| &note.path).collect::<BTreeSet<_>>().len() as u64;
    let pieces = damaged().count() as u64;
    let in_pieces = if pieces > cut { format!(" in {} places", grouped(pieces)) } else { String::new() };
    let step = summary.hosts.iter().map(|host| host.clock_spread_ns.abs()).max().unwrap_or(0);
    let late = summary.time.late;
    let all = [
        (case.at_least("lost", Some(lost as f64)), format!("{} lost", many(lost, "event was", "events were"))),
        (case.at_least("cut", Some(cut as f64)), format!("{} damaged{in_pieces}", many(cut, "file is", "files are"))),
        (case.at_least("late", Some(late as f64)), format!("{} out of order", many(late, "event came", "events came"))),
        (case.at_least("clock", Some(step as f64)), format!("a clock was stepped by {}", time(step as f64))),
    ];
    let told = all.iter().filter(|(measure, _)| measure.holds() == Some(true)).map(|(_, text)| text.as_str());
    let says = told.collect::<Vec<_>>().join("; ");
    let lossy = summary.processes.iter().filter(|process| process.lost > 0);
    let rows = lossy.map(|process| format!("{} ({}): {} lost", process.called, process.pid, grouped(process.lost)));
    Judgement {
        measures: all.into_iter().map(|(measure, _)| measure).collect(),
        any: true,
        severity,
        says,
        remedy: (lost > 0).then_some(MAKE_ROOM),
        evidence: rows.chain(damaged().map(|note| format!("{}: {}", note.path, note.what))).collect(),
        ..Judgement::default()
    }
}
