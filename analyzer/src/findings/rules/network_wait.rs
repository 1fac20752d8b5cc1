//! Detects readers that wait for a server.

use super::super::causes::by_cause;
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::report::findings::Confidence;
use crate::summary::waits::parts::Part;

pub const RULE: Rule = Rule {
    id: "network-wait",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Exact,
    asks: "25 % or more of the wait is for messages from the network",
    silences: &[],
    silences_rules: &[],
    remedy: "keep connections open between requests, and request more samples at the same time; if the run is not faster, the \
        server is at its limit: use larger requests, or a local copy or cache",
    torch: "keep connections open between requests, and raise num_workers; if the run is not faster, the server is at its limit: \
        use larger requests, or a local copy or cache",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

/// Change to make if the connections stay open: there are few of them.
const FEW_CONNECTIONS: &str = "send more requests at the same time, over more connections; if the run is not faster, the server \
    is at its limit: use larger requests, or a local copy or cache";
const FEW: u64 = 8;

fn judge(case: &Case) -> Judgement {
    let judgement = by_cause(case, &[Part::Network], |share| {
        format!("{share} of the wait was for the network: connections, name look-ups, responses")
    });
    let stay_open = case.summary.dataset.peers.first().is_some_and(|end| end.connections <= FEW);
    Judgement { remedy: stay_open.then_some(FEW_CONNECTIONS), ..judgement }
}
