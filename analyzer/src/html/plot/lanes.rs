//! Several quantities over one time axis, one lane per quantity.

use std::fmt::Write;

use serde_json::json;

use super::pieces::PieceLane;
use super::scale::ticks;
use crate::html::figures::{Kind, percent};
use crate::html::markup::Markup;
use crate::summary::figures::units::time;

/// A lane: one value per column of time.
pub struct Lane {
    pub name: String,
    /// The style class that sets its color.
    pub class: &'static str,
    pub kind: Kind,
    pub values: Vec<f64>,
    /// The value at the top of the lane; `None` stands for the largest value.
    pub full: Option<f64>,
}

/// The axis below the lanes.
pub enum Axis {
    /// The start of the run within the columns, its length, and the width of a column.
    Time { begin_ns: f64, total_ns: f64, column_ns: f64 },
    /// The name of each column.
    Marks(Vec<String>),
}

/// All lanes and the axis below them.
pub struct Lanes<'a> {
    pub id: &'static str,
    pub title: &'a str,
    /// Named timestamps above the lanes, in the unit of the axis; omitted if they would be too dense.
    pub moments: Vec<(f64, String)>,
    /// Lanes of values, above the lanes of intervals.
    pub first: Vec<Lane>,
    /// Lanes of intervals, above the other lanes of values.
    pub pieces: Vec<PieceLane>,
    pub lanes: Vec<Lane>,
    pub axis: Axis,
}

/// The largest number of named timestamps that fit side by side.
const MOMENTS_MAX: usize = 60;

impl Lanes<'_> {
    pub fn write(&self, page: &mut Markup) {
        let columns = self.first.iter().chain(&self.lanes).map(|lane| lane.values.len()).max().unwrap_or(0);
        if columns == 0 {
            return;
        }
        open(self.id, self.title, page);
        self.moments(columns, page);
        self.first.iter().for_each(|lane| lane.write(columns, page));
        if let Axis::Time { column_ns, .. } = &self.axis {
            self.pieces.iter().for_each(|lane| lane.write(column_ns * columns as f64, page));
        }
        self.lanes.iter().for_each(|lane| lane.write(columns, page));
        self.axis.write(columns, page);
        close(page);
        let series = |lane: &Lane| {
            let values: Vec<_> = lane.values.iter().map(|value| rounded(*value)).collect();
            json!([lane.name, lane.kind.name(), values])
        };
        let series: Vec<_> = self.first.iter().chain(&self.lanes).map(series).collect();
        let data = match &self.axis {
            Axis::Time { begin_ns, column_ns, .. } => {
                let pieces: Vec<_> = self.pieces.iter().map(PieceLane::data).collect();
                json!({ "columns": columns, "begin": begin_ns, "width": column_ns, "pieces": pieces, "lanes": series })
            }
            Axis::Marks(marks) => json!({ "columns": columns, "marks": marks, "lanes": series }),
        };
        page.data(&format!("{}-data", self.id), &data);
    }
}

impl Lanes<'_> {
    fn moments(&self, columns: usize, page: &mut Markup) {
        let Axis::Time { begin_ns, column_ns, .. } = &self.axis else { return };
        if self.moments.is_empty() || self.moments.len() > MOMENTS_MAX {
            return;
        }
        let names: Vec<&str> = self.moments.iter().map(|(_, name)| name.as_str()).collect();
        page.raw("<div class=\"lane\"><div class=\"name\"></div>");
        page.raw("<svg class=\"axis moments\" role=\"img\" width=\"100%\" height=\"18\">");
        page.element("title", &[], &names.join(", "));
        for (at, name) in &self.moments {
            moment(100.0 * (at + begin_ns) / (column_ns * columns as f64), name, page);
        }
        page.raw("</svg></div>");
    }
}

/// Draws a vertical line through the lanes, with its name next to it.
fn moment(percent: f64, name: &str, page: &mut Markup) {
    let x = format!("{percent:.2}%");
    page.open("line", &[("x1", &x), ("x2", &x), ("y1", "2"), ("y2", "18")]).close("line");
    let side =
        if percent > 90.0 { [("text-anchor", "end"), ("dx", "-4")] } else { [("text-anchor", "start"), ("dx", "4")] };
    page.open("text", &[&[("x", x.as_str()), ("y", "14")][..], &side].concat()).text(name).close("text");
}

/// Opens a figure over which a cursor can be moved.
pub(super) fn open(id: &'static str, title: &str, page: &mut Markup) {
    let help = format!("{title}. Arrow keys move through columns; Home and End go to the ends.");
    let role = [("tabindex", "0"), ("role", "group"), ("aria-label", help.as_str())];
    page.open("div", &[&[("class", "lanes"), ("id", id)][..], &role].concat());
}

/// Closes the figure: writes the cursor and the box for its values.
pub(super) fn close(page: &mut Markup) {
    page.raw(
        "<div class=\"cursor\" hidden></div><output class=\"readout\" aria-live=\"polite\" hidden></output></div>",
    );
}

