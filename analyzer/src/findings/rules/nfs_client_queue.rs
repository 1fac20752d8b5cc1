//! Detects NFS requests that wait in the client's queue.

use super::super::devices::by_nfs;
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::report::findings::Confidence;

pub const RULE: Rule = Rule {
    id: "nfs-client-queue",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "training waits for storage, the data is on NFS, and half or more of the request time is queueing in the \
        client",
    silences: &[],
    silences_rules: &[],
    remedy: "use more connections (nconnect=8) and slots (sunrpc.tcp_max_slot_table_entries), fewer readers at a time \
        on this mount, larger requests",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    by_nfs(
        case,
        "queue",
        |nfs| nfs.queue_ns,
        |requests, each| format!("{requests} requests to the NFS server waited {each} each in the client"),
    )
}
