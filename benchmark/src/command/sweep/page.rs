//! A sweep as one page for a browser: the result, rates against each key, and every setting with its spread. The file
//! loads nothing and runs no scripts.

use super::knobs::{Knob, named};
use super::results::{RunResult, spread};
use std::fmt::Write;

/// The maximum number of lines in a plot, for readability; those with the highest rates are drawn.
const LINES_MAX: usize = 6;

/// Size of a plot, and space for its labels.
const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 34.0;

/// The head of the page, with a policy that forbids loading anything.
const HEAD: &str = include_str!("page.html");

const STYLE: &str = include_str!("page.css");

/// A metric that is drawn against a key.
struct Measure {
    name: &'static str,
    of: fn(&RunResult) -> f64,
}

const MEASURES: [Measure; 2] = [
    Measure { name: "samples/s", of: |it| it.samples_per_second },
    Measure { name: "MB/s", of: |it| it.megabytes_per_second },
];

/// Returns the page of all runs, with a few sentences about the result.
pub fn page(knobs: &[Knob], settings: &[Vec<String>], outturns: &[Vec<RunResult>], sentences: &[&str]) -> String {
    let keys: Vec<&str> = knobs.iter().map(|knob| knob.key.as_str()).collect();
    let title = escaped(&format!("Sweep of {}", keys.join(", ")));
    let mut page = format!("{HEAD}<title>{title}</title><style>{STYLE}</style></head><body><main><h1>{title}</h1>\n");
    for sentence in sentences {
        let sentence = sentence.trim();
        let (first, rest) = sentence.split_at(sentence.chars().next().map_or(0, char::len_utf8));
        let stop = if sentence.ends_with('.') { "" } else { "." };
        let _ = writeln!(page, "<p>{}{}{stop}</p>", escaped(&first.to_uppercase()), escaped(rest));
    }
    for (at, knob) in knobs.iter().enumerate().filter(|(_, knob)| knob.values.len() > 1) {
        let _ = write!(page, "<section><h2>{}</h2><div class=\"plots\">", escaped(&knob.key));
        let lines = lines(knobs, settings, outturns, at);
        for measure in &MEASURES {
            plot(knob, measure, settings, outturns, &lines, &mut page);
        }
        page += "</div>";
        legend(&lines, &mut page);
        page += "</section>\n";
    }
    table(knobs, settings, outturns, &mut page);
    page + "</main></body></html>\n"
}

/// The settings that differ in one knob only, in the order of its values.
struct Line {
    name: String,
    settings: Vec<usize>,
}

fn lines(knobs: &[Knob], settings: &[Vec<String>], outturns: &[Vec<RunResult>], at: usize) -> Vec<Line> {
    let mut lines: Vec<(Vec<String>, Line)> = Vec::new();
    for (number, setting) in settings.iter().enumerate() {
        let (mut others, mut names) = (setting.clone(), knobs.to_vec());
        others.remove(at);
        names.remove(at);
        match lines.iter_mut().find(|(known, _)| *known == others) {
            Some((_, line)) => line.settings.push(number),
            None => {
                let line = Line { name: named(&names, &others), settings: vec![number] };
                lines.push((others, line));
            }
        }
    }
    let best = |line: &Line| {
        let rates = line.settings.iter().map(|number| spread(&outturns[*number], MEASURES[0].of).0);
        rates.fold(0.0, f64::max)
    };
    lines.sort_by(|(_, a), (_, b)| best(b).total_cmp(&best(a)));
    lines.into_iter().map(|(_, line)| line).take(LINES_MAX).collect()
}

fn plot(
    knob: &Knob,
    measure: &Measure,
    settings: &[Vec<String>],
    outturns: &[Vec<RunResult>],
    lines: &[Line],
    page: &mut String,
) {
    let drawn = || lines.iter().flat_map(|line| &line.settings);
    let most = drawn().map(|number| spread(&outturns[*number], measure.of).2).fold(0.0, f64::max);
    let step = round_step(most / 4.0);
    let top = (most / step).ceil().max(1.0) * step;
    let y = |value: f64| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - value / top);
    let room = (WIDTH - LEFT - RIGHT) / knob.values.len() as f64;
    let label = format!("{} against {}", measure.name, knob.key);
    let _ = write!(
        page,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\"><text x=\"{LEFT}\" y=\"{}\">{}</text>",
        escaped(&label),
        TOP - 14.0,
        measure.name
    );
    for mark in 0..=(top / step).round() as u32 {
        let value = step * f64::from(mark);
        let _ = write!(
            page,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{2:.1}\" y2=\"{2:.1}\"/><text class=\"y\" x=\"{1}\" y=\"{3:.1}\">{4}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y(value),
            y(value) + 4.0,
            mark_text(value, step)
        );
    }
    for (place, value) in knob.values.iter().enumerate() {
        let x = LEFT + room * (place as f64 + 0.5);
        let value = escaped(&shown(value));
        let _ = write!(page, "<text class=\"x\" x=\"{x:.1}\" y=\"{:.1}\">{value}</text>", HEIGHT - BOTTOM + 18.0);
    }
    for (index, line) in lines.iter().enumerate() {
        let points: Vec<(f64, usize)> =
            (0..).map(|place: u32| LEFT + room * (f64::from(place) + 0.5)).zip(line.settings.iter().copied()).collect();
        let at = |(x, number): &(f64, usize)| format!("{x:.1},{:.1}", y(spread(&outturns[*number], measure.of).0));
        let way: Vec<String> = points.iter().map(at).collect();
        let _ = write!(page, "<g class=\"s{index}\"><polyline points=\"{}\"/>", way.join(" "));
        for (x, number_of) in points {
            let (median, low, high) = spread(&outturns[number_of], measure.of);
            let setting = settings[number_of].iter().map(|value| shown(value)).collect::<Vec<_>>().join(", ");
            let says = format!("{setting}: {} {} ({} to {})", number(median), measure.name, number(low), number(high));
            let _ = write!(
                page,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/><circle cx=\"{x:.1}\" cy=\"{:.1}\" r=\"4\"><title>{}</title></circle>",
                y(low),
                y(high),
                y(median),
                escaped(&says)
            );
        }
        *page += "</g>";
    }
    *page += "</svg>";
}

