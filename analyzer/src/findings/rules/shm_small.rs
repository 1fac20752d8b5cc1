//! Detects that /dev/shm is too small for the batches in it.

use nix::libc::SIGBUS;

use super::super::{Cost, Group, Rule};
use crate::catalog::is_hand_over_memory;
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::figures::units::{bytes, many};
use crate::summary::report::failures::FailureUse;
use crate::summary::report::findings::{Confidence, Severity};

pub const RULE: Rule = Rule {
    id: "shm-small",
    group: Group::Run,
    cost: Cost::Always,
    confidence: Confidence::Exact,
    asks: "a call on shared memory for batches in /dev/shm fails with ENOSPC, or SIGBUS ends a process of a job that \
        passes batches through /dev/shm",
    silences: &[],
    silences_rules: &["process-killed", "failing-io"],
    remedy: "enlarge /dev/shm (docker run --shm-size=8g or --ipc=host; in Kubernetes, mount an emptyDir with medium \
        Memory at /dev/shm), or keep fewer and smaller batches in flight",
    torch: "enlarge /dev/shm (docker run --shm-size=8g or --ipc=host; in Kubernetes, mount an emptyDir with medium \
        Memory at /dev/shm), or use fewer num_workers, a smaller prefetch_factor or a smaller batch",
    elsewhere: "",
    verify: "df -h /dev/shm while the job runs, and dlio-analyze TRACE --section failures,processes",
    judge,
};

fn judge(case: &Case) -> Judgement {
    let summary = case.summary;
    let is_full = |row: &&FailureUse| row.error == "ENOSPC" && row.file.as_deref().is_some_and(is_hand_over_memory);
    let failed: Vec<&FailureUse> = summary.failures.iter().filter(is_full).collect();
    let calls: u64 = failed.iter().map(|row| row.count).sum();
    let uses_it = summary.directories.iter().any(|row| row.directory == "/dev/shm");
    let is_faulted = |signal: Option<u8>| uses_it && signal.is_some_and(|signal| i32::from(signal) == SIGBUS);
    let killed = summary.processes.iter().filter(|process| is_faulted(process.signal)).count() as u64;
    let size = summary.machine.iter().filter_map(|machine| machine.shm_size).min();
    let what = match (calls, killed) {
        (calls, 0) => format!("{} on shared memory for batches failed with ENOSPC", many(calls, "call", "calls")),
        (_, killed) => format!("SIGBUS ended {}", many(killed, "process", "processes")),
    };
    let size =
        size.map_or_else(|| "/dev/shm, of unknown size,".into(), |size| format!("/dev/shm ({})", bytes(size as f64)));
    let row =
        |row: &&FailureUse| format!("{}: {}, first on {}", row.name, row.error, row.file.as_deref().unwrap_or("-"));
    Judgement {
        measures: vec![case.at_least("failures", Some((calls + killed) as f64))],
        says: format!("{size} is too small for the batches in flight: {what}"),
        evidence: failed.iter().map(row).collect(),
        severity: Some(Severity::Critical),
        ..Judgement::default()
    }
}
