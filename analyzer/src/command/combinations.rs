//! Rejects options that have no effect in combination with the rest of the command line.

use std::collections::BTreeSet;
use std::path::Path;

use super::arguments::Arguments;
use crate::tables::output::Format;

/// Options that request a result, by their ids.
const RESULTS: [&str; 23] = [
    "summary",
    "full",
    "section",
    "findings",
    "brief",
    "what_if",
    "sql",
    "shell",
    "html",
    "parquet",
    "export",
    "cut",
    "perfetto",
    "chrome",
    "view",
    "workload",
    "compare",
    "fail_if",
    "tables",
    "explain",
    "show_sql",
    "completions",
    "man",
];

/// Results that are computed alone, and the results that may be combined with them.
const ALONE: [(&str, &[&str]); 9] = [
    ("completions", &[]),
    ("man", &[]),
    ("tables", &["show_sql", "explain"]),
    ("show_sql", &["tables", "explain"]),
    ("workload", &["explain"]),
    ("brief", &[]),
    ("similarity", &["compare", "explain"]),
    ("compare", &["fail_if", "html", "explain", "what_if"]),
    ("fail_if", &["compare", "html", "explain"]),
];

/// Options that change only some results: the option, these results, and what to do instead.
const ONLY: [(&str, &[&str], &str); 12] = [
    ("format", &PRINTED, "omit it, or add --summary or --sql"),
    ("output", &PRINTED, "omit it, or add --summary or --sql"),
    ("top", &TABLED, "write `limit N` into a query"),
    ("rules", &JUDGED, "omit it, or add --findings"),
    ("ignore", &JUDGED, "omit it, or add --findings"),
    ("exact", &QUANTILES, "omit it, or add --summary"),
    ("sql_files", &["sql", "shell"], "add --sql or --shell"),
    ("compress", &["export", "cut", "perfetto", "view"], "add --export FILE.pftrace"),
    ("all", &["export", "perfetto", "chrome", "view"], "add --export or --view"),
    ("force", &["export", "perfetto", "chrome", "html", "workload"], "omit it: -o replaces a file anyway"),
    ("no_cache", &OF_A_TRACE, "omit it"),
    ("strict", &OF_A_TRACE, "omit it"),
];

/// Results that are printed.
const PRINTED: [&str; 14] = [
    "summary", "full", "section", "findings", "brief", "what_if", "sql", "shell", "compare", "fail_if", "workload",
    "explain", "tables", "show_sql",
];
const TABLED: [&str; 7] = ["summary", "full", "section", "findings", "html", "compare", "fail_if"];
const JUDGED: [&str; 12] = [
    "summary", "full", "section", "findings", "brief", "html", "compare", "fail_if", "sql", "shell", "parquet",
    "explain",
];
const QUANTILES: [&str; 7] = ["summary", "full", "section", "findings", "brief", "html", "parquet"];

/// Results that read a trace.
const OF_A_TRACE: [&str; 18] = [
    "summary", "full", "section", "findings", "brief", "what_if", "sql", "shell", "html", "parquet", "export",
    "perfetto", "chrome", "view", "workload", "compare", "fail_if", "cut",
];

/// Options that select events.
const FILTERS: [&str; 13] =
    ["run", "from", "to", "for", "window", "epoch", "step", "pid", "rank", "file", "cat", "call", "min_dur"];

/// Returns a message about an option that has no effect; `None` if all have one.
pub fn without_effect(typed: &Arguments) -> Option<String> {
    let given: BTreeSet<&str> = typed.given.iter().map(String::as_str).collect();
    lost_result(&given)
        .or_else(|| contained(&given))
        .or_else(|| documents(typed))
        .or_else(|| lost_option(typed, &given))
        .or_else(|| same_file(typed))
}

/// Finds a result that would not be computed because of another one.
fn lost_result(given: &BTreeSet<&str>) -> Option<String> {
    let (alone, with) = ALONE.iter().find(|(alone, _)| given.contains(alone))?;
    let lost = RESULTS.iter().find(|other| *other != alone && given.contains(*other) && !with.contains(other))?;
    Some(format!("{} has no effect with {}; run dlio-analyze once for each", option(lost), option(alone)))
}

/// Finds a request for a part of the report next to one for all of it.
fn contained(given: &BTreeSet<&str>) -> Option<String> {
    let parts = ["section", "findings"].into_iter().find(|part| given.contains(part))?;
    let whole = ["full", "summary"].into_iter().find(|whole| given.contains(whole))?;
    let part = option(parts);
    Some(match whole {
        "full" => format!("{part} selects a part of the report, and --full prints all of it; omit one"),
        _ => format!("{part} prints a part of the summary instead of --summary; omit one"),
    })
}

/// Finds several documents in one output.
fn documents(typed: &Arguments) -> Option<String> {
    let printed = typed.prints_report();
    if typed.needs_no_trace() || typed.wants_comparison() || typed.workload.is_some() {
        return None;
    }
    if typed.format == Format::Json
        && usize::from(printed) + usize::from(!typed.what_if.is_empty()) + typed.sql.len() > 1
    {
        let why = "--format json writes one document; request one result at a time, or only rows with --format ndjson";
        return Some(why.into());
    }
    let pages_to_stdout = typed.html.as_deref() == Some(Path::new("-"));
    if pages_to_stdout && typed.output.is_none() && (printed || !typed.sql.is_empty() || !typed.what_if.is_empty()) {
        let why = "--html - writes a page to standard output, where other results go too; write them to a file with -o";
        return Some(why.into());
    }
    None
}

