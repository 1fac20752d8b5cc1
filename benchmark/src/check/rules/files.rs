//! The files of each run; the number, the order and the gaps of runs.

use super::case::{ALL_RUNS, ByText, Case};
use crate::check::edition::{RUNS, Version};
use crate::check::finding::{Finding, Rule, listed};
use crate::check::results::{Kind, Workload};
use crate::check::run::{Phase, Run};
use crate::check::value::timestamp;
use std::collections::BTreeMap;

static DATAGEN_COUNT: Rule = Rule { name: "datagenTimestamp", v2: "", v3: "2.1.13", title: "One generation of data" };
static DATAGEN_FILES: Rule = Rule { name: "datagenFiles", v2: "11.1", v3: "2.1.14", title: "Files of the generation" };
static DATAGEN_CONFIG: Rule =
    Rule { name: "datagenDlioConfig", v2: "", v3: "2.1.15", title: "Configuration of the generation" };
static RUN_RESULTS: Rule = Rule { name: "runResultsJson", v2: "11.1", v3: "2.1.16", title: "Report of the runs" };
static RUN_COUNT: Rule = Rule { name: "runTimestamps", v2: "6.6", v3: "2.1.17", title: "Warm-up and five runs" };
static RUN_GAP: Rule = Rule { name: "runTimestampGap", v2: "3", v3: "2.1.18", title: "Runs follow each other" };
static RUN_FILES: Rule = Rule { name: "runFiles", v2: "11", v3: "2.1.19", title: "Files of each run" };
static RUN_CONFIG: Rule = Rule { name: "runDlioConfig", v2: "", v3: "2.1.20", title: "Configuration of each run" };
static CHECKPOINT_RESULTS: Rule =
    Rule { name: "checkpointingResultsJson", v2: "11.1", v3: "2.1.22", title: "Report of the checkpoints" };
static CHECKPOINT_COUNT: Rule =
    Rule { name: "checkpointingTimestamps", v2: "2.2.2", v3: "2.1.23", title: "One or two runs of checkpoints" };
static CHECKPOINT_GAP: Rule =
    Rule { name: "checkpointingTimestampGap", v2: "2.2.2", v3: "2.1.24", title: "Read follows write" };
static CHECKPOINT_FILES: Rule =
    Rule { name: "checkpointingFiles", v2: "11", v3: "2.1.25", title: "Files of each run of checkpoints" };
static CHECKPOINT_CONFIG: Rule =
    Rule { name: "checkpointingDlioConfig", v2: "", v3: "2.1.26", title: "Configuration of checkpoints" };

const CONFIG: [&str; 3] = ["config.yaml", "hydra.yaml", "overrides.yaml"];

pub fn findings(case: &Case, workload: &Workload) -> Vec<Finding> {
    let runs = workload.measured();
    match workload.kind {
        Kind::Training => {
            let datagen: Vec<&Run> = workload.of(Phase::Datagen).collect();
            vec![
                datagen_count(case, workload, &datagen),
                present(&DATAGEN_FILES, case, &datagen, "training_datagen", false),
                configured(&DATAGEN_CONFIG, &datagen),
                report(&RUN_RESULTS, case, workload),
                run_count(case, workload, &runs),
                gaps(case, &runs),
                present(&RUN_FILES, case, &runs, "training_run", true),
                configured(&RUN_CONFIG, &runs),
            ]
        }
        Kind::Checkpointing => vec![
            report(&CHECKPOINT_RESULTS, case, workload),
            checkpoint_count(case, &runs),
            checkpoint_gap(case, &runs),
            present(&CHECKPOINT_FILES, case, &runs, "checkpointing_run", true),
            configured(&CHECKPOINT_CONFIG, &runs),
        ],
    }
}

fn datagen_count(case: &Case, workload: &Workload, datagen: &[&Run]) -> Finding {
    let unnamed: Vec<String> =
        datagen.iter().filter(|run| timestamp(&run.name).is_none()).map(|run| run.name.clone()).collect();
    match datagen.len() {
        _ if case.one_run && workload.of(Phase::Run).count() > 0 => DATAGEN_COUNT.unknown("DIR is one run", ALL_RUNS),
        1 if unnamed.is_empty() => DATAGEN_COUNT.pass(datagen[0].name.clone()),
        1 => DATAGEN_COUNT.fail(
            format!("{} is not named as a time", unnamed[0]),
            "name the directory YYYYMMDD_HHmmss, as mlpstorage does",
        ),
        count => DATAGEN_COUNT.fail(
            format!("{count} directories of a generation"),
            "keep exactly one: the generation of the data that the runs read",
        ),
    }
}

