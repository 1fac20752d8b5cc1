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
    asks: "a signal other than SIGTERM, SIGINT, SIGHUP and SIGPIPE ended a process, according to its parent; signals that the \
        program itself sent count only if it then waited for that process",
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

fn signal_of(killed: Option<&(&ProcessUse, u8)>) -> Option<u8> {
    killed.map(|(_, signal)| *signal)
}

/// Returns the change for a signal.
fn remedy(signal: u8) -> Option<&'static str> {
    match i32::from(signal) {
        SIGKILL => {
            Some("look for a lack of memory: the limit of the container or job, and dmesg for the out-of-memory killer")
        }
        SIGBUS => Some(
            "look for a lack of space in /dev/shm (docker --shm-size), or a file that was truncated while it was mapped",
        ),
        _ => Some("look for a fault of the program: see its messages"),
    }
}

/// The change if a process of the trace sent the signal.
const BY_OWN_PROGRAM: &str = "look in the program that sent the signal for the reason";

/// A shorter wait does not count as a loss.
const LOSS_NS: i64 = 10_000_000;

const SIGBUS: i32 = 7;
const SIGKILL: i32 = 9;

/// Returns the process that sent the signal, if it was traced.
fn sender(process: &ProcessUse, case: &Case) -> String {
    let is_killer = |other: &&ProcessUse| Some(other.proc) == process.killer;
    let killer = case.summary.processes.iter().find(is_killer);
    killer.map_or(String::new(), |killer| format!(", sent by {} ({})", killer.called, killer.pid))
}

fn judge(case: &Case) -> Judgement {
    let dead_ns: i64 =
        case.summary.training.iter().filter_map(|group| group.causes).map(|causes| causes.get(Part::Dead)).sum();
    // A program that kills its own processes does so on purpose.
    let is_loss = |process: &&ProcessUse| process.killer.is_none() || dead_ns >= LOSS_NS;
    let killed: Vec<(&ProcessUse, u8)> = case
        .summary
        .processes
        .iter()
        .filter(is_loss)
        .filter_map(|process| Some((process, process.signal.filter(|signal| !asks_to_end(*signal))?)))
        .collect();
    let row = |(process, signal): &(&ProcessUse, u8)| {
        let role = process.role.map_or_else(String::new, |role| format!(", a {}", role.name()));
        format!("{} ({}{role}): {}{}", process.called, process.pid, name(*signal), sender(process, case))
    };
    let waited = match dead_ns {
        0 => String::new(),
        ns => format!("; {} waited {} for batches of readers that had ended", case.loop_name(), time(ns as f64)),
    };
    // A process may end its helpers by other means; a reader or trainer that is killed costs the training its data.
    let severity = match killed.iter().any(|(process, _)| process.role.is_some()) || dead_ns > 0 {
        true => Severity::Critical,
        false => Severity::Note,
    };
    let (first, signal) = match killed.first() {
        Some((process, signal)) => {
            (format!("{} ({}){}", process.called, process.pid, sender(process, case)), name(*signal))
        }
        None => Default::default(),
    };
    let says = match killed.len() {
        0 | 1 => format!("{signal} ended {first}{waited}"),
        more => format!("signals ended {}: {signal} {first} first{waited}", many(more as u64, "process", "processes")),
    };
    Judgement {
        measures: vec![case.at_least("processes", Some(killed.len() as f64))],
        says,
        remedy: match killed.first() {
            Some((process, _)) if process.killer.is_some() => Some(BY_OWN_PROGRAM),
            first => signal_of(first).and_then(remedy),
        },
        evidence: killed.iter().map(row).collect(),
        worth: (dead_ns > 0).then_some(Worth { ns: dead_ns.min(case.wall_ns()), exposed: true }),
        severity: Some(severity),
        ..Judgement::default()
    }
}
