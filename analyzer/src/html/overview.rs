//! The first screen: the verdict, five numbers, where the time went, and how complete the data are.

use serde::Deserialize;
use serde_json::Value;

use super::figures::{Kind, capital, percent};
use super::markup::Markup;
use super::plot::lanes::{Axis, Lanes};
use super::plot::stack::{self, Layer};
use super::plot::strip::{self, Part};
use super::timeline_lanes::{gpu_lanes, host_side_lanes, lanes};
use super::values::{at, exact, list, number, sum, text};
use super::{wait_lanes, what_if};
use crate::summary::figures::units::{bytes, grouped, many, moment, time};
use crate::summary::report::commands::{compares, record_again};
use crate::summary::report::runs::{Run, scope};
use crate::summary::training::RankGroup;
use crate::summary::wording::Wording;

/// Returns the parts that the table of contents links to.
pub fn places(report: &Value) -> Vec<(&'static str, &'static str)> {
    let has_findings = !list(report, "findings").is_empty();
    let has_timeline = !lanes(report).is_empty();
    let place = |holds: bool, at, title| holds.then_some((at, title));
    let places = [
        place(true, "#verdict", "Verdict"),
        place(has_findings, "#findings", "What to change"),
        place(what_if::is_there(report), "#what-if", "What would help"),
        place(has_timeline, "#timeline", course_title(report)),
        place(true, "#split", "Where the time went"),
        place(true, "#trust", "How reliable this is"),
    ];
    places.into_iter().flatten().collect()
}

/// Shares of the training time at which a bottleneck is marked as bad or fair.
const LIMITING: f64 = 0.2;
const FREE: f64 = 0.05;

/// Returns the trainers whose wait time is known.
fn trainers(report: &Value) -> Vec<Value> {
    let knows = |group: &&Value| number(group, "waited_ns").is_some();
    list(report, "training").iter().filter(knows).cloned().collect()
}

/// Returns the words for the loop that takes batches.
fn wording(report: &Value) -> Wording {
    let groups: Vec<RankGroup> =
        trainers(report).iter().filter_map(|group| RankGroup::deserialize(group).ok()).collect();
    Wording::of(groups.iter())
}

/// Returns the share of training time that trainers waited.
fn waiting(report: &Value) -> Option<f64> {
    let groups = trainers(report);
    let (waited, trained) = (sum(&groups, "waited_ns")?, sum(&groups, "trained_ns")?);
    (trained > 0.0).then(|| waited / trained)
}

/// Writes the verdict box and the sentences of the verdict.
pub fn verdict(report: &Value, page: &mut Markup) {
    let sentences: Vec<&str> = list(report, "verdict").iter().filter_map(Value::as_str).collect();
    let is_free = matches!(
        text(report, "headline.bottleneck"),
        Some("compute-bound" | "gpu-bound" | "gpu-idle" | "gpus-take-turns" | "not-data-bound")
    );
    let (mood, mark) = match number(report, "headline.share").or_else(|| waiting(report)) {
        _ if is_free => ("good", "✓ "),
        Some(part) if part >= LIMITING => ("bad", "▲ "),
        Some(part) if part >= FREE => ("fair", "◆ "),
        Some(_) => ("good", "✓ "),
        None => ("open", ""),
    };
    let field = |field: &str| text(report, &format!("headline.{field}")).filter(|text| !text.is_empty());
    let sure = field("confidence").zip(field("confidence_reason")).map(|(level, reason)| format!("{level}: {reason}"));
    let headline = |name: &str| if name == "sure" { sure.as_deref() } else { field(name) };
    let answer = headline("text").or(sentences.first().copied()).unwrap_or("The report has no verdict on this trace.");
    page.open("section", &[("class", "verdict"), ("data-mood", mood), ("id", "verdict"), ("aria-label", "Verdict")]);
    page.raw("<h1>").element("span", &[("aria-hidden", "true")], mark).text(answer).raw("</h1>");
    for (field, name) in [("why", "Why"), ("next", "Next"), ("verify", "Verify"), ("sure", "Sure")] {
        let Some(line) = headline(field) else { continue };
        page.raw("<p>").element("b", &[], &format!("{name}: "));
        if field == "verify" && compares(line) {
            page.element("code", &[], &record_again(headline("command"))).raw("; then ").element("code", &[], line);
        } else {
            page.text(line);
        }
        page.raw("</p>");
    }
    page.raw("<p>").text(&sentences.join(" ")).raw("</p>");
    if let Some(scope) = runs_told_of(report) {
        page.element("p", &[("class", "note")], &scope);
    }
    page.raw("</section>\n");
}

