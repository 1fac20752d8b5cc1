//! The limits of trust: loss, damage, clocks.

use std::collections::BTreeSet;

use super::super::case::{Case, Judgement, part};
use super::super::{Cost, Group, Rule};
use crate::summary::report::findings::{Confidence, Severity};
use crate::summary::report::verdict::LACKS;
use crate::summary::units::{grouped, many, time};

pub const RULE: Rule = Rule {
    id: "trust",
    group: Group::Run,
    cost: Cost::Always,
    confidence: Confidence::Exact,
    asks: "events were lost or came out of order, files are cut, or a clock was stepped by 1 ms or more",
    silences: &[],
    silences_rules: &[],
    remedy: "record again what is missing: fewer calls (DLIO_TRACE_MIN_US, DLIO_TRACE_EXCLUDE), whole files, a steady clock",
    torch: "",
    elsewhere: "",
    verify: "dlio-analyze TRACE --section damage,allocation,hosts",
    judge,
};

/// From this part of the events lost on, some figures are wrong.
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
    let in_pieces = if pieces > cut { format!(" in {} pieces", grouped(pieces)) } else { String::new() };
    let step = summary.hosts.iter().map(|host| host.clock_spread_ns.abs()).max().unwrap_or(0);
    let late = summary.time.late;
    let all = [
        (lost > 0).then(|| format!("{} lost", many(lost, "event was", "events were"))),
        (cut > 0).then(|| format!("{} damaged{in_pieces}", many(cut, "file is", "files are"))),
        (late > 0).then(|| format!("{} out of order", many(late, "event came", "events came"))),
        (step > 0).then(|| format!("a clock was stepped by {}", time(step as f64))),
    ];
    let lossy = summary.processes.iter().filter(|process| process.lost > 0);
    let rows = lossy.map(|process| format!("{} ({}): {} lost", process.called, process.pid, grouped(process.lost)));
    Judgement {
        measures: vec![
            case.at_least("lost", Some(lost as f64)),
            case.at_least("cut", Some(cut as f64)),
            case.at_least("late", Some(late as f64)),
            case.at_least("clock", Some(step as f64)),
        ],
        any: true,
        severity,
        says: all.into_iter().flatten().collect::<Vec<_>>().join("; "),
        evidence: rows.chain(damaged().map(|note| format!("{}: {}", note.path, note.what))).collect(),
        ..Judgement::default()
    }
}
