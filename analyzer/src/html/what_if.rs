//! The section "What would help": one bar per change, as long as the predicted training, with its interval.

use serde_json::Value;

use super::figures::capital;
use super::markup::Markup;
use super::plot::lanes::mark;
use super::plot::scale::ticks;
use super::values::{at, list, number, text};
use crate::replay::predict::is_wide;
use crate::summary::figures::units::time;

/// Returns `true` if the report has predictions, or the reason why it has none.
pub fn is_there(report: &Value) -> bool {
    at(report, "what_if").is_some()
}

/// Writes the bars.
pub fn write(report: &Value, page: &mut Markup) {
    let Some((replay, measured)) = at(report, "what_if").zip(number(report, "what_if.measured_ns")) else { return };
    page.raw("<section id=\"what-if\"><h2>What would help</h2>\n");
    let waited = number(replay, "wait_ns").unwrap_or(0.0);
    if let Some(why) = text(replay, "refused") {
        let most = format!("A change to the loader would save at most the wait of {}.", time(waited));
        page.element("p", &[], &format!("The run cannot be replayed: {why}. {most}")).raw("</section>\n");
        return;
    }
    let changes = list(replay, "changes");
    let ends = changes.iter().filter_map(|change| number(change, "high_ns")).chain([measured]);
    let scale = Scale { most: 1.02 * ends.fold(0.0, f64::max), measured };
    page.raw("<div class=\"boxes\" role=\"group\" aria-label=\"The training with each change\">");
    scale.bar(&Bar { name: "as it was", note: time(measured), time: measured, waited, interval: None }, page);
    changes.iter().for_each(|change| scale.change(change, page));
    page.raw("<div class=\"lane\"><div class=\"name\"></div><svg class=\"axis\" width=\"100%\" height=\"20\" aria-hidden=\"true\">");
    ticks(scale.most).into_iter().for_each(|tick| mark(scale.place(tick), &time(tick), page));
    page.raw("</svg></div>");
    page.raw("<p class=\"note\">Green: the training works. Orange: it waits for data. Line: the interval of the prediction. ");
    page.raw(
        "Rows cannot be added up: <code>--what-if storage=2,workers=4</code> replays changes together.</p></div>\n",
    );
    notes(changes, page);
    page.raw("</section>\n");
}

/// Writes why rows lack a prediction, and what would narrow their intervals.
fn notes(changes: &[Value], page: &mut Markup) {
    let lines = changes.iter().flat_map(|change| {
        let what = capital(text(change, "what").unwrap_or(""));
        let why = text(change, "refused").into_iter().map(|why| format!("no prediction, {why}"));
        let notes = list(change, "notes").iter().filter_map(Value::as_str).map(String::from);
        why.chain(notes).map(move |line| format!("{what}: {line}.")).collect::<Vec<_>>()
    });
    lines.for_each(|line| {
        page.element("p", &[("class", "note")], &line);
    });
}

/// A row: the training time, and the part of it spent waiting.
struct Bar<'a> {
    name: &'a str,
    note: String,
    time: f64,
    waited: f64,
    interval: Option<[f64; 2]>,
}

struct Scale {
    most: f64,
    measured: f64,
}

impl Scale {
    fn place(&self, ns: f64) -> f64 {
        100.0 * (ns / self.most).clamp(0.0, 1.0)
    }

    fn change(&self, change: &Value, page: &mut Markup) {
        let name = text(change, "what").unwrap_or("");
        let of = |field: &str| number(change, field);
        let Some(((at, low), high)) = of("time_ns").zip(of("low_ns")).zip(of("high_ns")) else {
            page.raw("<div class=\"lane\"><div class=\"name\">").text(name);
            page.raw("</div><small>no prediction</small></div>");
            return;
        };
        let percent = |ns: f64| format!("{:+.0} %", 100.0 * (ns / self.measured - 1.0));
        let is_nothing = low < high && low <= self.measured && self.measured <= high;
        let is_unknown = is_nothing && is_wide(low as i64, high as i64, self.measured as i64);
        let note = match is_nothing {
            true if is_unknown => format!("unknown ({} to {})", percent(low), percent(high)),
            true => "nothing measurable".into(),
            false if low < high => format!("{} ({} to {})", percent(at), percent(low), percent(high)),
            false => percent(at),
        };
        let interval = (low < high).then_some([low, high]);
        self.bar(&Bar { name, note, time: at, waited: of("wait_ns").unwrap_or(0.0), interval }, page);
    }