/// Names the run that the page covers, if the trace has several.
fn runs_told_of(report: &Value) -> Option<String> {
    let runs: Vec<Run> = serde_json::from_value(report.get("runs")?.clone()).ok()?;
    scope(&runs)
}

/// Writes five numbers.
pub fn numbers_of(report: &Value, page: &mut Markup) {
    page.raw("<section aria-label=\"Five numbers\"><dl class=\"five\">");
    for (name, value, note) in [wall(report), steps(report), wait(report), moved(report), lost(report)] {
        page.raw("<div>")
            .element("dt", &[], name)
            .element("dd", &[], &value)
            .element("dd", &[("class", "note")], &note)
            .raw("</div>");
    }
    page.raw("</dl></section>\n");
}

type Figure = (&'static str, String, String);

fn wall(report: &Value) -> Figure {
    let total = number(report, "time.total_ns").unwrap_or(0.0);
    let processes = many(number(report, "allocation.pids").unwrap_or(0.0) as u64, "process", "processes");
    let hosts = many(number(report, "allocation.hosts").unwrap_or(0.0) as u64, "host", "hosts");
    ("Run time", time(total), format!("{processes} on {hosts}"))
}

fn steps(report: &Value) -> Figure {
    const NAME: &str = "Steps";
    let trainers = list(report, "steps");
    let counted = trainers.iter().filter_map(|trainer| number(trainer, "sum.steps")).fold(0.0, f64::max);
    if counted > 0.0 {
        let medians: Vec<f64> = trainers.iter().filter_map(|trainer| number(trainer, "median_ns")).collect();
        let slowest = medians.iter().copied().fold(0.0, f64::max);
        let note = match medians.len() {
            1 => format!("median {} each", time(slowest)),
            several => format!("of {several} trainers; median {} for the slowest", time(slowest)),
        };
        return (NAME, grouped(counted as u64), note);
    }
    match sum(list(report, "training"), "batches").filter(|batches| *batches > 0.0) {
        Some(batches) => ("Batches", grouped(batches as u64), "counted by spans that wait for them".into()),
        None => (NAME, "not marked".into(), "no span marks the start of a step".into()),
    }
}

fn wait(report: &Value) -> Figure {
    let groups = trainers(report);
    let inferred = groups.iter().any(|group| group.get("inferred").and_then(Value::as_bool) == Some(true));
    let times = sum(&groups, "waited_ns").zip(sum(&groups, "trained_ns"));
    match waiting(report).zip(times) {
        Some((part, (waited, trained))) => {
            let how = if inferred { ", inferred from calls" } else { "" };
            let (number, over) = match groups.len() {
                0 | 1 => (1.0, String::new()),
                several => (several as f64, format!(", the mean of {several} {}", wording(report).processes())),
            };
            let (waited, trained, noun) = (time(waited / number), time(trained / number), wording(report).noun());
            ("Waited for data", percent(part), format!("{waited} of {trained} of {noun}{over}{how}"))
        }
        None => ("Waited for data", "not known".into(), "the trace does not show a training run".into()),
    }
}

fn moved(report: &Value) -> Figure {
    let of = |field: &str| number(report, field).unwrap_or(0.0);
    let (read, written) = (of("dataset.bytes_read"), of("dataset.bytes_written"));
    let rate = |ns: f64| if ns > 0.0 { format!("{}/s", bytes((read + written) * 1e9 / ns)) } else { "–".into() };
    let (active, run) = (rate(of("time.io_ns")), rate(of("time.total_ns")));
    let name = if written > read { "Written and read" } else { "Read and written" };
    let (more, less) = if written > read { (written, read) } else { (read, written) };
    (name, format!("{} · {}", bytes(more), bytes(less)), format!("{active} while I/O was active, {run} over the run"))
}

fn lost(report: &Value) -> Figure {
    let of = |field: &str| number(report, field).unwrap_or(0.0) as u64;
    let lost = of("allocation.lost");
    ("Lost events", grouped(lost), format!("of {}", many(of("allocation.events") + lost, "event", "events")))
}

/// Writes the split of the time as bars whose parts add up to the whole.
pub fn time_split(report: &Value, page: &mut Markup) {
    page.raw("<section id=\"split\"><h2>Where the time went</h2>\n");
    if !decomposed(report, page) {
        trained(report, page);
    }
    let of = |field: &str| number(report, field);
    let (total, io) = (of("time.total_ns").unwrap_or(0.0), of("time.io_ns").unwrap_or(0.0));
    let part = |name: &str, class: &'static str, value: f64| Part { name: name.into(), class, value };
    let parts = match (of("time.compute_ns"), of("time.unoverlapped_io_ns")) {
        (Some(compute), Some(alone)) => vec![
            part("compute alone", "compute", compute - (io - alone)),
            part("compute and I/O", "both", io - alone),
            part("I/O alone", "wait-io", alone),
            part("neither", "other", total - compute - alone),
        ],
        _ => vec![part("I/O active", "wait-io", io), part("no I/O", "other", total - io)],
    };
    strip::write("The whole run, all processes together", Kind::Time, &parts, page);
    page.raw("</section>\n");
}

/// The parts of a step, by precedence: each gets the time that the earlier parts left.
const CLASSES: [(&str, &str, &str); 6] = [
    ("compute_ns", "compute", "computing"),
    ("communication_ns", "comm", "communicating"),
    ("checkpoint_ns", "checkpoint", "checkpoints"),
    ("wait_ns", "wait", "waiting for data"),
    ("io_ns", "wait-io", "other I/O"),
    ("other_ns", "other", "other"),
];

/// Why this wait may differ from that of the whole training.
const OF_STEPS: &str = "Shares are of the time of the steps; a wait during which its thread computed counts as \
    compute.";

/// The number of trainers whose steps are drawn.
const DRAWN: usize = 4;

/// Writes the steps by part; returns `false` if the parts are unknown.
fn decomposed(report: &Value, page: &mut Markup) -> bool {
    let trainers = list(report, "steps");
    let whole: f64 = trainers.iter().filter_map(|trainer| number(trainer, "sum.total_ns")).sum();
    if whole <= 0.0 {
        return false;
    }
    let part = |(field, class, name): &(&str, &'static str, &str)| {
        let value = trainers.iter().filter_map(|trainer| number(trainer, &format!("sum.{field}"))).sum();
        Part { name: name.to_string(), class, value }
    };
    let title = match trainers.len() {
        1 => "All steps".to_string(),
        several => format!("All steps, summed over {several} trainers"),
    };
    strip::write(&title, Kind::Time, &CLASSES.iter().map(part).collect::<Vec<_>>(), page);
    page.element("p", &[("class", "note")], OF_STEPS);
    const IDS: [&str; DRAWN] = ["steps-1", "steps-2", "steps-3", "steps-4"];
    for (id, trainer) in IDS.iter().zip(trainers) {
        steps_of(id, trainer, page);
    }
    if trainers.len() > DRAWN {
        page.element(
            "p",
            &[("class", "note")],
            &format!("Shown: {DRAWN} of {} trainers; the table Steps has all.", trainers.len()),
        );
    }
    true
}

/// Draws the steps of one trainer over time; a column is one step, or the mean of adjacent steps.
fn steps_of(id: &'static str, trainer: &Value, page: &mut Markup) {
    let columns = list(trainer, "columns");
    if columns.len() < 2 {
        return;
    }
    let steps = |column: &Value| number(column, "steps").unwrap_or(0.0).max(1.0);
    let layer = |(field, class, name): &(&'static str, &'static str, &'static str)| {
        let values = columns.iter().map(|column| number(column, field).unwrap_or(0.0) / steps(column)).collect();
        Layer { name, class, values }
    };
    let mut first = 1.0;
    let mark = |column: &Value| {
        let (from, to) = (first, first + steps(column) - 1.0);
        first = to + 1.0;
        if from == to { format!("step {from}") } else { format!("steps {from} to {to}, on average") }
    };
    let marks: Vec<String> = columns.iter().map(mark).collect();
    let who = match number(trainer, "rank") {
        Some(rank) => format!("a step of rank {rank}"),
        None => format!("a step of {}", text(trainer, "trainer").unwrap_or("the trainer")),
    };
    stack::write(id, &who, Kind::Time, &CLASSES.map(|class| layer(&class)), &marks, page);
}

/// Writes how trainers spent their time, as far as it is known.
fn trained(report: &Value, page: &mut Markup) {
    let groups = list(report, "training");
    let of = |field: &str| sum(groups, field);
    let (Some(trained), Some(waited)) = (of("trained_ns"), of("waited_ns")) else { return };
    let mut parts = Vec::new();
    let mut add = |name: &str, class: &'static str, value: f64| parts.push(Part { name: name.into(), class, value });
    match of("wait_io_ns") {
        Some(io) => {
            let starting = of("wait_start_ns").unwrap_or(0.0);
            if starting > 0.0 {
                add("waiting, readers starting or ending", "wait-start", starting);
            }
            add("waiting, readers in I/O", "wait-io", io);
            add("waiting, readers with other work", "wait", waited - io - starting);
        }
        None => add("waiting for batches", "wait", waited),
    }
    let (computed, saved) = (of("computed_ns"), of("checkpoint_ns").unwrap_or(0.0));
    match computed {
        // Spans may be nested. If so, their sum does not give the remaining time.
        Some(computed) if computed + saved + waited <= trained => {
            add("computing", "compute", computed);
            add("checkpoints", "checkpoint", saved);
            add("other", "other", trained - computed - saved - waited);
        }
        _ => add("everything else", "other", trained - waited),
    }
    let wording = wording(report);
    let title = match groups.len() {
        1 => format!("{} of {}", wording.subject(), text(&groups[0], "trainer").unwrap_or("")),
        several => format!("{}, summed over {several} {}", wording.subject(), wording.processes()),
    };
    strip::write(&title, Kind::Time, &parts, page);
}

/// Returns the title of the lanes.
fn course_title(report: &Value) -> &'static str {
    let tells = |field: &str| at(report, &format!("timeline.{field}")).is_some();
    if tells("compute_ns") || tells("waited_ns") { "I/O during compute" } else { "I/O over time" }
}

