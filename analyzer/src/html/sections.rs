//! Every section of a report as tables. A new section appears automatically, with its definition. Sections that have a
//! plot show it above the table.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::figures::{Kind, capital, label};
use super::findings;
use super::markup::Markup;
use super::plot::boxes::{self, Spread};
use super::plot::{heat, sizes, tree};
use super::table::{self, COLUMNS, Table, is_long, parted};
use super::values::{at, list, number, text};
use crate::summary::figures::quantiles::Quantiles;
use crate::summary::figures::units::bytes;

/// The definition of a section and of its fields.
#[derive(Clone, Copy, Debug)]
pub struct Meaning {
    pub name: &'static str,
    pub meaning: &'static str,
}

/// Titles for sections whose names are unclear.
const TITLES: [(&str, &str); 9] = [
    ("findings", "All rules"),
    ("past_files", "Calls not on files"),
    ("time", "Split of time"),
    ("heat", "Bytes by rank or process over time"),
    ("passed_over", "Skipped files"),
    ("tally", "Counted, not recorded"),
    ("allocation", "Processes and events"),
    ("dataset", "Files and bytes"),
    ("what_if", "Changes replayed"),
];

/// Sections that are on the first screen and do not have a separate table.
const SHOWN_ABOVE: [&str; 1] = ["timeline"];

fn title(name: &str) -> String {
    let known = TITLES.iter().find(|(known, _)| *known == name).map(|(_, title)| title.to_string());
    known.unwrap_or_else(|| {
        let words = name.replace('_', " ");
        words[..1].to_uppercase() + &words[1..]
    })
}

/// Returns the sections that have content, and the names of the empty ones.
pub fn all<'a>(report: &'a Value, meanings: &'a [Meaning]) -> (Vec<(&'a Meaning, &'a Value)>, Vec<String>) {
    let below = meanings.iter().filter(|about| !SHOWN_ABOVE.contains(&about.name));
    let known: Vec<_> = below.filter_map(|about| Some((about, report.get(about.name)?))).collect();
    // A single run does not need a section.
    let known = known
        .into_iter()
        .filter(|(about, value)| about.name != "runs" || value.as_array().is_none_or(|runs| runs.len() != 1));
    let (empty, mut full): (Vec<_>, Vec<_>) = known.partition(|(_, value)| is_empty(value));
    // Findings that fired are on the first screen, so the table of all rules comes last.
    full.sort_by_key(|(about, _)| about.name == "findings");
    (full, empty.into_iter().map(|(about, _)| title(about.name)).collect())
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => {
            fields.values().all(|value| is_empty(value) || value == 0 || value == "" || value == false)
        }
        _ => false,
    }
}

