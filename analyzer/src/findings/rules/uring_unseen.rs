//! Requests go through a ring of io_uring, past every call.

use super::super::{Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::figures::units::many;
use crate::summary::report::findings::Confidence;

pub const RULE: Rule = Rule {
    id: "uring-unseen",
    group: Group::Run,
    cost: Cost::Always,
    confidence: Confidence::Exact,
    asks: "a process has a ring of io_uring: what it asks for through it is not in the trace",
    silences: &[],
    silences_rules: &[],
    remedy: "take bytes and times of I/O as lower bounds; where the program lets choose, trace it with another engine \
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
            "{} a ring of io_uring: what is read and written through it is not in the trace",
            many(who, "process has", "processes have")
        ),
        ..Judgement::default()
    }
}
