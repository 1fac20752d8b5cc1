//! `dlio bench check DIR`: compares MLPerf Storage's rules (version 2, with the models of version 3) with the files of
//! a run.
//!
//! ```text
//! summary.json                 how it ended, metrics, the hosts
//! */config.yaml                the configuration   (.hydra, or dlio_config if mlpstorage started it)
//! */overrides.yaml             the changes
//! ```
//!
//! Rules that one run cannot show (five in a row, a cache emptied between write and read) are not judged.

use crate::config::Config;
use crate::failure::{Failure, Kind, Outcome};
use crate::keys::value::{Value as Tree, parse_yaml};
use crate::results::run_folder::run_folder;
use crate::system::terminal;
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

pub(super) const STEPS_MIN: u64 = 500;
pub(super) const TIMES_MEMORY: f64 = 5.0;
pub(super) const GIB: f64 = (1u64 << 30) as f64;
const CHECKPOINTS: i64 = 10;

/// Minimum utilization, as a fraction, of the models that are trained.
const MODELS: &[(&str, f64)] =
    &[("unet3d", 0.9), ("resnet50", 0.9), ("cosmoflow", 0.7), ("retinanet", 0.85), ("flux", 0.9), ("dlrm", 0.7)];

/// Accelerators with published requirements.
const ACCELERATORS: [&str; 4] = ["a100", "h100", "b200", "mi355"];

/// Names of the models whose checkpoints are written, and the number of processes for a whole checkpoint.
const LANGUAGE_MODELS: &[(&[&str], u64)] = &[
    (&["llama_8b", "llama3_8b", "llama3-8b"], 8),
    (&["llama_70b", "llama3_70b", "llama3-70b"], 64),
    (&["llama_405b", "llama3_405b", "llama3-405b"], 512),
    (&["llama_1t", "llama3_1t", "llama3-1t"], 1024),
];

/// Processes per host when each host writes its part of a large checkpoint.
const SUBSET: u64 = 8;

const CLOSED_KEYS: &[&str] = &[
    "dataset.num_files_train",
    "dataset.num_subfolders_train",
    "dataset.data_folder",
    "reader.read_threads",
    "reader.computation_threads",
    "reader.transfer_size",
    "reader.odirect",
    "reader.prefetch_size",
    "checkpoint.checkpoint_folder",
    "storage.storage_type",
    "storage.storage_root",
];
const OPEN_KEYS: &[&str] = &["framework", "dataset.format", "dataset.num_samples_per_file", "reader.data_loader"];
const CHECKPOINT_KEYS: &[&str] = &[
    "checkpoint.checkpoint_folder",
    "checkpoint.num_checkpoints_write",
    "checkpoint.num_checkpoints_read",
    "checkpoint.mode",
    "model.parallelism.data",
    "storage.storage_type",
    "storage.storage_root",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Kept,
    /// Allowed in the category "open" but not in "closed".
    Open,
    Broken,
    /// The files do not show it.
    Unknown,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Verdict::Kept => "kept",
            Verdict::Open => "open",
            Verdict::Broken => "broken",
            Verdict::Unknown => "unknown",
        }
    }
}

struct Judged {
    rule: &'static str,
    verdict: Verdict,
    why: String,
}

fn judged(rule: &'static str, kept: bool, why: String) -> Judged {
    Judged { rule, verdict: if kept { Verdict::Kept } else { Verdict::Broken }, why }
}

/// A run, as recorded in its directory.
struct FinishedRun {
    folder: PathBuf,
    summary: Value,
    config: Config,
    /// Keys given on the command line, without `workload.`, and their values.
    changed: Vec<(String, String)>,
    /// The name of the workload given on the command line.
    named: Option<String>,
}

/// Prints which rules the run meets and breaks. The exit code is 0 if it breaks none.
pub fn check(folder: &Path, as_json: bool) -> Outcome<i32> {
    let past = FinishedRun::read(run_folder(folder))?;
    let rules = past.judged();
    let category = category(&rules);
    let text = if as_json { past.json(&rules, category) } else { past.text(&rules, category) };
    terminal::answer(&text)?;
    Ok(i32::from(category == "invalid"))
}

fn category(rules: &[Judged]) -> &'static str {
    let has = |verdict| rules.iter().any(|rule| rule.verdict == verdict);
    match (has(Verdict::Broken), has(Verdict::Unknown), has(Verdict::Open)) {
        (true, ..) => "invalid",
        (_, true, _) => "unknown",
        (.., true) => "open",
        _ => "closed",
    }
}

