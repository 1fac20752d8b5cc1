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
    remedy: "use larger requests, connections that stay open, a local copy or cache; or more requests at a time, if the server \
             answers them side by side",
    torch: "use larger requests, connections that stay open, a local copy or cache; or a larger num_workers, if the server answers \
            more requests side by side",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

/// Change to make if the connections stay open: there are few of them.
const FEW_CONNECTIONS: &str = "send more requests at a time, over more connections, if the server answers them side by side; use larger requests, a \
    local copy or cache";
const FEW: u64 = 8;

fn judge(case: &Case) -> Judgement {
    let judgement = by_cause(case, &[Part::Network], |share| {
        format!("{share} of the wait was for the network: connections, name look-ups, responses")
    });
    let stay_open = case.summary.dataset.peers.first().is_some_and(|end| end.connections <= FEW);
    Judgement { remedy: stay_open.then_some(FEW_CONNECTIONS), ..judgement }
}
