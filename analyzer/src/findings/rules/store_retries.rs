//! Detects requests to an object store that fail and are retried.

use super::super::requests;
use super::super::{Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::report::findings::Confidence;

pub const RULE: Rule = Rule {
    id: "store-retries",
    group: Group::Access,
    cost: Cost::Always,
    confidence: Confidence::Exact,
    asks: "1 % or more of the requests to an object store cannot connect, lose their connection, time out, or are \
        answered with 5xx",
    silences: &[],
    silences_rules: &[],
    remedy: "check the path to the store and its limits: connections at once, idle timeouts, a proxy in between; \
        longer timeouts only hide the problem",
    torch: "",
    elsewhere: "",
    verify: "dlio-analyze TRACE --section failures",
    judge,
};

/// Failures after which a client retries.
const BROKEN: [&str; 7] = ["EIO", "ETIMEDOUT", "ECONNRESET", "ECONNREFUSED", "ECONNABORTED", "EPIPE", "EHOSTUNREACH"];

fn judge(case: &Case) -> Judgement {
    requests::judge(case, &BROKEN, "failed")
}
