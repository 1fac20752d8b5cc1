//! Requests to an NFS server wait in the client.

use super::super::devices::{by_storage, data_mount};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::part;
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::figures::units::{grouped, time};
use crate::summary::report::findings::Confidence;

pub const RULE: Rule = Rule {
    id: "nfs-client-queue",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "training waits for storage, the data lie on NFS, and half of the time of its requests or more is a queue in the client",
    silences: &[],
    silences_rules: &[],
    remedy: "more connections (nconnect=8) and slots (sunrpc.tcp_max_slot_table_entries), fewer readers at a time on this mount, larger requests",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let data = data_mount(case);
    let nfs = data.as_ref().and_then(|data| data.nfs());
    let mut judgement = by_storage(case);
    let share = nfs.and_then(|nfs| part(nfs.queue_ns? as f64, nfs.execution_ns? as f64));
    judgement.measures.push(case.at_least("queue", share));
    if let Some((ns, requests)) = nfs.and_then(|nfs| nfs.queue_ns.zip(nfs.operations.filter(|count| *count > 0))) {
        let each = time(ns as f64 / requests as f64);
        judgement.says = format!("{} requests to the NFS server waited {each} each in the client", grouped(requests));
    }
    judgement
}