fn legend(lines: &[Line], page: &mut String) {
    if lines.len() < 2 {
        return;
    }
    *page += "<p class=\"legend\">";
    for (index, line) in lines.iter().enumerate() {
        let _ = write!(page, "<span class=\"s{index}\"><i></i>{}</span> ", escaped(&line.name));
    }
    *page += "</p>";
}

fn table(knobs: &[Knob], settings: &[Vec<String>], outturns: &[Vec<RunResult>], page: &mut String) {
    *page += "<section><h2>All settings</h2><div class=\"wide\"><table><thead><tr>";
    for knob in knobs {
        let _ = write!(page, "<th scope=\"col\">{}</th>", escaped(&knob.key));
    }
    for head in ["runs", "samples/s", "smallest", "largest", "MB/s", "AU %", "seconds"] {
        let _ = write!(page, "<th scope=\"col\">{head}</th>");
    }
    *page += "</tr></thead><tbody>\n";
    for (setting, outturns) in settings.iter().zip(outturns) {
        let (median, low, high) = spread(outturns, MEASURES[0].of);
        let rest = [MEASURES[1].of, |it: &RunResult| it.utilization, |it: &RunResult| it.seconds];
        let figures = [median, low, high].into_iter().chain(rest.map(|of| spread(outturns, of).0));
        *page += "<tr>";
        for value in setting {
            let _ = write!(page, "<th scope=\"row\">{}</th>", escaped(&shown(value)));
        }
        let _ = write!(page, "<td>{}</td>", outturns.len());
        for figure in figures {
            let _ = write!(page, "<td>{}</td>", number(figure));
        }
        *page += "</tr>\n";
    }
    *page += "</tbody></table></div></section>";
}

/// Returns 1, 2 or 5 times a power of ten, at least `least`.
fn round_step(least: f64) -> f64 {
    if least <= 0.0 || !least.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|part| part * power).find(|step| *step >= least).unwrap_or(10.0 * power)
}

/// Returns the label of an axis tick, with as many decimal places as its step.
fn mark_text(value: f64, step: f64) -> String {
    let places = (-step.log10()).ceil().max(0.0) as usize;
    format!("{value:.places$}")
}

/// Formats a number with its significant decimal places.
fn number(value: f64) -> String {
    let places = match value.abs() {
        value if value == 0.0 || value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        value if value >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.places$}")
}

/// Formats a size in bytes with its binary unit, and anything else unchanged.
fn shown(value: &str) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let in_unit = |bytes: u64| {
        let (shift, unit) = units.into_iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift)?;
        Some(format!("{} {unit}", bytes >> shift))
    };
    value.parse().ok().and_then(in_unit).unwrap_or_else(|| value.to_string())
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outturn(rate: f64) -> RunResult {
        RunResult { seconds: 2.0, samples_per_second: rate, megabytes_per_second: rate / 10.0, utilization: 50.0 }
    }

    #[test]
    fn every_setting_has_a_point_and_a_row() {
        let knobs = [Knob::parse("reader.transfer_size=64K..256K").unwrap(), Knob::parse("a<b=x,y").unwrap()];
        let settings = super::super::knobs::settings(&knobs);
        let outturns: Vec<Vec<RunResult>> =
            (1..=6).map(|it| vec![outturn(f64::from(it)), outturn(f64::from(it) + 0.5)]).collect();
        let page = page(&knobs, &settings, &outturns, &["best: one & only"]);
        assert_eq!(page.matches("<circle").count(), 2 * 2 * 6, "two keys, two measures, six settings");
        assert_eq!(page.matches("<tr>").count(), 1 + 6);
        assert!(page.contains("128 KiB") && page.contains("Best: one &amp; only.") && page.contains("a&lt;b"));
        assert!(!page.contains("a<b") && !page.contains("http://") && !page.contains("<script"));
        // The median of 1 and 1.5, with its range.
        assert!(page.contains("64 KiB, x: 1.25 samples/s (1.00 to 1.50)"), "{page}");
    }

    #[test]
    fn axes_have_round_numbers() {
        let steps = [0.3, 1.0, 17.0, 60.0, 0.0, f64::NAN].map(round_step);
        assert_eq!(steps, [0.5, 1.0, 20.0, 100.0, 1.0, 1.0]);
        let marks = [(50.0, 50.0), (0.5, 0.5), (0.25, 0.05), (3.0, 1.0)].map(|(value, step)| mark_text(value, step));
        assert_eq!(marks, ["50", "0.5", "0.25", "3"]);
    }
}
