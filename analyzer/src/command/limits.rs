//! The limits of rules: a file that changes them, and ignored rules.

use std::path::Path;

use super::refusals::failure::Failure;
use crate::findings::is_rule;
use crate::findings::limits::Limits;

/// Reads limits from a file, if there is one, and removes ignored rules.
pub fn read(rules: Option<&Path>, ignored: &[String]) -> Result<Limits, Failure> {
    let mut limits = Limits::default();
    if let Some(path) = rules {
        let wrong = |why: String| Failure::Rules(path.into(), why);
        let text = std::fs::read_to_string(path)
            .map_err(|error| wrong(format!("{error}; pass a file with lines like `input-bound.wait = 0.1`")))?;
        limits.amend(&text).map_err(wrong)?;
    }
    if let Some(id) = ignored.iter().find(|id| !is_rule(id)) {
        return Err(Failure::NoRule(id.clone()));
    }
    limits.ignored = ignored.to_vec();
    Ok(limits)
}