    fn bar(&self, bar: &Bar, page: &mut Markup) {
        let title = format!("{}: {}, {} of it waiting; {}", bar.name, time(bar.time), time(bar.waited), bar.note);
        page.raw("<div class=\"lane\"><div class=\"name\">").text(bar.name).raw(" ").element("small", &[], &bar.note);
        page.raw("</div><svg role=\"img\" width=\"100%\" height=\"20\">").element("title", &[], &title);
        let x = |ns: f64| format!("{:.2}%", self.place(ns));
        let works = (bar.time - bar.waited).max(0.0);
        for (class, from, to) in [("compute", 0.0, works), ("wait", works, bar.time)] {
            let width = format!("{:.2}%", self.place(to) - self.place(from));
            page.open("rect", &[("class", class), ("x", &x(from)), ("width", &width), ("y", "4"), ("height", "12")]);
            page.close("rect");
        }
        if let Some([low, high]) = bar.interval {
            let ends = [("x1", x(low)), ("x2", x(high))];
            let ends = ends.each_ref().map(|(name, at)| (*name, at.as_str()));
            page.open("line", &[&[("class", "median")][..], &ends, &[("y1", "10"), ("y2", "10")]].concat())
                .close("line");
        }
        page.raw("</svg></div>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn page_of(what_if: Value) -> String {
        let mut page = Markup::default();
        write(&json!({ "what_if": what_if }), &mut page);
        page.into_string()
    }

    #[test]
    fn each_change_has_a_bar_with_its_interval() {
        let change = |what: &str, times: [u64; 3]| {
            json!({"what": what, "time_ns": times[0], "low_ns": times[1], "high_ns": times[2], "wait_ns": 100_000_000,
                "refused": null, "notes": []})
        };
        let refused =
            json!({"what": "decoding 2x faster", "time_ns": null, "refused": "the quota is unknown", "notes": []});
        let page = page_of(json!({
            "measured_ns": 2_000_000_000u64, "wait_ns": 1_000_000_000u64, "refused": null,
            "changes": [
                change("storage <2x> faster", [1_200_000_000, 1_000_000_000, 1_500_000_000]),
                change("prefetch 8", [1_980_000_000, 1_900_000_000, 2_100_000_000]),
                change("8 readers", [1_500_000_000, 1_000_000_000, 2_000_000_000]),
                refused,
            ],
        }));
        for part in [
            "as it was <small>2 s</small>",
            "storage &lt;2x&gt; faster <small>-40 % (-50 % to -25 %)</small>",
            "prefetch 8 <small>nothing measurable</small>",
            "8 readers <small>unknown (-50 % to +0 %)</small>",
            "Decoding 2x faster: no prediction, the quota is unknown.",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
        // The axis ends at 102 % of the latest end.
        assert!(page.contains("class=\"median\" x1=\"46.69%\" x2=\"70.03%\""), "{page}");
    }

    #[test]
    fn a_refusal_gives_its_reason_and_the_wait() {
        let page = page_of(
            json!({"measured_ns": 2e9, "wait_ns": 1_500_000_000u64, "refused": "a GPU was used", "changes": []}),
        );
        assert!(page.contains(
            "cannot be replayed: a GPU was used. A change to the loader would save at most the wait of 1.50 s."
        ));
        assert!(!page.contains("<svg"), "{page}");
    }

    #[test]
    fn nothing_is_written_without_a_training() {
        assert_eq!(page_of(Value::Null), "");
    }
}