/// The note on lanes of sampled counters.
const HOST_LANES: &str = " CPUs, refaults and devices are sampled once per second on the host, for all its programs.";

/// Draws I/O and compute on one time axis.
pub fn timeline(report: &Value, page: &mut Markup) {
    let column = number(report, "timeline.column_ns").unwrap_or(0.0);
    let (Some(start), Some(first)) = (number(report, "timeline.start_ts"), number(report, "time.start_ts")) else {
        return;
    };
    if lanes(report).is_empty() || column <= 0.0 {
        return;
    }
    page.raw("<section id=\"timeline\">").element("h2", &[], course_title(report)).raw("\n");
    let width = time(column);
    page.element(
        "p",
        &[("class", "what")],
        &format!(
            "Each lane has its own scale; a column is {width} wide. A call's bytes are spread evenly over its time.{}",
            if list(report, "timeline.hosts").is_empty() { "" } else { HOST_LANES }
        ),
    );
    // Timestamps have 19 digits: subtract them as integers, before they become floats.
    let begin = exact(report, "time.start_ts")
        .zip(exact(report, "timeline.start_ts"))
        .map_or(first - start, |(a, b)| (a - b) as f64);
    let total = number(report, "time.total_ns").unwrap_or(0.0);
    let axis = Axis::Time { begin_ns: begin, total_ns: total, column_ns: column };
    let first = exact(report, "time.start_ts").unwrap_or(0);
    let moments = epochs(report, first);
    let figure = Lanes {
        id: "lanes",
        title: "I/O during compute over time",
        moments,
        first: gpu_lanes(report),
        pieces: wait_lanes::lanes(report),
        lanes: host_side_lanes(report),
        axis,
    };
    figure.write(page);
    wait_lanes::legend(&figure.pieces, page);
    page.raw("</section>\n");
}

