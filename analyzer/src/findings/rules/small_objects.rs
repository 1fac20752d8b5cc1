//! Detects objects so small that requests cost more than transferring their bytes.

use super::super::requests::GET;
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{COPY_NS_A_BYTE, Case, Judgement, part};
use crate::summary::figures::units::{bytes, grouped, time};
use crate::summary::report::findings::{Confidence, Unit};

pub const RULE: Rule = Rule {
    id: "small-objects",
    group: Group::Access,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "GETs of less than 1 MiB on average take half of the time in file calls, and half of that is fixed cost \
        per call",
    silences: &[],
    silences_rules: &["small-reads"],
    remedy: "pack samples into shards (webdataset, MDS, TFRecord) of 64 MiB or more, or keep more requests in flight",
    torch: "",
    elsewhere: "fetch neighboring data in one request: larger objects, larger ranges; or keep more requests in flight",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let gets = || case.calls_on_files().filter(|function| function.name == GET);
    let (count, time_ns) = gets().fold((0, 0.0), |(n, ns), get| (n + get.count - get.failed, ns + get.time_ns as f64));
    let moved = gets().filter_map(|get| get.bytes).sum::<u64>() as f64;
    let mean = part(moved, count as f64);
    // Large requests show the bandwidth of the store. Without them, bytes cost a memory copy, and the savings are an
    // upper bound.
    let large = case.moved("read", 1 << 20, u64::MAX);
    let fixed = (time_ns - moved * part(large.time_ns, large.bytes).unwrap_or(COPY_NS_A_BYTE)).max(0.0);
    let of_time = part(time_ns, case.file_ns()).unwrap_or(0.0);
    let of_small = part(fixed, time_ns).unwrap_or(0.0);
    Judgement {
        measures: vec![
            case.calls(count),
            case.below("size", mean),
            case.at_least("time", Some(of_time)),
            case.at_least("fixed", Some(of_small)),
        ],
        says: format!(
            "{} GETs of {} each took {} of the time; {} of their time was fixed cost per call",
            grouped(count),
            bytes(mean.unwrap_or(0.0)),
            Unit::Share.text(of_time),
            Unit::Share.text(of_small)
        ),
        worth: Some(case.shared_out(fixed)),
        evidence: gets()
            .map(|get| format!("{}: median {} per request", get.name, time(get.duration_ns.median)))
            .collect(),
        ..Judgement::default()
    }
}
