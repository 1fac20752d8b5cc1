//! Storage is slow, and the device of the data has little to do.

use super::super::devices::{by_storage, data_mount};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::part;
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::figures::units::time;
use crate::summary::report::findings::Confidence;

pub const RULE: Rule = Rule {
    id: "slow-but-idle-device",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "training waits for storage, and the device on which the data lie had a request for less than 40 % of that time in the whole run",
    silences: &[],
    silences_rules: &[],
    remedy: "look at what lies between the job and the device: a limit of I/O of its control group (io.max, blkio.throttle), encryption, a FUSE or network layer; the device itself is not what is slow",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let data = data_mount(case);
    let mut judgement = by_storage(case);
    let waited = judgement.worth.map_or(0, |worth| worth.ns);
    let device = data.as_ref().and_then(|data| data.device());
    // The device may have been busy in just that time.
    let busy = device.and_then(|device| part(device.busy_ns? as f64, waited as f64));
    judgement.measures.push(case.below("busy", busy));
    if let Some((device, busy_ns)) = device.and_then(|device| Some((device, device.busy_ns?))) {
        judgement.says = format!(
            "training waited {} for storage, and device {}, on which the data lie, had a request for {} of the whole run: \
             the time is on the way to it",
            time(waited as f64),
            device.device,
            time(busy_ns as f64)
        );
    }
    judgement
}