impl FinishedRun {
    fn read(folder: &Path) -> Outcome<FinishedRun> {
        let path = folder.join("summary.json");
        let text = fs::read_to_string(&path).map_err(|error| missing(&path, error))?;
        let summary = serde_json::from_str(&text).map_err(|error| Failure::damaged(&path, error))?;
        let folder_of_configuration = configuration(folder)?;
        let config = yaml(&folder_of_configuration.join("config.yaml"))?;
        let workload = config.get("workload").ok_or_else(|| {
            Failure::damaged(
                &folder_of_configuration.join("config.yaml"),
                "it has no `workload`, unlike the files of a run",
            )
        })?;
        let typed = match yaml(&folder_of_configuration.join("overrides.yaml"))? {
            Tree::List(typed) => typed,
            _ => Vec::new(),
        };
        let changed = typed.iter().filter_map(typed_key).collect();
        let named = typed.iter().rev().find_map(|typed| match typed {
            Tree::Text(typed) => typed.strip_prefix("workload=").map(str::to_string),
            _ => None,
        });
        Ok(FinishedRun { folder: folder.into(), summary, config: Config::read(workload)?, changed, named })
    }

    fn ranks(&self) -> u64 {
        self.summary["num_accelerators"].as_u64().unwrap_or(0)
    }

    fn trained(&self) -> bool {
        self.config.workflow.train
    }

    fn judged(&self) -> Vec<Judged> {
        let status = self.summary["status"].as_str();
        // DLIO's own files do not record how a run ended: a killed one simply lacks them.
        let whole = judged(
            "whole",
            status.is_none_or(|status| status == "success"),
            match status {
                Some(status) => format!("it exited with {status}"),
                None => "it left its results".into(),
            },
        );
        let rules = if self.trained() { self.training() } else { self.checkpointing() };
        [whole].into_iter().chain(rules).collect()
    }

    fn training(&self) -> Vec<Judged> {
        let Config { reader, dataset, model, .. } = &self.config;
        let known = MODELS.iter().find(|(name, _)| *name == model.name);
        let names: Vec<&str> = MODELS.iter().map(|(name, _)| *name).collect();
        let named = judged(
            "model",
            known.is_some(),
            match known {
                Some((name, _)) => name.to_string(),
                None => format!("{} is not one of {}", model.name, names.join(", ")),
            },
        );
        let samples = dataset.files_train * dataset.samples_per_file;
        let steps = samples / (reader.batch * self.ranks()).max(1);
        // Files are counted; the ones that were started are enough.
        let needed = STEPS_MIN * reader.batch * self.ranks() / dataset.samples_per_file.max(1);
        let enough = judged(
            "steps",
            dataset.files_train >= needed,
            format!(
                "{steps} per epoch ({samples} samples, batch {}, {} accelerators); at least {STEPS_MIN} are required: \
                    {needed} files",
                reader.batch,
                self.ranks()
            ),
        );
        vec![named, self.utilization(known.map_or(self.config.au, |(_, least)| *least)), enough, self.memory()]
            .into_iter()
            .chain(self.keys(CLOSED_KEYS, OPEN_KEYS))
            .chain(self.published())
            .chain(self.of_unet3d())
            .collect()
    }

    fn utilization(&self, least: f64) -> Judged {
        match self.summary["metric"]["train_au_mean_percentage"].as_f64() {
            Some(au) => {
                let kept = |au: f64| au >= 100.0 * least;
                let other = self.summary["metric"]["compat"]["train_au_mean_percentage"].as_f64();
                let other = other.filter(|other| kept(*other) != kept(au));
                let other = other.map(|other| {
                    format!(
                        "; DLIO's own formula gives {other:.2} %, which {} it",
                        if kept(other) { "keeps" } else { "breaks" }
                    )
                });
                let why =
                    format!("{au:.2} %; at least {:.0} % is required{}", 100.0 * least, other.unwrap_or_default());
                judged("utilization", kept(au), why)
            }
            None => judged("utilization", false, "unknown: no epoch was completed".into()),
        }
    }

