//! The heat map: a canvas that the script fills, with row and column sums as bars along its edges.

use serde_json::{Value, json};

use crate::html::figures::Kind;
use crate::html::markup::Markup;
use crate::html::values::{list, number, numbers, text};
use crate::summary::figures::units::{bytes, grouped, time};

/// Steps between the smallest and the largest value, on a logarithmic scale: less than 0.1 % each.
const STEPS: f64 = 65_535.0;

/// The largest number of rows that get a name next to them.
const NAMES_MAX: usize = 32;

/// The quantities that cells can show.
const FIGURES: [(&str, &str, Kind); 3] = [
    ("bytes", "bytes moved", Kind::Bytes),
    ("io_ns", "time in calls", Kind::Time),
    ("metadata", "metadata calls", Kind::Count),
];

/// Writes the map of a `heat` section; returns `false` if it is empty.
pub fn write(heat: &Value, begin_ts: f64, page: &mut Markup) -> bool {
    let rows = list(heat, "rows");
    let columns = number(heat, "columns").unwrap_or(0.0) as usize;
    if rows.len() < 2 || columns < 2 {
        return false;
    }
    let by = text(heat, "by").unwrap_or("row");
    let width = number(heat, "column_ns").unwrap_or(1.0);
    let about = format!("Bytes by {by} and time: {} rows, columns of {}", grouped(rows.len() as u64), time(width));
    page.raw("<div class=\"heat\" id=\"heat\"><div class=\"choice\" role=\"group\" aria-label=\"What cells show\">");
    for (at, (_, name, _)) in FIGURES.iter().enumerate() {
        page.open("button", &[("type", "button"), ("aria-pressed", if at == 0 { "true" } else { "false" })])
            .text(name)
            .close("button");
    }
    page.raw("</div><div class=\"map\"><div></div><svg class=\"top\" aria-hidden=\"true\" preserveAspectRatio=\"none\" width=\"100%\" height=\"36\"></svg>");
    page.raw("<small class=\"edge\">sum by time (above), by row (right)</small><div class=\"names\">");
    if rows.len() <= NAMES_MAX {
        rows.iter().for_each(|row| {
            page.element("div", &[], text(row, "name").unwrap_or(""));
        });
    } else {
        for at in [0, rows.len() / 2, rows.len() - 1] {
            page.element("div", &[], text(&rows[at], "name").unwrap_or(""));
        }
    }
    page.raw("</div>");
    page.open(
        "canvas",
        &[
            ("role", "img"),
            ("tabindex", "0"),
            ("aria-label", &format!("{about}. Arrow keys move through cells.")),
            ("width", &columns.to_string()),
            ("height", &rows.len().to_string()),
        ],
    );
    page.text(&about).raw("</canvas><svg class=\"right\" aria-hidden=\"true\" preserveAspectRatio=\"none\" width=\"100%\" height=\"100%\"></svg></div>");
    page.raw(
        "<div class=\"scale\"><span class=\"least\"></span><canvas width=\"256\" height=\"1\" \
        aria-hidden=\"true\"></canvas><span class=\"most\"></span><small>logarithmic; empty cells had no \
        activity</small></div>",
    );
    page.raw("<output class=\"readout\" aria-live=\"polite\" hidden></output>");
    page.raw("<noscript><p class=\"note\">The map needs a script; the table below has its sums.</p></noscript></div>");
    page.data("heat-data", &data(heat, rows, columns, begin_ts, width));
    true
}

fn data(heat: &Value, rows: &[Value], columns: usize, begin_ts: f64, width: f64) -> Value {
    let figure = |(field, name, kind): &(&str, &str, Kind)| {
        let rows: Vec<Vec<f64>> = rows.iter().map(|row| numbers(row, field).unwrap_or_default()).collect();
        let used = || rows.iter().flatten().copied().filter(|value| *value > 0.0);
        let (least, most) = (used().fold(f64::INFINITY, f64::min).min(1e300), used().fold(1.0, f64::max));
        let range = (most / least).ln().max(1e-9);
        let level = |value: f64| match value {
            value if value > 0.0 => 1 + ((value / least).ln() / range * (STEPS - 1.0)).round() as u32,
            _ => 0,
        };
        let cells: Vec<u8> =
            rows.iter().flatten().flat_map(|value| (level(*value).min(STEPS as u32) as u16).to_le_bytes()).collect();
        json!({ "name": name, "kind": kind.name(), "least": least, "most": most, "cells": base64(&cells) })
    };
    let names: Vec<&str> = rows.iter().map(|row| text(row, "name").unwrap_or("")).collect();
    let spans: Vec<[u64; 2]> =
        rows.iter().map(|row| [number(row, "first").unwrap_or(0.0) as u64, list(row, "bytes").len() as u64]).collect();
    let begin = number(heat, "start_ts").unwrap_or(0.0) - begin_ts;
    json!({ "columns": columns, "begin": begin, "width": width, "names": names, "spans": spans, "figures": FIGURES.iter().map(figure).collect::<Vec<_>>() })
}

/// Returns the row sums as a table: the content of the map as text.
pub fn sums(heat: &Value) -> Vec<Value> {
    let total = |row: &Value, field: &str| numbers(row, field).unwrap_or_default().iter().sum::<f64>() as u64;
    let row = |row: &Value| json!({ "name": row.get("name"), "bytes": total(row, "bytes"), "io_ns": total(row, "io_ns"), "metadata calls": total(row, "metadata") });
    list(heat, "rows").iter().map(row).collect()
}

/// Describes the busiest row.
pub fn busiest(heat: &Value) -> Option<String> {
    let rows = sums(heat);
    let most = rows.iter().max_by(|a, b| a["bytes"].as_u64().cmp(&b["bytes"].as_u64()))?;
    Some(format!("{} moved most: {}.", most["name"].as_str()?, bytes(most["bytes"].as_f64()?)))
}

/// Encodes base64 according to RFC 4648.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0u32, |word, byte| word << 8 | *byte as u32) << (8 * (3 - three.len()));
        for at in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * at)) as usize & 63] as char;
            out.push(if at <= three.len() { letter } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_as_everybody_reads_them() {
        let written = [&b""[..], b"f", b"fo", b"foo", b"foob\xff"].map(base64);
        assert_eq!(written, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYv8="]);
    }

    #[test]
    fn a_map_of_one_row_is_none() {
        let heat = json!({"columns": 2, "column_ns": 5, "rows": [{"name": "a", "bytes": [1, 2]}]});
        assert!(!write(&heat, 0.0, &mut Markup::default()));
        let rows = json!([{"name": "<a>", "first": 0, "bytes": [1, 0], "io_ns": [1, 2], "metadata": [0, 0]}, {"name": "b", "first": 1, "bytes": [9], "io_ns": [5], "metadata": [0]}]);
        let heat = json!({"columns": 2, "column_ns": 5, "rows": rows});
        let mut page = Markup::default();
        assert!(write(&heat, 0.0, &mut page));
        assert!(page.into_string().contains("&lt;a&gt;"));
        assert_eq!(busiest(&heat).unwrap(), "b moved most: 9 B.");
    }
}
