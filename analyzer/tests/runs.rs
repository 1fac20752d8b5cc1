//! Tests that results for a directory with several runs are about the last one, without data of another run.

mod generator;
mod support;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use generator::runs::{Loader, slow_storage};
use generator::script::Script;
use generator::{Plan, generate};
use serde_json::Value;
use support::program::{analyze, printed, text};
use support::temp_dir;
use tempfile::TempDir;

/// The time between the starts of two runs: an hour.
const APART_US: u64 = 3_600_000_000;

/// Writes the processes of a run into a separate directory.
fn add(folder: &TempDir, run: u64, processes: Vec<Script>) -> PathBuf {
    let place = folder.path().join(format!("run{run}"));
    std::fs::create_dir(&place).unwrap();
    for mut process in processes {
        process.begins_us = run * APART_US;
        process.write_to(&place);
    }
    place
}

/// Returns a training run that waits for storage, and one whose process lost events of a short program.
fn training_and_loss(name: &str) -> (TempDir, PathBuf) {
    let folder = temp_dir(name);
    let mut lossy = Script::new(900, 1);
    lossy.load("/data/a", 100, 5000);
    lossy.lost = 12;
    let place = add(&folder, 0, vec![lossy]);
    add(&folder, 1, slow_storage(&Loader::starved()));
    (folder, place)
}

fn report(trace: &Path, more: &[&str]) -> Value {
    let json = printed(&[&[trace.to_str().unwrap(), "--format", "json", "--no-cache"], more].concat());
    serde_json::from_str(&json).unwrap()
}

fn one_line(trace: &Path, more: &[&str]) -> String {
    let printed = printed(&[&[trace.to_str().unwrap()], more].concat());
    printed.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Removes the fields that name the run.
fn without_runs(mut report: Value) -> Value {
    report.as_object_mut().unwrap().remove("runs");
    report
}

#[test]
fn report_covers_only_the_last_run() {
    let (folder, _) = training_and_loss("runs-figures");
    let alone = report(&folder.path().join("run1"), &[]);
    let (last, all) = (report(folder.path(), &[]), report(folder.path(), &["--run", "all"]));
    let waits = |report: &Value| report["findings"].as_array().unwrap()[0].clone();
    for part in ["verdict", "time", "training", "waits", "findings", "functions", "files", "ranks", "timeline"] {
        let (found, expected) = (without_places(&last[part]), without_places(&alone[part]));
        assert_eq!(found, expected, "{part}");
    }
    assert_eq!(last["allocation"], alone["allocation"]);
    assert!(waits(&last)["worth_share"].as_f64() >= Some(0.5), "{}", waits(&last));
    let total = |report: &Value| report["time"]["total_ns"].as_f64().unwrap();
    assert!(total(&all) > 50.0 * total(&last), "{} {}", total(&all), total(&last));
    assert_eq!(without_runs(report(folder.path(), &["--run", "2"])), without_runs(last));
}

/// Removes numbers of processes and paths of files, which differ between a trace and a part of it.
fn without_places(value: &Value) -> String {
    let mut value = value.clone();
    forget(&mut value);
    value.to_string()
}

fn forget(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(forget),
        Value::Object(fields) => {
            ["proc", "parent", "verify"].iter().for_each(|name| drop(fields.remove(*name)));
            fields.values_mut().for_each(forget);
        }
        _ => {}
    }
}

