//! Lists the tables and their columns, for users who write queries.

use std::fmt::Write;

use crate::schema::tables::{Column, TABLES, Table};

/// Lists every table and the content of its columns.
pub fn everything() -> String {
    let text = |table: &Table| described(table);
    TABLES.iter().map(text).collect::<Vec<_>>().join("\n") + "\n" + NOTES
}

/// Properties of the dialect that differ from what users of other databases expect.
const NOTES: &str = "\
Queries are in DataFusion's SQL.
  Times are nanoseconds since the Unix epoch. to_timestamp(ts), ts::timestamp, ts > '2026-11-23 10:00:00' and
  date_trunc('second', to_timestamp(ts)) work; all in UTC.
  approx_distinct(file), approx_median(dur) and approx_percentile_cont(dur, 0.99) are estimates that need little memory;
  count(distinct file), median(dur) and percentile_cont(dur, 0.99) are exact.
  Without `order by`, rows come in any order. `order by x desc` puts null first; `nulls last` changes that.
";

/// Lists the names of the tables, one per line.
pub fn names() -> String {
    TABLES.iter().map(|table| format!("{:<10} {}\n", table.name, table.meaning)).collect()
}

/// Lists one table and its columns; `None` if the table does not exist.
pub fn one(name: &str) -> Option<String> {
    TABLES.iter().find(|table| table.name.eq_ignore_ascii_case(name)).map(described)
}

fn described(table: &Table) -> String {
    let mut out = format!("{}: {}\n", table.name, table.meaning);
    let width = |of: fn(&Column) -> &str| table.columns.iter().map(|column| of(column).len()).max().unwrap_or(0);
    let (names, types) = (width(|column| column.name), width(|column| column.of.sql()));
    for column in table.columns {
        let null = if column.nullable { "null" } else { "" };
        let _ = writeln!(out, "  {:<names$}  {:<types$}  {null:<4}  {}", column.name, column.of.sql(), column.meaning);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_listed_with_its_meaning() {
        let all = everything();
        let columns = || TABLES.iter().flat_map(|table| table.columns);
        assert!(columns().all(|column| all.contains(column.name) && all.contains(column.meaning)));
        assert!(
            one("EVENTS").is_some_and(|text| text.starts_with("events: one row per call")) && one("none").is_none()
        );
    }
}
