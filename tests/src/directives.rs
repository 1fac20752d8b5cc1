//! Directives: the first lines of a program, which describe its test.
//!
//! A directive is a comment line `//= key: value` (C) or `#= key: value` (shell, Python); other comments are for
//! readers.
//!
//! | key | meaning | default |
//! |---|---|---|
//! | `case: NAME` | begins a case: it has all directives before the first case, and those that follow it | one case without a name |
//! | `run: ARGS` | arguments; `{work}`, `{trace}`, `{library}`, `{preload}`, `{source}` are replaced | none |
//! | `env: NAME=VALUE` | an environment variable, traced and untraced alike | |
//! | `compile: FLAGS` | further arguments for the C compiler; `{library}` is replaced | |
//! | `library: FILE` | a C file of `tests/libraries`, built as a shared object next to the program | |
//! | `needs: COMMAND` | a command, or `root`, without which the case is skipped with a message | |
//! | `exit: N` or `exit: signal N` | its exit, traced or not | 42 |
//! | `events: NAME=N ...` | exactly these events, over all its processes; other waits are allowed unless they are named | not checked |
//! | `among: NAME=N ...` | exact numbers of these operations; others are ignored | |
//! | `on SUFFIX: NAME=N ...` | exactly these events on files whose path has this suffix, or on all objects of a kind: `<pipe>` | |
//! | `bytes: NAME=N ...` | bytes moved by all events of a name | |
//! | `positions NAME: N ? ...` | positions of the events of a name in order; `?` is unknown | |
//! | `results NAME: N ...` | results of the events of a name in order | |
//! | `threads: NAME ...` | names of threads other than their process's | not checked |
//! | `files: N` | different paths of the events | |
//! | `processes: N` | process images with a trace | 1 |
//! | `endings: A, B` | their endings, in any order: `exit N`, `exec`, `killed` | `exit 42` for each |
//! | `lost: N` | events counted as lost; `*` for any number | 0 |
//! | `done: N` | recorded and lost events together | |
//! | `says: TEXT` | the tracer prints a message with this text on stderr | it prints nothing |
//! | `may-say: TEXT` | the tracer may print a message with this text | |
//! | `damage: yes` | parts of the trace may be damaged | none are |
//! | `leftovers: yes` | the native file and its ring may remain | they are removed |
//! | `passes: off filtered` | further cases: no trace when switched off, no file when all are excluded | |
//! | `waits: no` | the trace is read when the program itself has ended, even if others still run | waits for all it started |
//! | `formats: native auto` | formats to be tried | both |
//!
//! Numbers may be products (`3*1000`) and lower bounds (`>=5`).

use std::collections::BTreeMap;

/// One run of a program and its expected results.
#[derive(Clone, Debug, Default)]
pub struct Case {
    pub name: String,
    pub arguments: Vec<String>,
    pub variables: Vec<(String, String)>,
    pub compile: Vec<String>,
    pub library: Option<String>,
    pub needs: Vec<String>,
    pub exit: Option<String>,
    pub events: Option<Counts>,
    pub among: Counts,
    pub on: Vec<(String, Counts)>,
    pub bytes: Counts,
    pub positions: Vec<(String, Vec<Option<i64>>)>,
    pub results: Vec<(String, Vec<i64>)>,
    pub threads: Option<Vec<String>>,
    pub files: Option<Number>,
    pub processes: Option<Number>,
    pub endings: Option<Vec<String>>,
    pub lost: Option<Number>,
    pub done: Option<Number>,
    pub says: Vec<String>,
    pub may_say: Vec<String>,
    pub passes: Vec<String>,
    pub formats: Vec<String>,
    pub damage: bool,
    pub leftovers: bool,
    pub hurries: bool,
    /// No event on a file with a path is allowed.
    pub no_files: bool,
}

pub type Counts = BTreeMap<String, Number>;

/// A count to be equal, or to be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    Exactly(u64),
    AtLeast(u64),
    Any,
}

impl Number {
    pub fn parse(text: &str) -> Result<Number, String> {
        let product = |text: &str| -> Result<u64, String> {
            let factors = text.split('*').map(|part| part.trim().parse::<u64>());
            factors.product::<Result<u64, _>>().map_err(|_| format!("`{text}` is not a number"))
        };
        match text.strip_prefix(">=") {
            _ if text == "*" => Ok(Number::Any),
            Some(least) => product(least).map(Number::AtLeast),
            None => product(text).map(Number::Exactly),
        }
    }

    pub fn allows(self, found: u64) -> bool {
        match self {
            Number::Exactly(expected) => found == expected,
            Number::AtLeast(least) => found >= least,
            Number::Any => true,
        }
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Number::Exactly(n) => write!(f, "{n}"),
            Number::AtLeast(n) => write!(f, "at least {n}"),
            Number::Any => write!(f, "any number"),
        }
    }
}

/// Returns all cases of a program's text, including those requested by `passes`.
pub fn cases(source: &str) -> Result<Vec<Case>, String> {
    let mut common = Case::default();
    let mut named: Vec<Case> = Vec::new();
    for line in source.lines().filter_map(directive) {
        let (key, value) = line.split_once(':').ok_or(format!("a directive without a colon: `{line}`"))?;
        let (key, value) = (key.trim(), value.trim());
        match key {
            "case" => named.push(Case { name: value.to_string(), ..common.clone() }),
            _ => take(named.last_mut().unwrap_or(&mut common), key, value)?,
        }
    }
    let mut all = if named.is_empty() { vec![common] } else { named };
    let passing: Vec<Case> = all.first().into_iter().flat_map(passing).collect();
    all.extend(passing);
    Ok(all)
}

