//! Storage is slow, and the device of the data has little to do.

use super::super::devices::{by_storage, data_mount};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::report::findings::{Confidence, Unit};

pub const RULE: Rule = Rule {
    id: "slow-but-idle-device",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "training waits for storage, and the device on which the data lie has a request for less than 30 % of the time",
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
    let busy = data.as_ref().and_then(|data| data.busy());
    let mut judgement = by_storage(case);
    judgement.measures.push(case.below("busy", busy));
    if let Some((device, busy)) = data.as_ref().and_then(|data| data.device()).zip(busy) {
        let share = Unit::Share.text(busy);
        judgement.says = format!(
            "reads took long, and device {}, on which the data lie, had a request {share} of the time only: the time is on the way \
             to it",
            device.device
        );
    }
    judgement
}
