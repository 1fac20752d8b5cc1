//! Errors in a command line, in the words of all other errors: what is wrong, and what to do.

use std::error::Error;
use std::ffi::OsString;
use std::path::Path;

use super::words::nearest;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The standard library's reason for text that is not a number.
const NO_NUMBER: &str = "invalid digit found in string";

/// Returns the message of a program for an error in the words that it was started with; `None` for help, versions and errors
/// that are rare.
pub fn message(error: &clap::Error, typed: &[OsString]) -> Option<String> {
    let started = typed.first().and_then(|first| Path::new(first).file_name()).map(|name| name.to_string_lossy());
    Some(format!("{}: {}", started.as_deref().unwrap_or("error"), reason(error)?))
}

fn reason(error: &clap::Error) -> Option<String> {
    let program = program_of(error);
    let help = format!("{program} --help lists");
    let typed = text(error, ContextKind::InvalidArg);
    let option = typed.as_deref().map_or("", |typed| typed.split(' ').next().unwrap_or(typed));
    let said = match error.kind() {
        ErrorKind::UnknownArgument if option.starts_with('-') => {
            let (given, near) = (hint(error), meant(error, ContextKind::SuggestedArg, option));
            format!("unknown option {option}; {}", given.or(near).unwrap_or(format!("{help} its options")))
        }
        ErrorKind::UnknownArgument => format!("unexpected argument {option}; {help} its arguments"),
        ErrorKind::InvalidSubcommand => {
            let command = text(error, ContextKind::InvalidSubcommand)?;
            let other =
                if program.contains(' ') { String::new() } else { format!(" and no program {program}-{command}") };
            let near = meant(error, ContextKind::SuggestedSubcommand, &command);
            format!(
                "there is no command {command}{other}; {}",
                near.unwrap_or(format!("{help} the commands of {program}"))
            )
        }
        ErrorKind::InvalidValue => match text(error, ContextKind::InvalidValue).filter(|value| !value.is_empty()) {
            None => format!("{option} needs a value: {}", typed.as_deref()?),
            Some(value) => {
                let near = meant(error, ContextKind::SuggestedValue, &value);
                let near = near.map_or("unknown value; the".into(), |near| format!("{near} The"));
                format!("{option} {value}: {near} values are {}", text(error, ContextKind::ValidValue)?)
            }
        },
        ErrorKind::ValueValidation => {
            let (value, reason) = (text(error, ContextKind::InvalidValue)?, error.source()?.to_string());
            let reason = if reason == NO_NUMBER { "expected a number".into() } else { reason };
            // Some reasons contain the value.
            if value.len() > 3 && reason.contains(&value) {
                format!("{option}: {reason}")
            } else {
                format!("{option} {value}: {reason}")
            }
        }
        ErrorKind::ArgumentConflict => {
            let prior = text(error, ContextKind::PriorArg)?;
            match prior.split(' ').next() {
                Some(prior) if prior == option => format!("{option} was given twice; omit one"),
                prior => format!("{option} cannot be used with {}; omit one", prior?),
            }
        }
        ErrorKind::MissingRequiredArgument => {
            let needs = only_other(error, option).map_or("missing".into(), |other| format!("{other} needs"));
            format!("{needs} {}; {program} --help has examples", typed.as_deref()?)
        }
        _ => return None,
    };
    Some(said)
}

/// Returns the only option that was given, besides the missing one; `None` if no option or several ones were given, or if a
/// required argument is missing.
fn only_other(error: &clap::Error, missing: &str) -> Option<String> {
    let usage = usage_of(error);
    let mut given =
        usage.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 2 && *word != missing);
    given.next().filter(|_| missing.starts_with("--") && given.next().is_none()).map(str::to_string)
}

/// Returns the usage that belongs to an error: the options that were given or are required.
fn usage_of(error: &clap::Error) -> String {
    match error.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => usage.to_string(),
        _ => String::new(),
    }
}

/// Returns the program and its command, as the usage of the error names them.
fn program_of(error: &clap::Error) -> String {
    let usage = usage_of(error);
    let words = usage.trim_start_matches("Usage:").split_whitespace();
    let program: Vec<_> = words.take_while(|word| !word.starts_with(['-', '<', '['])).collect();
    if program.is_empty() { "this command".into() } else { program.join(" ") }
}

/// Returns a hint that was added to the error; the parser's own is that any word may follow `--`.
fn hint(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::StyledStrs(hints)) = error.get(ContextKind::Suggested) else { return None };
    hints.iter().map(|hint| hint.to_string()).find(|hint| !hint.contains("as a value"))
}

/// Returns a question for the suggestion, if it differs from the typed word by a slip.
fn meant(error: &clap::Error, kind: ContextKind, typed: &str) -> Option<String> {
    let suggestions = match error.get(kind)? {
        ContextValue::String(one) => vec![one.clone()],
        ContextValue::Strings(all) => all.clone(),
        _ => return None,
    };
    // The dashes that all options begin with make none of them similar.
    let name = |option: &str| option.trim_start_matches('-').to_string();
    let near = nearest(&name(typed), suggestions.iter().map(|option| option.trim_start_matches('-')))?.to_string();
    suggestions.into_iter().find(|option| name(option) == near).map(|near| format!("did you mean {near}?"))
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => Some(texts.join(", ")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::message;

    #[test]
    fn errors_say_what_is_wrong_and_what_to_do() {
        let command = || {
            let verb = clap::Command::new("run").arg(clap::arg!(<FILE>)).arg(clap::arg!(--near <N>));
            let how = clap::arg!(--how <HOW>).value_parser(["text", "json"]);
            let many = clap::arg!(--many <N>).value_parser(clap::value_parser!(u32)).conflicts_with("how");
            let fine = clap::arg!(--fine).requires("size");
            let size = clap::arg!(--size <N>);
            clap::Command::new("prog").args([how, many, fine, size]).subcommand(verb)
        };
        for (typed, expected) in [
            ("--howw text", "prog: unknown option --howw; did you mean --how?"),
            ("--where x", "prog: unknown option --where; prog --help lists its options"),
            ("runn", "prog: there is no command runn and no program prog-runn; did you mean run?"),
            ("--how jsn", "prog: --how jsn: did you mean json? The values are text, json"),
            ("--how xyzzy", "prog: --how xyzzy: unknown value; the values are text, json"),
            ("--how", "prog: --how needs a value: --how <HOW>"),
            ("--many x", "prog: --many x: expected a number"),
            ("--many 1 --how text", "prog: --many cannot be used with --how; omit one"),
            ("run", "prog: missing <FILE>; prog run --help has examples"),
            ("--fine", "prog: --fine needs --size <N>; prog --help has examples"),
            ("run a b", "prog: unexpected argument b; prog run --help lists its arguments"),
        ] {
            let words: Vec<OsString> = ["/bin/prog"].into_iter().chain(typed.split(' ')).map(OsString::from).collect();
            let error = command().try_get_matches_from(&words).unwrap_err();
            assert_eq!(message(&error, &words).as_deref(), Some(expected), "{typed}: {error}");
        }
        let help = command().try_get_matches_from(["prog", "--help"]).unwrap_err();
        assert_eq!(message(&help, &[]), None);
    }
}
