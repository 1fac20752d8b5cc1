//! Limits of rules as they are asked for: those of a file, and rules that are not judged by.

use super::arguments::Arguments;
use super::refusals::failure::Failure;
use crate::findings::is_rule;
use crate::findings::limits::Limits;

pub fn asked(arguments: &Arguments) -> Result<Limits, Failure> {
    let mut limits = Limits::default();
    if let Some(path) = &arguments.rules {
        let wrong = |why: String| Failure::Rules(path.clone(), why);
        let text = std::fs::read_to_string(path).map_err(|error| wrong(format!("cannot be read ({error})")))?;
        limits.amend(&text).map_err(wrong)?;
    }
    if let Some(id) = arguments.ignore.iter().find(|id| !is_rule(id)) {
        return Err(Failure::NoRule(id.clone()));
    }
    limits.ignored.clone_from(&arguments.ignore);
    Ok(limits)
}
