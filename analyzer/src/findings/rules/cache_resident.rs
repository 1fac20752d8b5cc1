//! Reports that repeated reads come from memory.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{CALL_NS, COPY_NS_A_BYTE, Case, Judgement, part};
use crate::summary::figures::units::bytes;
use crate::summary::report::findings::{Confidence, Unit};

pub const RULE: Rule = Rule {
    id: "cache-resident",
    group: Group::Run,
    cost: Cost::Always,
    confidence: Confidence::Guess,
    asks: "half or more of the bytes are read again, as fast as memory is copied",
    silences: &[],
    silences_rules: &[],
    remedy: "no change for training; to benchmark storage, use a data set of 5 times the memory, or O_DIRECT",
    torch: "",
    elsewhere: "no change, unless storage is to be measured: then use data of 5 times the memory, or O_DIRECT",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let what = &case.summary.dataset;
    let again = part(what.bytes_reread as f64, what.bytes_read as f64).unwrap_or(0.0);
    let reads = case.moved("read", 1, u64::MAX);
    let resident = part(reads.time_ns, CALL_NS * reads.count as f64 + COPY_NS_A_BYTE * reads.bytes);
    let rate = part(reads.bytes * 1e9, reads.time_ns).unwrap_or(0.0);
    Judgement {
        measures: vec![case.calls(reads.count), case.at_least("again", Some(again)), case.below("slower", resident)],
        says: format!(
            "{} of the bytes were read again, at {} per second: from memory, not from storage",
            Unit::Share.text(again),
            bytes(rate)
        ),
        ..Judgement::default()
    }
}
