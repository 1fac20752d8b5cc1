//! The files of one run: of MLPerf's program, of DLIO, or of `dlio bench`.
//!
//! ```text
//! summary.json              metrics and hosts
//! *_metadata.json           arguments and parameters of MLPerf's program
//! */config.yaml             the configuration   (dlio_config, .hydra or configs)
//! */overrides.yaml          keys given on the command line
//! provenance.json           the edition of the rules, in version 3
//! ```

use super::edition::{Division, GIB, version_of};
use super::value::{at, count, flag, number, seconds, timestamp};
use crate::keys::value::{Value as Tree, parse_yaml};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Datasize,
    Datagen,
    Run,
}

impl Phase {
    pub const ALL: [Phase; 3] = [Phase::Datasize, Phase::Datagen, Phase::Run];

    pub fn name(self) -> &'static str {
        match self {
            Phase::Datasize => "datasize",
            Phase::Datagen => "datagen",
            Phase::Run => "run",
        }
    }

    pub fn parse(name: &str) -> Option<Phase> {
        match name {
            "run_benchmark" => Some(Phase::Run),
            _ => Phase::ALL.into_iter().find(|phase| phase.name() == name),
        }
    }
}

#[derive(Debug)]
pub struct Run {
    pub folder: PathBuf,
    /// The name of the directory, mostly a time.
    pub name: String,
    pub files: BTreeSet<String>,
    /// Files of the directory with the configuration, if it exists.
    pub config_files: Option<BTreeSet<String>>,
    pub summary: Value,
    pub metadata: Value,
    pub provenance: Value,
    /// The section `workload` of the configuration.
    config: Value,
    /// Keys given on the command line, and their values.
    overrides: Vec<(String, String)>,
    /// Files that cannot be read, with the reason.
    pub damaged: Vec<String>,
}

/// Names of directories with a configuration: of MLPerf's program, of Hydra, and of MLPerf Storage 1.0.
pub const CONFIG_FOLDERS: [&str; 3] = ["dlio_config", ".hydra", "configs"];

/// The maximum size of a file that is read: a summary has some kilobytes, metadata of many hosts some megabytes.
const BYTES_MAX: u64 = 256 << 20;

impl Run {
    pub fn read(folder: &Path) -> Run {
        let mut damaged = Vec::new();
        let files = names(folder);
        let metadata = files.iter().find(|name| name.ends_with("_metadata.json"));
        let metadata = metadata.map_or(Value::Null, |name| json(&folder.join(name), &mut damaged));
        let of = |name: &str, damaged: &mut Vec<String>| match files.contains(name) {
            true => json(&folder.join(name), damaged),
            false => Value::Null,
        };
        let summary = of("summary.json", &mut damaged);
        let provenance = of("provenance.json", &mut damaged);
        let known = CONFIG_FOLDERS.map(|name| folder.join(name));
        // DLIO's `hydra.output_subdir` may have any name.
        let others = files.iter().map(|name| folder.join(name));
        let place = known.into_iter().chain(others).find(|place| place.join("config.yaml").is_file());
        let config_files = place.as_deref().map(names);
        let (mut config, mut overrides) = (Value::Null, Vec::new());
        if let Some(place) = place {
            let tree = yaml(&place.join("config.yaml"), &mut damaged);
            config = tree.get("workload").map_or(Value::Null, Tree::to_json);
            if place.join("overrides.yaml").is_file() {
                overrides = typed(&yaml(&place.join("overrides.yaml"), &mut damaged));
            }
        }
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Run {
            folder: folder.into(),
            name,
            files,
            config_files,
            summary,
            metadata,
            provenance,
            config,
            overrides,
            damaged,
        }
    }

    /// Returns a setting of the run: as DLIO used it, or as MLPerf's program recorded it.
    pub fn setting(&self, path: &str) -> &Value {
        let recorded = [self.metadata.get("parameters"), self.metadata.get("combined_params")];
        let places = [Some(&self.config)].into_iter().chain(recorded).flatten();
        places.map(|place| at(place, path)).find(|value| !value.is_null()).unwrap_or(&Value::Null)
    }

    pub fn has_settings(&self) -> bool {
        ["dataset", "checkpoint", "model"].iter().any(|section| !self.setting(section).is_null())
    }

