//! Start positions of reads, over all layers.

use super::rule_context::{Case, Judgement, part};
use crate::summary::figures::units::{grouped, share};
use crate::summary::report::findings::{Measure, Unit};

/// Reads with a known position.
struct Reads {
    known: u64,
    /// Reads among them that start before the end of the previous read.
    back: u64,
}

fn reads(case: &Case) -> Reads {
    let rows = case.summary.access.iter().filter(|row| row.class == "read");
    rows.fold(Reads { known: 0, back: 0 }, |sum, row| Reads {
        known: sum.known + row.calls.known(),
        back: sum.back + row.calls.backward + row.calls.repeated,
    })
}

/// Judges backward reads: their number, and their share of the reads with a known position.
pub fn judged_back(case: &Case, calls: impl Fn(u64) -> Measure, what_they_do: &str) -> Judgement {
    let found = reads(case);
    let share = part(found.back as f64, found.known as f64).unwrap_or(0.0);
    let time_ns = case.moved("read", 1, u64::MAX).time_ns * share;
    Judgement {
        measures: vec![calls(found.back), case.at_least("share", Some(share))],
        says: format!("{} of the reads {what_they_do}", Unit::Share.text(share)),
        worth: Some(case.shared_out(time_ns)),
        evidence: rows(case, "read", |_| true),
        ..Judgement::default()
    }
}

/// Returns one row per matching layer.
pub fn rows(case: &Case, class: &str, is_meant: impl Fn(&str) -> bool) -> Vec<String> {
    let rows =
        case.summary.access.iter().filter(|row| row.class == class && is_meant(&row.layer) && row.calls.known() > 0);
    let row = |row: &crate::summary::report::access::AccessUse| {
        let (calls, known) = (&row.calls, row.calls.known() as i64);
        let [on, forward, back] = [calls.consecutive, calls.forward, calls.backward + calls.repeated];
        let [on, forward, back] = [on, forward, back].map(|calls| share(calls as i64, known));
        format!(
            "{} calls of {}, {class}: {on} consecutive, {forward} forward, {back} back",
            grouped(known as u64),
            row.layer
        )
    };
    rows.map(row).collect()
}
