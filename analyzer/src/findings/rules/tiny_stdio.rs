//! Detects many small calls of the C library.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, part};
use crate::summary::figures::units::bytes;
use crate::summary::report::findings::{Confidence, Unit};
use crate::summary::report::functions::Function;

pub const RULE: Rule = Rule {
    id: "tiny-stdio",
    group: Group::Access,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "the C library moves 10 % or more of the bytes, in calls of 8 KiB or less",
    silences: &[],
    silences_rules: &["small-reads", "small-writes"],
    remedy: "use setvbuf, open(..., buffering=1 << 20), readinto with large buffers",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let is_stdio = |function: &Function| function.cat == "stdio" && function.bytes.is_some();
    let stdio = || case.calls_on_files().filter(|function| is_stdio(function));
    let moved: u64 = stdio().filter_map(|function| function.bytes).sum();
    let all: u64 = case.calls_on_files().filter_map(|function| function.bytes).sum();
    let calls = case.calls_where(is_stdio);
    let mean = part(moved as f64, calls.count as f64);
    let share = part(moved as f64, all as f64).unwrap_or(0.0);
    Judgement {
        measures: vec![case.calls(calls.count), case.at_least("share", Some(share)), case.below("size", mean)],
        says: format!(
            "the C library moved {} of the bytes, {} per call",
            Unit::Share.text(share),
            bytes(mean.unwrap_or(0.0))
        ),
        worth: Some(case.shared_out(calls.time_ns)),
        evidence: calls.rows,
        ..Judgement::default()
    }
}
