//! The report as rows for CSV: section, row, metric, value.

use serde_json::{Map, Value};

/// One metric of the report.
#[derive(Debug, PartialEq)]
pub struct Figure {
    pub section: String,
    pub row: String,
    pub figure: String,
    pub value: String,
}

/// Returns every metric of the report, in order. A table row is identified by its naming columns.
pub fn figures(sections: &Map<String, Value>) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (section, content) in sections {
        match content {
            Value::Array(rows) => rows.iter().for_each(|row| add(section, &name_of(row), "", row, &mut figures)),
            content => add(section, "", "", content, &mut figures),
        }
    }
    figures
}

/// Columns that identify the rows of a table.
const NAMES: [&str; 10] = ["id", "name", "cat", "directory", "path", "host", "pid", "rank", "what", "epoch"];

fn name_of(row: &Value) -> String {
    let parts = NAMES.iter().filter_map(|name| row.get(name)).filter(|value| !value.is_null());
    parts.map(plain).collect::<Vec<_>>().join(" ")
}

fn add(section: &str, row: &str, figure: &str, value: &Value, figures: &mut Vec<Figure>) {
    let Value::Object(fields) = value else {
        figures.push(Figure { section: section.into(), row: row.into(), figure: figure.into(), value: plain(value) });
        return;
    };
    for (field, value) in fields {
        let name = if figure.is_empty() { field.clone() } else { format!("{figure}.{field}") };
        add(section, row, &name, value, figures);
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns CSV with a header.
pub fn csv(sections: &Map<String, Value>) -> String {
    let mut out = String::from("section,row,figure,value\n");
    for figure in figures(sections) {
        let cells = [figure.section, figure.row, figure.figure, figure.value].map(|cell| quoted(&cell));
        out.push_str(&cells.join(","));
        out.push('\n');
    }
    out
}

/// Quotes a cell for CSV.
pub fn quoted(cell: &str) -> String {
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.into(),
    }
}