    /// Returns an argument of MLPerf's program.
    pub fn argument(&self, name: &str) -> &Value {
        at(&self.metadata, "args").get(name).unwrap_or(&Value::Null)
    }

    /// Returns changed keys without `workload.`, and their values; `None` if no file records them.
    pub fn changed(&self) -> Option<Vec<(String, String)>> {
        let has_file = self.config_files.as_ref().is_some_and(|files| files.contains("overrides.yaml"));
        if has_file {
            return Some(self.overrides.iter().filter(|(key, _)| key != "workload").cloned().collect());
        }
        let recorded = [self.metadata.get("override_parameters"), self.metadata.get("params_dict")];
        let recorded = recorded.into_iter().flatten().find_map(Value::as_object)?;
        Some(recorded.iter().map(|(key, value)| (key.clone(), plain(value))).collect())
    }

    /// Returns the name of the workload given on the command line.
    pub fn workload(&self) -> Option<&str> {
        self.overrides.iter().rev().find(|(key, _)| key == "workload").map(|(_, value)| value.as_str())
    }

    pub fn model(&self) -> Option<String> {
        let recorded = [self.metadata.get("model"), Some(self.argument("model"))];
        // In version 1.0, the section is the name.
        let names = ["model.name", "model"].map(|key| Some(self.setting(key)));
        recorded.into_iter().chain(names).flatten().find_map(Value::as_str).map(str::to_string)
    }

    pub fn accelerator(&self) -> Option<String> {
        let named = [self.metadata.get("accelerator"), Some(self.argument("accelerator_type"))];
        let named = named.into_iter().flatten().find_map(Value::as_str).map(str::to_ascii_lowercase);
        named.or_else(|| {
            let workload = self.workload()?.rsplit_once('_')?.1;
            version_of(workload).map(|_| workload.to_string())
        })
    }

    pub fn phase(&self) -> Option<Phase> {
        let command = [self.metadata.get("command"), Some(self.argument("command"))];
        let command = command.into_iter().flatten().filter_map(Value::as_str).find_map(Phase::parse);
        command.or_else(|| {
            let of = |key: &str| flag(self.setting(&format!("workflow.{key}")));
            match (of("generate_data"), of("train"), of("checkpoint")) {
                (_, Some(true), _) | (Some(false) | None, _, Some(true)) => Some(Phase::Run),
                (Some(true), ..) => Some(Phase::Datagen),
                _ => None,
            }
        })
    }

    pub fn writes_checkpoints_only(&self) -> bool {
        self.metadata.get("benchmark_type").and_then(Value::as_str) == Some("checkpointing")
            || (flag(self.setting("workflow.checkpoint")) == Some(true)
                && flag(self.setting("workflow.train")) == Some(false)
                && flag(self.setting("workflow.generate_data")) != Some(true))
    }

    pub fn division(&self) -> Option<Division> {
        let named = [self.metadata.get("verification"), Some(self.argument("mode"))];
        named.into_iter().flatten().filter_map(Value::as_str).find_map(Division::parse)
    }

    pub fn accelerators(&self) -> Option<u64> {
        let recorded = [self.argument("num_accelerators"), at(&self.metadata, "num_processes")];
        count(at(&self.summary, "num_accelerators")).or_else(|| recorded.into_iter().find_map(count))
    }

    pub fn hosts(&self) -> Option<u64> {
        count(at(&self.summary, "num_hosts")).or_else(|| count(self.argument("num_client_hosts")))
    }

    /// Returns the memory of all hosts in GiB. Only the sum of DLIO's list is right: its places of hosts overlap.
    pub fn memory(&self) -> Option<f64> {
        let listed = at(&self.summary, "host_memory_GB").as_array();
        let listed = listed.and_then(|hosts| hosts.iter().map(number).sum::<Option<f64>>());
        let recorded = number(at(&self.metadata, "system_info.total_memory_bytes")).map(|bytes| bytes / GIB);
        listed.or(recorded).filter(|memory| *memory > 0.0)
    }

    pub fn files_train(&self) -> Option<u64> {
        count(self.setting("dataset.num_files_train"))
    }

