//! Explains errors in a query: the position of a syntax error, or the table or column that was probably meant.

use std::fmt::Write;

use crate::schema::tables::TABLES;
use datafusion::common::{Column, SchemaError};
use datafusion::error::DataFusionError;
use dlio_schemas::words::{edits, nearest};

/// The largest edit distance at which two names count as a typo of each other.
const SLIPS_MAX: usize = 3;

/// Explains why the query failed, and shows the query with the position if it is known.
pub fn query_error(sql: &str, error: &DataFusionError) -> String {
    match error.find_root() {
        DataFusionError::ResourcesExhausted(_) => {
            format!(
                "cannot run the query: it needs more memory than --memory allows; raise it, or request fewer rows\n  {sql}"
            )
        }
        DataFusionError::SQL(unread, _) => unreadable(sql, &unread.to_string()),
        DataFusionError::SchemaError(known, _) if matches!(**known, SchemaError::FieldNotFound { .. }) => {
            let SchemaError::FieldNotFound { field, valid_fields } = &**known else { unreachable!("it matched") };
            format!("{}\n  {sql}", no_column(&field.name, valid_fields))
        }
        DataFusionError::Internal(message) if message.contains("Map(") => format!(
            "cannot run the query: args is a map, which has no smallest and no largest; use one of its keys: \
             min(args['key'])\n  {sql}"
        ),
        other if other.to_string().contains("common type to coerce Map(") => format!(
            "cannot run the query: args is a map, and the operator needs text or a number; use one of its keys: \
             args['key'] like '%x%'\n  {sql}"
        ),
        _ => format!("cannot run the query: {}\n  {sql}", plain(error)),
    }
}

/// Returns the reason without the wrappers of the library.
fn plain(error: &DataFusionError) -> String {
    let text = error.strip_backtrace();
    let text = text.split("\nThis issue was likely caused by a bug").next().unwrap_or_default().to_string();
    let known = [
        "External error: ",
        "SQL error: ",
        "Schema error: ",
        "Error during planning: ",
        "DataFusion error: ",
        "datafusion.public.",
        "Arrow error: ",
        "Execution error: ",
        "Internal error: ",
    ];
    let text = known.iter().fold(text, |text, wrapping| text.replace(wrapping, ""));
    let said =
        missing_table(&text).or_else(|| no_function(&text)).or_else(|| not_taken(&text)).or_else(|| not_coerced(&text));
    said.or_else(|| not_grouped(&text)).unwrap_or(text)
}

fn missing_table(text: &str) -> Option<String> {
    between(text, "table '", "' not found").map(no_table)
}

/// Returns the text between `before` and `behind`, if `text` starts with `before`.
fn between<'a>(text: &'a str, before: &str, behind: &str) -> Option<&'a str> {
    text.strip_prefix(before)?.split_once(behind).map(|(between, _)| between)
}

/// Rewrites an unknown function: the library suggests the nearest of 200 functions, however different it is.
fn no_function(text: &str) -> Option<String> {
    let name = between(text, "Invalid function '", "'")?;
    let near = text.split_once("Did you mean '").and_then(|(_, rest)| rest.split('\'').next());
    let near = near.filter(|near| edits(near, &name.to_lowercase()) <= SLIPS_MAX.min(name.len() / 2));
    let meant = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
    Some(format!("unknown function {name}{meant}"))
}

/// Rewrites wrong arguments of a function: the library gives one reason per accepted type.
fn not_taken(text: &str) -> Option<String> {
    let name = between(text, "Function '", "' failed to match any signature")?;
    let (_, given) = text.split_once("but received ")?;
    let given = given.split([' ', ',']).next()?;
    let mut taken: Vec<_> = text.split("' requires ").skip(1).filter_map(|rest| rest.split(',').next()).collect();
    taken.dedup();
    let hint = if given == "Int64" && taken.contains(&"Timestamp") { TO_TIMESTAMP } else { "" };
    Some(format!("{name} does not accept {given}; it expects {}{hint}", taken.join(", ")))
}

/// Functions of times need timestamps; the tables have integers.
const TO_TIMESTAMP: &str = "; convert a time with to_timestamp(ts)";

