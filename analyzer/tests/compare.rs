//! Tests `--compare` and `--fail-if`: the changes from one run to another, and whether they are more than noise.

mod generator;
mod support;

use std::path::Path;

use generator::{Plan, generate};
use serde_json::{Value, json};
use support::program::{analyze, printed, text};
use support::temp_dir;
use tempfile::TempDir;

fn values(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(&[&["--format", "json"], arguments].concat())).unwrap()
}

fn trace(folder: &TempDir, name: &str, plan: &Plan) -> String {
    let path = folder.path().join(name);
    std::fs::create_dir(&path).unwrap();
    generate(&path, plan, &|_, _, _| ()).unwrap();
    path.display().to_string()
}

/// Writes a report with some numbers to a file.
fn report(folder: &TempDir, name: &str, wall_ns: i64, more: Value) -> String {
    let mut report = json!({
        "schema": "dlio-summary", "version": 2,
        "allocation": { "processes": 1, "events": 10, "lost": 0 },
        "dataset": { "files": 4, "bytes_read": 1000, "bytes_written": 0 },
        "time": { "start_ts": 0, "total_ns": wall_ns, "io_ns": wall_ns / 4, "other_ns": 0 },
    });
    let fields = report.as_object_mut().unwrap();
    more.as_object().unwrap().iter().for_each(|(key, value)| {
        fields.insert(key.clone(), value.clone());
    });
    let path = folder.path().join(name);
    std::fs::write(&path, report.to_string()).unwrap();
    path.display().to_string()
}

#[test]
fn partial_reports_are_reported_as_partial() {
    let folder = temp_dir("sections-alone");
    let a = trace(&folder, "a", &Plan { events: 1000, ..Plan::default() });
    let part = folder.path().join("part.json").display().to_string();
    printed(&[&a, "--section", "functions,time", "--format", "json", "-o", &part]);
    let told = text(&analyze(&[&a, "--compare", &part]).stderr);
    assert!(told.contains("contains only some sections") && told.contains("without allocation and dataset"), "{told}");
    let told = text(&analyze(&[&a, "--section", "time", "--format", "json", "--compare", &a]).stderr);
    assert!(told.contains("--section") && told.contains("cannot be used with"), "{told}");
}

fn metric<'a>(comparison: &'a Value, name: &str) -> &'a Value {
    let mut metrics = comparison["metrics"].as_array().unwrap().iter();
    metrics.find(|metric| metric["metric"] == name).unwrap_or_else(|| panic!("{name}"))
}

#[test]
fn comparison_values_match_both_reports() {
    let folder = temp_dir("compared");
    let a = trace(&folder, "a", &Plan { events: 3000, ..Plan::default() });
    let b = trace(&folder, "b", &Plan { events: 5000, seed: 2, ..Plan::default() });
    let (before, after) = (values(&[&a]), values(&[&b]));
    let compared = values(&[&a, "--compare", &b]);
    assert_eq!((&compared["schema"], &compared["version"]), (&json!("dlio-comparison"), &json!(1)));
    for (side, report) in [("before", &before), ("after", &after)] {
        let of = |name: &str| metric(&compared, name)[side].as_f64().unwrap();
        assert_eq!(of("read.bytes"), report["dataset"]["bytes_read"].as_f64().unwrap());
        assert_eq!(of("files"), report["dataset"]["files"].as_f64().unwrap());
        assert!((of("wall_s") - report["time"]["total_ns"].as_f64().unwrap() / 1e9).abs() < 1e-9);
        assert!((of("io.exposed_s") - report["time"]["unoverlapped_io_ns"].as_f64().unwrap() / 1e9).abs() < 1e-9);
        let functions = report["functions"].as_array().unwrap();
        let read = functions.iter().find(|function| function["name"] == "pread").unwrap();
        let row = compared["functions"].as_array().unwrap().iter().find(|row| row["key"] == "posix pread").unwrap();
        assert_eq!((&row[side]["count"], &row[side]["time_ns"]), (&read["count"], &read["time_ns"]));
    }
    // The parts are a partition of each run, so their changes add up to the total.
    let wall = &compared["wall"];
    let parts = wall["parts"].as_array().unwrap();
    for what in ["before_ns", "after_ns", "change_ns"] {
        let sum: i64 = parts.iter().map(|part| part[what].as_i64().unwrap()).sum();
        assert_eq!(sum, wall[what].as_i64().unwrap(), "{what}");
    }
    assert_eq!(wall["before_ns"], before["time"]["total_ns"]);
}