/// Checks that each run has the files of its phase.
fn present(rule: &'static Rule, case: &Case, runs: &[&Run], command: &str, measured: bool) -> Finding {
    if runs.is_empty() {
        return rule.not_applicable("there is no such run");
    }
    let logs = [format!("{command}.stdout.log"), format!("{command}.stderr.log")];
    let mut missing = ByText::default();
    for run in runs {
        let has = |name: &str| run.files.contains(name);
        let ends = |ending: &str| run.files.iter().any(|name| name.ends_with(ending));
        let mut lacks: Vec<&str> = match case.version {
            Version::V3 => {
                let logs = logs.iter().map(String::as_str).chain(["dlio.log"]).filter(|name| !has(name));
                logs.chain((!ends("_metadata.json")).then_some("*_metadata.json")).collect()
            }
            Version::V2 => Vec::new(),
        };
        if measured {
            lacks.extend((!has("summary.json")).then_some("summary.json"));
            let details = ["output.json", "per_epoch_stats.json"].into_iter().filter(|name| !ends(name));
            lacks.extend(details.filter(|_| case.version == Version::V3));
        }
        lacks.extend(run.config_files.is_none().then_some("dlio_config"));
        if !lacks.is_empty() {
            missing.add(run, format!("no {}", lacks.join(", ")));
        }
    }
    rule.unless(
        &missing.list(),
        format!("complete in {} directories", runs.len()),
        "include the whole directory that mlpstorage wrote; runs of `dlio bench` itself lack its logs and metadata",
    )
}

fn configured(rule: &'static Rule, runs: &[&Run]) -> Finding {
    let mut wrong = ByText::default();
    for run in runs {
        let Some(files) = &run.config_files else { continue };
        let missing: Vec<String> =
            CONFIG.iter().filter(|name| !files.contains(**name)).map(|name| format!("no {name}")).collect();
        let extra =
            files.iter().filter(|name| !CONFIG.contains(&name.as_str())).map(|name| format!("{name} in addition"));
        let all: Vec<String> = missing.into_iter().chain(extra).collect();
        if !all.is_empty() {
            wrong.add(run, listed(&all));
        }
    }
    match runs.iter().any(|run| run.config_files.is_some()) {
        false => rule.not_applicable("there is no configuration"),
        true => rule.unless(&wrong.list(), CONFIG.join(", "), "keep exactly these files, as the benchmark wrote them"),
    }
}

/// Checks that MLPerf's report of the workload exists.
fn report(rule: &'static Rule, case: &Case, workload: &Workload) -> Finding {
    if case.one_run {
        return rule.unknown("DIR is one run", ALL_RUNS);
    }
    let Some(folder) = &workload.folder else {
        return rule.unknown("the layout is not that of mlpstorage", "run mlpstorage reports reportgen");
    };
    let own = match workload.kind {
        Kind::Training => folder.join("run/results.json"),
        Kind::Checkpointing => folder.join("results.json"),
    };
    // Version 2 has one report for all results.
    let above = folder.ancestors().skip(1).take(3).map(|above| above.join("results.json"));
    let places: Vec<_> = [own.clone()].into_iter().chain(above.filter(|_| case.version == Version::V2)).collect();
    match places.iter().find(|place| place.is_file()) {
        Some(_) => rule.pass("results.json"),
        None => rule.fail(
            format!("no {}", own.strip_prefix(folder).unwrap_or(&own).display()),
            "run mlpstorage reports reportgen, which writes it",
        ),
    }
}

fn run_count(case: &Case, workload: &Workload, runs: &[&Run]) -> Finding {
    if case.one_run {
        return RUN_COUNT.unknown("DIR is one run", ALL_RUNS);
    }
    let unnamed = runs.iter().find(|run| timestamp(&run.name).is_none());
    let mut groups: BTreeMap<String, usize> = BTreeMap::new();
    for run in runs {
        *groups.entry(run.accelerator().unwrap_or_default()).or_default() += 1;
    }
    let several = groups.len() > 1 && groups.values().all(|count| *count == RUNS);
    match (runs.len(), unnamed, case.version) {
        (RUNS, Some(run), Version::V3) => {
            RUN_COUNT.fail(format!("{} is not named as a time", run.name), "name it YYYYMMDD_HHmmss, as mlpstorage does")
        }
        (RUNS, ..) => RUN_COUNT.pass("6 runs; the first one warms up and does not count"),
        // The warm-up of version 2 need not be submitted.
        (5, _, Version::V2) => RUN_COUNT.unknown("5 runs, without the warm-up", "include the warm-up, or state that it was run"),
        _ if several => RUN_COUNT.unknown(
            format!("6 runs for each of {}", workload.accelerators().join(" and ")),
            "the rule requires 6, its diagram 6 per accelerator (mlcommons/storage issue 679); ask MLCommons, or use a system name for each accelerator",
        ),
        (count, ..) if count > RUNS => RUN_COUNT.fail(
            format!("{count} runs"),
            "keep 6 consecutive runs; others before and after them may be deleted",
        ),
        (count, ..) => {
            RUN_COUNT.fail(format!("{count} of 6 runs"), "run the warm-up and five runs, one directly after the other")
        }
    }
}

