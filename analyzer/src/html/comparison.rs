//! The HTML page of a comparison: the metrics of the text report, and both runs on one time axis.

use serde_json::{Value, json};

use super::figures::{Kind, capital};
use super::frame;
use super::markup::Markup;
use super::plot::lanes::{Axis, Lane, Lanes};
use super::plot::strip::{self, Part};
use super::table::{Table, of_words};
use super::timeline_lanes::{Columns, gathered, lanes};
use crate::compare::align::{Figures, Row};
use crate::compare::run::Run;
use crate::compare::tables::{self, figure_words};
use crate::compare::wall;
use crate::compare::{Claim, Comparison, MetricChange};
use crate::summary::report::steps::StepPart;

/// Where else the metrics are explained.
const EXPLAINED: &str = "<code>dlio-analyze --explain</code> describes how runs are compared; <code>--format json</code> contains all \
     numbers.";

/// Renders the page of a comparison. `before` and `after` are the runs that its tables show.
pub fn page(comparison: &Comparison, before: &Run, after: &Run) -> String {
    let mut page = Markup::default();
    frame::open(&format!("{} compared with {}", after.typed, before.typed), &mut page);
    let sections = sections(comparison, before, after);
    page.raw("<nav aria-label=\"Sections\"><ul><li><a href=\"#verdict\">Verdict</a></li>");
    for section in &sections {
        page.raw("<li>").element("a", &[("href", &format!("#{}", section.id))], section.title).raw("</li>");
    }
    page.raw("</ul></nav>\n<main>");
    page.raw("<header><p class=\"about\"><b>dlio-analyze</b> ").element("span", &[], &after.typed);
    page.raw(" compared with ").element("span", &[], &before.typed).raw("</p></header>\n");
    verdict(comparison, &mut page);
    numbers(comparison, &mut page);
    for section in &sections {
        page.open("section", &[("id", section.id)]).element("h2", &[], section.title);
        page.element("p", &[("class", "what")], section.what).append(&section.content).raw("</section>\n");
    }
    frame::close(EXPLAINED, &mut page);
    page.into_string()
}

/// A section below the first screen.
struct Section {
    id: &'static str,
    title: &'static str,
    /// A description in one line.
    what: &'static str,
    content: Markup,
}

/// Returns the sections that have content, in order.
fn sections(comparison: &Comparison, before: &Run, after: &Run) -> Vec<Section> {
    let section = |id, title, what, content| Section { id, title, what, content };
    let words = |table: Option<tables::Table>| table.map_or_else(Markup::default, |table| of_table(&table));
    let mut sections = vec![
        section("verdicts", "Verdicts", "The first line of each report.", words(tables::verdicts(comparison))),
        section("limits", "Limits", "The result of each --fail-if.", words(tables::limits(comparison))),
        section(
            "wall",
            "Where the change comes from",
            "Both runs on one scale; the parts of each run add up to it, so their changes add up to the whole change.",
            wall_parts(comparison),
        ),
        section("steps", "Steps of both runs", STEPS_SAY, steps(before, after)),
        section("course", "Both runs over time", COURSE_SAYS, course(before, after)),
        section("circumstances", "Other changes", CIRCUMSTANCES_SAY, words(tables::circumstances(comparison))),
        section("predictions", "Predictions", PREDICTIONS_SAY, words(tables::predictions(comparison))),
        section(
            "findings",
            "Findings",
            "Findings of either run, and the most that each could save.",
            findings(comparison),
        ),
        section("figures", "Metrics", FIGURES_SAY, words(Some(tables::figures(comparison)))),
    ];
    const ROWS_SAY: &str = "Matched by name, largest change of time first; times are summed over calls.";
    const FOLDERS_SAY: &str = "Matched by pattern below each run's common directory, with digits replaced by #.";
    sections.push(section("functions", "Calls", ROWS_SAY, changed("t-functions", &comparison.functions)));
    sections.push(section("spans", "Spans", ROWS_SAY, changed("t-spans", &comparison.spans)));
    sections.push(section("folders", "Directories", FOLDERS_SAY, changed("t-folders", &comparison.folders)));
    sections.push(section("ranks", "Ranks", "By number.", changed("t-ranks", &comparison.ranks)));
    sections.push(section("runs", "Runs", RUNS_SAY, words(Some(tables::runs(comparison)))));
    sections.retain(|section| !section.content.is_empty());
    sections
}

