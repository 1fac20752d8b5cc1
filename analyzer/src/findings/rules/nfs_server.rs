//! Detects NFS requests that the server answers slowly.

use super::super::devices::by_nfs;
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::report::findings::Confidence;

pub const RULE: Rule = Rule {
    id: "nfs-server",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "training waits for storage, the data is on NFS, and half or more of the request time is the round trip to \
        the server",
    silences: &[],
    silences_rules: &[],
    remedy: "use fewer and larger requests (rsize, larger files), more of them at a time (nconnect, more readers), a \
        local copy or cache (fscache); the round trip includes network and server",
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
        |requests, each| format!("{requests} requests to the NFS server took {each} each"),
    )
}