#[test]
fn each_report_format_names_its_run() {
    let (folder, _) = training_and_loss("runs-forms");
    let about =
        "This trace contains 2 runs; this report covers the last one, which started 2023-11-14 23:13:25 UTC and took ";
    for asked in
        [&[][..], &["--full"], &["--section", "files"], &["--findings"], &["--cat", "posix"], &["--from", "1s"]]
    {
        assert!(one_line(folder.path(), asked).contains(about), "{asked:?}: {}", one_line(folder.path(), asked));
    }
    assert!(
        one_line(folder.path(), &["--run", "1"])
            .contains("this report covers run 1, which started 2023-11-14 22:13:25")
    );
    let other_folder = temp_dir("runs-page");
    let page = other_folder.path().join("page.html");
    printed(&[folder.path().to_str().unwrap(), "--html", page.to_str().unwrap()]);
    assert!(std::fs::read_to_string(&page).unwrap().contains(about));
    let reported = |more: &[&str]| -> Vec<bool> {
        let runs = report(folder.path(), more)["runs"].as_array().unwrap().clone();
        runs.iter().map(|run| run["reported"].as_bool().unwrap()).collect()
    };
    assert_eq!(reported(&[]), [false, true]);
    assert_eq!(reported(&["--section", "files"]), [false, true]);
    assert_eq!(reported(&["--run", "1"]), [true, false]);
    assert_eq!(reported(&["--run", "all"]), [true, true]);
    // A single run is the normal case.
    let alone = one_line(&folder.path().join("run1"), &[]);
    assert!(
        !alone.contains("This trace contains")
            && report(&folder.path().join("run1"), &["--section", "files"])["runs"].is_null()
    );
}

#[test]
fn losses_of_other_runs_are_not_reported() {
    let (folder, place) = training_and_loss("runs-loss");
    let status = |more: &[&str]| {
        let output = analyze(&[&[folder.path().to_str().unwrap(), "--strict", "--no-cache"], more].concat());
        (output.status.code(), text(&output.stderr))
    };
    let lost = |more: &[&str]| report(folder.path(), more)["allocation"]["lost"].as_u64();
    assert_eq!((lost(&[]), lost(&["--run", "1"]), lost(&["--run", "all"])), (Some(0), Some(12), Some(12)));
    assert_eq!((status(&[]).0, status(&["--run", "1"]).0, status(&["--run", "all"]).0), (Some(0), Some(3), Some(3)));
    // The end of a file of the first run is truncated.
    let file = std::fs::read_dir(&place).unwrap().next().unwrap().unwrap().path();
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() - 10]).unwrap();
    let damaged = |more: &[&str]| report(folder.path(), more)["damage"].as_array().unwrap().len();
    assert_eq!((damaged(&[]), damaged(&["--run", "1"]), damaged(&["--run", "all"])), (0, 1, 1));
    assert_eq!(status(&[]), (Some(0), String::new()));
    assert!(status(&["--run", "all"]).1.contains("1 file truncated"));
    // A query sees all runs, and so do its warnings.
    assert_eq!(status(&["--sql", "select 1"]).0, Some(3));
}

#[test]
fn damage_with_unknown_run_applies_to_any() {
    let (folder, _) = training_and_loss("runs-unknown");
    let nothing = folder.path().join("run1/train-node0-77-5000000000.dlt");
    std::fs::write(nothing, b"").unwrap();
    let found = report(folder.path(), &[]);
    assert_eq!(found["damage"][0]["run_unknown"], Value::Bool(true), "{}", found["damage"]);
    let said = "1 damaged file does not show which run it belongs to.";
    assert!(one_line(folder.path(), &[]).contains(said), "{}", found["verdict"]);
    assert!(!one_line(folder.path(), &["--run", "all"]).contains(said));
}

#[test]
fn queries_cover_all_runs_by_default() {
    let (folder, _) = training_and_loss("runs-rows");
    let trace = folder.path().to_str().unwrap();
    let asked = |more: &[&str]| {
        let output = analyze(&[&[trace, "--format", "csv", "--sql", "select count(*) from events"], more].concat());
        let count: u64 = text(&output.stdout).lines().nth(1).unwrap().parse().unwrap();
        (count, text(&output.stderr))
    };
    let ((all, note), (first, _), (last, none)) = (asked(&[]), asked(&["--run", "1"]), asked(&["--run", "last"]));
    assert!(all == first + last && first > 0 && last > first, "{all} {first} {last}");
    assert!(
        note.contains("the trace contains 2 runs; tables and exports include all of them") && none.is_empty(),
        "{note}{none}"
    );
    assert_eq!(asked(&["--run", "all"]), (all, String::new()));
    // Together with a report, which is about the last run.
    let both = printed(&[trace, "--summary", "--sql", "select count(*) n from events"]);
    assert!(both.contains("covers the last one") && both.contains(&format!(" {all}\n")), "{both}");
    // A process or a date is searched for in all runs, a rank in the last one.
    assert_eq!(report(folder.path(), &["--pid", "900"])["allocation"]["events"].as_u64(), Some(first));
    let earlier = report(folder.path(), &["--to", "2023-11-14T22:30:00"]);
    assert_eq!(earlier["allocation"]["events"].as_u64(), Some(first));
}

