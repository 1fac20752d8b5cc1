//! Detects an object store that throttles requests.

use super::super::requests;
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::report::findings::Confidence;

pub const RULE: Rule = Rule {
    id: "store-throttled",
    group: Group::Access,
    cost: Cost::Always,
    confidence: Confidence::Exact,
    asks: "an object store answers 1 % or more of the requests with 503 or 429",
    silences: &[],
    silences_rules: &[],
    remedy: "send fewer requests at once, larger ones (shards, larger ranges), spread names over more prefixes, use \
        more endpoints",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    requests::judge(case, &["EBUSY"], "were answered with 503 or 429")
}
