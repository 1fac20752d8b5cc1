//! Requests to an NFS server take long to be answered.

use super::super::devices::by_nfs;
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
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
    by_nfs(
        case,
        "round-trip",
        |nfs| nfs.round_trip_ns,
        |requests, each| format!("{requests} requests to the NFS server took {each} each to be answered"),
    )
}
