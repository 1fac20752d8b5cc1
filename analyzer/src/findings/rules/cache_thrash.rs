//! Detects data that fit into memory but not into the job's memory limit.

use super::super::cpus::RECORD_MACHINE;
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, part};
use crate::summary::figures::units::bytes;
use crate::summary::report::findings::Confidence;

pub const RULE: Rule = Rule {
    id: "cache-thrash",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "half or more of the bytes are read again, at least 1.5 times the distinct bytes are read from storage, and \
        those exceed the memory limit but not the host's memory",
    silences: &[],
    silences_rules: &["would-fit"],
    remedy: "raise the job's memory limit (docker --memory, resources.limits.memory), which includes the page cache, \
        or read fewer bytes: smaller samples, a part of the data set",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let what = &case.summary.dataset;
    let (unique, from_storage) = (case.unique_bytes(), case.storage_read());
    let again = part(what.bytes_reread as f64, what.bytes_read as f64);
    let machines = || case.summary.machine.iter();
    let tightest = machines().flat_map(|machine| &machine.memory_limits).min_by_key(|limit| limit.bytes);
    let memory = machines().filter_map(|machine| machine.memory).min();
    let reads = case.moved("read", 1, u64::MAX);
    let says = |limit: u64| {
        format!(
            "storage read {} for {} of distinct data: it does not fit into the job's memory limit of {} next to the \
             memory of the programs",
            bytes(from_storage.unwrap_or(0) as f64),
            bytes(unique),
            bytes(limit as f64)
        )
    };
    let again_by_storage = from_storage.map_or(0.0, |read| (read as f64 - unique) / what.bytes_read.max(1) as f64);
    Judgement {
        measures: vec![
            case.at_least("again", again),
            case.at_least("from-storage", from_storage.and_then(|read| part(read as f64, unique))),
            case.at_least("limit", tightest.and_then(|limit| part(unique, limit.bytes as f64))),
            case.below("memory", memory.and_then(|memory| part(unique, memory as f64))),
        ],
        says: tightest.map(|limit| says(limit.bytes)).unwrap_or_default(),
        evidence: tightest.map(|limit| format!("limit of {}", limit.group)).into_iter().collect(),
        worth: Some(case.shared_out(reads.time_ns * again_by_storage.clamp(0.0, 1.0))),
        confidence: Some(Confidence::Inferred),
        decide: RECORD_MACHINE,
        ..Judgement::default()
    }
}
