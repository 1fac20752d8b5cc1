//! Detects calls that failed because of the system or its storage.

use super::super::{Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::count::kinds::OBJECT;
use crate::summary::figures::units::{grouped, many};
use crate::summary::report::failures::FailureUse;
use crate::summary::report::findings::Confidence;

pub const RULE: Rule = Rule {
    id: "failing-io",
    group: Group::Run,
    cost: Cost::Always,
    confidence: Confidence::Exact,
    asks: "any call on a file fails with an error such as EIO, ESTALE, ENOSPC or EMFILE",
    silences: &[],
    silences_rules: &[],
    remedy: "check storage or the mount (EIO, ESTALE), disk space or quota (ENOSPC, EDQUOT), open files and ulimit -n \
        (EMFILE, ENFILE), the server (ETIMEDOUT)",
    torch: "",
    elsewhere: "",
    verify: "dlio-analyze TRACE --section failures",
    judge,
};

/// Errors that do not answer a query: the system or its storage failed.
const BROKEN: [&str; 9] = ["EIO", "ESTALE", "ENOSPC", "EDQUOT", "EMFILE", "ENFILE", "ETIMEDOUT", "EREMOTEIO", "ENOMEM"];

fn judge(case: &Case) -> Judgement {
    // Skip requests to object stores: `store-retries` covers them.
    let broken =
        || case.summary.failures.iter().filter(|row| row.cat != OBJECT && BROKEN.contains(&row.error.as_str()));
    let count: u64 = broken().map(|row| row.count).sum();
    let row = |row: &FailureUse| {
        let file = row.file.as_deref().unwrap_or("no file");
        format!("{}: {} times {}, first on {file}", row.name, grouped(row.count), row.error)
    };
    Judgement {
        measures: vec![case.at_least("calls", Some(count as f64))],
        says: format!("{} on files failed with errors that a program cannot handle", many(count, "call", "calls")),
        evidence: broken().map(row).collect(),
        ..Judgement::default()
    }
}
