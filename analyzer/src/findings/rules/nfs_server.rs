//! Requests to an NFS server take long to be answered.

use super::super::devices::{by_storage, data_mount};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::part;
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::figures::units::{grouped, time};
use crate::summary::report::findings::Confidence;

pub const RULE: Rule = Rule {
    id: "nfs-server",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "training waits for storage, the data lie on NFS, and half of the time of its requests or more is the way to the server and back",
    silences: &[],
    silences_rules: &[],
    remedy: "fewer and larger requests (rsize, larger files), more of them at a time (nconnect, more readers), a local copy or cache (fscache); the round trip is that of network and server together",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let data = data_mount(case);
    let nfs = data.as_ref().and_then(|data| data.nfs());
    let mut judgement = by_storage(case);
    let share = nfs.and_then(|nfs| part(nfs.round_trip_ns? as f64, nfs.execution_ns? as f64));
    judgement.measures.push(case.at_least("round-trip", share));
    if let Some((ns, requests)) = nfs.and_then(|nfs| nfs.round_trip_ns.zip(nfs.operations.filter(|count| *count > 0))) {
        let each = time(ns as f64 / requests as f64);
        judgement.says = format!("{} requests to the NFS server took {each} each to be answered", grouped(requests));
    }
    judgement
}
