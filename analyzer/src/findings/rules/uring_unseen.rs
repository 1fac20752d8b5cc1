//! Detects requests through an io_uring ring that the tracer did not see.

use super::super::{Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::report::findings::Confidence;

pub const RULE: Rule = Rule {
    id: "uring-unseen",
    group: Group::Run,
    cost: Cost::Always,
    confidence: Confidence::Exact,
    asks: "requests of a process through an io_uring are not in the trace",
    silences: &[],
    silences_rules: &[],
    remedy: "treat bytes and times of I/O as lower bounds; set DLIO_TRACE_INLINE=1 if the program enters the kernel \
             by its own instructions, or trace it with another engine (fio --ioengine=psync, libaio)",
    torch: "",
    elsewhere: "",
    verify: "dlio-analyze TRACE --section allocation",
    judge,
};

fn judge(case: &Case) -> Judgement {
    let who = &case.summary.allocation;
    Judgement {
        measures: vec![case.at_least("processes", Some(who.uring as f64))],
        says: format!("{} are not in the trace, nor are their bytes", who.unseen_requests()),
        ..Judgement::default()
    }
}
