//! Detects scattered writes that start or end within a block.

use super::super::patterns::rows;
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, part};
use crate::summary::report::access::AccessUse;
use crate::summary::report::findings::{Confidence, Unit};

pub const RULE: Rule = Rule {
    id: "unaligned",
    group: Group::Access,
    cost: Cost::Worth,
    confidence: Confidence::Guess,
    asks: "10 % or more of the writes begin or end inside a block of 4 KiB, and as many do not continue the previous \
        write",
    silences: &[],
    silences_rules: &[],
    remedy: "align records, pad shards, set HDF5 alignment (H5Pset_alignment), write neighboring data in one call",
    torch: "",
    elsewhere: "write whole blocks of 4 KiB: use a buffer of that size, pad records, write neighboring data in one \
        call",
    verify: COMPARE,
    judge,
};

/// Layer of C library streams, which combine writes into whole buffers.
const STDIO: &str = "stdio";

/// Judges scattered writes that do not fill a block: storage reads the block first. Sequential writes reach storage as
/// whole blocks, and reads are copied from memory at any position.
fn judge(case: &Case) -> Judgement {
    let writes = || case.summary.access.iter().filter(|row| row.class == "write" && row.layer != STDIO);
    let sum = |of: fn(&AccessUse) -> u64| writes().map(of).sum::<u64>();
    let known = sum(|row| row.calls.known());
    let off = part(sum(|row| row.off_start.max(row.off_size)) as f64, known as f64).unwrap_or(0.0);
    let apart = sum(|row| row.calls.forward + row.calls.backward + row.calls.repeated);
    let apart = part(apart as f64, known as f64).unwrap_or(0.0);
    Judgement {
        measures: vec![case.calls(known), case.at_least("off", Some(off)), case.at_least("apart", Some(apart))],
        says: format!(
            "{} of the writes begin or end inside a block of 4 KiB, and {} do not continue the previous write",
            Unit::Share.text(off),
            Unit::Share.text(apart)
        ),
        worth: Some(case.shared_out(case.moved("write", 1, u64::MAX).time_ns * off.min(apart))),
        evidence: rows(case, "write", |layer| layer != STDIO),
        ..Judgement::default()
    }
}
