//! Detects ranks that write to the same blocks of a file at the same time.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::figures::units::{grouped, many, time};
use crate::summary::report::findings::Confidence;
use crate::summary::report::shared::SharedFile;

pub const RULE: Rule = Rule {
    id: "shared-block-writes",
    group: Group::Access,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "100 or more writes begin or end in a block of 1 MiB to which another rank writes at the same time",
    silences: &[],
    silences_rules: &[],
    remedy: "align each rank's writes to 1 MiB (or the stripe), write one file per rank, or use collective writes \
        (MPI-IO, HDF5)",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let shared = || case.summary.shared.iter().filter(|file| file.common_writes > 0);
    let writes: u64 = shared().map(|file| file.common_writes).sum();
    let ns: u64 = shared().map(|file| file.common_ns).sum();
    let all = case.moved("write", 1, u64::MAX);
    // Compare with the time of the same number of writes to unshared blocks, if there are any.
    let (other_count, other_ns) = (all.count.saturating_sub(writes), (all.time_ns - ns as f64).max(0.0));
    let alone = if other_count > 0 { other_ns / other_count as f64 * writes as f64 } else { 0.0 };
    let row = |file: &SharedFile| {
        let (count, ns) = (grouped(file.common_writes), time(file.common_ns as f64));
        format!("{}: {count} such writes of {}, {ns} in total", file.path, many(file.ranks, "rank", "ranks"))
    };
    Judgement {
        measures: vec![case.at_least("writes", Some(writes as f64))],
        says: format!(
            "{} to blocks of 1 MiB that another rank writes to at the same time",
            many(writes, "write goes", "writes go")
        ),
        worth: Some(case.shared_out((ns as f64 - alone).max(0.0))),
        evidence: shared().map(row).collect(),
        ..Judgement::default()
    }
}