/// Returns pairs of consecutive runs that overlap, and that have a gap of at least the shorter one's duration.
fn irregular(runs: &[&Run]) -> Option<(Vec<String>, Vec<String>, f64)> {
    let (mut overlaps, mut gaps, mut longest) = (Vec::new(), Vec::new(), 0.0_f64);
    for pair in runs.windows(2) {
        let (first, second) = (pair[0], pair[1]);
        let gap = second.start_of_command()? - first.end_of_command()?;
        let durations = [first, second].map(|run| Some(run.ended()? - run.started()?));
        let shorter = f64::min(durations[0]?, durations[1]?);
        longest = longest.max(gap);
        // The benchmark's own times decide about an overlap; those of the command include clean-up.
        if second.started()? < first.ended()? {
            overlaps.push(format!("{} starts before {} ends", second.name, first.name));
        } else if gap >= shorter {
            gaps.push(format!("{gap:.0} s between {} and {}, whose runs take {shorter:.0} s", first.name, second.name));
        }
    }
    Some((overlaps, gaps, longest))
}

const UNKNOWN_TIMES: &str = "summary.json needs `start` and `end` of each run";

fn gaps(case: &Case, runs: &[&Run]) -> Finding {
    if case.one_run || runs.len() < 2 {
        return RUN_GAP.unknown(format!("{} run", runs.len()), ALL_RUNS);
    }
    match irregular(runs) {
        None => RUN_GAP.unknown("not every run has its times", UNKNOWN_TIMES),
        Some((overlaps, ..)) if !overlaps.is_empty() => {
            RUN_GAP.fail(listed(&overlaps), "run one after the other; runs at one time disturb each other")
        }
        Some((_, gaps, _)) if !gaps.is_empty() => {
            RUN_GAP.fail(listed(&gaps), "run the six again without a pause, or keep six others that follow each other")
        }
        Some((.., longest)) => RUN_GAP.pass(format!("the longest pause is {longest:.0} s")),
    }
}

fn checkpoint_count(case: &Case, runs: &[&Run]) -> Finding {
    match runs.len() {
        1 if case.one_run => CHECKPOINT_COUNT.unknown("DIR is one run", ALL_RUNS),
        1 | 2 => CHECKPOINT_COUNT.pass(format!("{} directories", runs.len())),
        count => CHECKPOINT_COUNT.fail(
            format!("{count} directories of runs"),
            "keep one run that writes and reads, or one that writes and one that reads",
        ),
    }
}

fn checkpoint_gap(case: &Case, runs: &[&Run]) -> Finding {
    if runs.len() < 2 {
        return match case.one_run {
            true => CHECKPOINT_GAP.unknown("DIR is one run", ALL_RUNS),
            false => CHECKPOINT_GAP.not_applicable("one run"),
        };
    }
    match irregular(runs) {
        None => CHECKPOINT_GAP.unknown("not every run has its times", UNKNOWN_TIMES),
        Some((overlaps, ..)) if !overlaps.is_empty() => {
            CHECKPOINT_GAP.fail(listed(&overlaps), "read after the last write has ended")
        }
        // The longer of two phases is the limit, as in MLPerf's program.
        Some((_, gaps, longest)) if !gaps.is_empty() && longest >= longer(runs) => {
            CHECKPOINT_GAP.fail(listed(&gaps), "read directly after the caches are empty")
        }
        Some((.., longest)) => CHECKPOINT_GAP.pass(format!("the pause is {longest:.0} s")),
    }
}

fn longer(runs: &[&Run]) -> f64 {
    let durations = runs.iter().filter_map(|run| Some(run.ended()? - run.started()?));
    durations.fold(0.0, f64::max)
}
