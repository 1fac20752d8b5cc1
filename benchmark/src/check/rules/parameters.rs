//! Keys that a submission may change, and values that a workload fixes.

use super::case::{ByText, Case, agreed, of};
use crate::check::edition::{Division, OPEN_KEYS, Version};
use crate::check::finding::{Finding, Rule, TOOL, listed};
use crate::check::results::{Kind, Workload};
use crate::check::run::{Phase, Run};
use crate::check::value::{at, flag, number};
use crate::keys::value::parse_yaml;
use crate::workload::presets::{self, WORKLOADS};
use serde_json::Value;
use std::collections::BTreeMap;

static CLOSED: Rule =
    Rule { name: "trainingClosedSubmissionParameters", v2: "10.1", v3: "3.6.2", title: "Changed keys, closed" };
static OPEN: Rule =
    Rule { name: "trainingOpenSubmissionParameters", v2: "10.2", v3: "3.6.3", title: "Changed keys, open" };
static CHECKPOINT: Rule =
    Rule { name: "checkpointClosedCheckpointParameters", v2: "2.2.5", v3: "4.6.3", title: "Changed keys" };
static DEFINITION: Rule = Rule { name: "workloadDefinition", v2: "10.2", v3: "3.6.2", title: "Workload as published" };
static ACCELERATOR: Rule = Rule { name: "acceleratorType", v2: "4", v3: TOOL, title: "Type of accelerator" };
static DIRECT: Rule = Rule { name: "odirectModel", v2: TOOL, v3: "3.6.2", title: "Direct I/O" };
static WRITES: Rule = Rule { name: "unet3dCheckpoint", v2: TOOL, v3: "", title: "Checkpoints of unet3d" };

/// The key that MLPerf's program sets for a run with fewer processes than the model needs.
const SUBSET_KEYS: [&str; 2] = ["checkpoint.mode", "model.parallelism.data"];

pub fn findings(case: &Case, workload: &Workload) -> Vec<Finding> {
    let division = case.division_of(workload);
    match workload.kind {
        Kind::Checkpointing => vec![keys(&CHECKPOINT, workload, &case.version.checkpoint_keys(), &SUBSET_KEYS)],
        Kind::Training => {
            let rule: &'static Rule = if division == Division::Closed { &CLOSED } else { &OPEN };
            let mut found = vec![
                keys(rule, workload, &case.version.closed_keys(), OPEN_KEYS),
                definition(case, workload),
                accelerator(case, workload, division),
                direct(workload),
            ];
            found.extend((workload.model == "unet3d").then(|| writes(workload)));
            found
        }
    }
}

/// Judges the changed keys: allowed, allowed in the open division, and forbidden.
fn keys(rule: &'static Rule, workload: &Workload, closed: &[&str], open: &[&str]) -> Finding {
    let (mut open_only, mut forbidden) = (BTreeMap::new(), BTreeMap::new());
    let (mut recorded, mut allowed) = (0, 0);
    for run in workload.of(Phase::Run) {
        let Some(changed) = run.changed() else { continue };
        recorded += 1;
        for (key, value) in changed {
            // The results show which parts were run; separate rules judge them.
            if closed.contains(&key.as_str()) || key.starts_with("workflow.") || key.starts_with("output.") {
                allowed += 1;
                continue;
            }
            let into = if open.contains(&key.as_str()) { &mut open_only } else { &mut forbidden };
            *into.entry(format!("{key}={value}")).or_insert(0) += 1;
        }
    }
    let text = |found: &BTreeMap<String, i32>| {
        let items: Vec<String> = found
            .iter()
            .map(|(change, runs)| if recorded > 1 { format!("{change} ({runs} runs)") } else { change.clone() })
            .collect();
        listed(&items)
    };
    if recorded == 0 {
        return rule.unknown(
            "no file contains the changed keys",
            "include dlio_config/overrides.yaml, or *_metadata.json of mlpstorage",
        );
    }
    if !forbidden.is_empty() {
        return rule.fail(text(&forbidden), "repeat the runs without these keys; neither division allows them");
    }
    if !open_only.is_empty() {
        return rule.open_only(text(&open_only), "repeat the runs without these keys, or submit to the open division");
    }
    rule.pass(format!("{allowed} in {recorded} runs, all of them allowed"))
}

/// Settings that a workload fixes for all submitters.
const FIXED: [&str; 5] = [
    "reader.batch_size",
    "train.computation_time",
    "train.epochs",
    "dataset.record_length_bytes",
    "dataset.record_length_bytes_stdev",
];

