//! Calls that move few bytes: their cost beyond moving the bytes.

use std::cmp::Reverse;

use super::rule_context::{COPY_NS_A_BYTE, Case, Judgement, part};
use crate::summary::figures::units::{bytes, grouped, many, time};
use crate::summary::report::findings::{Measure, Unit};
use crate::summary::report::sizes::SizeUse;

/// Calls below this size are small.
const SMALL: u64 = 64 << 10;

/// Calls of at least this size move bytes at storage bandwidth.
const LARGE: u64 = 1 << 20;

/// Judges reads or writes of this many files. A small file takes at least one read.
pub fn judge(case: &Case, class: &str, files: u64) -> Judgement {
    let (small, all) = (case.moved(class, 1, SMALL), case.moved(class, 1, u64::MAX));
    let large = case.moved(class, LARGE, u64::MAX);
    // Without large calls, the bandwidth is unknown: then bytes cost a memory copy, and the savings are an upper bound.
    let ns_a_byte = part(large.time_ns, large.bytes).unwrap_or(COPY_NS_A_BYTE);
    let fixed = (small.time_ns - small.bytes * ns_a_byte).max(0.0);
    let of_time = part(small.time_ns, all.time_ns).unwrap_or(0.0);
    let of_small = part(fixed, small.time_ns).unwrap_or(0.0);
    let worth = if class == "write" { case.written_out(fixed) } else { case.shared_out(fixed) };
    Judgement {
        measures: vec![
            Measure { what: format!("{class}s of less than 64 KiB"), ..case.calls(small.count) },
            case.at_least("a-file", part(small.count as f64, files as f64)),
            case.at_least("time", Some(of_time)),
            case.at_least("fixed", Some(of_small)),
        ],
        says: format!(
            "{} {class}s of less than 64 KiB took {} of the time of all {class}s; up to {} of their time did not depend on \
             their size",
            grouped(small.count),
            Unit::Share.text(of_time),
            Unit::Share.text(of_small)
        ),
        worth: Some(worth),
        evidence: evidence(case, class),
        ..Judgement::default()
    }
}

/// Returns the sizes that took most of the time.
fn evidence(case: &Case, class: &str) -> Vec<String> {
    let is_small = |row: &&SizeUse| row.class == class && row.from > 0 && row.to <= SMALL;
    let mut rows: Vec<_> = case.summary.sizes.iter().filter(is_small).collect();
    rows.sort_by_key(|row| Reverse(row.time_ns));
    let row = |row: &&SizeUse| {
        let (from, to, count) = (bytes(row.from as f64), bytes(row.to as f64), many(row.count, "call", "calls"));
        format!("of {from} to {to}: {count}, {} in total", time(row.time_ns as f64))
    };
    rows.iter().map(row).collect()
}
