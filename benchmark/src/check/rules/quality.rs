//! Damaged files, impossible numbers, failed runs, and results of several versions.

use super::case::{Case, of};
use crate::check::edition::Version;
use crate::check::finding::{Finding, Rule, TOOL};
use crate::check::results::{Kind, Workload};
use crate::check::run::{Phase, Run};
use crate::check::value::{at, count, number};
use serde_json::Value;

static READABLE: Rule = Rule { name: "readableFiles", v2: "11", v3: TOOL, title: "Files can be read" };
static PLAUSIBLE: Rule = Rule { name: "plausibleNumbers", v2: TOOL, v3: TOOL, title: "Numbers are possible" };
static WHOLE: Rule = Rule { name: "successfulRuns", v2: "11", v3: TOOL, title: "Runs ended successfully" };
static EDITION: Rule = Rule { name: "rulesEdition", v2: TOOL, v3: TOOL, title: "Results are of one version" };

pub fn findings(case: &Case, workload: &Workload) -> Vec<Finding> {
    let runs = || workload.runs.iter().map(|(_, run)| run);
    let damaged: Vec<String> = runs().flat_map(|run| run.damaged.iter().map(move |what| of(run, what))).collect();
    let readable = READABLE.unless(
        &damaged,
        format!("all files of {} directories", workload.runs.len()),
        "copy the file again from the host that wrote it, or repeat the run",
    );
    let impossible: Vec<String> = runs().flat_map(impossible).collect();
    let plausible = PLAUSIBLE.unless(
        &impossible,
        "counts, sizes, rates and times are possible",
        "do not edit result files; repeat the run if the program wrote this",
    );
    vec![readable, plausible, whole(workload), edition(case, workload)]
}

/// Returns numbers of a run that no run can have.
fn impossible(run: &Run) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut say = |name: &str, value: &Value, expected: &str| {
        wrong.push(of(run, format!("{name} is {value}, expected {expected}")));
    };
    for name in ["num_accelerators", "num_hosts"] {
        let value = at(&run.summary, name);
        if !value.is_null() && count(value).is_none() {
            say(name, value, "a number from 1");
        }
    }
    for name in ["dataset.num_files_train", "dataset.num_samples_per_file", "reader.batch_size"] {
        let value = run.setting(name);
        if !value.is_null() && count(value).is_none() {
            say(name, value, "a number from 1");
        }
    }
    let memory = at(&run.summary, "host_memory_GB");
    let of_hosts = memory.as_array().map(|hosts| hosts.iter().map(number).collect::<Option<Vec<f64>>>());
    let possible = of_hosts.is_some_and(|hosts| hosts.is_some_and(|hosts| hosts.iter().all(|host| *host >= 0.0)));
    if !memory.is_null() && !possible {
        say("host_memory_GB", memory, "GiB of each host");
    }
    for name in ["train_au_mean_percentage", "eval_au_mean_percentage"] {
        let value = run.metric(name);
        // DLIO's own formula may give a little more than 100.
        if !value.is_null() && !number(value).is_some_and(|number| (0.0..=101.0).contains(&number)) {
            say(name, value, "0 to 100");
        }
    }
    for (name, value) in run.metric_entries() {
        let rate = name.contains("throughput_mean") || name.contains("_mean_GB") || name.contains("_mean_MB");
        if rate && !value.is_null() && !number(value).is_some_and(|number| number >= 0.0) {
            say(name, value, "a number from 0");
        }
    }
    if let (Some(start), Some(end)) = (run.started(), run.ended())
        && end < start
    {
        wrong.push(of(run, "it ends before it starts"));
    }
    wrong
}

fn whole(workload: &Workload) -> Finding {
    let mut failed = Vec::new();
    let mut silent = 0;
    for run in workload.of(Phase::Run) {
        let status = at(&run.summary, "status").as_str();
        let missing = at(&run.summary, "missing").as_array().filter(|missing| !missing.is_empty());
        if run.summary.is_null() {
            failed.push(of(run, "no summary.json, so it did not end"));
        } else if let Some(status) = status.filter(|status| *status != "success") {
            failed.push(of(run, format!("it ended with `{status}`")));
        } else if let Some(missing) = missing {
            failed.push(of(run, format!("it lacks {}", missing[0].as_str().unwrap_or("results"))));
        } else if !has_results(workload, run) {
            failed.push(of(run, "summary.json has no metrics"));
        }
        silent += usize::from(status.is_none());
    }
    let count = workload.of(Phase::Run).count();
    if count == 0 {
        return WHOLE.not_applicable("there are no runs");
    }
    // DLIO's own summary has no status: a killed run lacks the file.
    let note = if silent > 0 { "; DLIO's summary has no status, but metrics" } else { "" };
    WHOLE.unless(&failed, format!("{count} runs ended{note}"), "repeat the run; read its dlio.log and stderr.log first")
}

fn has_results(workload: &Workload, run: &Run) -> bool {
    let names: &[&str] = match workload.kind {
        Kind::Training => &["train_au_mean_percentage", "train_throughput_mean_samples_per_second"],
        Kind::Checkpointing => &["save_checkpoint_duration_mean_seconds", "load_checkpoint_duration_mean_seconds"],
    };
    names.iter().any(|name| !run.metric(name).is_null())
}

fn edition(case: &Case, workload: &Workload) -> Finding {
    let signs = workload.versions();
    let other = signs.iter().find(|(version, _)| *version != case.version);
    let same = signs.iter().find(|(version, _)| *version == case.version);
    let name = case.version.name();
    match (same, other) {
        (_, Some((version, sign))) => EDITION.fail(
            format!("checked as {name}, but {sign} belongs to {}", version.name()),
            match case.version {
                Version::V2 => "submit results of one version; --version v3 checks for the other one",
                Version::V3 => "submit results of one version; --version v2 checks for the other one",
            },
        ),
        (Some((_, sign)), None) => EDITION.pass(format!("{name}, from {sign}")),
        (None, None) => EDITION.unknown("no file contains a version", "choose the version with --version"),
    }
}