#[test]
fn both_sides_use_the_same_run_option() {
    let (folder, _) = training_and_loss("runs-compared");
    let trace = folder.path().to_str().unwrap();
    let compared = |more: &[&str]| -> Value {
        let printed = printed(&[&[trace, "--compare", trace, "--format", "json"], more].concat());
        serde_json::from_str(&printed).unwrap()
    };
    for (more, named) in
        [(&[][..], "run 2 of 2"), (&["--run", "1"], "run 1 of 2"), (&["--run", "all"], "2 runs combined")]
    {
        let compared = compared(more);
        let sides = ["before", "after"].map(|side| compared[side][0]["run"].as_str().unwrap().to_string());
        assert_eq!(sides, [named, named]);
    }
    let judged = analyze(&[trace, "--fail-if", "wall_s > 600"]);
    assert!(
        judged.status.success() && text(&judged.stderr).contains("covers the last one"),
        "{}",
        text(&judged.stderr)
    );
    assert_eq!(analyze(&[trace, "--fail-if", "wall_s > 600", "--run", "all"]).status.code(), Some(1));
}

#[test]
fn several_directories_are_read_together() {
    let (folder, _) = training_and_loss("runs-places");
    let [first, last] = ["run0", "run1"].map(|run| folder.path().join(run).display().to_string());
    let both = printed(&[&first, &last]).replace('\n', " ");
    assert!(both.contains("This trace contains 2 runs, and this report combines them"), "{both}");
    let pattern = printed(&[&format!("{}/run*", folder.path().display())]).replace('\n', " ");
    assert!(pattern.contains("This trace contains 2 runs, and this report combines them"), "{pattern}");
}

#[test]
fn cached_report_is_of_the_last_run() {
    let folder = temp_dir("runs-remembered");
    let plan = Plan { events: 1_100_000, ..Plan::default() };
    generate(folder.path(), &Plan { events: 20_000, ..plan.clone() }, &|_, _, _| ()).unwrap();
    let later = Plan { after_ns: APART_US * 1000, seed: 2, ..plan };
    generate(&folder.path().join("later"), &later, &|_, _, _| ()).unwrap();
    for place in [folder.path().to_path_buf(), folder.path().join("later")] {
        for file in std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
            let file = std::fs::File::options().append(true).open(file).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(60)).unwrap();
        }
    }
    const REMEMBERED: &str = "From an earlier run, and no file has changed since";
    let (first, again) = (one_line(folder.path(), &[]), one_line(folder.path(), &[]));
    let (_, told) = again.split_once(REMEMBERED).unwrap_or_else(|| panic!("{again}"));
    assert!(told.contains("--no-cache") && !first.contains(REMEMBERED), "{first}");
    assert!(again.starts_with(&first) && first.contains("covers the last one"), "{first} {again}");
    for (run, about) in [("all", "combines them"), ("1", "covers run 1,"), ("2", "covers the last one,")] {
        let chosen = one_line(folder.path(), &["--run", run]);
        assert!(chosen.contains(about) && !chosen.contains(REMEMBERED), "{chosen}");
    }
    assert!(one_line(folder.path(), &[]).contains(REMEMBERED));
}

#[test]
fn empty_last_run_is_reported() {
    let folder = temp_dir("runs-empty");
    add(&folder, 0, slow_storage(&Loader::starved()));
    add(&folder, 1, vec![Script::new(900, 1)]);
    let said = one_line(folder.path(), &[]);
    assert!(said.contains("covers the last one") && said.contains("contains no events"), "{said}");
}

#[cfg(feature = "cluster")]
#[test]
fn workers_report_the_same_run() {
    let (folder, _) = training_and_loss("runs-workers");
    for more in [&[][..], &["--run", "1"], &["--run", "all"]] {
        let alone = report(folder.path(), more);
        assert_eq!(report(folder.path(), &[&["--workers", "local:2"], more].concat()), alone, "{more:?}");
    }
}
