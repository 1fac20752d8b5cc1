//! Tables that are readable without the script, which can sort and filter them. The page contains all rows as columns
//! of values, and only some of them as elements, because elements are expensive.

use serde_json::{Map, Value, json};

use super::figures::{Kind, label};
use super::markup::Markup;
use crate::summary::figures::units::{grouped, many};

/// A table under construction.
pub struct Table {
    pub columns: Vec<Column>,
    /// The total number of rows, and the number included here.
    pub rows: usize,
    kept: usize,
    /// Columns with one value in all rows, and that value. They are mentioned below the table instead of taking up
    /// space.
    same: Vec<String>,
}

pub struct Column {
    pub label: String,
    pub kind: Kind,
    pub values: Vec<Value>,
}

/// The largest number of rows and cells that the page contains as values; SQL has the rest.
const ROWS_KEPT: usize = 5000;
const CELLS_KEPT: usize = 50_000;

/// The largest number of rows and cells that are elements from the start.
const ROWS_SHOWN: usize = 100;
const CELLS_SHOWN: usize = 700;

impl Table {
    /// Builds a table from a list of objects, with one column per field, including nested fields.
    pub fn of(list: &[Value]) -> Table {
        let rows = list.len();
        let fields = list.first().map_or(1, |row| flattened(row).len().max(1));
        let list = &list[..rows.min(ROWS_KEPT).min(CELLS_KEPT / fields)];
        let flat: Vec<Vec<(String, &Value)>> = list.iter().map(flattened).collect();
        let mut paths: Vec<String> = Vec::new();
        for (path, _) in flat.iter().flatten() {
            if !paths.contains(path) {
                paths.push(path.clone());
            }
        }
        let column = |path: String| {
            let value = |row: &Vec<(String, &Value)>| {
                row.iter().find(|(name, _)| *name == path).map_or(Value::Null, |(_, value)| (*value).clone())
            };
            let values: Vec<Value> = flat.iter().map(value).collect();
            let kind = Kind::of(&path, &values.iter().collect::<Vec<_>>());
            let shown = |value: Value| match value {
                Value::Array(_) | Value::Object(_) => Value::String(kind.show(&value)),
                other => other,
            };
            Column { label: label(&path), kind, values: values.into_iter().map(shown).collect() }
        };
        let says_something = |column: &Column| column.values.iter().any(|value| !value.is_null());
        let columns: Vec<Column> = paths.into_iter().map(column).filter(says_something).collect();
        let is_table = columns.iter().any(|column| !column.is_same());
        let (same, columns): (Vec<Column>, Vec<Column>) =
            columns.into_iter().partition(|column| is_table && column.is_same());
        let said = |column: Column| format!("{} {}", column.label, column.kind.show(&column.values[0]));
        Table { columns, rows, kept: list.len(), same: same.into_iter().map(said).collect() }
    }

    /// Writes the table. `id` is unique in the page, `caption` is the title, and `rest` says where to find omitted
    /// rows.
    pub fn write(&self, id: &str, caption: &str, rest: &str, page: &mut Markup) {
        let is_large = self.rows > 8;
        let shown = self.shown();
        page.open("div", &[("class", "table"), ("data-rows", &shown.to_string())]);
        if is_large {
            self.tools(caption, shown, page);
        }
        page.open("div", &[("class", "scroll"), ("tabindex", "0"), ("role", "region"), ("aria-label", caption)]);
        page.raw("<table>").element("caption", &[("class", "away")], caption).raw("<thead><tr>");
        for column in &self.columns {
            page.open("th", &[("scope", "col"), ("class", side(column.kind)), ("aria-sort", "none")]);
            match is_large {
                true => page.raw("<button type=\"button\">").text(&column.label).raw("</button>"),
                false => page.text(&column.label),
            };
            page.raw("</th>");
        }
        page.raw("</tr></thead><tbody>");
        (0..shown).for_each(|row| self.row(row, page));
        page.raw("</tbody></table></div>");
        if self.rows > self.kept {
            let kept = grouped(self.kept as u64);
            page.element(
                "p",
                &[("class", "note")],
                &format!("The page shows the first {kept} of {}; {rest}", many(self.rows as u64, "row", "rows")),
            );
        }
        if !self.same.is_empty() {
            page.element("p", &[("class", "note")], &format!("Equal in every row: {}.", self.same.join(", ")));
        }
        if is_large {
            page.data(id, &self.data());
        }
        page.raw("</div>\n");
    }

    fn shown(&self) -> usize {
        let most = CELLS_SHOWN / self.columns.len().max(1);
        // Do not fold a table only to hide a few rows.
        self.rows.min(if self.rows <= most + 5 { most + 5 } else { most }).min(ROWS_SHOWN)
    }