fn directive(line: &str) -> Option<&str> {
    line.strip_prefix("//= ").or_else(|| line.strip_prefix("#= "))
}

/// Returns cases with the same calls, not recorded.
fn passing(case: &Case) -> Vec<Case> {
    let bare = || Case {
        arguments: case.arguments.clone(),
        variables: case.variables.clone(),
        compile: case.compile.clone(),
        library: case.library.clone(),
        needs: case.needs.clone(),
        exit: case.exit.clone(),
        endings: None,
        formats: vec!["native".into()],
        ..Case::default()
    };
    let variable = |name: &str, value: &str| (name.to_string(), value.to_string());
    let of = |kind: &String| {
        let mut passed = Case { name: kind.clone(), ..bare() };
        match kind.as_str() {
            "off" => {
                passed.variables.push(variable("DLIO_TRACE", "0"));
                passed.processes = Some(Number::Exactly(0));
            }
            _ => {
                passed.variables.push(variable("DLIO_TRACE_EXCLUDE", "/**"));
                (passed.no_files, passed.processes) = (true, Some(Number::Any));
            }
        }
        passed
    };
    case.passes.iter().map(of).collect()
}

fn take(case: &mut Case, key: &str, value: &str) -> Result<(), String> {
    let words = || value.split_whitespace().map(str::to_string).collect::<Vec<_>>();
    let list = || value.split(',').map(|part| part.trim().to_string()).filter(|part| !part.is_empty()).collect();
    match key.split_once(' ').unwrap_or((key, "")) {
        ("run", "") => case.arguments = words(),
        ("env", "") => case.variables.push(pair(value)?),
        ("compile", "") => case.compile = words(),
        ("library", "") => case.library = Some(value.to_string()),
        ("needs", "") => case.needs = words(),
        ("exit", "") => case.exit = Some(value.to_string()),
        ("events", "") => case.events = Some(counts(value)?),
        ("among", "") => case.among = counts(value)?,
        ("on", suffix) => case.on.push((suffix.to_string(), counts(value)?)),
        ("bytes", "") => case.bytes = counts(value)?,
        ("positions", name) => case.positions.push((name.to_string(), positions(value)?)),
        ("results", name) => {
            let results = value.split_whitespace().map(|word| word.parse().map_err(|_| format!("`{word}`")));
            case.results.push((name.to_string(), results.collect::<Result<_, _>>()?));
        }
        ("threads", "") => case.threads = Some(words()),
        ("files", "") => case.files = Some(Number::parse(value)?),
        ("processes", "") => case.processes = Some(Number::parse(value)?),
        ("endings", "") => case.endings = Some(list()),
        ("lost", "") => case.lost = Some(Number::parse(value)?),
        ("done", "") => case.done = Some(Number::parse(value)?),
        ("says", "") => case.says.push(value.to_string()),
        ("may-say", "") => case.may_say.push(value.to_string()),
        ("damage", "") => case.damage = value == "yes",
        ("leftovers", "") => case.leftovers = value == "yes",
        ("waits", "") => case.hurries = value == "no",
        ("passes", "") => case.passes = words(),
        ("formats", "") => case.formats = words(),
        _ => return Err(format!("no directive is called `{key}`")),
    }
    Ok(())
}

fn pair(value: &str) -> Result<(String, String), String> {
    let (name, value) = value.split_once('=').ok_or(format!("`{value}` is not NAME=VALUE"))?;
    Ok((name.to_string(), value.to_string()))
}

fn counts(value: &str) -> Result<Counts, String> {
    let mut all = Counts::new();
    for word in value.split_whitespace() {
        let (name, number) = pair(word)?;
        dlio_schemas::ops::Op::from_name(&name).ok_or(format!("no operation is called `{name}`"))?;
        all.insert(name, Number::parse(&number)?);
    }
    Ok(all)
}

fn positions(value: &str) -> Result<Vec<Option<i64>>, String> {
    let number = |word: &str| match word {
        "?" => Ok(None),
        _ => word.parse().map(Some).map_err(|_| format!("`{word}` is not a position")),
    };
    value.split_whitespace().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_inherits_the_common_directives() {
        let all =
            cases("//= exit: 0\n// prose\n//= case: one\n//= run: a b\n//= case: two\n//= events: read=2*3\n").unwrap();
        assert_eq!(all.iter().map(|case| case.name.as_str()).collect::<Vec<_>>(), ["one", "two"]);
        assert_eq!((all[0].arguments.len(), all[1].arguments.len()), (2, 0));
        assert_eq!(all[1].events.as_ref().unwrap()["read"], Number::Exactly(6));
        assert!(all.iter().all(|case| case.exit.as_deref() == Some("0")));
    }

    #[test]
    fn passing_calls_are_separate_cases() {
        let all = cases("#= passes: off filtered\n#= events: read=1\n").unwrap();
        assert_eq!(all.len(), 3);
        assert_eq!(all[1].processes, Some(Number::Exactly(0)));
        assert!(all[2].no_files && all[2].events.is_none());
    }

    #[test]
    fn typing_errors_are_errors() {
        for wrong in ["//= evnts: read=1", "//= events: raed=1", "//= events: read", "//= lost: few"] {
            assert!(cases(wrong).is_err(), "{wrong}");
        }
    }
}
