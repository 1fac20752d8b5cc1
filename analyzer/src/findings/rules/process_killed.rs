//! Detects processes that were killed by a signal other than a request to exit.

use nix::sys::signal::Signal;

use super::super::{Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, Worth};
use crate::summary::figures::units::{many, time};
use crate::summary::report::findings::{Confidence, Severity};
use crate::summary::report::processes::ProcessUse;
use crate::summary::waits::family::asks_to_end;
use crate::summary::waits::parts::Part;

pub const RULE: Rule = Rule {
    id: "process-killed",
    group: Group::Run,
    cost: Cost::Always,
    confidence: Confidence::Exact,
    asks: "a signal other than SIGTERM, SIGINT, SIGHUP and SIGPIPE ended a process, according to its parent",
    silences: &[],
    silences_rules: &[],
    remedy: "SIGKILL: most often memory: the limit of the container or job, or the kernel's out-of-memory killer (dmesg); SIGBUS: \
             space in /dev/shm (docker --shm-size) or a file that was truncated; others: a fault of the program: see its messages",
    torch: "SIGKILL: fewer num_workers, a smaller prefetch_factor, or more memory; SIGBUS: docker --shm-size, or \
            smaller batches",
    elsewhere: "",
    verify: "dlio-analyze TRACE --section processes",
    judge,
};

fn name(signal: u8) -> String {
    Signal::try_from(i32::from(signal)).map_or_else(|_| format!("signal {signal}"), |signal| signal.to_string())
}

fn judge(case: &Case) -> Judgement {
    let killed: Vec<(&ProcessUse, u8)> = case
        .summary
        .processes
        .iter()
        .filter_map(|process| Some((process, process.signal.filter(|signal| !asks_to_end(*signal))?)))
        .collect();
    let row = |(process, signal): &(&ProcessUse, u8)| {
        let role = process.role.map_or_else(String::new, |role| format!(", a {}", role.name()));
        format!("{} ({}{role}): {}", process.called, process.pid, name(*signal))
    };
    let dead_ns: i64 =
        case.summary.training.iter().filter_map(|group| group.causes).map(|causes| causes.get(Part::Dead)).sum();
    let waited = match dead_ns {
        0 => String::new(),
        ns => format!("; training waited {} for batches of readers that had ended", time(ns as f64)),
    };
    // A program may kill its own helpers; a reader or trainer that is killed costs the training its data.
    let severity = match killed.iter().any(|(process, _)| process.role.is_some()) || dead_ns > 0 {
        true => Severity::Critical,
        false => Severity::Note,
    };
    let (first, signal) = match killed.first() {
        Some((process, signal)) => (format!("{} ({})", process.called, process.pid), name(*signal)),
        None => Default::default(),
    };
    let says = match killed.len() {
        0 | 1 => format!("{signal} ended {first}{waited}"),
        more => format!("signals ended {}: {signal} {first} first{waited}", many(more as u64, "process", "processes")),
    };
    Judgement {
        measures: vec![case.at_least("processes", Some(killed.len() as f64))],
        says,
        evidence: killed.iter().map(row).collect(),
        worth: (dead_ns > 0).then_some(Worth { ns: dead_ns.min(case.wall_ns()), exposed: true }),
        severity: Some(severity),
        ..Judgement::default()
    }
}
