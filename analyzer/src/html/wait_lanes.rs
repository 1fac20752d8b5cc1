//! The waits of trainers as lanes: each wait has the color of its largest cause.

use std::collections::BTreeSet;

use serde_json::Value;

use super::figures::percent;
use super::markup::Markup;
use super::plot::pieces::{Piece, PieceLane};
use super::plot::strip;
use super::values::{at, exact, list, number, text};
use crate::summary::figures::units::{many, time};

/// Causes and the style classes that set their colors.
const CAUSES: [(&str, &str); 21] = [
    ("storage", "cause-storage"),
    ("page-faults", "cause-page-faults"),
    ("network", "cause-network"),
    ("cpu", "cause-cpu"),
    ("file-calls", "cause-file-calls"),
    ("no-cpu", "cause-no-cpu"),
    ("gil", "cause-gil"),
    ("lock", "cause-lock"),
    ("sleep", "cause-sleep"),
    ("child", "cause-child"),
    ("hand-over", "cause-hand-over"),
    ("sampling", "cause-sampling"),
    ("start", "cause-start"),
    ("dead-reader", "cause-dead-reader"),
    ("never-sent", "cause-never-sent"),
    ("missing-file", "cause-missing-file"),
    ("not-asked", "cause-not-asked"),
    ("outside-calls", "cause-outside-calls"),
    ("gpu", "cause-gpu"),
    ("gpu-busy", "cause-gpu-busy"),
    ("unknown", "cause-unknown"),
];

/// Causes below this share of a wait are not named.
const NAMED: f64 = 0.01;

/// Returns one lane per trainer in the report's timeline.
pub fn lanes(report: &Value) -> Vec<PieceLane> {
    let trainers = list(report, "timeline.waits");
    let start = exact(report, "timeline.start_ts").unwrap_or(0);
    let lane = |trainer: &Value| {
        let pieces = list(trainer, "pieces").iter().filter_map(|wait| piece(wait, start));
        let (waits, ns) = (number(trainer, "waits").unwrap_or(0.0), number(trainer, "wait_ns").unwrap_or(0.0));
        PieceLane {
            name: named(trainer, trainers.len()),
            sum: format!("{}, {}", many(waits as u64, "wait", "waits"), time(ns)),
            pieces: pieces.collect(),
        }
    };
    trainers.iter().map(lane).filter(|lane| !lane.pieces.is_empty()).collect()
}

fn named(trainer: &Value, trainers: usize) -> String {
    match (exact(trainer, "rank"), text(trainer, "name")) {
        (Some(rank), _) => format!("waits of rank {rank}, by cause"),
        (None, Some(name)) if trainers > 1 => format!("waits of {name}, by cause"),
        _ => "waits, by cause".into(),
    }
}

fn piece(wait: &Value, start: i64) -> Option<Piece> {
    let since = |field: &str| Some((exact(wait, field)? - start) as f64);
    let causes = causes(wait);
    let class = causes.first().map_or("other", |(cause, _)| class(cause));
    Some(Piece { from: since("start_ts")?, to: since("end_ts")?, class, says: says(wait, &causes) })
}

/// Returns the causes of a wait, largest first; ties keep the order of the list.
fn causes(wait: &Value) -> Vec<(&str, f64)> {
    let Some(Value::Object(causes)) = at(wait, "causes") else { return Vec::new() };
    let mut found: Vec<_> = causes.iter().filter_map(|(cause, ns)| Some((cause.as_str(), ns.as_f64()?))).collect();
    let place = |cause: &str| CAUSES.iter().position(|(known, _)| *known == cause);
    found.sort_by(|(one, a), (other, b)| b.total_cmp(a).then(place(one).cmp(&place(other))));
    found
}

fn class(cause: &str) -> &'static str {
    CAUSES.iter().find(|(known, _)| *known == cause).map_or("other", |(_, class)| class)
}

/// Describes a wait: duration, cause, origin of the batch, and parts.
fn says(wait: &Value, causes: &[(&str, f64)]) -> [String; 2] {
    let (waits, ns) = (number(wait, "waits").unwrap_or(1.0), number(wait, "wait_ns").unwrap_or(0.0));
    let what = match text(wait, "kind") {
        Some("data") => " for a batch",
        Some("own-work") => " for its own work",
        Some("lock") => " for a lock",
        Some("peer") => " for a peer",
        _ => "",
    };
    let which = if waits > 1.0 { format!("{} in {}", time(ns), many(waits as u64, "wait", "waits")) } else { time(ns) };
    let maker = text(wait, "made_by").map_or(String::new(), |maker| format!(", made by {maker}"));
    let named = causes.iter().filter(|(_, part)| *part >= NAMED * ns);
    let parts: Vec<_> = named.map(|(cause, part)| format!("{} {}", words(cause), percent(part / ns))).collect();
    [format!("{which}{what}{maker}"), parts.join(", ")]
}

fn words(cause: &str) -> String {
    cause.replace('-', " ")
}

/// Writes the legend of the causes that occur.
pub fn legend(lanes: &[PieceLane], page: &mut Markup) {
    let used: BTreeSet<&str> = lanes.iter().flat_map(|lane| &lane.pieces).map(|piece| piece.class).collect();
    if used.is_empty() {
        return;
    }
    page.raw("<ul class=\"legend\"><li>Each wait has the color of its largest cause:</li>");
    for (cause, class) in CAUSES.iter().filter(|(_, class)| used.contains(class)) {
        page.raw("<li>");
        strip::key(class, page);
        page.text(&words(cause)).raw("</li>");
    }
    page.raw("</ul>");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::summary::waits::parts::Part;

    #[test]
    fn every_cause_has_a_color() {
        assert_eq!(CAUSES.map(|(cause, _)| cause), Part::CAUSES.map(Part::name));
        let style = include_str!("style.css");
        assert!(CAUSES.iter().all(|(_, class)| style.contains(&format!(".{class} {{"))));
    }

    #[test]
    fn a_wait_says_how_long_for_what_and_made_by_whom() {
        let start = 1_700_000_000_000_000_123i64;
        let wait = json!({"start_ts": start + 50, "end_ts": start + 60_000_050, "waits": 1, "wait_ns": 60_000_000, "kind": "data",
            "made_by": "worker 0 (7)", "causes": {"cpu": 15_000_000, "storage": 45_000_000}});
        let report = json!({"timeline": {"start_ts": start, "waits": [{"proc": 0, "rank": null, "name": "t (1)", "waits": 1,
            "wait_ns": 60_000_000, "pieces": [wait]}]}});
        let lanes = lanes(&report);
        assert_eq!(
            (lanes.len(), lanes[0].name.as_str(), lanes[0].sum.as_str()),
            (1, "waits, by cause", "1 wait, 60.0 ms")
        );
        let piece = &lanes[0].pieces[0];
        assert_eq!((piece.from, piece.class), (50.0, "cause-storage"));
        assert_eq!(piece.says, ["60.0 ms for a batch, made by worker 0 (7)", "storage 75 %, cpu 25 %"]);
    }
}