/// Returns the start of each epoch, relative to the start of the run.
fn epochs(report: &Value, first: i64) -> Vec<(f64, String)> {
    let begins =
        |row: &Value| Some(((exact(row, "start_ts")? - first) as f64, format!("epoch {}", exact(row, "epoch")?)));
    list(report, "epochs").iter().filter_map(begins).collect()
}

/// Writes the limits of the data: losses, damage, and activity that cannot be traced.
pub fn trust(report: &Value, page: &mut Markup) {
    let of = |field: &str| number(report, field).unwrap_or(0.0);
    let mut remarks = Vec::new();
    if of("allocation.lost") > 0.0 {
        remarks.push(format!("{} lost and not included", many(of("allocation.lost") as u64, "event is", "events are")));
    }
    if of("allocation.names_lost") > 0.0 {
        remarks.push(format!(
            "{} that did not fit",
            many(of("allocation.names_lost") as u64, "name is missing", "names are missing")
        ));
    }
    let damage = list(report, "damage");
    let hurt = damage.iter().filter(|note| note.get("remark").and_then(Value::as_bool) != Some(true)).count() as u64;
    if hurt > 0 {
        remarks.push(format!("{} damaged (see Damage)", many(hurt, "file is", "files are")));
    }
    if damage.len() as u64 > hurt {
        remarks.push(format!(
            "{} below (see Damage)",
            many(
                damage.len() as u64 - hurt,
                "note is listed",
                "notes are \
                listed"
            )
        ));
    }
    if of("time.late") > 0.0 {
        remarks.push(format!(
            "{} out of order: I/O times may be up to {} short",
            many(of("time.late") as u64, "event was", "events were"),
            time(of("time.late_ns"))
        ));
    }
    if of("allocation.killed") > 0.0 {
        remarks.push(format!(
            "{} without reporting how: calls in progress at that time are missing",
            many(of("allocation.killed") as u64, "process ended", "processes ended")
        ));
    }
    if of("allocation.uring") > 0.0 {
        remarks.push(format!(
            "{} requests through an io_uring that are missing",
            many(of("allocation.uring") as u64, "process has", "processes have")
        ));
    }
    if report.get("tally").is_some_and(|tally| !tally.is_null()) {
        remarks.push("events were counted, not recorded: quantiles are within 6.3 %".into());
    }
    let spread = list(report, "hosts")
        .iter()
        .filter_map(|host| number(host, "clock_spread_ns"))
        .fold(0.0, |most: f64, ns| most.max(ns.abs()));
    if spread > 1e6 {
        remarks.push(format!("the clock was stepped by {} while it was traced", time(spread)));
    }
    let known = if remarks.is_empty() { "nothing lost, nothing damaged".to_string() } else { remarks.join("; ") };
    page.raw("<section class=\"trust\" id=\"trust\"><h2>How reliable this is</h2><p>");
    page.text(&capital(&known)).raw(". ");
    page.text("Not visible to the tracer: accesses to mapped files, raw system calls, static programs.");
    page.raw("</p></section>\n");
}

/// Writes the traced run: command, host, time.
pub fn about(report: &Value, trace: &str, page: &mut Markup) {
    let hosts: Vec<&str> = list(report, "hosts").iter().filter_map(|host| text(host, "host")).take(3).collect();
    let began = exact(report, "time.start_ts").filter(|ts| *ts > 0).map(moment).unwrap_or_default();
    page.raw("<header><p class=\"about\"><b>dlio-analyze</b> ");
    for (at, part) in [trace.to_string(), hosts.join(", "), began].iter().filter(|part| !part.is_empty()).enumerate() {
        if at > 0 {
            page.raw(" · ");
        }
        page.element("span", &[], part);
    }
    page.raw("</p></header>\n");
}
