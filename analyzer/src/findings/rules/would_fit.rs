//! Detects repeatedly read files that would fit into memory.

use super::super::devices::data_mount;
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{CALL_NS, COPY_NS_A_BYTE, Case, Judgement, part};
use crate::summary::figures::units::bytes;
use crate::summary::report::findings::{Confidence, Unit};
use crate::summary::report::machine::MachineUse;

pub const RULE: Rule = Rule {
    id: "would-fit",
    group: Group::Access,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "half or more of the bytes are read again from storage, and all of them would fit into 60 % of memory",
    silences: &[],
    silences_rules: &[],
    remedy: "copy the data set to local storage or memory (/dev/shm) first, or keep it in memory after the first read",
    torch: "copy the data set to local storage or memory (/dev/shm) first, or cache it in the Dataset",
    elsewhere: "copy the data to local storage or memory (/dev/shm) first, or keep it in memory after the first read",
    verify: COMPARE,
    judge,
};

/// Returns `true` for directories of memory file systems at their usual mount points.
fn is_memory(folder: &str) -> bool {
    ["/dev/shm", "/run/user"]
        .iter()
        .any(|memory| folder.strip_prefix(memory).is_some_and(|rest| !rest.starts_with(|c| c != '/')))
}

/// Returns the minimum memory available to the job on any host, limited by its memory limit if it has one.
fn least_memory(case: &Case) -> Option<f64> {
    let of_hosts = case.summary.hosts.iter().map(|host| host.memory.map(|memory| memory as f64));
    let least = of_hosts.collect::<Option<Vec<_>>>()?.into_iter().reduce(f64::min)?;
    let limits = case.summary.machine.iter().filter_map(MachineUse::memory_allowed).map(|bytes| bytes as f64);
    Some(limits.fold(least, f64::min))
}

fn judge(case: &Case) -> Judgement {
    let what = &case.summary.dataset;
    let unique = case.unique_bytes();
    let least = least_memory(case);
    // Skip data that are already in memory: they are not read from storage.
    let folders = || case.summary.directories.iter();
    let all: u64 = folders().map(|folder| folder.use_.bytes_read).sum();
    let in_memory: u64 = folders().filter(|it| is_memory(&it.directory)).map(|it| it.use_.bytes_read).sum();
    let stored = 1.0 - part(in_memory as f64, all as f64).unwrap_or(0.0);
    let again = stored * part(what.bytes_reread as f64, what.bytes_read as f64).unwrap_or(0.0);
    let reads = case.moved("read", 1, u64::MAX);
    let resident = part(reads.time_ns, CALL_NS * reads.count as f64 + COPY_NS_A_BYTE * reads.bytes).unwrap_or(0.0);
    let mut measures = vec![
        case.at_least("again", Some(again)),
        case.at_least("slower", Some(resident)),
        case.below("fits", least.and_then(|memory| part(unique, memory))),
    ];
    // If the kernel reports bytes read from a device, repeated reads must have come from it.
    let has_device = data_mount(case).is_some_and(|data| data.device().is_some());
    if let Some(read) = case.storage_read().filter(|_| has_device) {
        measures.push(case.at_least("from-storage", part(read as f64, unique)));
    }
    Judgement {
        measures,
        says: format!(
            "{} of the bytes were read again, and all {} fit into memory",
            Unit::Share.text(again),
            bytes(unique)
        ),
        worth: Some(case.shared_out(reads.time_ns * again)),
        decide: "record with this version of dlio, which records the size of memory",
        ..Judgement::default()
    }
}
