//! Detects a read-ahead of the device that does not match the reads: none for reads in order, or a large one for single
//! pages of mapped files.

use std::collections::BTreeSet;

use super::super::devices::{DataMount, by_storage, data_mount, most_read_mount};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, Worth, part};
use crate::summary::figures::units::bytes;
use crate::summary::report::findings::Confidence;

pub const RULE: Rule = Rule {
    id: "readahead",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "training waits for storage, and the device read small pieces for calls that read in order, because its \
        read-ahead is small; or it read at least 3 times the bytes that page faults can have used",
    silences: &[],
    silences_rules: &[
        "page-faults",
        "loader-capacity",
        "slow-but-idle-device",
        "storage-saturated",
        "storage-latency-bound",
    ],
    remedy: SMALL,
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

const SMALL: &str = "set the read-ahead of the device (blockdev --setra 256 DEVICE, in sectors of 512 bytes; for a \
    permanent setting, ATTR{queue/read_ahead_kb} in a udev rule); without root, read larger blocks with O_DIRECT";
const LARGE: &str = "call madvise(MADV_RANDOM) on the mapping (in Python: mapping.madvise(mmap.MADV_RANDOM)), or pread \
    the rows; a smaller read-ahead of the device (blockdev --setra) also helps, but slows reads in order";

/// The read-ahead that Linux sets for a device.
const USUAL: f64 = 131_072.0;

/// The size of a page.
const PAGE: f64 = 4096.0;

/// A fault on a page in memory also maps its neighbors.
const MAPPED_BY_MINOR_FAULT: f64 = 65_536.0;

fn judge(case: &Case) -> Judgement {
    let data = data_mount(case);
    let small = too_small(case, data.as_ref());
    let holds = |judgement: &Judgement| judgement.measures.iter().all(|measure| measure.holds() == Some(true));
    if holds(&small) {
        return small;
    }
    let large = too_large(case, most_read_mount(case).as_ref());
    // Without any page faults the other pattern is closer.
    if holds(&large) || large.measures.iter().any(|measure| measure.key == "faults" && measure.holds() == Some(true)) {
        return large;
    }
    small
}

/// Judges calls that read in order and that the device serves with small requests.
fn too_small(case: &Case, data: Option<&DataMount>) -> Judgement {
    let mut judgement = by_storage(case);
    let read_ahead = data.and_then(|data| data.mount.read_ahead_kb).map(|kb| kb as f64 * 1024.0);
    let device = data.and_then(DataMount::device);
    let request = device.and_then(|device| part(device.read_bytes? as f64, device.reads? as f64));
    let read = case.moved("read", 1, u64::MAX).bytes;
    let from_storage = case.storage_read().and_then(|from_storage| part(from_storage as f64, read));
    judgement.measures.extend([
        case.below("read-ahead", read_ahead),
        case.below("request", request),
        case.at_least("in-order", request.and_then(|request| in_order(case, request))),
        case.at_least("from-storage", from_storage),
    ]);
    if let Some(((request, read_ahead), device)) = request.zip(read_ahead).zip(device) {
        judgement.says = format!(
            "device {} read {} at a time for calls that read in order, because its read-ahead is {}",
            device.device,
            bytes(request),
            bytes(read_ahead)
        );
        judgement.evidence = vec![format!("blockdev --setra 256 /dev/{}", device.device)];
        // Larger requests save at most the part of the time that is per request.
        judgement.worth = judgement.worth.map(|worth| saved(worth, request / USUAL));
    }
    judgement
}

/// Returns the share of the bytes that calls read where the previous call ended, or with calls of at least two
/// requests.
fn in_order(case: &Case, request: f64) -> Option<f64> {
    let rows = || case.summary.access.iter().filter(|row| row.class == "read");
    let all: u64 = rows().map(|row| row.bytes.known() + row.bytes.unknown).sum();
    let consecutive: u64 = rows().map(|row| row.bytes.consecutive).sum();
    let large = case.moved("read", 2 * (request as u64).next_power_of_two(), u64::MAX);
    part(large.bytes.max(consecutive as f64), all as f64)
}

/// Judges page faults for which the device reads more than they can have used.
fn too_large(case: &Case, data: Option<&DataMount>) -> Judgement {
    let mut judgement = by_storage(case);
    let faults = case.summary.training.iter().filter_map(|group| group.faults).reduce(|a, b| a + b);
    let stored = read_by_readers(case).map(|bytes| bytes as f64);
    let reads = case.moved("read", 1, u64::MAX);
    let used = faults.map(|faults| {
        let mapped = faults.major as f64 * PAGE + faults.minor as f64 * MAPPED_BY_MINOR_FAULT;
        mapped + reads.bytes + reads.count as f64 * 2.0 * PAGE
    });
    let per_fault = faults.and_then(|faults| part(stored?, faults.major as f64));
    let read_ahead = data.and_then(|data| data.mount.read_ahead_kb).map(|kb| kb as f64 * 1024.0);
    judgement.measures.extend([
        case.at_least("faults", faults.map(|faults| faults.major as f64)),
        case.at_least("unused", used.and_then(|used| part(stored?, used))),
        case.below("per-fault", per_fault.and_then(|bytes| part(bytes, read_ahead?))),
    ]);
    if let Some((((stored, used), per_fault), read_ahead)) = stored.zip(used).zip(per_fault).zip(read_ahead) {
        judgement.says = format!(
            "storage read {} for page faults of the readers that can have used at most {}: {} per fault, with a \
             read-ahead of {}",
            bytes(stored),
            bytes(used),
            bytes(per_fault),
            bytes(read_ahead)
        );
        judgement.worth = judgement.worth.map(|worth| saved(worth, used / stored.max(1.0)));
    }
    Judgement { remedy: Some(LARGE), ..judgement }
}

/// Returns the bytes that storage read for the readers. Readers that only use mappings are not listed as such; without
/// listed ones, all processes but the trainers are taken for readers.
fn read_by_readers(case: &Case) -> Option<u64> {
    let training = &case.summary.training;
    let readers: BTreeSet<u32> = training.iter().flat_map(|group| &group.readers).map(|reader| reader.proc).collect();
    let trainers: BTreeSet<u32> = training.iter().map(|group| group.proc).collect();
    let reads = |proc: u32| if readers.is_empty() { !trainers.contains(&proc) } else { readers.contains(&proc) };
    let rows = case.summary.processes.iter().filter(|row| reads(row.proc));
    rows.filter_map(|row| row.resources.storage_read).reduce(|a, b| a + b)
}

/// Returns the savings if a part of the time is left.
fn saved(worth: Worth, left: f64) -> Worth {
    Worth { ns: (worth.ns as f64 * (1.0 - left).clamp(0.0, 1.0)) as i64, ..worth }
}