impl Axis {
    fn write(&self, columns: usize, page: &mut Markup) {
        page.raw("<div class=\"lane\"><div class=\"name\"></div><svg class=\"axis\" width=\"100%\" height=\"20\" aria-hidden=\"true\">");
        match self {
            Axis::Time { begin_ns, total_ns, column_ns } => {
                let width = column_ns * columns as f64;
                ticks(*total_ns)
                    .into_iter()
                    .for_each(|tick| mark(100.0 * (tick + begin_ns) / width, &tick_text(tick), page));
            }
            Axis::Marks(marks) => {
                let step = marks.len().div_ceil(MARKS);
                for (at, text) in marks.iter().enumerate().step_by(step) {
                    mark(100.0 * (at as f64 + 0.5) / columns as f64, text, page);
                }
            }
        }
        page.raw("</svg></div>");
    }
}

/// The largest number of column names that fit below the columns.
const MARKS: usize = 7;

/// Writes a tick and its text at a percentage of the width.
pub fn mark(percent: f64, text: &str, page: &mut Markup) {
    let anchor = if percent < 6.0 {
        "start"
    } else if percent > 90.0 {
        "end"
    } else {
        "middle"
    };
    let x = format!("{percent:.2}%");
    page.open("line", &[("x1", &x), ("x2", &x), ("y1", "0"), ("y2", "5")]).close("line");
    page.open("text", &[("x", &x), ("y", "17"), ("text-anchor", anchor)]).text(text).close("text");
}

/// Formats the time of a tick as short as possible.
fn tick_text(ns: f64) -> String {
    let text = time(ns);
    match text.split_once(' ') {
        _ if ns == 0.0 => "0".into(),
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

impl Lane {
    fn write(&self, columns: usize, page: &mut Markup) {
        let most = self.values.iter().copied().fold(0.0, f64::max);
        let full = self.full.unwrap_or(most);
        let peak = match self.kind {
            Kind::Share => String::new(),
            kind => format!("to {}", kind.number(most)),
        };
        let box_ = format!("0 0 {columns} 100");
        page.raw("<div class=\"lane\"><div class=\"name\">")
            .text(&self.name)
            .raw(" ")
            .element("small", &[], &peak)
            .raw("</div>");
        page.open(
            "svg",
            &[
                ("role", "img"),
                ("viewBox", &box_),
                ("preserveAspectRatio", "none"),
                ("width", "100%"),
                ("height", "40"),
            ],
        );
        page.element("title", &[], &self.name).element("desc", &[], &self.description(most));
        let path = self.path(full);
        page.open("path", &[("class", self.class), ("d", &path)]).close("path").raw("</svg></div>");
    }

    fn description(&self, most: f64) -> String {
        let mean = self.values.iter().sum::<f64>() / self.values.len().max(1) as f64;
        match self.kind {
            Kind::Share => format!("{}: {} of the time on average", self.name, percent(mean)),
            kind => format!("{}: {} on average, {} at most", self.name, kind.number(mean), kind.number(most)),
        }
    }

    /// Returns the area as a step function; adjacent columns of one height are merged. Small values above zero stay
    /// visible.
    fn path(&self, full: f64) -> String {
        let height = |value: f64| match value / full.max(f64::MIN_POSITIVE) {
            part if part > 0.0 => (100.0 - 98.0 * part.min(1.0)).min(98.5),
            _ => 100.0,
        };
        let mut path = String::from("M0 100");
        let heights: Vec<String> = self.values.iter().map(|value| format!("{:.1}", height(*value))).collect();
        for run in heights.chunk_by(|a, b| a == b) {
            let _ = write!(path, "V{}h{}", run[0].trim_end_matches(".0"), run.len());
        }
        path + "V100Z"
    }
}

/// Rounds to three digits; a plot does not show more.
fn rounded(value: f64) -> serde_json::Value {
    if value == 0.0 || !value.is_finite() {
        return 0.into();
    }
    let power = 10f64.powi(value.abs().log10().floor() as i32 - 2);
    let rounded = (value / power).round() * power;
    if rounded.abs() >= 100.0 { json!(rounded as i64) } else { json!((rounded * 1e6).round() / 1e6) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_paths_of_steps_with_words() {
        let lane =
            Lane { name: "read".into(), class: "read", kind: Kind::Rate, values: vec![0.0, 0.0, 2e6, 1e6], full: None };
        assert_eq!(lane.path(2e6), "M0 100V100h2V2h1V51h1V100Z");
        let lanes = Lanes {
            id: "x",
            title: "Run",
            moments: vec![(2e9, "epoch <2>".into())],
            first: vec![],
            pieces: vec![],
            lanes: vec![lane],
            axis: Axis::Time { begin_ns: 0.0, total_ns: 4e9, column_ns: 1e9 },
        };
        let mut page = Markup::default();
        lanes.write(&mut page);
        let page = page.into_string();
        assert!(page.contains("read: 750 kB/s on average, 2 MB/s at most"), "{page}");
        assert!(page.contains("[0,0,2000000,1000000]"), "{page}");
        assert!(page.contains("x1=\"50.00%\"") && page.contains(">epoch &lt;2&gt;</text>"), "{page}");
    }
}
