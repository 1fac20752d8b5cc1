//! Detects requests through an io_uring ring, which bypass all calls.

use super::super::{Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::figures::units::many;
use crate::summary::report::findings::Confidence;

pub const RULE: Rule = Rule {
    id: "uring-unseen",
    group: Group::Run,
    cost: Cost::Always,
    confidence: Confidence::Exact,
    asks: "a process has an io_uring: requests through it are not in the trace",
    silences: &[],
    silences_rules: &[],
    remedy: "treat bytes and times of I/O as lower bounds; if the program allows it, trace it with another engine \
             (fio --ioengine=psync, libaio)",
    torch: "",
    elsewhere: "",
    verify: "dlio-analyze TRACE --section allocation",
    judge,
};

fn judge(case: &Case) -> Judgement {
    let who = case.summary.allocation.uring;
    Judgement {
        measures: vec![case.at_least("processes", Some(who as f64))],
        says: format!(
            "{} an io_uring: bytes read and written through it are not in the trace",
            many(who, "process has", "processes have")
        ),
        ..Judgement::default()
    }
}