/// Compares the settings that a workload fixes with the published ones, regardless of the file they came from.
fn definition(case: &Case, workload: &Workload) -> Finding {
    let runs = workload.measured();
    let names = names(case.version, workload);
    let published: Vec<(String, Value)> =
        names.into_iter().filter_map(|name| Some((name.clone(), parsed(&name)?))).collect();
    if published.is_empty() {
        return DEFINITION.unknown(
            format!("dlio does not contain {} for this accelerator", workload.model),
            "compare the configuration with that of mlpstorage",
        );
    }
    let (mut wrong, mut matched, mut known) = (ByText::default(), Vec::new(), 0);
    for run in &runs {
        if !run.has_settings() {
            continue;
        }
        known += 1;
        match published.iter().map(|(name, tree)| (name, differences(run, tree))).min_by_key(|(_, found)| found.len()) {
            Some((name, found)) if found.is_empty() => matched.push(name.clone()),
            Some((name, found)) => wrong.add(run, format!("{}, unlike {name}", found.join(", "))),
            None => {}
        }
    }
    if known == 0 {
        return DEFINITION.unknown("no file contains the settings", "include dlio_config/config.yaml of each run");
    }
    let right = agreed(matched.iter()).cloned().unwrap_or_else(|| "as published".into());
    DEFINITION.unless(&wrong.list(), right, "run the published workload; neither division may change it")
}

/// Returns the workloads that may be meant.
fn names(version: Version, workload: &Workload) -> Vec<String> {
    let accelerators = workload.accelerators();
    let all = version.accelerators().iter().map(|name| name.to_string());
    let accelerators = if accelerators.is_empty() { all.collect() } else { accelerators };
    accelerators.iter().map(|accelerator| format!("{}_{accelerator}", workload.model)).collect()
}

fn parsed(name: &str) -> Option<Value> {
    let name = presets::full_name(name);
    let (_, text) = WORKLOADS.iter().find(|(known, _)| *known == name)?;
    parse_yaml(name, text).ok().map(|tree| tree.to_json())
}

fn differences(run: &Run, published: &Value) -> Vec<String> {
    let mean = |value: &Value| number(value).or_else(|| number(at(value, "mean")));
    let differs = |key: &&str| {
        let (own, published) = (mean(run.setting(key))?, mean(at(published, key))?);
        ((own - published).abs() > published.abs() * 1e-9).then(|| format!("{key}={own}, not {published}"))
    };
    FIXED.iter().filter_map(differs).collect()
}

fn accelerator(case: &Case, workload: &Workload, division: Division) -> Finding {
    let found = workload.accelerators();
    let known = case.version.accelerators();
    let wrong: Vec<String> = found.iter().filter(|name| !known.contains(&name.as_str())).cloned().collect();
    match found.len() {
        0 => ACCELERATOR
            .unknown("no file names it", format!("include *_metadata.json; {} are allowed", known.join(" and "))),
        _ => ACCELERATOR.unless(
            &wrong,
            found.join(", "),
            format!("run the workload of {} for {} {}", known.join(" or "), case.version.name(), division.name()),
        ),
    }
}

fn direct(workload: &Workload) -> Finding {
    let direct = workload.of(Phase::Run).filter(|run| flag(run.setting("reader.odirect")) == Some(true));
    match direct.count() {
        0 => DIRECT.pass("not used"),
        count if workload.model == "unet3d" => DIRECT.pass(format!("in {count} runs")),
        count => DIRECT.fail(
            format!("reader.odirect in {count} runs of {}", workload.model),
            "repeat the runs without reader.odirect; only unet3d may use it",
        ),
    }
}

fn writes(workload: &Workload) -> Finding {
    let runs = workload.measured();
    let without = runs.iter().filter(|run| flag(run.setting("workflow.checkpoint")) == Some(false));
    let without: Vec<String> = without.map(|run| run.name.clone()).collect();
    // The last epoch may be too early for a checkpoint.
    let lacking = runs.iter().filter(|run| {
        let none = number(run.metric("save_checkpoint_duration_mean_seconds")).is_none_or(|seconds| seconds <= 0.0);
        none && at(&run.summary, "status").is_string()
    });
    let lacking: Vec<String> = lacking.map(|run| of(run, "wrote none")).collect();
    if !without.is_empty() {
        return WRITES.fail(
            format!("workflow.checkpoint is false in {}", listed(&without)),
            "repeat the runs with workflow.checkpoint=true",
        );
    }
    WRITES.unless(&lacking, "workflow.checkpoint is true", "run all epochs; the checkpoint follows the last one")
}