/// Finds an option that changes no requested result.
fn lost_option(typed: &Arguments, given: &BTreeSet<&str>) -> Option<String> {
    let mut results: Vec<&str> = RESULTS.iter().copied().filter(|result| given.contains(result)).collect();
    if typed.prints_report() && !typed.needs_no_trace() && typed.workload.is_none() && !typed.is_about_itself() {
        results.push("summary");
    }
    let lost = |applies: &[&str]| !results.iter().any(|result| applies.contains(result));
    let named = || results.iter().map(|result| option(result)).collect::<Vec<_>>().join(", ");
    if let Some((name, _, hint)) = ONLY.iter().find(|(name, applies, _)| given.contains(name) && lost(applies)) {
        return Some(format!("{} has no effect with {}; {hint}", option(name), named()));
    }
    // Tables, queries and completions are only text, and the brief result is only JSON.
    let text = ["tables", "show_sql", "workload", "explain", "brief"].map(|result| (result, "format"));
    let only_text = text.iter().find(|(result, name)| given.contains(name) && results == [*result]);
    if let Some((result, name)) = only_text {
        return Some(format!("{} has no effect with {}; omit it", option(name), option(result)));
    }
    let filter = FILTERS.iter().find(|filter| given.contains(*filter) && lost(&OF_A_TRACE))?;
    Some(format!("{} selects events, and {} reads no trace; omit it", option(filter), named()))
}

/// Finds two results that would be written to the same file.
fn same_file(typed: &Arguments) -> Option<String> {
    let one = [&typed.output, &typed.html, &typed.workload, &typed.parquet, &typed.cut, &typed.perfetto, &typed.chrome];
    let mut files = BTreeSet::new();
    let mut all = one.into_iter().flatten().chain(&typed.export).filter(|path| *path != Path::new("-"));
    let twice = all.find(|path| !files.insert(std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())))?;
    Some(format!("{} would be written twice; pass a path for each result", twice.display()))
}

/// Returns the option of an id, as it is typed.
fn option(id: &str) -> String {
    if id == "output" { "-o".into() } else { format!("--{}", id.replace('_', "-")) }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn told(words: &[&str]) -> Option<String> {
        let words = [&["dlio-analyze", "t"], words].concat();
        without_effect(&Arguments::parse_in_order(words.into_iter().map(OsString::from).collect()))
    }

    #[test]
    fn options_without_effect_are_reported() {
        for (words, option) in [
            (&["--format", "json", "--html", "x.html"][..], "--format"),
            (&["--top", "3", "--sql", "select 1"], "--top"),
            (&["--format", "json", "--summary", "--sql", "select 1"], "--format json"),
            (&["--format", "json", "--sql", "select 1", "--sql", "select 2"], "--format json"),
            (&["--format", "json", "--findings", "--what-if", "storage=2"], "--format json"),
            (&["--html", "-", "--summary"], "--html -"),
            (&["--html", "-", "--what-if", "storage=2"], "--html -"),
            (&["--tables", "--sql", "select 1"], "--sql"),
            (&["--tables", "--pid", "3"], "--pid"),
            (&["--tables", "--format", "json"], "--format"),
            (&["--completions", "bash", "--findings"], "--findings"),
            (&["--compare", "b", "--sql", "select 1"], "--sql"),
            (&["--compare", "b", "--parquet", "d"], "--parquet"),
            (&["--compare", "b", "--findings"], "--findings"),
            (&["--compare", "b", "--similarity", "--html", "x.html"], "--html"),
            (&["--fail-if", "wait.share > 5%", "--sql", "select 1"], "--sql"),
            (&["--workload", "j.yaml", "--findings"], "--findings"),
            (&["--workload", "j.yaml", "--ignore", "small-reads"], "--ignore"),
            (&["--full", "--section", "files"], "--section"),
            (&["--brief", "--findings"], "--findings"),
            (&["--brief", "--format", "json"], "--format"),
            (&["--summary", "--findings"], "--findings"),
            (&["--export", "x.json", "--rules", "f"], "--rules"),
            (&["--export", "x.json", "-o", "f"], "-o"),
            (&["--sql", "select 1", "--all"], "--all"),
            (&["--exact", "--view"], "--exact"),
            (&["--force"], "--force"),
            (&["--sql-files"], "--sql-files"),
            (&["--compress", "zstd"], "--compress"),
            (&["--html", "x", "--export", "./x.json", "--export", "x.json"], "./x.json"),
        ] {
            let message = told(words);
            let is_about = |text: &String| text.starts_with(option) || text.contains(option.trim_start_matches("./"));
            assert!(message.as_ref().is_some_and(is_about), "{words:?}: {message:?}");
        }
    }

    #[test]
    fn options_with_an_effect_are_accepted() {
        for words in [
            &["--format", "json"][..],
            &["--html", "-"],
            &["--html", "x.html", "--summary", "--format", "json"],
            &["--top", "3", "--summary", "--sql", "select 1"],
            &["--html", "-", "--sql", "select 1", "-o", "rows"],
            &["--format", "csv", "--sql", "select 1", "--sql", "select 2"],
            &["--what-if", "storage=2", "--findings"],
            &["--what-if", "storage=2", "--format", "json"],
            &["--compare", "b", "--fail-if", "io.s > 2", "--html", "x.html", "--top", "3"],
            &["--fail-if", "io.s > 2", "--ignore", "small-reads"],
            &["--explain", "--rules", "f"],
            &["--tables", "-o", "f"],
            &["--export", "x.json", "--all", "--force", "--pid", "3"],
            &["--parquet", "d", "--exact", "--memory", "1GiB"],
            &["--workload", "j.yaml", "--force", "--run", "1"],
            &["--html", "x", "--export", "x.json", "--parquet", "p", "--sql", "select 1"],
        ] {
            assert_eq!(told(words), None, "{words:?}");
        }
    }
}
