//! Detects slow storage whose device is mostly idle.

use super::super::devices::{by_storage, waited_mount};
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
    asks: "training waits for storage, and in the whole run the device with the data has requests in flight for less \
        than 40 % of that time",
    silences: &[],
    silences_rules: &[],
    remedy: "check the layers between job and device: an I/O limit set after the start of the job (io.max, \
        blkio.throttle) or above its container, encryption, a FUSE or network layer; the device itself is not slow",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

/// Layers to check if the job's own limit is known and was not reached.
const OTHER_LAYERS: &str = "check the layers between job and device: encryption, a FUSE or network layer, or an I/O limit above its container \
    (the limit of its own control group was not reached); the device itself is not slow";

fn judge(case: &Case) -> Judgement {
    let data = waited_mount(case);
    let mut judgement = by_storage(case);
    let waited = judgement.worth.map_or(0, |worth| worth.ns);
    let device = data.as_ref().and_then(|data| data.device());
    // The device may have been busy during exactly that time.
    let busy = device.and_then(|device| part(device.busy_ns? as f64, waited as f64));
    judgement.measures.push(case.below("busy", busy));
    judgement.remedy = data.as_ref().filter(|data| data.mount.is_limited()).map(|_| OTHER_LAYERS);
    if let Some((device, busy_ns)) = device.and_then(|device| Some((device, device.busy_ns?))) {
        judgement.says = format!(
            "{} waited {} for storage, but device {}, which stores the data, had requests in flight for only {} \
             of the whole run: the time is lost on the path to it",
            case.loop_name(),
            time(waited as f64),
            device.device,
            time(busy_ns as f64)
        );
    }
    judgement
}