    fn tools(&self, caption: &str, shown: usize, page: &mut Markup) {
        page.raw("<div class=\"tools\"><label>Filter <input type=\"search\" ");
        page.raw("autocomplete=\"off\" spellcheck=\"false\"");
        page.raw(" aria-label=\"").text(&format!("Filter {caption}")).raw("\"></label> <span role=\"status\">");
        page.text(&format!("{} of {}", grouped(shown as u64), many(self.rows as u64, "row", "rows")))
            .raw("</span></div>");
    }

    fn row(&self, row: usize, page: &mut Markup) {
        page.raw("<tr>");
        for (at, column) in self.columns.iter().enumerate() {
            let text = column.kind.show(&column.values[row]);
            let tag = if at == 0 { "th" } else { "td" };
            match (at, side(column.kind)) {
                (0, side) => page.element(tag, &[("scope", "row"), ("class", side)], &text),
                (_, "") => page.element(tag, &[], &text),
                (_, side) => page.element(tag, &[("class", side)], &text),
            };
        }
        page.raw("</tr>");
    }

    fn data(&self) -> Value {
        let column = |column: &Column| {
            let values = &column.values;
            json!([
                column.kind.name(),
                if column.kind == Kind::Text { words(values) } else { Value::from(values.to_vec()) }
            ])
        };
        json!({ "all": self.rows, "rows": self.kept, "columns": self.columns.iter().map(column).collect::<Vec<_>>() })
    }
}

/// Encodes repeated strings only once.
fn words(values: &[Value]) -> Value {
    let mut words: Vec<&Value> = Vec::new();
    let mut places = std::collections::HashMap::new();
    let numbers: Vec<usize> = values
        .iter()
        .map(|value| {
            *places.entry(value.to_string()).or_insert_with(|| {
                words.push(value);
                words.len() - 1
            })
        })
        .collect();
    if words.len() * 2 > values.len() { values.to_vec().into() } else { json!({ "words": words, "at": numbers }) }
}

/// Writes a complete table of texts that is small enough to be shown at once. Columns are right-aligned, except if
/// their head begins with `<`.
pub fn of_words(caption: &str, heads: &[&str], rows: &[Vec<String>], page: &mut Markup) {
    page.raw("<div class=\"table\">");
    page.open("div", &[("class", "scroll"), ("tabindex", "0"), ("role", "region"), ("aria-label", caption)]);
    page.raw("<table>").element("caption", &[("class", "away")], caption).raw("<thead><tr>");
    let side = |head: &str| if head.starts_with('<') { "" } else { "n" };
    for head in heads {
        match head.trim_start_matches('<') {
            "" => page.raw("<td></td>"),
            words => page.element("th", &[("scope", "col"), ("class", side(head))], words),
        };
    }
    page.raw("</tr></thead><tbody>");
    for row in rows {
        page.raw("<tr>");
        for ((at, cell), head) in row.iter().enumerate().zip(heads) {
            match at {
                0 => page.element("th", &[("scope", "row")], cell),
                _ => page.element("td", &[("class", side(head))], cell),
            };
        }
        page.raw("</tr>");
    }
    page.raw("</tbody></table></div></div>\n");
}

/// Writes the fields of an object, except long lists, with their values.
pub fn facts(fields: &Map<String, Value>, page: &mut Markup) {
    let whole = Value::Object(fields.clone());
    let facts: Vec<_> = flattened(&whole).into_iter().filter(|(_, value)| !is_long(value)).collect();
    if facts.is_empty() {
        return;
    }
    let labels: Vec<String> = facts.iter().map(|(path, _)| label(path)).collect();
    page.raw("<dl class=\"facts\">");
    for ((path, value), name) in facts.iter().zip(&labels) {
        // Two fields that differ only in their unit.
        let is_twice = labels.iter().filter(|other| *other == name).count() > 1;
        let kind = Kind::of(path, &[value]);
        let name = if is_twice && kind == Kind::Time { format!("{name} (time)") } else { name.clone() };
        page.raw("<div>").element("dt", &[], &name).element("dd", &[], &kind.show(value)).raw("</div>");
    }
    page.raw("</dl>\n");
}

impl Column {
    fn is_same(&self) -> bool {
        let all = |is: &dyn Fn(&Value) -> bool| self.values.iter().all(is);
        let is_word = || self.kind == Kind::Text && self.values.len() > 1 && !self.values[0].is_null();
        let is_number = all(&|value| value.as_f64() == Some(0.0));
        !self.values.is_empty() && (is_number || is_word() && all(&|value| *value == self.values[0]))
    }
}

/// Returns the alignment: numbers are right-aligned; timestamps are long and may wrap.
fn side(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => "",
        Kind::Moment => "n when",
        _ => "n",
    }
}

/// A field whose values are only for a plot.
pub const COLUMNS: &str = "columns";

/// Keys that join SQL tables; they do not help a reader.
const KEYS: [&str; 2] = ["proc", "parent"];

/// The number of columns that fit into a page of usual width.
const WIDE: usize = 14;

