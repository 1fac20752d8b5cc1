//! Options of other tools, as users type them here, and what does the same.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Options with the same meaning, and what to type instead.
pub type Equivalents = &'static [(&'static [&'static str], &'static str)];

/// Options typed for `dlio-analyze`.
pub const ANALYZE: Equivalents = &[
    (&["-n", "--limit", "--rows", "--head", "--count"], "use --top N for tables, `limit N` in a query"),
    (
        &["-i", "-d", "--input", "--trace", "--trace-dir", "--dir"],
        "pass the trace without an option: dlio-analyze TRACE",
    ),
    (&["-f"], "use --format FORMAT, or pass the trace without an option: dlio-analyze TRACE"),
    (&["-j", "--jobs"], "use --threads N"),
    (&["--json"], "use --format json"),
    (&["--csv"], "use --format csv"),
    (&["--md", "--markdown"], "use --format markdown"),
    (&["-v", "--verbose", "--details"], "use --full"),
    (&["-q", "--quiet", "--silent"], "use -o FILE for the results; --no-progress hides the bar"),
    (
        &["--name", "--function", "--functions", "--syscall", "--event", "--filter", "--where"],
        "use --call NAME, --cat CAT, --file GLOB or --pid PID, or --sql with `where`",
    ),
    (&["--start", "--since", "--begin"], "use --from TIME"),
    (&["--end", "--until", "--stop"], "use --to TIME"),
    (&["--duration", "--length"], "use --for TIME"),
    (&["--sort", "--order"], "tables are sorted by time; use --sql with `order by`"),
    (&["--process", "-p"], "use --pid PID"),
    (&["--category", "--layer"], "use --cat CAT"),
    (&["--path", "--include"], "use --file GLOB"),
    (&["--exclude"], "use --sql with a condition such as `file not like '/tmp/%'`"),
    (&["--stdio", "--no-pager", "--text"], "text is the default; omit it"),
    (&["-c", "-C"], "use --section functions, which counts calls by function"),
    (&["-s", "--query"], "use --sql QUERY"),
    (&["--report", "--page"], "use --html FILE"),
    (&["--diff", "--baseline"], "use --compare TRACE"),
    (&["--schema", "--list-tables", "--columns"], "use --tables"),
    (&["--list", "--sections", "--rules-list"], "use --explain"),
    (&["-w", "--write", "--out"], "use -o FILE"),
    (&["--port", "--serve", "--open"], "use --view"),
];

/// Options typed for `dlio top`.
pub const TOP: Equivalents = &[
    (&["-p", "--pid", "-u", "--user"], "all programs that trace into DIR are shown: dlio top DIR"),
    (&["-d", "-s", "--delay", "-i"], "use --interval SECONDS"),
    (&["-n", "-1", "--iterations", "-b", "--batch"], "use --once"),
    (&["--for", "--duration"], "use --once --interval SECONDS, which measures once for that time"),
    (&["--json"], "use --format json"),
    (&["-o"], "use --sort ORDER; redirect the output with > FILE"),
    (&["--prometheus", "--metrics"], "use --format openmetrics"),
];

/// Returns the message for an option of other tools; `None` for any other error.
pub fn message(error: &clap::Error, program: &str, known: Equivalents) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else { return None };
    let (_, instead) = known.iter().find(|(names, _)| names.contains(&typed.as_str()))?;
    Some(format!("{program}: unknown option {typed}; {instead}"))
}