/// Writes links to the parts of the first screen and to the sections below.
pub fn contents(first: &[(&'static str, &str)], sections: &[(&Meaning, &Value)], page: &mut Markup) {
    page.raw("<nav aria-label=\"Sections\"><ul>");
    for (place, title) in first {
        page.raw("<li>").element("a", &[("href", place)], title).raw("</li>");
    }
    for (about, _) in sections {
        page.raw("<li>").element("a", &[("href", &format!("#s-{}", about.name))], &title(about.name)).raw("</li>");
    }
    page.raw("</ul></nav>\n");
}

/// Writes a section: heading, description, plot, table.
pub fn write(about: &Meaning, value: &Value, report: &Value, page: &mut Markup) {
    let (name, title) = (about.name, title(about.name));
    page.open("section", &[("id", &format!("s-{name}"))]).element("h2", &[], &title);
    meaning(about.meaning, page);
    picture(name, value, report, page);
    let rest = format!("dlio-analyze --section {name} --top N shows more, and SQL returns all rows.");
    match (name, value) {
        ("heat", value) => {
            let rows = heat::sums(value);
            folded("As a table", |page| Table::of(&rows).write("t-heat", &title, &rest, page), page);
        }
        ("findings", Value::Array(list)) => {
            Table::of(&findings::rules(list)).write("t-findings", &title, &rest, page);
        }
        ("machine", Value::Array(list)) => list.iter().for_each(|machine| one(name, &title, machine, &rest, page)),
        (_, Value::Array(list)) => {
            let list = &without(list, "resources");
            let (rows, apart) = parted(list);
            Table::of(&rows).write(&format!("t-{name}"), &title, &rest, page);
            for (field, rows) in apart.into_iter().chain(within(list)) {
                page.element("h3", &[], &capital(&label(&field)));
                let caption = format!("{title}: {}", label(&field));
                Table::of(&rows).write(&format!("t-{name}-{field}"), &caption, &rest, page);
            }
        }
        (_, value @ Value::Object(_)) => one(name, &title, value, &rest, page),
        (_, other) => {
            page.element("p", &[], &Kind::of(name, &[other]).show(other));
        }
    }
    page.raw("</section>\n");
}

/// Writes an object: its fields, and its lists as tables.
fn one(name: &str, title: &str, value: &Value, rest: &str, page: &mut Markup) {
    let Value::Object(fields) = value else { return };
    table::facts(fields, page);
    for (field, list) in lists("", value) {
        page.element("h3", &[], &capital(&label(&field)));
        let id = format!("t-{name}-{}", field.replace('.', "-"));
        Table::of(list).write(&id, &format!("{title}: {}", label(&field)), rest, page);
    }
}

/// Returns the rows without a field that would make the table too wide.
fn without(list: &[Value], field: &str) -> Vec<Value> {
    let mut list = list.to_vec();
    list.iter_mut().filter_map(Value::as_object_mut).for_each(|row| drop(row.remove(field)));
    list
}

/// Writes the definition: the first sentence is visible, the rest is folded.
fn meaning(meaning: &'static str, page: &mut Markup) {
    let text = meaning.split_once(": ").map_or(meaning, |(_, text)| text);
    let end = text.find(". ").map_or(text.len(), |at| at + 1);
    let first = text[..end].trim_end_matches([';', '.']);
    page.element("p", &[("class", "what")], &(capital(first) + "."));
    let more = text[end..].trim();
    if !more.is_empty() {
        let say = |page: &mut Markup| {
            page.element("p", &[], more);
        };
        folded("Definitions", say, page);
    }
}

fn folded(summary: &str, write: impl FnOnce(&mut Markup), page: &mut Markup) {
    page.raw("<details>").element("summary", &[], summary);
    write(page);
    page.raw("</details>\n");
}

/// Returns the lists of objects within an object, by path.
fn lists<'a>(path: &str, value: &'a Value) -> Vec<(String, &'a [Value])> {
    let Value::Object(fields) = value else { return Vec::new() };
    let within = fields.iter().flat_map(|(name, value)| {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match value {
            Value::Array(list) if is_long(value) && list.iter().all(Value::is_object) => vec![(path, list.as_slice())],
            other => lists(&path, other),
        }
    });
    within.collect()
}

/// The largest number of distributions in one plot.
const BOXES: usize = 12;

fn picture(name: &str, value: &Value, report: &Value, page: &mut Markup) {
    let rows = value.as_array().map_or(&[][..], Vec::as_slice);
    let spreads: Vec<Spread> = rows.iter().filter_map(spread).take(BOXES).collect();
    if spreads.len() > 1 {
        boxes::write("Durations of single calls", Kind::Time, &spreads, page);
    }
    match name {
        "sizes" => sizes::write(rows, page),
        "processes" => {
            let start_ts = at(report, "time.start_ts").and_then(Value::as_i64).unwrap_or(0);
            tree::write(rows, start_ts, number(report, "time.total_ns").unwrap_or(0.0), page);
        }
        "heat" => {
            if heat::write(value, number(report, "time.start_ts").unwrap_or(0.0), page)
                && let Some(busiest) = heat::busiest(value)
            {
                page.element("p", &[("class", "note")], &busiest);
            }
        }
        _ => {}
    }
}

/// Returns the distribution of a row that has one.
fn spread(row: &Value) -> Option<Spread> {
    let class = match text(row, "class") {
        Some("read") => "read",
        Some("write") => "written",
        Some("compute") => "compute",
        _ => "other",
    };
    let size = |field: &str| number(row, field).map(bytes);
    let band = match (size("from"), size("to")) {
        (Some(_), Some(to)) if number(row, "to") == Some(1.0) => format!(" of no bytes, below {to}"),
        (Some(from), Some(to)) => format!(" {from} to {to}"),
        (Some(from), None) => format!(" from {from}"),
        _ => String::new(),
    };
    Some(Spread {
        name: text(row, "name").or_else(|| text(row, "class"))?.to_string() + &band,
        class,
        values: Quantiles::deserialize(row.get("duration_ns")?).ok()?,
    })
}

/// Returns lists nested in the rows of a list, such as the readers of each trainer, as tables whose rows name their
/// owner.
fn within(rows: &[Value]) -> Vec<(String, Vec<Value>)> {
    let fields = rows.iter().filter_map(Value::as_object).flat_map(|row| row.iter());
    let mut names: Vec<&String> = fields.filter(|(name, value)| is_list(name, value)).map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    let owned = |row: &Value, inner: &Value| {
        let owner = row.as_object().and_then(|row| row.values().find_map(Value::as_str)).unwrap_or("");
        let mut fields = Map::new();
        let name = ["trainer", "name", "path", "called"].iter().find_map(|field| text(row, field)).unwrap_or(owner);
        fields.insert("of".into(), name.into());
        fields.extend(inner.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())));
        Value::Object(fields)
    };
    let all =
        |name: &String| rows.iter().flat_map(|row| list(row, name).iter().map(|inner| owned(row, inner))).collect();
    names.into_iter().map(|name| (name.clone(), all(name))).collect()
}

fn is_list(name: &str, value: &Value) -> bool {
    name != COLUMNS && value.as_array().is_some_and(|list| list.iter().any(Value::is_object))
}