const STEPS_SAY: &str = "One axis, one scale: the duration of steps with the same number, and the part spent waiting \
    for the batch. Each run shows the trainer with the longest total step time.";
const COURSE_SAYS: &str = "One axis from the start of each run, and one scale per pair of lanes. A call's bytes are \
    spread evenly over its time.";
const CIRCUMSTANCES_SAY: &str = "Compare like with like: apart from the numbers, these differ.";
const PREDICTIONS_SAY: &str = "The training time that the run before predicted for the change, and the training time \
    of the run after.";
const FIGURES_SAY: &str = "Counts and bytes are exact: any change of them is real. For times, 95 % is the interval \
    that contains the change in 19 of 20 cases; noise: too small to be distinguished from chance.";
const RUNS_SAY: &str = "The runs compared. With several runs per side, tables and charts show the run of median \
    length.";

/// Writes the verdict.
fn verdict(comparison: &Comparison, page: &mut Markup) {
    let (mood, mark) = match comparison.claim() {
        Claim::More => ("bad", "▲ "),
        Claim::Fewer => ("good", "✓ "),
        _ => ("open", ""),
    };
    let first = comparison.answer.first().map_or("", String::as_str);
    let (answer, more) = first.split_once("; ").unwrap_or((first, ""));
    page.open("section", &[("class", "verdict"), ("data-mood", mood), ("id", "verdict"), ("aria-label", "Verdict")]);
    page.raw("<h1>").element("span", &[("aria-hidden", "true")], mark).text(answer).raw("</h1><p>");
    let rest = [capital(more)].into_iter().chain(comparison.answer.iter().skip(1).cloned());
    page.text(&rest.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")).raw("</p></section>\n");
}

fn metric<'a>(comparison: &'a Comparison, name: &str) -> Option<&'a MetricChange> {
    comparison.metrics.iter().find(|metric| metric.metric == name)
}

/// Writes five numbers, before and after.
fn numbers(comparison: &Comparison, page: &mut Markup) {
    const NUMBERS: [(&str, &str); 5] = [
        ("wall_s", "Wall clock"),
        ("step.mean_s", "Mean step"),
        ("wait.share", "Waited for data"),
        ("read.bytes", "Read"),
        ("calls", "Calls"),
    ];
    page.raw("<section aria-label=\"Five numbers\"><dl class=\"five\">");
    for (name, title) in NUMBERS {
        page.raw("<div>").element("dt", &[], title);
        match metric(comparison, name) {
            Some(metric) => {
                let [_, before, after, change, claim, interval] = figure_words(metric);
                let interval = if interval.is_empty() { interval } else { format!("({interval})") };
                let note = [change, claim, interval].into_iter().filter(|word| !word.is_empty());
                page.element("dd", &[], &format!("{before} → {after}"));
                page.element("dd", &[("class", "note")], &note.collect::<Vec<_>>().join(" "));
            }
            None => {
                page.element("dd", &[], "not known").element("dd", &[("class", "note")], "unknown in both runs");
            }
        }
        page.raw("</div>");
    }
    page.raw("</dl></section>\n");
}

fn of_table(table: &tables::Table) -> Markup {
    let mut content = Markup::default();
    of_words(&table.title, &table.heads, &table.rows, &mut content);
    table.notes.iter().for_each(|note| {
        content.element("p", &[("class", "note")], note);
    });
    content
}

/// Returns the style class, and so the color, of a part of a run.
fn class(part: &str) -> &'static str {
    match part {
        "compute" => "compute",
        "communication" => "comm",
        "checkpoints" => "checkpoint",
        "waiting for batches" => "wait",
        "other I/O of the trainer" | "I/O while nothing computes" | "I/O on files" => "wait-io",
        "before and after the steps" | "before and after the training" => "both",
        _ => "other",
    }
}

fn wall_parts(comparison: &Comparison) -> Markup {
    let mut content = Markup::default();
    let full = comparison.wall.before_ns.max(comparison.wall.after_ns) as f64;
    let of = |ns: fn(&wall::Part) -> i64| -> Vec<Part> {
        let part = |part: &wall::Part| Part { name: part.part.into(), class: class(part.part), value: ns(part) as f64 };
        comparison.wall.parts.iter().map(part).collect()
    };
    strip::write_within("Before", Kind::Time, &of(|part| part.before_ns), full, &mut content);
    strip::write_within("After", Kind::Time, &of(|part| part.after_ns), full, &mut content);
    content.append(&of_table(&tables::wall(comparison)));
    content
}

