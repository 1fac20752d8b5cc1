//! A lane of intervals over a time axis, colored by cause.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use crate::html::markup::Markup;

/// An interval, in the unit of the axis, relative to the start of the first column.
pub struct Piece {
    pub from: f64,
    pub to: f64,
    /// The style class that sets its color.
    pub class: &'static str,
    /// The two lines shown under the pointer.
    pub says: [String; 2],
}

/// One lane of intervals.
pub struct PieceLane {
    pub name: String,
    /// A summary of all intervals.
    pub sum: String,
    pub pieces: Vec<Piece>,
}

/// The width of a plot in units, and the smallest visible width.
const WIDE: f64 = 1e6;
const LEAST: f64 = WIDE / 1500.0;

impl PieceLane {
    /// Writes the lane; all columns together are `width` wide.
    pub fn write(&self, width: f64, page: &mut Markup) {
        page.raw("<div class=\"lane\"><div class=\"name\">").text(&self.name).raw(" ");
        page.element("small", &[], &self.sum).raw("</div>");
        let box_ = format!("0 0 {WIDE} 100");
        let sides = [("preserveAspectRatio", "none"), ("width", "100%"), ("height", "26")];
        page.open("svg", &[&[("role", "img"), ("viewBox", box_.as_str())][..], &sides].concat());
        page.element("title", &[], &self.name).element("desc", &[], &format!("{}: {}", self.name, self.sum));
        for (class, path) in self.paths(width) {
            page.open("path", &[("class", class), ("d", &path)]).close("path");
        }
        page.raw("</svg></div>");
    }

    /// Returns one path of boxes per color.
    fn paths(&self, width: f64) -> BTreeMap<&'static str, String> {
        let mut paths: BTreeMap<&'static str, String> = BTreeMap::new();
        for piece in &self.pieces {
            let from = (piece.from / width * WIDE).clamp(0.0, WIDE - LEAST);
            let wide = ((piece.to - piece.from) / width * WIDE).max(LEAST);
            let path = paths.entry(piece.class).or_default();
            let _ = write!(path, "M{from:.0} 0h{wide:.0}v100h-{wide:.0}z");
        }
        paths
    }

    /// Returns the intervals for the script.
    pub fn data(&self) -> Value {
        let pieces: Vec<_> =
            self.pieces.iter().map(|piece| json!([piece.from, piece.to, piece.says[0], piece.says[1]])).collect();
        json!([self.name, pieces])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_color_are_one_path_and_the_shortest_is_seen() {
        let piece = |from, to, class| Piece { from, to, class, says: ["x", "y"].map(String::from) };
        let pieces = vec![piece(0.0, 25.0, "a"), piece(50.0, 50.0, "b"), piece(75.0, 100.0, "a")];
        let lane = PieceLane { name: "waits".into(), sum: "3".into(), pieces };
        let paths = lane.paths(100.0);
        assert_eq!(paths["a"], "M0 0h250000v100h-250000zM750000 0h250000v100h-250000z");
        assert_eq!(paths["b"], "M500000 0h667v100h-667z");
        assert_eq!(lane.data()[1][1], json!([50.0, 50.0, "x", "y"]));
    }
}