    /// Returns samples per file and bytes per sample.
    pub fn file(&self) -> Option<(u64, f64)> {
        let samples = self.setting("dataset.num_samples_per_file");
        let samples = if samples.is_null() { 1 } else { count(samples)? };
        let current = self.setting("dataset.record_length_bytes");
        let bytes = if current.is_null() { self.setting("dataset.record_length") } else { current };
        Some((samples, number(bytes).filter(|bytes| *bytes > 0.0)?))
    }

    pub fn metric(&self, name: &str) -> &Value {
        at(&self.summary, "metric").get(name).unwrap_or(&Value::Null)
    }

    pub fn metric_entries(&self) -> impl Iterator<Item = (&str, &Value)> {
        let metrics = at(&self.summary, "metric").as_object();
        metrics.into_iter().flatten().map(|(name, value)| (name.as_str(), value))
    }

    pub fn started(&self) -> Option<f64> {
        at(&self.summary, "start").as_str().and_then(seconds)
    }

    pub fn ended(&self) -> Option<f64> {
        at(&self.summary, "end").as_str().and_then(seconds)
    }

    /// Returns a time that MLPerf's program recorded, or else one of the benchmark.
    pub fn start_of_command(&self) -> Option<f64> {
        at(&self.metadata, "invocation_start_time").as_str().and_then(seconds).or(self.started())
    }

    pub fn end_of_command(&self) -> Option<f64> {
        at(&self.metadata, "invocation_end_time").as_str().and_then(seconds).or(self.ended())
    }

    /// Returns when the run took place, to sort runs.
    pub fn time(&self) -> Option<f64> {
        self.started().or_else(|| timestamp(&self.name))
    }

    /// Returns how many checkpoints the run was to write and read.
    pub fn checkpoints(&self) -> (Option<u64>, Option<u64>) {
        let of = |key: &str| {
            let asked = number(self.setting(&format!("checkpoint.{key}"))).or_else(|| number(self.argument(key)));
            // -1 means none, as 0 does.
            asked.map(|number| number.max(0.0) as u64)
        };
        (of("num_checkpoints_write"), of("num_checkpoints_read"))
    }
}

/// Returns the names of the entries of a directory.
pub fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Returns a small file's text, or notes why it cannot be read.
fn text(path: &Path, damaged: &mut Vec<String>) -> Option<String> {
    let size = fs::metadata(path).map(|file| file.len());
    let read = match size {
        Ok(size) if size > BYTES_MAX => Err(format!("{} MiB are too large for this file", size >> 20)),
        Ok(_) => fs::read_to_string(path).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    read.map_err(|error| damaged.push(format!("{}: {error}", short(path)))).ok()
}

fn json(path: &Path, damaged: &mut Vec<String>) -> Value {
    let Some(text) = text(path, damaged) else { return Value::Null };
    match serde_json::from_str::<Value>(&text) {
        Ok(tree) if tree.is_object() => tree,
        Ok(_) => {
            damaged.push(format!("{}: it is not a JSON object", short(path)));
            Value::Null
        }
        Err(error) => {
            damaged.push(format!("{}: {error}", short(path)));
            Value::Null
        }
    }
}

/// Reads a YAML file, or notes why it cannot be read.
pub fn yaml(path: &Path, damaged: &mut Vec<String>) -> Tree {
    let Some(text) = text(path, damaged) else { return Tree::empty() };
    parse_yaml(&short(path), &text).unwrap_or_else(|failure| {
        damaged.push(failure.what);
        Tree::empty()
    })
}

/// Returns the last two parts of a path, which name a run and its file.
fn short(path: &Path) -> String {
    let parts: Vec<_> = path.iter().rev().take(2).map(|part| part.to_string_lossy().into_owned()).collect();
    parts.into_iter().rev().collect::<Vec<_>>().join("/")
}

/// Returns the keys and values of overrides; `workload=NAME` is one of them.
fn typed(tree: &Tree) -> Vec<(String, String)> {
    let Tree::List(lines) = tree else { return Vec::new() };
    let texts = lines.iter().filter_map(|line| match line {
        Tree::Text(text) => text.split_once('='),
        _ => None,
    });
    let own = |(key, value): (&str, &str)| {
        let key = key.trim_start_matches('+');
        let key = if key == "workload" { key } else { key.strip_prefix("workload.")? };
        Some((key.to_string(), value.to_string()))
    };
    texts.filter_map(own).collect()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}