#[test]
fn first_side_is_the_baseline() {
    let folder = temp_dir("order");
    let (a, b) = (report(&folder, "a.json", 100, json!({})), report(&folder, "b.json", 200, json!({})));
    for typed in [vec![&a[..], "--compare", &b], vec!["--compare", &a, "--", &b]] {
        let compared = values(&typed);
        assert_eq!((&compared["wall"]["before_ns"], &compared["wall"]["after_ns"]), (&json!(100), &json!(200)));
    }
}

#[test]
fn run_compared_with_itself_has_no_change() {
    let folder = temp_dir("itself");
    let a = trace(&folder, "a", &Plan { events: 3000, ..Plan::default() });
    let message = printed(&[&a, "--compare", &a, "--fail-if", "read.bytes > +0%", "--fail-if", "wall_s > +0"]);
    assert!(message.starts_with("Both runs took "), "{message}");
    assert!(
        message.contains("kept: read.bytes changed from ")
            && message.contains(" (fails if read.bytes > +0%)")
            && !message.contains("EXCEEDED")
            && !message.contains("Calls"),
        "{message}"
    );
    assert!(!message.contains("What else changed"), "{message}");
}

#[test]
fn equal_runs_may_wait_more() {
    let folder = temp_dir("shifted");
    let made = |name: &str, wait| report(&folder, name, 10_000_000_000, steps(100_000_000, wait, 100));
    let (waits, computes) = (made("waits.json", 80_000_000), made("computes.json", 1_000_000));
    let message = printed(&[&waits, "--compare", &computes]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        message.contains("Both runs took 10.0 s, but waiting for batches changed from 8 s to 100 ms, and compute"),
        "{message}"
    );
    assert!(printed(&[&waits, "--compare", &waits]).contains("Both runs took 10.0 s.\n"));
}

