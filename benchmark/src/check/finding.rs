//! A rule, its number in each version, and what it found.

use super::edition::Version;

/// The number of rules that have no number in the published rules, because only MLPerf's program checks them.
pub const TOOL: &str = "tool";

#[derive(Debug)]
pub struct Rule {
    /// The name in JSON, and in `Rules.md` if that has one.
    pub name: &'static str,
    /// Section of `Submission_guidelines.md` 2.0; empty if that version does not have the rule.
    pub v2: &'static str,
    /// Number in `Rules.md` of 3.0; empty if that version does not have the rule.
    pub v3: &'static str,
    pub title: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    Fail,
    /// Allowed in the open division, not in the closed one.
    OpenOnly,
    /// The files do not show it.
    Unknown,
    NotApplicable,
}

#[derive(Debug)]
pub struct Finding {
    pub rule: &'static Rule,
    pub verdict: Verdict,
    /// The workload, or empty for the whole directory.
    pub about: String,
    pub found: String,
    /// What to do, or what would decide an unknown rule.
    pub action: String,
}

impl Rule {
    pub fn number(&self, version: Version) -> Option<&'static str> {
        let number = match version {
            Version::V2 => self.v2,
            Version::V3 => self.v3,
        };
        (!number.is_empty()).then_some(number)
    }

    fn finding(&'static self, verdict: Verdict, found: impl Into<String>, action: impl Into<String>) -> Finding {
        Finding { rule: self, verdict, about: String::new(), found: found.into(), action: action.into() }
    }

    pub fn pass(&'static self, found: impl Into<String>) -> Finding {
        self.finding(Verdict::Pass, found, "")
    }

    pub fn fail(&'static self, found: impl Into<String>, action: impl Into<String>) -> Finding {
        self.finding(Verdict::Fail, found, action)
    }

    pub fn open_only(&'static self, found: impl Into<String>, action: impl Into<String>) -> Finding {
        self.finding(Verdict::OpenOnly, found, action)
    }

    pub fn unknown(&'static self, found: impl Into<String>, action: impl Into<String>) -> Finding {
        self.finding(Verdict::Unknown, found, action)
    }

    pub fn not_applicable(&'static self, found: impl Into<String>) -> Finding {
        self.finding(Verdict::NotApplicable, found, "")
    }

    /// Passes if nothing is wrong, and otherwise lists what is.
    pub fn unless(&'static self, wrong: &[String], right: impl Into<String>, action: impl Into<String>) -> Finding {
        if wrong.is_empty() { self.pass(right) } else { self.fail(listed(wrong), action) }
    }
}

/// Items that a text lists before it counts the rest.
const LISTED: usize = 4;

/// Returns the first items, and the number of the remaining ones.
pub fn listed(items: &[String]) -> String {
    let shown = items.iter().take(LISTED).cloned().collect::<Vec<_>>().join("; ");
    match items.len().saturating_sub(LISTED) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}