/// Rewrites wrong arguments of a function for which the library lists all its signatures.
fn not_coerced(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("Failed to coerce arguments to satisfy a call to '")?;
    let name = rest.split('\'').next()?;
    let (_, given) = rest.split_once("coercion from ")?;
    let given = given.split(" to the signature").next()?;
    let hint = if given.contains("Int64") && rest.contains("Timestamp") { TO_TIMESTAMP } else { "" };
    Some(format!("{name} does not accept ({given}){hint}"))
}

fn not_grouped(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("Column in SELECT must be in GROUP BY")?;
    let column = rest.split_once("column \"")?.1.split('"').next()?;
    let bare = column.rsplit('.').next()?;
    Some(format!("{column} has many values per group: group by it too, or use an aggregate, as in max({bare})"))
}

fn no_table(name: &str) -> String {
    let tables = TABLES.map(|table| table.name);
    let slips = |table: &&str| edits(table, &name.to_lowercase());
    let near = tables.into_iter().min_by_key(slips).filter(|table| slips(table) <= SLIPS_MAX.min(name.len() / 2));
    let meant = near.map_or(".".into(), |table| format!("; did you mean {table}?"));
    format!("unknown table {name}{meant} The tables are {}", tables.join(", "))
}

/// Common names for columns, and the corresponding columns here, the likeliest first.
const CALLED: [(&[&str], &[&str]); 12] = [
    (&["path", "filename", "file_name", "filepath", "file_path", "fname"], &["file", "path"]),
    (&["file", "name"], &["path", "program", "host"]),
    (&["duration", "duration_ns", "dur_ns", "time", "elapsed", "latency"], &["dur", "time_ns"]),
    (&["start", "start_time", "begin", "timestamp", "when", "start_ts"], &["ts", "start_ts", "first_ts"]),
    (&["end", "end_time", "stop", "end_ts"], &["end_ts", "last_ts", "dur"]),
    (&["size", "length", "len", "count", "nbytes"], &["bytes", "size", "bytes_read"]),
    (&["offset", "position"], &["pos"]),
    (&["op", "operation", "func", "function", "call", "syscall", "event"], &["name"]),
    (&["thread", "thread_id"], &["tid"]),
    (&["process", "process_id", "process_name", "comm"], &["pid", "program"]),
    (&["hostname", "node", "machine"], &["host"]),
    (&["error", "err"], &["errno"]),
];

/// Explains an unknown column: names the column that was probably meant, and all columns.
fn no_column(name: &str, valid: &[Column]) -> String {
    let there: Vec<&str> = valid.iter().map(|column| column.name.as_str()).collect();
    let typed = name.to_lowercase();
    let called = CALLED.iter().filter(|(names, _)| names.contains(&typed.as_str())).flat_map(|(_, here)| here.iter());
    let meant = called.copied().find(|here| there.contains(here)).or_else(|| nearest(&typed, there.iter().copied()));
    let meant = meant.map_or(".".into(), |meant| format!("; did you mean {meant}?"));
    format!(
        "cannot run the query: unknown column {name}{meant} The columns are {} (--tables describes them)",
        there.join(", ")
    )
}

/// The remedy for text that is not SQL.
const SYNTAX: &str = "(--tables lists all tables and columns)";

/// Returns the parser's message, the line with the error, and a mark below the position.
fn unreadable(sql: &str, message: &str) -> String {
    let message = message.trim_start_matches("sql parser error: ");
    let (what, place) =
        message.split_once(" at Line: ").map_or((message, None), |(what, place)| (what, place_of(place)));
    let what = what.replace("Expected: ", "expected ").replace("found: ", "found ").replace("EOF", "the end");
    // At the end of the input, the parser does not report a position.
    let (line, column) = place.unwrap_or_else(|| end(sql));
    let mut out = format!("cannot run the query: line {line}, column {column}: {what} {SYNTAX}");
    if let Some(text) = sql.lines().nth(line - 1) {
        let _ = write!(out, "\n  {}\n  {:>column$}", text.replace('\t', " "), '^');
    }
    out
}

/// Parses `1, Column: 8`.
fn place_of(text: &str) -> Option<(usize, usize)> {
    let (line, column) = text.split_once(", Column: ")?;
    let (line, column) = (line.parse().ok()?, column.trim().parse().ok()?);
    (line > 0 && column > 0).then_some((line, column))
}