/// If a table is too wide, moves fields that are objects into separate tables next to the columns that name each row.
/// Returns the remaining rows and these tables.
pub fn parted(list: &[Value]) -> (Vec<Value>, Vec<(String, Vec<Value>)>) {
    let is_wide = list.iter().any(|row| flattened(row).len() > WIDE);
    let fields = list.iter().filter_map(Value::as_object).flatten();
    let mut objects: Vec<&String> = fields.filter(|(_, value)| value.is_object()).map(|(name, _)| name).collect();
    let mut seen = std::collections::HashSet::new();
    objects.retain(|name| seen.insert(*name));
    if !is_wide || objects.is_empty() {
        return (list.to_vec(), Vec::new());
    }
    let apart = &objects;
    let named = |row: &Value, field: &str| {
        let inner = row.get(field)?.as_object()?;
        let names = row.as_object()?.iter().filter(|(_, value)| value.is_string());
        Some(Value::Object(names.chain(inner).map(|(name, value)| (name.clone(), value.clone())).collect()))
    };
    let rest = |row: &Value| {
        let fields = row.as_object().into_iter().flatten().filter(|(name, _)| !apart.contains(name));
        Value::Object(fields.map(|(name, value)| (name.clone(), value.clone())).collect())
    };
    let rows = |field: &String| (field.clone(), list.iter().filter_map(|row| named(row, field)).collect());
    (list.iter().map(rest).collect(), apart.iter().map(|field| rows(field)).collect())
}

/// Returns `true` for lists of objects, which become tables, and for long lists of numbers, which become plots.
pub fn is_long(value: &Value) -> bool {
    value.as_array().is_some_and(|list| list.len() > 24 || list.iter().any(Value::is_object))
}

fn flattened(row: &Value) -> Vec<(String, &Value)> {
    let mut flat = Vec::new();
    flatten("", row, &mut flat);
    flat
}

fn flatten<'a>(path: &str, value: &'a Value, flat: &mut Vec<(String, &'a Value)>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                // Whether quantiles are exact is mentioned once for all of them.
                if name != "exact" && name != COLUMNS && !KEYS.contains(&name.as_str()) {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    flatten(&path, value, flat);
                }
            }
        }
        value => flat.push((path.into(), value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_fields_are_columns() {
        let list = [
            json!({"name": "read", "duration_ns": {"min": 1.0, "exact": true}}),
            json!({"name": "x", "size": null, "ranks": [1, 2]}),
        ];
        let table = Table::of(&list);
        let columns: Vec<_> = table.columns.iter().map(|column| (column.label.as_str(), column.kind)).collect();
        assert_eq!(columns, [("name", Kind::Text), ("duration: min", Kind::Time), ("ranks", Kind::Text)]);
        let mut page = Markup::default();
        table.write("t", "Calls", "", &mut page);
        let page = page.into_string();
        assert!(page.contains("<td class=\"n\">1.00 ns</td>") || page.contains("<td class=\"n\">1 ns</td>"), "{page}");
        assert!(page.contains("<td class=\"n\">–</td>") && page.contains("<td>1, 2</td>"), "{page}");
    }

    #[test]
    fn wide_rows_become_tables_that_find_room() {
        let times: Map<String, Value> = (0..8).map(|at| (format!("t{at}_ns"), json!(at + 1))).collect();
        let row = json!({"name": "read", "proc": 3, "failed": 0, "duration_ns": times, "size": times, "count": 2});
        let (rows, apart) = parted(std::slice::from_ref(&row));
        let labels =
            |rows: &[Value]| Table::of(rows).columns.into_iter().map(|column| column.label).collect::<Vec<_>>();
        assert!(!labels(&rows).iter().any(|label| label.contains(": ") || label == "failed"), "{:?}", labels(&rows));
        let named: Vec<_> = apart.iter().map(|(field, rows)| (field.as_str(), labels(rows).len())).collect();
        assert_eq!(named, [("duration_ns", 9), ("size", 9)]);
        let mut page = Markup::default();
        Table::of(&rows).write("t", "Calls", "", &mut page);
        assert!(page.into_string().contains("Equal in every row: failed 0."));
        let narrow = json!({"name": "read", "duration_ns": {"min": 1}, "size": {"min": 2}});
        assert_eq!(parted(std::slice::from_ref(&narrow)), (vec![narrow.clone()], vec![]));
    }

    #[test]
    fn a_long_table_shows_few_rows_and_holds_all() {
        let row = |at: usize| {
            let category = if at.is_multiple_of(2) { "posix" } else { "stdio" };
            json!({"path": format!("/{at}"), "cat": category, "events": at})
        };
        let list: Vec<_> = (0..6000).map(row).collect();
        let mut page = Markup::default();
        Table::of(&list).write("t", "Files", "SQL has all.", &mut page);
        let page = page.into_string();
        assert!(page.matches("<tr>").count() <= ROWS_SHOWN + 1);
        assert!(page.contains("100 of 6,000 rows") && page.contains("SQL has all.") && page.contains("\"/4999\""));
        assert_eq!(page.matches("posix").count(), ROWS_SHOWN / 2 + 1, "a repeated word appears once");
    }
}