    fn memory(&self) -> Judged {
        let hosts: Vec<f64> =
            self.summary["host_memory_GB"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
        if hosts.is_empty() {
            let why = "the results do not contain the memory of the hosts".into();
            return Judged { rule: "memory", verdict: Verdict::Unknown, why };
        }
        let dataset = &self.config.dataset;
        let file = dataset.samples_per_file as f64 * dataset.record_bytes;
        let needed = (TIMES_MEMORY * hosts.iter().sum::<f64>() * GIB / file.max(1.0)).floor();
        judged(
            "memory",
            dataset.files_train as f64 >= needed,
            format!(
                "{:.1} GiB of data for {:.1} GiB of memory; at least {TIMES_MEMORY} times the memory is required: \
                    {needed} files",
                dataset.files_train as f64 * file / GIB,
                hosts.iter().sum::<f64>()
            ),
        )
    }

    /// Returns the changes that are allowed, allowed only in the open category, and forbidden.
    fn keys(&self, closed: &[&str], open: &[&str]) -> Vec<Judged> {
        let of = |(key, value): &(String, String)| {
            let verdict = match key.as_str() {
                key if closed.contains(&key) => return None,
                key if open.contains(&key) => Verdict::Open,
                // The results show which parts were run, and the requirements of unet3d are a separate rule.
                key if key.starts_with("workflow.") || key.starts_with("output.") => return None,
                _ => Verdict::Broken,
            };
            Some(Judged { rule: "keys", verdict, why: format!("{key}={value} may not be changed") })
        };
        let found: Vec<Judged> = self.changed.iter().filter_map(of).collect();
        match found.is_empty() {
            true => vec![judged("keys", true, format!("{} changed, all of them permitted", self.changed.len()))],
            false => found,
        }
    }

    /// Checks that the values a workload fixes are as published, regardless of the file they came from.
    fn published(&self) -> Option<Judged> {
        let accelerators = ACCELERATORS.map(|accelerator| format!("{}_{accelerator}", self.config.model.name));
        let published: Vec<(String, Config)> = accelerators.into_iter().filter_map(published).collect();
        let own = fixed(&self.config);
        let same = published.iter().find(|(_, config)| fixed(config) == own);
        // The named one, or all variants of the model.
        let name = self.named.as_deref().map(crate::workload::presets::full_name);
        let meant: Vec<&(String, Config)> =
            published.iter().filter(|(known, _)| Some(known.as_str()) == name).collect();
        let meant = if meant.is_empty() { published.iter().collect() } else { meant };
        let meant: Vec<String> = meant.iter().map(|(name, config)| format!("{name}: {}", fixed(config))).collect();
        if meant.is_empty() {
            return None;
        }
        Some(judged(
            "workload",
            same.is_some(),
            match same {
                Some((name, _)) => format!("as published: {name}"),
                None => format!("{own} differs from the published one: {}", meant.join("; ")),
            },
        ))
    }

    fn of_unet3d(&self) -> Vec<Judged> {
        let (is_unet3d, direct) = (self.config.model.name == "unet3d", self.config.reader.direct);
        let mut rules = Vec::new();
        if is_unet3d {
            let taken = self.summary["metric"]["save_checkpoint_duration_mean_seconds"].as_f64();
            let wrote = taken.is_some_and(|seconds| seconds > 0.0);
            let count = if wrote { "did" } else { "wrote none" };
            rules.push(judged("checkpoint", wrote, format!("unet3d must write checkpoints, but the run {count}")));
        } else if direct {
            rules.push(judged("odirect", false, "only unet3d may use direct I/O (reader.odirect)".into()));
        }
        rules
    }

    fn checkpointing(&self) -> Vec<Judged> {
        let Config { model, checkpoint, .. } = &self.config;
        let known = LANGUAGE_MODELS.iter().find(|(names, _)| names.contains(&model.name.as_str()));
        let mut rules = Vec::new();
        let Some((_, whole)) = known else {
            let names: Vec<&str> = LANGUAGE_MODELS.iter().map(|(names, _)| names[0]).collect();
            return vec![judged("model", false, format!("{} is not one of {}", model.name, names.join(", ")))];
        };
        rules.push(judged("model", true, model.name.clone()));
        let ranks = self.ranks();
        let divided = !checkpoint.subset || model.data > 0;
        let allowed = if checkpoint.subset { ranks == SUBSET && *whole > SUBSET } else { ranks == *whole };
        rules.push(judged(
            "processes",
            allowed && divided,
            format!(
                "{ranks}{}{}; {whole} write a whole checkpoint, {SUBSET} the part of one host (checkpoint.mode=subset)",
                if checkpoint.subset { " of a subset" } else { "" },
                if divided { "" } else { ", each with all copies of the model (model.parallelism.data is not set)" }
            ),
        ));
        let (writes, reads) = (checkpoint.writes.max(0), checkpoint.reads.max(0));
        let apart = (writes == CHECKPOINTS && reads == 0) || (writes == 0 && reads == CHECKPOINTS);
        rules.push(judged(
            "count",
            apart,
            format!(
                "{writes} written, {reads} read; required are {CHECKPOINTS} written in one run and {CHECKPOINTS} read \
                    in another"
            ),
        ));
        if writes > 0 {
            rules.push(self.fsync());
        }
        rules.extend(self.keys(CHECKPOINT_KEYS, &[]));
        rules
    }

    fn fsync(&self) -> Judged {
        if !self.config.checkpoint.fsync {
            return judged("fsync", false, "checkpoint.fsync is false".into());
        }
        match self.summary["metric"]["save_checkpoint_fsyncs"].as_u64() {
            Some(done) => judged("fsync", done > 0, format!("{done} calls were made")),
            None => Judged {
                rule: "fsync",
                verdict: Verdict::Unknown,
                why: "checkpoint.fsync is true, but the results do not contain the number of calls".into(),
            },
        }
    }

    fn json(&self, rules: &[Judged], category: &str) -> String {
        let of = |rule: &Judged| json!({"rule": rule.rule, "verdict": rule.verdict.name(), "why": rule.why});
        let json = json!({
            "folder": self.folder.display().to_string(),
            "model": self.config.model.name,
            "category": category,
            "rules": rules.iter().map(of).collect::<Vec<_>>(),
        });
        serde_json::to_string_pretty(&json).unwrap_or_default() + "\n"
    }

    fn text(&self, rules: &[Judged], category: &str) -> String {
        let what = if self.trained() { "training" } else { "checkpoints" };
        let mut text = format!("{} of {}, {} processes: {category}\n", what, self.config.model.name, self.ranks());
        for rule in rules {
            let _ = writeln!(text, "  {:<8} {:<12} {}", rule.verdict.name(), rule.rule, rule.why);
        }
        text.push_str("by the rules of MLPerf Storage 2.0 (and the models of 3.0), as far as one run can show\n");
        text
    }
}

/// Returns as a text the values that a workload fixes for all users.
fn fixed(config: &Config) -> String {
    let Config { reader, dataset, train, .. } = config;
    format!(
        "batch {}, computation {} s, records of {} bytes (+-{})",
        reader.batch,
        train.computation.mean(),
        dataset.record_bytes,
        dataset.record_bytes_stdev
    )
}

fn published(name: String) -> Option<(String, Config)> {
    let (_, text) = crate::workload::presets::WORKLOADS.iter().find(|(known, _)| *known == name)?;
    let config = parse_yaml(&name, text).ok().and_then(|tree| Config::read(&tree).ok())?;
    Some((name, config))
}

fn typed_key(typed: &Tree) -> Option<(String, String)> {
    let Tree::Text(typed) = typed else { return None };
    let (key, value) = typed.split_once('=')?;
    let key = key.trim_start_matches('+').strip_prefix("workload.")?;
    Some((key.to_string(), value.to_string()))
}

fn missing(path: &Path, error: std::io::Error) -> Failure {
    Failure::io("read", path, error)
        .remedy("pass a run directory: the value of hydra.run.dir, or mlpstorage's RESULTS/training/MODEL/run/DATE")
}

/// Returns the directory of the configuration, under any of its names.
fn configuration(folder: &Path) -> Outcome<PathBuf> {
    let known = [".hydra", "dlio_config"].map(|name| folder.join(name));
    let others = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let has_both = |place: &PathBuf| ["config.yaml", "overrides.yaml"].iter().all(|name| place.join(name).is_file());
    known.into_iter().chain(others).find(has_both).ok_or_else(|| {
        let what =
            format!("{} has no directory with config.yaml and overrides.yaml, such as `.hydra`", folder.display());
        Failure::new(Kind::MissingData, what)
    })
}

fn yaml(path: &Path) -> Outcome<Tree> {
    let text = fs::read_to_string(path).map_err(|error| missing(path, error))?;
    parse_yaml(&path.display().to_string(), &text)
}