/// Returns the findings with their sentences, which do not fit into the text tables.
fn findings(comparison: &Comparison) -> Markup {
    let Some(mut table) = tables::findings(comparison) else { return Markup::default() };
    table.heads.push("<");
    table.rows.iter_mut().zip(&comparison.findings).for_each(|(row, finding)| row.push(capital(&finding.says)));
    of_table(&table)
}

/// Returns all rows of both sides as a table to sort and filter.
fn changed(id: &str, rows: &[Row]) -> Markup {
    let mut content = Markup::default();
    if rows.is_empty() {
        return content;
    }
    let row = |row: &Row| {
        let of = |figure: fn(Figures) -> u64| [row.before, row.after].map(|side| side.map(figure));
        let (time, count, moved) = (of(|side| side.time_ns), of(|side| side.count), of(|side| side.bytes));
        json!({
            "name": row.key, "change_ns": row.change_ns, "what": row.group, "before.time_ns": time[0], "after.time_ns": time[1],
            "before.count": count[0], "after.count": count[1], "before.bytes": moved[0], "after.bytes": moved[1],
        })
    };
    let rows: Vec<Value> = rows.iter().map(row).collect();
    Table::of(&rows).write(id, "Rows of both sides", "--format json contains all rows.", &mut content);
    content
}

/// The largest number of columns in a plot.
const COLUMNS_MAX: f64 = 1000.0;

/// Draws the lanes of both runs on one time axis, with a common scale per pair.
fn course(before: &Run, after: &Run) -> Markup {
    let mut content = Markup::default();
    let report = |run: &Run| json!({ "timeline": run.timeline, "training": vec![Value::Null; run.training.len()] });
    // Quantiles of columns cannot be combined into columns of another width.
    let gathered_lanes = |run: &Run| lanes(&report(run)).into_iter().filter(|lane| lane.kind != Kind::Time).collect();
    let sides: [(&Run, Vec<Lane>); 2] = [before, after].map(|run| (run, gathered_lanes(run)));
    let width = sides.iter().map(|(run, _)| run.timeline.column_ns as f64).fold(0.0, f64::max);
    let longest = sides.iter().map(|(run, _)| run.time.total_ns as f64).fold(0.0, f64::max);
    if sides.iter().any(|(_, lanes)| lanes.is_empty()) || width <= 0.0 || longest <= 0.0 {
        return content;
    }
    let count = (longest / width).ceil().clamp(1.0, COLUMNS_MAX);
    let width = width.max(longest / count);
    let values = |(run, lanes): &(&Run, Vec<Lane>), name: &str| {
        let begin = (run.timeline.start_ts - run.time.start_ts) as f64;
        let own = Columns { begin, width: run.timeline.column_ns as f64 };
        let lane = lanes.iter().find(|lane| lane.name == name);
        gathered(lane.map_or(&[][..], |lane| &lane.values), own, width, count as usize)
    };
    let [known, other] = sides.each_ref().map(|(_, lanes)| lanes);
    let further = other.iter().filter(|lane| known.iter().all(|known| known.name != lane.name));
    let pair = |lane: &Lane| pair(lane, sides.each_ref().map(|side| values(side, &lane.name)));
    let lanes = known.iter().chain(further).flat_map(pair).collect();
    let axis = Axis::Time { begin_ns: 0.0, total_ns: longest, column_ns: width };
    Lanes { id: "both", title: "Both runs over time", moments: vec![], first: vec![], pieces: vec![], lanes, axis }
        .write(&mut content);
    content
}

/// Returns a metric of both runs as two lanes with one scale.
fn pair(like: &Lane, values: [Vec<f64>; 2]) -> [Lane; 2] {
    let most = values.iter().flatten().copied().fold(0.0, f64::max);
    let full = like.full.or(Some(most));
    let [before, after] = values;
    [("before", before), ("after", after)].map(|(side, values)| Lane {
        name: format!("{}, {side}", like.name),
        class: like.class,
        kind: like.kind,
        values,
        full,
    })
}

/// The largest number of columns of steps.
const STEPS_MAX: u64 = 500;

