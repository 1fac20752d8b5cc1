//! Places where reads begin, all layers together.

use super::rule_context::Case;
use crate::summary::figures::units::{grouped, share};

/// Reads whose place is known.
pub struct Reads {
    pub known: u64,
    /// Of these, those that begin before the end of the one before.
    pub back: u64,
}

pub fn reads(case: &Case) -> Reads {
    let rows = case.summary.access.iter().filter(|row| row.class == "read");
    rows.fold(Reads { known: 0, back: 0 }, |sum, row| Reads {
        known: sum.known + row.calls.known(),
        back: sum.back + row.calls.backward + row.calls.repeated,
    })
}

/// A row a layer that is meant.
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