#[test]
fn several_runs_are_compared_by_medians() {
    let folder = temp_dir("medians");
    let made = |name: &str, ms: i64| report(&folder, name, ms * 1_000_000, json!({}));
    let (a, b) = (["a1", "a2"].map(|name| made(name, 100)), [made("b1", 50), made("b2", 250)]);
    let said = |before: &[String], after: &[String]| {
        let typed: Vec<_> = ["--compare"].into_iter().chain(before.iter().map(|it| &**it)).collect();
        let typed: Vec<_> = typed.into_iter().chain(["--"]).chain(after.iter().map(|it| &**it)).collect();
        printed(&typed).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let message = said(&a, &b);
    assert!(
        message.starts_with("The new runs took 150 ms (median), 50.0 ms more than the baseline (+50.0 %)."),
        "{message}"
    );
    assert!(message.contains(&format!("Tables of times compare {} with {}", a[0], b[0])), "{message}");
    assert!(said(&a, &a).starts_with("The new runs took 100 ms (median), as long as the baseline."));
}

#[test]
fn limits_set_the_exit_status() {
    let folder = temp_dir("limits");
    let trainer = |waited: i64| json!({ "training": [{ "trained_ns": 1000, "waited_ns": waited }] });
    let (a, b) = (report(&folder, "a.json", 1000, trainer(100)), report(&folder, "b.json", 1200, trainer(300)));
    let status = |arguments: &[&str]| analyze(arguments).status.code().unwrap();
    let both = |limits: &[&str]| status(&[&[&a[..], "--compare", &b], limits].concat());
    assert_eq!(both(&["--fail-if", "wait.share > 50%", "--fail-if", "read.bytes > +0%"]), 0);
    assert_eq!(both(&["--fail-if", "wait.share > 20%"]), 1);
    assert_eq!(both(&["--fail-if", "wall_s > +50%"]), 0);
    // One run per side, without spans of steps, cannot distinguish noise from a change.
    assert_eq!(both(&["--fail-if", "wall_s > +10%"]), 3);
    assert_eq!(both(&["--fail-if", "wall_s > +10%", "--lenient"]), 0);
    assert_eq!(both(&["--fail-if", "wall_s > +10%", "--fail-if", "wait.share > 20%"]), 1);
    assert_eq!(both(&["--fail-if", "compute.s > +10%"]), 3);
    // The duration of checkpoints was not recorded.
    assert_eq!(status(&[&b, "--fail-if", "checkpoint.s > 1"]), 3);
    assert_eq!(both(&["--fail-if", "wal_s > +10%"]), 2);
    assert_eq!(status(&[&b, "--fail-if", "wait.share > 20%"]), 1);
    assert_eq!(status(&[&b, "--fail-if", "wait.share > 40%"]), 0);
    assert_eq!(status(&[&b, "--fail-if", "wall_s > +10%"]), 2);
    assert_eq!(status(&["/no/such/trace", "--fail-if", "wall_s > 1"]), 2);
    let slip = text(&analyze(&[&a, "--fail-if", "wal_s > 1"]).stderr);
    assert!(slip.contains("did you mean wall_s?"), "{slip}");
}

/// Returns durations of runs around a mean, with some noise.
fn lengths(mean: i64) -> Vec<i64> {
    [-12, 7, 3, -5, 11, -1].iter().map(|noise| mean + mean * noise / 1000).collect()
}

#[test]
fn several_runs_distinguish_change_from_noise() {
    let folder = temp_dir("several");
    let side = |name: &str, mean: i64| -> Vec<String> {
        let reports = lengths(mean).into_iter().enumerate();
        reports.map(|(i, wall)| report(&folder, &format!("{name}{i}.json"), wall, json!({}))).collect()
    };
    let (base, same, slower) = (side("a", 1_000_000_000), side("b", 1_001_000_000), side("c", 1_100_000_000));
    let compared = |after: &[String]| {
        let mut typed = vec!["--compare".to_string()];
        typed.extend(base.iter().cloned().chain(["--".into()]).chain(after.iter().cloned()));
        let typed: Vec<&str> = typed.iter().map(String::as_str).collect();
        (values(&typed), printed(&typed))
    };
    let (values, message) = compared(&slower);
    let wall = metric(&values, "wall_s");
    assert_eq!(wall["claim"], "more");
    let at = |what: &str| wall[what].as_f64().unwrap();
    assert!((at("p") - 2.0 / 924.0).abs() < 1e-9 && at("low") > 0.08 && at("high") < 0.12, "{wall}");
    assert!(message.contains("the new runs are slower (U test, p = 0.0022)"), "{message}");
    assert_eq!(metric(&values, "read.bytes")["claim"], "same");
    let (values, message) = compared(&same);
    assert_eq!(metric(&values, "wall_s")["claim"], "noise");
    assert!(message.contains("no difference beyond noise"), "{message}");
    let (values, message) = compared(&slower[..3]);
    assert_eq!(metric(&values, "wall_s")["claim"], "undecided");
    assert!(message.contains("too few for a test"), "{message}");
}

#[test]
fn four_slower_runs_per_side_are_significant() {
    let folder = temp_dir("four");
    let side = |name: &str, mean: i64| -> Vec<String> {
        let reports = lengths(mean).into_iter().take(4).enumerate();
        reports.map(|(i, wall)| report(&folder, &format!("{name}{i}.json"), wall, json!({}))).collect()
    };
    let (before, after) = (side("a", 1_000_000_000), side("b", 1_100_000_000));
    let typed: Vec<String> = [vec!["--compare".into()], before, vec!["--".into()], after].concat();
    let values = values(&typed.iter().map(String::as_str).collect::<Vec<_>>());
    // No arrangement of four and four is less likely, and the number of metrics compared must not count against it.
    assert_eq!(metric(&values, "wall_s")["claim"], "more", "{values}");
    // A limit reports the same as the table.
    let limit = |limit: &str| {
        let typed = [vec!["--fail-if".into(), limit.into()], typed.clone()].concat();
        let output = analyze(&typed.iter().map(String::as_str).collect::<Vec<_>>());
        let message = text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        (output.status.code().unwrap(), message)
    };
    let (status, message) = limit("wall_s > +5%");
    assert!(status == 1 && message.contains("(U test, p = 0.03)"), "{message}");
    assert_eq!(limit("wall_s > +20%").0, 0);
    let (status, message) = limit("read.bytes > +1%");
    assert!(status == 0, "{message}");
}

/// Returns steps of one trainer around a mean, with the wait for batches in them, and some noise.
fn steps(mean: i64, wait: i64, count: i64) -> Value {
    let column = |i: i64| {
        let length = mean + mean * ((i * 7919) % 41 - 20) / 200;
        json!({ "steps": 1, "total_ns": length, "wait_ns": wait, "compute_ns": length - wait })
    };
    let columns: Vec<Value> = (0..count).map(column).collect();
    let sum = |what: &str| columns.iter().map(|column| column[what].as_i64().unwrap()).sum::<i64>();
    let sum = json!({ "steps": count, "total_ns": sum("total_ns"), "wait_ns": sum("wait_ns"),
        "compute_ns": sum("compute_ns") });
    json!({ "steps": [{ "sum": sum, "median_ns": mean, "readers": 4, "columns": columns }] })
}

#[test]
fn single_runs_are_compared_by_steps() {
    let folder = temp_dir("steps");
    let made = |name: &str, mean, wait, count| report(&folder, name, 50_000_000_000, steps(mean, wait, count));
    let base = made("base.json", 100_000_000, 40_000_000, 400);
    let slower = made("slower.json", 110_000_000, 50_000_000, 400);
    let little = made("little.json", 102_000_000, 42_000_000, 400);
    let much = made("much.json", 130_000_000, 70_000_000, 400);
    let few = made("few.json", 150_000_000, 80_000_000, 9);
    let compared = |after: &str| values(&[&base, "--compare", after]);
    let found = compared(&slower);
    assert_eq!(metric(&found, "step.mean_s")["claim"], "noise", "a mean moves as much with other things");
    let step = metric(&found, "step.typical_s");
    assert_eq!(step["claim"], "more");
    assert!((step["change"].as_f64().unwrap() - 0.1).abs() < 0.01 && step["low"].as_f64().unwrap() > 0.05, "{step}");
    assert_eq!(metric(&found, "step.wait_s")["claim"], "more");
    let parts = found["wall"]["parts"].as_array().unwrap();
    let wait = parts.iter().find(|part| part["part"] == "waiting for batches").unwrap();
    assert_eq!(wait["change_ns"], json!(400 * 10_000_000_i64));
    assert_eq!(parts.iter().map(|part| part["change_ns"].as_i64().unwrap()).sum::<i64>(), 0);
    for name in ["step.mean_s", "step.typical_s"] {
        assert_eq!(metric(&compared(&little), name)["claim"], "noise");
        assert_eq!(metric(&compared(&much), name)["claim"], "more");
    }
    assert_eq!(metric(&compared(&few), "step.mean_s")["claim"], "undecided");
    let message = printed(&[&slower, "--compare", &base]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(message.contains("steps are faster"), "{message}");
    let failed = analyze(&[&base, "--compare", &slower, "--fail-if", "step.mean_s > +5%"]);
    assert_eq!(failed.status.code(), Some(1), "{}", text(&failed.stdout));
}

#[test]
fn findings_are_new_gone_better_or_worse() {
    let folder = temp_dir("findings-compared");
    let finding =
        |id: &str, state: &str, worth: i64| json!({ "id": id, "state": state, "worth_ns": worth, "says": id });
    let side = |name: &str, rows: Vec<Value>| report(&folder, name, 100, json!({ "findings": rows }));
    let a = side("a.json", vec![finding("x", "fired", 10), finding("y", "fired", 10), finding("z", "quiet", 0)]);
    let b = side("b.json", vec![finding("y", "fired", 20), finding("z", "fired", 5), finding("x", "silenced", 9)]);
    let found = values(&[&a, "--compare", &b]);
    let rows: Vec<_> =
        found["findings"].as_array().unwrap().iter().map(|f| (f["id"].clone(), f["change"].clone())).collect();
    assert_eq!(rows, [("z", "new"), ("y", "worse"), ("x", "gone")].map(|(id, change)| (json!(id), json!(change))));
}

#[test]
fn costs_of_findings_are_no_claim_for_single_runs() {
    let folder = temp_dir("findings-claims");
    let side = |name: &str, worth: i64| {
        let finding = json!({ "id": "x", "state": "fired", "worth_ns": worth, "says": "x" });
        report(&folder, name, 1000, json!({ "findings": [finding] }))
    };
    let alone = printed(&[&side("a.json", 10), "--compare", &side("b.json", 20)]);
    assert!(alone.contains("x  costs more") && !alone.contains("worse"), "{alone}");
    assert!(alone.contains("four or more runs per side"), "{alone}");
    // With five runs per side they are: here all later ones take longer, there as many as not.
    let several = |before: [i64; 5], after: [i64; 5]| {
        let made = |name: &str, worths: [i64; 5]| -> Vec<String> {
            worths.iter().zip(0..).map(|(worth, run)| side(&format!("{name}-{run}.json"), *worth)).collect()
        };
        let sides = [made("before", before), vec!["--".into()], made("after", after)].concat();
        let words: Vec<&str> = ["--compare"].into_iter().chain(sides.iter().map(String::as_str)).collect();
        let found = values(&words);
        (found["findings"][0]["change"].clone(), found["findings"][0]["claim"].clone())
    };
    assert_eq!(several([10, 11, 12, 13, 14], [20, 21, 22, 23, 24]), (json!("worse"), json!("more")));
    assert_eq!(several([10, 30, 12, 33, 14], [11, 31, 13, 34, 32]).1, json!("noise"));
}

#[test]
fn headline_reports_a_shorter_wait() {
    let folder = temp_dir("headline");
    let side = |name: &str, wall_ns: i64, waited: i64| {
        let trainer = json!({ "inferred": true, "trained_ns": wall_ns - 100_000_000, "waited_ns": waited });
        report(&folder, name, wall_ns, json!({ "training": [trainer] }))
    };
    let (before, after) =
        (side("before.json", 1_000_000_000, 500_000_000), side("after.json", 780_000_000, 274_000_000));
    let said = printed(&[&before, "--compare", &after]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("Waiting for batches changed by -226 ms; the remaining parts changed in the opposite direction"),
        "{said}"
    );
    assert!(!said.contains("no I/O") && said.contains("before and after the training 100 ms 100 ms"), "{said}");
    // Without a training run there is I/O, and time without.
    let plain = |name: &str, wall_ns: i64| report(&folder, name, wall_ns, json!({}));
    let said = printed(&[&plain("c.json", 1_000_000_000), "--compare", &plain("d.json", 2_000_000_000)]);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("most of the difference is time without I/O on files"), "{said}");
}

#[test]
fn calls_on_files_and_pipes_are_separate_rows() {
    let folder = temp_dir("pipes");
    let call = |class: &str, bytes: u64| json!({ "name": "write", "cat": "posix", "class": class, "count": bytes / 10, "time_ns": bytes, "bytes": bytes });
    let side = |name: &str, files: u64, pipes: u64| {
        report(
            &folder,
            name,
            1000,
            json!({ "functions": [call("write", files)], "past_files": [call("write", pipes)] }),
        )
    };
    let found = values(&[&side("a.json", 100, 500), "--compare", &side("b.json", 100, 900)]);
    let row = |key: &str| found["functions"].as_array().unwrap().iter().find(|row| row["key"] == key).unwrap().clone();
    assert_eq!(
        (row("posix write")["after"]["bytes"].clone(), row("posix write")["group"].clone()),
        (json!(100), json!("same"))
    );
    assert_eq!(row("posix write (pipes)")["change_ns"], 400);
}

#[test]
fn small_counts_are_compared_as_counts() {
    let folder = temp_dir("counts");
    let side = |name: &str, files: u64, failed: u64| {
        let call = json!({ "name": "open", "cat": "posix", "count": 1000, "failed": failed, "time_ns": 5 });
        report(&folder, name, 1000, json!({ "functions": [call], "dataset": { "files": files } }))
    };
    let said = printed(&[&side("a.json", 200, 2), "--compare", &side("b.json", 300, 3)]);
    let row = |name: &str| said.lines().find(|line| line.trim_start().starts_with(name)).unwrap().split_whitespace();
    assert_eq!(row("failed").collect::<Vec<_>>()[..4], ["failed", "2", "3", "+1"]);
    assert_eq!(row("files").collect::<Vec<_>>()[..4], ["files", "200", "300", "+50.0"]);
}

#[test]
fn number_of_waits_is_not_a_change() {
    let folder = temp_dir("polls");
    let side = |name: &str, (opens, failed, waits): (u64, u64, u64)| {
        let open = json!({ "name": "open", "cat": "posix", "class": "metadata", "count": opens, "failed": failed });
        let wait = json!({ "name": "poll", "cat": "wait", "class": "wait", "count": waits, "failed": waits / 10 });
        report(&folder, name, 1000, json!({ "functions": [open], "past_files": [wait] }))
    };
    let (a, b, c) = (side("a.json", (200, 3, 1000)), side("b.json", (200, 3, 995)), side("c.json", (201, 4, 1000)));
    let found = values(&[&a, "--compare", &b]);
    let claim = |found: &Value, name: &str| metric(found, name)["claim"].clone();
    assert_eq!(["calls", "calls.files", "failed"].map(|name| claim(&found, name)), ["undecided", "same", "same"]);
    assert_eq!(
        (&metric(&found, "calls")["exact"], &metric(&found, "calls.files")["exact"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(claim(&values(&[&a, "--compare", &c]), "calls.files"), "more");
    let status = |limit: &str| analyze(&[&a, "--compare", &b, "--fail-if", limit]).status.code().unwrap();
    assert_eq!(["calls < -0.1%", "function.poll.count < -0.1%"].map(status), [3, 3]);
    assert_eq!(["calls.files < -0.1%", "function.open.count < -0.1%"].map(status), [0, 0]);
    // A median of two counts may be between them.
    let said = printed(&["--compare", &a, &c, "--", &a, &a]);
    let row = said.lines().find(|line| line.trim_start().starts_with("failed")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>()[..4], ["failed", "3.5", "3", "-0.5"], "{said}");
}

#[test]
fn older_reports_are_read_with_unknown_fields() {
    let folder = temp_dir("older");
    let old = json!({ "version": 1, "functions": [{ "name": "read", "cat": "posix", "count": 3, "time_ns": 5 }] });
    let (a, b) = (report(&folder, "a.json", 100, old), report(&folder, "b.json", 100, json!({})));
    let compared = values(&[&a, "--compare", &b]);
    assert!(compared["circumstances"].as_array().unwrap().iter().any(|c| c["what"] == "version of the report"));
    assert!(compared["metrics"].as_array().unwrap().iter().all(|metric| metric["metric"] != "wait.s"));
    assert_eq!(compared["functions"][0]["group"], "gone");
}

#[test]
fn non_run_is_rejected_by_name() {
    let folder = temp_dir("no-run");
    let a = report(&folder, "a.json", 100, json!({}));
    let refused = |other: &Path| {
        let output = analyze(&[&a, "--compare", &other.display().to_string()]);
        assert_eq!(output.status.code(), Some(1));
        text(&output.stderr)
    };
    let cut = folder.path().join("cut.json");
    std::fs::write(&cut, &std::fs::read(&a).unwrap()[..100]).unwrap();
    assert!(refused(&cut).contains("cannot compare"), "{}", refused(&cut));
    assert!(refused(&folder.path().join("absent")).contains("absent"));
    let empty = report(&folder, "empty.json", 0, json!({ "allocation": {} }));
    assert!(refused(Path::new(&empty)).contains("no events"));
    // Before anything is counted or a directory is opened.
    let there = a.clone();
    for (arguments, message) in
        [(["--format", "arrow"], "cannot write a comparison as"), (["--html", &there], "exists; --force replaces it")]
    {
        let refused = analyze(&[&["nowhere", "--compare", "nowhere"], &arguments[..]].concat());
        assert!(text(&refused.stderr).contains(message), "{}", text(&refused.stderr));
    }
    let several = analyze(&["nowhere", "elsewhere", "--fail-if", "wall_s > 1", "--html", "page.html"]);
    assert!(text(&several.stderr).contains("2 runs are checked against limits"), "{}", text(&several.stderr));
}

#[test]
fn comparison_page_matches_the_text() {
    let folder = temp_dir("compared-page");
    let a = trace(&folder, "a", &Plan { events: 3000, ..Plan::default() });
    let b = trace(&folder, "b", &Plan { events: 5000, seed: 2, ..Plan::default() });
    let file = folder.path().join("page.html").display().to_string();
    let said = printed(&[&a, "--compare", &b, "--html", &file, "--top", "1000", "--fail-if", "calls > +900%"]);
    let page = std::fs::read_to_string(&file).unwrap();
    let wall = said.lines().find(|line| line.trim_start().starts_with("the whole run")).expect("the whole run");
    for figure in wall.split("  ").map(str::trim).filter(|figure| !figure.is_empty()) {
        assert!(page.contains(figure), "{figure}");
    }
    assert!(page.contains("calls in flight, before") && page.contains("calls in flight, after"));
    assert!(page.contains("calls &gt; +900%") && page.contains("default-src 'none'"));
    // For one run that is compared with limits, the page of its report.
    let one = folder.path().join("one.html").display().to_string();
    printed(&[&a, "--fail-if", "files > 1000000", "--html", &one]);
    assert!(std::fs::read_to_string(&one).unwrap().contains("id=\"s-functions\""));
}

#[test]
fn markdown_escapes_names() {
    let folder = temp_dir("markdown");
    let folders = |time: u64| {
        let hostile = "/d/<img src=x onerror=alert()>|*b*";
        json!({ "directories": [{ "directory": hostile, "opens": 1, "time_ns": time }, { "directory": "/d/x" }] })
    };
    let (a, b) = (report(&folder, "a.json", 100, folders(10)), report(&folder, "b.json", 100, folders(90)));
    let message = printed(&[&a, "--compare", &b, "--format", "markdown"]);
    assert!(message.contains("<details><summary>Directories") && !message.contains("<img"), "{message}");
    assert!(message.contains("&lt;img src=x onerror=alert()&gt;\\|\\*b\\*"), "{message}");
    assert_eq!(message.matches("<details>").count(), message.matches("</details>").count());
}

#[test]
fn comment_for_a_pull_request_shows_limits_verdicts_and_changes_and_folds_the_rest() {
    let folder = temp_dir("comment");
    let verdict =
        |text: &str| json!({ "headline": { "text": text }, "directories": [{ "directory": "/d", "opens": 1 }] });
    let a = report(&folder, "a.json", 100, verdict("STORAGE-BOUND: 77 % <b>"));
    let b = report(&folder, "b.json", 100, json!({ "dataset": { "files": 4, "bytes_read": 1500 } }));
    let output = analyze(&[&a, "--compare", &b, "--format", "markdown", "--fail-if", "read.bytes > +10%"]);
    assert_eq!(output.status.code(), Some(1));
    let comment = text(&output.stdout);
    let (shown, folded) = comment.split_once("<details><summary>Details</summary>").unwrap();
    assert!(shown.starts_with("<!-- dlio-comparison -->\n### dlio: 1 of 1 limit exceeded\n"), "{shown}");
    assert!(shown.contains("\n* before: STORAGE-BOUND: 77 % &lt;b&gt;\n") && !shown.contains("* after"), "{shown}");
    assert!(shown.contains("| read.bytes | 1 kB | 1.50 kB | +50.0 % | more |  |"), "{shown}");
    assert!(!shown.contains("| files |") && folded.contains("<details><summary>Runs</summary>"), "{comment}");
    assert_eq!(comment.matches("<details>").count(), comment.matches("</details>").count());
    let compared = values(&[&a, "--compare", &b]);
    assert_eq!(compared["verdict_before"], "STORAGE-BOUND: 77 % <b>");
    assert_eq!(compared["verdict_after"], Value::Null);
}

#[test]
fn brief_result_fits_and_has_the_numbers_of_the_report() {
    let folder = temp_dir("brief");
    let path = trace(&folder, "it's a \"trace\"", &Plan { events: 20_000, files: 500, ..Plan::default() });
    let report = values(&[&path]);
    let printed = printed(&[&path, "--brief"]);
    assert!(printed.chars().count() <= 8_000, "{}", printed.len());
    let brief: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(brief["schema"], "dlio-brief");
    assert_eq!(brief["verdict"]["text"], report["headline"]["text"]);
    assert_eq!(brief["numbers"]["bytes_read"], report["dataset"]["bytes_read"]);
    let waited =
        report["training"].as_array().unwrap().iter().map(|row| row["waited_ns"].as_f64().unwrap()).sum::<f64>();
    assert!((brief["numbers"]["wait_s"].as_f64().unwrap() - waited / 1e9).abs() < 0.001, "{brief}");
    assert_eq!(brief["longest_waiting_ranks"].as_array().unwrap().len(), report["training"].as_array().unwrap().len());
    let fired: Vec<&Value> =
        report["findings"].as_array().unwrap().iter().filter(|finding| finding["state"] == "fired").collect();
    let ids = |list: &[&Value]| list.iter().map(|finding| finding["id"].clone()).collect::<Vec<_>>();
    let listed: Vec<&Value> = brief["findings"].as_array().unwrap().iter().collect();
    assert!(!listed.is_empty());
    assert_eq!(ids(&listed), ids(&fired[..listed.len()]));
    assert_eq!(brief["left_out"]["findings"], fired.len() - listed.len());
    // The commands are valid in a shell, and name this trace.
    let command = brief["next_commands"][0]["run"].as_str().unwrap().replacen("dlio-analyze", "printf '%s\\n'", 1);
    let words = std::process::Command::new("sh").args(["-c", &command]).output().unwrap();
    assert_eq!(text(&words.stdout).lines().next(), Some(path.as_str()));
}