/// Draws the steps of both runs by step number.
fn steps(before: &Run, after: &Run) -> Markup {
    let mut content = Markup::default();
    let sides = [before, after].map(|run| run.longest_columns());
    let longest = sides.iter().map(|columns| columns.iter().map(|column| column.steps).sum::<u64>()).max().unwrap_or(0);
    if sides.iter().any(|columns| columns.len() < 2) {
        return content;
    }
    let width = longest.div_ceil(STEPS_MAX).max(1);
    let count = longest.div_ceil(width);
    let each = |columns: &[StepPart], of: fn(&StepPart) -> i64| -> Vec<f64> {
        // One value per step, because the columns of the two runs may cover different numbers of steps.
        let steps = columns.iter().flat_map(|column| {
            let mean = of(column) as f64 / column.steps.max(1) as f64;
            std::iter::repeat_n(mean, column.steps as usize)
        });
        gathered(&steps.collect::<Vec<_>>(), Columns { begin: 0.0, width: 1.0 }, width as f64, count as usize)
    };
    let lane = |name: &str, class| Lane { name: name.into(), class, kind: Kind::Time, values: vec![], full: None };
    let part = |like: Lane, of: fn(&StepPart) -> i64| pair(&like, sides.map(|columns| each(columns, of)));
    let lengths = part(lane("a step", "busy"), |column| column.total_ns);
    let waits = part(lane("of it, waiting", "wait"), |column| column.wait_ns);
    let mark = |at: u64| match width {
        1 => format!("step {}", at + 1),
        width => format!("steps {} to {}, on average", at * width + 1, ((at + 1) * width).min(longest)),
    };
    let shown = lengths.into_iter().chain(waits).filter(|lane| lane.full != Some(0.0));
    let axis = Axis::Marks((0..count).map(mark).collect());
    let lanes = shown.collect();
    Lanes {
        id: "both-steps",
        title: "Steps of both runs",
        moments: vec![],
        first: vec![],
        pieces: vec![],
        lanes,
        axis,
    }
    .write(&mut content);
    content
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Sides;

    fn run(name: &str, wall_ns: i64, step_ns: i64) -> Run {
        let column = json!({ "steps": 3, "total_ns": 3 * step_ns, "wait_ns": step_ns });
        let report = json!({
            "schema": "dlio-summary", "version": 2, "allocation": { "events": 9 },
            "time": { "start_ts": 100, "total_ns": wall_ns, "io_ns": 10 },
            "timeline": { "start_ts": 0, "column_ns": 512, "bytes_read": [5, 6], "io_ns": [9, 9], "calls": [1, 1],
                "bytes_written": [0, 0], "busy_ns": [9, 9] },
            "steps": [{ "sum": column, "median_ns": step_ns, "columns": vec![column.clone(); 4] }],
            "directories": [{ "directory": "/d/<script>alert(1)</script>", "opens": 1, "time_ns": wall_ns }],
        });
        Run { typed: name.into(), ..Run::of(&report.to_string()).unwrap() }
    }

    #[test]
    fn a_page_of_two_runs_has_the_figures_of_the_text_and_both_on_one_axis() {
        let sides = Sides { before: vec![run("<a>", 1000, 50)], after: vec![run("b", 900, 40)] };
        let comparison = sides.compare(&[]);
        let page = page(&comparison, &sides.before[0], &sides.after[0]);
        assert!(page.contains("The new run took 900 ns, 100 ns less than the baseline (-10.0 %)"), "{page}");
        for table in tables::all(&comparison, 100) {
            for cell in table.rows.iter().flatten().filter(|cell| !cell.contains('<')) {
                assert!(page.contains(cell.as_str()), "{}: {cell}", table.title);
            }
        }
        for lane in ["read, before", "read, after", "a step, before", "of it, waiting, after"] {
            assert!(page.contains(lane), "{lane}");
        }
        assert!(!page.contains("<script>alert") && !page.contains("<a>"), "{page}");
    }

    #[test]
    fn both_of_a_pair_have_one_scale_and_empty_sections_are_left_out() {
        let like = Lane { name: "x".into(), class: "read", kind: Kind::Plain, values: vec![], full: None };
        let [before, after] = pair(&like, [vec![1.0], vec![4.0]]);
        assert_eq!((before.full, after.full, after.name.as_str()), (Some(4.0), Some(4.0), "x, after"));
        let nothing = Run::of(r#"{"allocation": {"events": 1}}"#).unwrap();
        let sides = Sides { before: vec![nothing.clone()], after: vec![nothing] };
        let page = page(&sides.compare(&[]), &sides.before[0], &sides.after[0]);
        assert!(!page.contains("id=\"course\"") && !page.contains("id=\"steps\"") && page.contains("id=\"figures\""));
    }
}