/// Returns line and column after the last character.
fn end(sql: &str) -> (usize, usize) {
    let sql = sql.trim_end();
    (sql.lines().count().max(1), sql.lines().last().map_or(0, |line| line.chars().count()) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_where_a_query_stops_being_sql_is_marked() {
        let message = "sql parser error: Expected: an expression, found: FROM at Line: 2, Column: 8";
        assert_eq!(
            unreadable("-- all\nselect from events", message),
            format!(
                "cannot run the query: line 2, column 8: expected an expression, found FROM {SYNTAX}\n  \
                 select from events\n         ^"
            )
        );
        let cut = unreadable("select (1", "sql parser error: Expected: ), found: EOF");
        assert_eq!(
            cut,
            format!(
                "cannot run the query: line 1, column 10: expected ), found the end {SYNTAX}\n  select (1\n           ^"
            )
        );
    }

    #[test]
    fn a_column_by_another_name_is_answered_with_its_own() {
        let columns = |names: &[&str]| names.iter().map(|name| Column::from_name(*name)).collect::<Vec<_>>();
        let (events, files) = (columns(&["ts", "dur", "file", "pid"]), columns(&["path", "time_ns", "file_id"]));
        assert_eq!(
            no_column("path", &events),
            "cannot run the query: unknown column path; did you mean file? The columns are ts, dur, file, pid (--tables describes them)"
        );
        for (name, columns, meant) in [
            ("file", &files, "path?"),
            ("duration", &files, "time_ns?"),
            ("Timestamp", &events, "ts?"),
            ("fil", &events, "file?"),
        ] {
            assert!(no_column(name, columns).contains(&format!("did you mean {meant}")), "{name}");
        }
        assert!(
            no_column("color", &files).starts_with("cannot run the query: unknown column color. The columns are path")
        );
    }

    #[test]
    fn what_the_library_says_at_length_is_said_in_a_sentence() {
        let plan = |text: &str| plain(&DataFusionError::Plan(text.into()));
        assert_eq!(plan("Invalid function 'foo'.\nDid you mean 'cos'?"), "unknown function foo");
        assert_eq!(plan("Invalid function 'avgg'.\nDid you mean 'avg'?"), "unknown function avgg; did you mean avg?");
        let signatures = "Function 'sum' failed to match any signature, errors: Function 'sum' requires Decimal, but \
                          received String (DataType: Utf8View).,Function 'sum' requires Int64, but received String \
                          (DataType: Utf8View)..";
        assert_eq!(plan(signatures), "sum does not accept String; it expects Decimal, Int64");
        let times = "Function 'date_trunc' failed to match any signature, errors: Function 'date_trunc' requires \
                     Timestamp, but received Int64 (DataType: Int64).";
        assert_eq!(
            plan(times),
            "date_trunc does not accept Int64; it expects Timestamp; convert a time with to_timestamp(ts)"
        );
        let binned = "Failed to coerce arguments to satisfy a call to 'date_bin' function: coercion from \
                      Interval(MonthDayNano), Int64 to the signature OneOf(Exact(Interval, Timestamp(ns)))";
        assert_eq!(
            plan(binned),
            "date_bin does not accept (Interval(MonthDayNano), Int64); convert a time with to_timestamp(ts)"
        );
        let grouped = "Column in SELECT must be in GROUP BY or an aggregate function: While expanding wildcard, column \
                       \"events.dur\" must appear in the GROUP BY clause or must be part of an aggregate function";
        assert_eq!(
            plan(grouped),
            "events.dur has many values per group: group by it too, or use an aggregate, as in max(dur)"
        );
    }

    #[test]
    fn a_slip_in_a_tables_name_is_answered_with_the_name() {
        assert_eq!(
            no_table("Event"),
            "unknown table Event; did you mean events? The tables are events, files, processes, hosts, waits, machine, jobs, counters, summary"
        );
        assert_eq!(
            no_table("measurements"),
            "unknown table measurements. The tables are events, files, processes, hosts, waits, machine, jobs, counters, summary"
        );
    }
}
