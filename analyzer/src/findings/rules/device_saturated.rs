//! Detects a data device that is always busy.

use super::super::devices::{by_storage, waited_mount};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::figures::units::bytes;
use crate::summary::report::findings::{Confidence, Unit};

pub const RULE: Rule = Rule {
    id: "device-saturated",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "training waits for storage, and the device with the data has requests in flight for 80 % or more of the \
        time",
    silences: &[],
    silences_rules: &[],
    remedy: "read fewer bytes (compression, a smaller dtype, samples that are read once), or use a faster device; \
        more readers would not help",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let data = waited_mount(case);
    let busy = data.as_ref().and_then(|data| data.busy());
    let mut judgement = by_storage(case);
    judgement.measures.push(case.at_least("busy", busy));
    if let Some((device, busy)) = data.as_ref().and_then(|data| data.device()).zip(busy) {
        let share = Unit::Share.text(busy);
        judgement.says =
            format!("device {}, which stores the data, had requests in flight for {share} of the time", device.device);
        let own = data.and_then(|data| data.machine.storage_read);
        judgement.evidence = device.read_bytes.zip(own).map(|(all, own)| shared(all, own)).into_iter().collect();
    }
    judgement
}

/// Describes how much of a device's reads belong to the traced processes.
fn shared(all: u64, own: u64) -> String {
    let (all, own) = (bytes(all as f64), bytes(own as f64));
    format!("it read {all}; {own} of that for the processes of this trace")
}
