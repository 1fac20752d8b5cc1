//! The built-in workloads, their short names, and how a workload is found and combined with overrides.
//!
//! Not here: what a key means (`keys`) and what follows from it (`config`).

use crate::config::compute_time;
use crate::data_set::formats;
use crate::failure::{Failure, Outcome};
use crate::keys::grammar::{Action, Override};
use crate::keys::value::{Lines, Value, parse_yaml, parse_yaml_placed};
use crate::keys::{self, Key, Kind, interpolation};
use dlio_schemas::words::nearest;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

macro_rules! compiled_in {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../workloads/", $name, ".yaml")))),*]
    };
}

/// Name and YAML, in the order of the list.
#[rustfmt::skip]
pub const WORKLOADS: &[(&str, &str)] = compiled_in![
    "default",
    "unet3d_v100", "unet3d_a100", "unet3d_h100", "unet3d_datagen",
    "unet3d_v100_s3", "unet3d_a100_s3", "unet3d_h100_s3",
    "resnet50_tf", "resnet50_v100", "resnet50_a100", "resnet50_h100", "resnet50_datagen",
    "cosmoflow_v100", "cosmoflow_a100", "cosmoflow_h100", "cosmoflow_datagen",
    "bert_v100", "dlrm", "megatron_deepspeed_LLNL",
    "cosmic_tagger", "dffn", "cosmoflow_theta", "candle", "frnn", "imagenet_theta", "climate_segmentation", "l2hmc",
    "tf_micro_jpeg", "alexnet_caltech101", "tf_checkpoint", "burst_buffer_checkpoint",
    "llama_7b", "llama_7b_zero3", "llama_8b_zero3", "llama_70b", "llama_70b_zero3", "llama_405b", "llama_1t",
    "llama3_8b", "llama3_70b", "llama3_405b", "llama3_1t",
    "unet3d_b200", "retinanet_b200", "retinanet_mi355", "retinanet_datagen", "flux_b200", "flux_mi355", "flux_datagen",
    "dlrm_b200", "dlrm_mi355", "dlrm_datagen",
];

/// The short name, and the variant for the newest accelerator.
pub const ALIASES: &[(&str, &str)] = &[
    ("unet3d", "unet3d_h100"),
    ("resnet50", "resnet50_h100"),
    ("cosmoflow", "cosmoflow_h100"),
    ("retinanet", "retinanet_b200"),
    ("flux", "flux_b200"),
    ("bert", "bert_v100"),
    ("megatron", "megatron_deepspeed_LLNL"),
    ("llama", "llama_8b_zero3"),
    ("llama3", "llama3_8b"),
];

/// Returns the full name of a workload given by its short name; other names are unchanged.
pub fn full_name(name: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, target)| *target)
}

/// Returns the first line of a workload's file, without the comment mark.
pub fn summary(yaml: &str) -> &str {
    yaml.lines().next().unwrap_or_default().trim_start_matches('#').trim()
}

/// A workload before overrides.
#[derive(Debug)]
pub struct WorkloadSource {
    pub name: String,
    /// The short name, if the user gave one.
    pub alias: Option<String>,
    pub tree: Value,
    /// The file it was read from, with the lines of its keys; `None` for a built-in one.
    pub source: Option<(PathBuf, Lines)>,
}

impl WorkloadSource {
    /// Returns file and line of a key, if a file contains it.
    fn place(&self, path: &str) -> Option<String> {
        let (file, lines) = self.source.as_ref()?;
        let (_, line) = lines.iter().rev().find(|(key, _)| {
            // A value that became a section is on the section's line.
            keys::present_name(key) == path || keys::present_name_of_value(key) == path
        })?;
        Some(format!("{}, line {line}", file.display()))
    }
}

pub fn find(name: &str, config_dir: Option<&Path>) -> Outcome<WorkloadSource> {
    if let Some(file) = config_dir.and_then(|dir| file_in(dir, name)).or_else(|| own_file(name)) {
        let text = std::fs::read_to_string(&file).map_err(|error| unreadable(&file, error))?;
        let (tree, lines) = without_root(parse_yaml_placed(&file.display().to_string(), &text)?);
        if tree.entries().is_empty() {
            let held = if matches!(tree, Value::Map(_)) { "nothing" } else { tree.kind_name() };
            let what = format!("{}: expected a map of sections, got {held}", file.display());
            return Err(Failure::refused(what).remedy("`dlio workloads show unet3d` prints an example"));
        }
        return Ok(WorkloadSource { name: name.to_string(), alias: None, tree, source: Some((file, lines)) });
    }
    let wanted = full_name(name);
    match WORKLOADS.iter().find(|(known, _)| *known == wanted) {
        Some((_, yaml)) => Ok(WorkloadSource {
            name: wanted.to_string(),
            alias: (wanted != name).then(|| name.to_string()),
            tree: parse_yaml(wanted, yaml)?,
            source: None,
        }),
        None => Err(unknown(name, config_dir)),
    }
}

/// Returns the sections of a file: they may be under `workload`, as in the configuration of a run.
fn without_root((tree, lines): (Value, Lines)) -> (Value, Lines) {
    match tree.entries() {
        [(root, Value::Map(_))] if root == "workload" => {
            let below = |(key, line): &(String, usize)| Some((key.strip_prefix("workload.")?.to_string(), *line));
            let lines = lines.iter().filter_map(below).collect();
            (tree.get("workload").cloned().unwrap_or_else(Value::empty), lines)
        }
        _ => (tree, lines),
    }
}

/// Returns the failure for a workload file that cannot be read.
fn unreadable(file: &Path, error: std::io::Error) -> Failure {
    let example = "`dlio workloads show unet3d` prints an example";
    match error.kind() {
        ErrorKind::NotFound => {
            let stem = file.file_stem().unwrap_or_default().to_string_lossy();
            let guess = if is_built_in(&stem) {
                format!("write workload={stem} for the built-in one; ")
            } else {
                String::new()
            };
            Failure::io("read", file, error).remedy(format!("{guess}`dlio workloads` lists the built-in workloads"))
        }
        ErrorKind::IsADirectory => Failure::refused(format!("cannot read {}: it is a directory", file.display()))
            .remedy(format!("pass a file, or a name and --config-dir {}", file.display())),
        ErrorKind::InvalidData => {
            Failure::refused(format!("cannot read {}: it is not a text file", file.display())).remedy(example)
        }
        _ => Failure::io("read", file, error),
    }
}

/// Returns the path of a workload given by its file: `job.yaml`, `./job`, `/home/me/job.yaml`.
fn own_file(name: &str) -> Option<PathBuf> {
    let is_path = name.contains('/') || [".yaml", ".yml", ".json"].iter().any(|ending| name.ends_with(ending));
    is_path.then(|| PathBuf::from(name))
}

fn file_in(dir: &Path, name: &str) -> Option<PathBuf> {
    let candidates = [dir.join("workload").join(format!("{name}.yaml")), dir.join(format!("{name}.yaml"))];
    candidates.into_iter().find(|file| file.is_file())
}

fn unknown(name: &str, config_dir: Option<&Path>) -> Failure {
    let names = WORKLOADS.iter().map(|(known, _)| *known).chain(ALIASES.iter().map(|(alias, _)| *alias));
    let guess = nearest(name, names).map(|near| format!("did you mean workload={near}? ")).unwrap_or_default();
    let why = config_dir
        .map_or_else(String::new, |dir| format!(": neither {} nor the built-in workloads contain it", dir.display()));
    if name.is_empty() {
        return Failure::refused("`workload=` names no workload")
            .remedy("`dlio workloads` lists the built-in workloads");
    }
    let file =
        if Path::new(name).is_file() { format!("write workload=./{name} for the file; ") } else { String::new() };
    Failure::refused(format!("unknown workload `{name}`{why}"))
        .remedy(format!("{guess}{file}`dlio workloads` lists the built-in workloads"))
}

/// Returns `true` if this is the name of a built-in workload.
pub fn is_built_in(name: &str) -> bool {
    WORKLOADS.iter().any(|(known, _)| *known == full_name(name))
}

/// The configuration as Hydra composes it: the tree under `workload`, and the settings of Hydra itself.
#[derive(Debug)]
pub struct Composed {
    pub found: WorkloadSource,
    /// The tree with interpolations resolved.
    pub workload: Value,
    /// The tree as written, for Hydra's files.
    pub written: Value,
    pub hydra: Value,
    /// Overrides without effect, and values that were dropped because of an override, one line each.
    pub ignored: Vec<String>,
    /// Unknown keys and values of a wrong type; refused, or warned about with `--lenient`.
    pub complaints: Vec<Failure>,
    /// The keys complained about, each with the number of its complaint.
    doubtful: Vec<(usize, String)>,
}

pub fn compose(overrides: &[Override], config_dir: Option<&Path>) -> Outcome<Composed> {
    let choices = || overrides.iter().filter(|typed| typed.key == "workload");
    choices().try_for_each(choice_of_workload)?;
    if let Some(first) = choices().next()
        && let Some(other) = choices().find(|typed| typed.value() != first.value())
    {
        let what = format!("`{}` and `{}`: a run has exactly one workload", first.typed, other.typed);
        return Err(Failure::refused(what).remedy("remove one of them; --multirun runs workload=A,B"));
    }
    let name =
        overrides.iter().rev().find(|typed| typed.key == "workload").map_or("default".into(), |typed| {
            match typed.value() {
                Value::Text(name) => name.clone(),
                other => other.inline(),
            }
        });
    if let Some(folder) = config_dir.filter(|folder| !folder.is_dir()) {
        let what = format!("--config-dir {}: no such directory", folder.display());
        return Err(Failure::refused(what).remedy("pass a directory with workload/NAME.yaml, or omit the option"));
    }
    let found = find(&name, config_dir)?;
    let mut composed = Composed {
        workload: Value::empty(),
        written: renamed(&found.tree),
        found,
        hydra: Value::empty(),
        ignored: Vec::new(),
        complaints: Vec::new(),
        doubtful: Vec::new(),
    };
    for typed in overrides {
        composed.apply(typed)?;
    }
    composed.resolve()?;
    composed.complain(overrides);
    Ok(composed)
}

/// Refuses to add a workload: one always exists and can only be replaced.
fn choice_of_workload(typed: &Override) -> Outcome<()> {
    if typed.action == Action::Change {
        return Ok(());
    }
    let name = if typed.values.is_empty() { "NAME".into() } else { typed.value().inline() };
    let what = format!("cannot apply `{}`: a run has exactly one workload", typed.typed);
    Err(Failure::refused(what).remedy(format!("write workload={name}")))
}

/// The keys of Hydra's own configuration that have a meaning here.
const HYDRA_KEYS: &[&str] = &["hydra.run.dir", "hydra.sweep.dir", "hydra.output_subdir"];

/// Returns the tree with current names.
pub fn renamed(tree: &Value) -> Value {
    let mut renamed = Value::empty();
    let mut put = |path: &str, value: Value| renamed.put(&path.split('.').collect::<Vec<_>>(), value);
    for (path, value) in tree.leaves() {
        if let Some((key, implied)) = keys::implied(&path) {
            put(key, Value::Text(implied.into()));
        }
        match value {
            Value::Map(_) | Value::Null => put(&keys::present_name(&path), value.clone()),
            _ => put(&keys::present_name_of_value(&path), value.clone()),
        }
    }
    renamed
}

impl Composed {
    fn apply(&mut self, typed: &Override) -> Outcome<()> {
        match typed.path().as_slice() {
            ["workload"] => Ok(()),
            [first, ..] if *first == "hydra" || first.starts_with("hydra/") => {
                self.set_hydra_key(typed);
                Ok(())
            }
            ["workload", ..] => {
                self.note_without_effect(typed);
                self.change(typed)
            }
            _ => {
                self.complaints.push(unknown_key(&typed.typed, &typed.key));
                Ok(())
            }
        }
    }

    fn set_hydra_key(&mut self, typed: &Override) {
        if let ["hydra", rest @ ..] = typed.path().as_slice() {
            self.hydra.put(rest, typed.value().clone());
        }
        if !HYDRA_KEYS.contains(&typed.key.as_str()) {
            self.ignored.push(format!("`{}` is a setting of Hydra and has no effect", typed.typed));
        }
    }

    /// Notes an override without effect. Workload files are full of such keys, so those are not reported.
    fn note_without_effect(&mut self, typed: &Override) {
        let path = keys::present_name(typed.key.strip_prefix("workload.").unwrap_or_default());
        if let Some(key) = keys::find(&path).filter(|key| key.affects == keys::NOTHING) {
            self.ignored.push(format!("`{}` has no effect: {}", typed.typed, key.meaning));
        }
    }

    /// Resolves interpolations, and reads Python's `None` as YAML's null.
    fn resolve(&mut self) -> Outcome<()> {
        let hydra = self.hydra.clone();
        let root = Value::Map(vec![("workload".into(), self.written.clone()), ("hydra".into(), hydra)]);
        self.workload = interpolation::resolved(&root, &self.written, &["workload"])?;
        let nothing = |(path, value): (String, &Value)| {
            let takes_text = keys::find(&path).is_none_or(|key| key.kind == keys::Kind::Text && key.default != "null");
            (*value == Value::Text("None".into()) && !takes_text).then_some(path)
        };
        let paths: Vec<String> = self.workload.leaves().into_iter().filter_map(nothing).collect();
        for path in paths {
            self.workload.put(&path.split('.').collect::<Vec<_>>(), Value::Null);
        }
        Ok(())
    }

    fn change(&mut self, typed: &Override) -> Outcome<()> {
        let path = keys::present_name(typed.key.strip_prefix("workload.").unwrap_or_default());
        let path: Vec<&str> = path.split('.').collect();
        let present = self.written.at(&path).is_some();
        match typed.action {
            Action::Add if present => {
                let remedy = format!("write ++{}=… to change it", typed.key);
                return Err(
                    Failure::refused(format!("`{}`: the workload already has this key", typed.typed)).remedy(remedy)
                );
            }
            Action::Remove if present && !typed.values.is_empty() && self.written.at(&path) != Some(typed.value()) => {
                let there = self.written.at(&path).map(Value::inline).unwrap_or_default();
                let what = format!("cannot remove `{}`: its value is {there}", typed.typed);
                return Err(Failure::refused(what).remedy(format!("write ~{} to remove it with any value", typed.key)));
            }
            Action::Remove if !self.written.remove(&path) => {
                return Err(Failure::refused(format!("`{}`: the workload does not have this key", typed.typed)));
            }
            Action::Remove => {}
            _ => {
                if typed.action == Action::Change && !present && keys::find(&path.join(".")).is_some() {
                    let note = "the workload does not have this key, so Hydra would reject it without + or ++";
                    self.ignored.push(format!("`{}`: {note}", typed.typed));
                }
                let mut upper = Value::empty();
                let as_typed = typed.key.strip_prefix("workload.").unwrap_or_default();
                upper.put(&as_typed.split('.').collect::<Vec<_>>(), typed.value().clone());
                let upper = renamed(&upper);
                self.leave_distributions(&upper, &typed.typed);
                self.written.merge(upper);
            }
        }
        Ok(())
    }

    /// Removes the numbers of a distribution in the file that another distribution replaces: merging the two would give
    /// neither. Numbers given on the command line remain, to be refused if the new distribution does not accept them.
    fn leave_distributions(&mut self, upper: &Value, typed: &str) {
        let file = renamed(&self.found.tree);
        for key in keys::KEYS.iter().filter(|key| key.kind == Kind::Time) {
            let path: Vec<&str> = key.path.split('.').collect();
            let (Some(new), Some(old)) = (upper.at(&path), file.at(&path)) else { continue };
            let (kind, before) = (compute_time::kind_of(new), compute_time::kind_of(old));
            let Some(names) = compute_time::names_of(kind).filter(|_| new.get("type").is_some() && kind != before)
            else {
                continue;
            };
            let others = old.entries().iter().map(|(name, _)| name.as_str());
            let others = others.filter(|name| *name != "type" && !names.contains(name) && new.get(name).is_none());
            let gone: Vec<&str> = others.filter(|name| self.written.remove(&[&path[..], &[*name]].concat())).collect();
            if !gone.is_empty() {
                let gone = gone.join(" and ");
                self.ignored.push(format!("`{typed}` replaces a {before} distribution; dropped: {gone}"));
            }
        }
    }

    /// Removes every key complained about, and returns the complaints for the caller to report.
    pub fn take_complaints(&mut self) -> Vec<Failure> {
        let doubtful = std::mem::take(&mut self.doubtful);
        for (_, path) in &doubtful {
            let path: Vec<&str> = path.split('.').collect();
            self.workload.remove(&path);
            self.written.remove(&path);
        }
        for (number, path) in &doubtful {
            let size = self.size_without(path).unwrap_or_default();
            self.complaints[*number].what += &size;
        }
        std::mem::take(&mut self.complaints)
    }

    /// Returns what determines the size of checkpoints when a key meant for that is dropped.
    fn size_without(&self, path: &str) -> Option<String> {
        let says = |path: &str| self.workload.at(&path.split('.').collect::<Vec<_>>());
        let key = keys::of_checkpoint_size(path)?;
        if says("workflow.checkpoint") != Some(&Value::Bool(true)) {
            return None;
        }
        let value = says(key.path).map_or_else(|| key.default.to_string(), Value::inline);
        Some(format!("; workload.{}={value} determines the size of checkpoints", key.path))
    }

    fn complain(&mut self, overrides: &[Override]) {
        for (path, value) in self.workload.leaves() {
            let typed = format!("workload.{path}");
            // Command-line overrides take precedence over the file.
            let is_typed = |key: &str| {
                let key = keys::present_name(key.strip_prefix("workload.").unwrap_or(key));
                path.strip_prefix(&key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            let is_typed = overrides.iter().any(|over| over.key != "workload" && is_typed(&over.key));
            let place = self.found.place(&path).filter(|_| !is_typed);
            let place = place.map(|place| place + ": ").unwrap_or_default();
            let before = self.complaints.len();
            match keys::find(&path) {
                None if value.entries().is_empty()
                    && matches!(value, Value::Map(_) | Value::Null)
                    && keys::is_section(&path) => {}
                None if keys::is_section(&path) => {
                    let what = format!("`{typed}`: expected a map of keys, got {}", value.kind_name());
                    let remedy = format!("`dlio workloads explain {path}` lists its keys");
                    self.complaints.push(Failure::refused(what).remedy(remedy).at(&place));
                }
                None => self.complaints.push(unknown_key(&typed, &typed).at(&place)),
                Some(key) if key.path != path => {}
                Some(key) => {
                    if let Some(complaint) = keys::complaint(key, value).or_else(|| unknown_format(key, value)) {
                        let remedy = format!("`dlio workloads explain {path}` explains it");
                        self.complaints
                            .push(Failure::refused(format!("{typed}: {complaint}")).remedy(remedy).at(&place));
                    }
                }
            }
            if self.complaints.len() > before {
                self.doubtful.push((before, path));
            }
        }
    }
}

fn unknown_format(key: &Key, value: &Value) -> Option<String> {
    let names = formats::names();
    match (key.kind, value) {
        (Kind::Format, Value::Text(name)) if !names.contains(&name.as_str()) => Some(keys::none_of(name, &names)),
        _ => None,
    }
}

fn unknown_key(typed: &str, key: &str) -> Failure {
    let bare = key.strip_prefix("workload.").unwrap_or(key);
    let remedy = match keys::suggestion(bare) {
        Some(near) => format!("did you mean workload.{near}? (--lenient ignores unknown keys)"),
        None => "`dlio workloads explain` lists the keys; --lenient ignores unknown ones".into(),
    };
    Failure::refused(format!("`{typed}`: unknown key")).remedy(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::grammar::parse;

    fn composed(typed: &[&str]) -> Outcome<Composed> {
        let overrides: Vec<_> = typed.iter().map(|text| parse(text).unwrap()).collect();
        compose(&overrides, None)
    }

    #[test]
    fn built_in_workloads_have_known_keys_only() {
        for (name, _) in WORKLOADS {
            let composed = composed(&[&format!("workload={name}")]).unwrap();
            assert!(composed.complaints.is_empty(), "{name}: {:?}", composed.complaints);
        }
    }

    #[test]
    fn rejects_missing_directory_and_empty_file() {
        let folder = tempfile::tempdir().unwrap();
        let typed = [parse("workload=unet3d").unwrap()];
        let refused = compose(&typed, Some(&folder.path().join("nowhere"))).unwrap_err();
        assert!(refused.what.contains("nowhere: no such directory"), "{refused}");
        assert!(compose(&typed, Some(folder.path())).is_ok());
        for text in ["", "# nothing\n", "{}", "---\n", "null"] {
            std::fs::write(folder.path().join("unet3d.yaml"), text).unwrap();
            let refused = compose(&typed, Some(folder.path())).unwrap_err();
            assert!(refused.what.contains("unet3d.yaml: expected a map of sections"), "{text:?}: {refused}");
        }
    }

    #[test]
    fn file_mistakes_name_the_next_step() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str, bytes: &[u8]| {
            let file = folder.path().join(name);
            std::fs::write(&file, bytes).unwrap();
            file.display().to_string()
        };
        let refused = |name: &str| composed(&[&format!("workload={name}")]).map(|_| ()).unwrap_err();
        assert!(refused("nowhere/unet3d.yml").remedy.contains("write workload=unet3d"));
        assert!(refused(&folder.path().display().to_string()).to_string().contains("--config-dir"));
        let binary = refused(&at("binary.yaml", &[0xff, 0xfe, 0]));
        assert!(binary.what.ends_with("it is not a text file") && binary.exit_code() == 2, "{binary}");
        assert!(refused("UNET3D").remedy.contains("workload=unet3d"));
        assert!(refused("").what.contains("names no workload"));
        let two = composed(&["workload=unet3d", "workload=resnet50"]).unwrap_err();
        assert!(two.what.contains("exactly one workload"), "{two}");
        assert!(composed(&["workload=unet3d", "workload=unet3d"]).is_ok());
        let file = at("list.yaml", b"model: {name: x}\ndataset: []\n");
        let list = composed(&[&format!("workload={file}")]).unwrap();
        assert!(list.complaints[0].what.ends_with("line 2: `workload.dataset`: expected a map of keys, got a list"));
        let file = at(
            "job.json",
            b"{\"workload\": {\"model\": {\"name\": \"x\"},\n \"dataset\": {\"format\": \"npy\", \"a\": 1}}}",
        );
        let root = composed(&[&format!("workload={file}")]).unwrap();
        assert_eq!(root.workload.at(&["dataset", "format"]), Some(&Value::Text("npy".into())));
        assert!(root.complaints[0].what.contains("job.json, line 2: `workload.dataset.a`"), "{}", root.complaints[0]);
    }

    #[test]
    fn every_alias_leads_to_a_workload() {
        for (alias, target) in ALIASES {
            let found = find(alias, None).unwrap();
            assert_eq!((found.name.as_str(), found.alias.as_deref()), (*target, Some(*alias)));
        }
    }

    #[test]
    fn a_misspelt_key_is_refused_with_the_right_one() {
        let composed = composed(&["workload=unet3d", "++workload.reader.batchsize=9"]).unwrap();
        assert_eq!(composed.complaints.len(), 1);
        assert!(composed.complaints[0].to_string().contains("workload.reader.batch_size"));
    }

    #[test]
    fn errors_in_files_have_line_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("job.yaml");
        std::fs::write(&file, "model:\n  name: x\ndataset:\n  num_files_trian: 1\n  num_files_train: many\n").unwrap();
        let name = file.display().to_string();
        let complaints = |more: &[&str]| {
            let workload = format!("workload={name}");
            let typed: Vec<&str> = [workload.as_str()].into_iter().chain(more.iter().copied()).collect();
            composed(&typed).unwrap().complaints.into_iter().map(|failure| failure.what).collect::<Vec<_>>()
        };
        let [misspelt, wrong] = &complaints(&[])[..] else { panic!("two complaints") };
        assert!(misspelt.starts_with(&format!("{name}, line 4: `workload.dataset.num_files_trian`")), "{misspelt}");
        assert!(wrong.starts_with(&format!("{name}, line 5: workload.dataset.num_files_train: ")), "{wrong}");
        let typed = complaints(&["++workload.dataset.num_files_train=few"]);
        assert!(typed[1].starts_with("workload.dataset.num_files_train: "), "{typed:?}");
    }

    #[test]
    fn the_key_shipped_files_spell_model_size_counts() {
        let composed = composed(&["workload=unet3d_h100", "++workload.model.model_size=1000"]).unwrap();
        assert!(composed.complaints.is_empty());
        assert_eq!(composed.workload.at(&["model", "model_size_bytes"]), Some(&Value::Int(1000)));
    }

    /// A workload as DLIO 2.0.0 ships it.
    #[test]
    fn old_key_names_keep_their_meaning() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("unet3d.yaml");
        let checkpoint = "checkpoint: {model_size: 499153191, checkpoint_folder: 'c/${workload.model}'}";
        let old = format!("model: old\nworkflow: {{do_eval: True}}\ndataset: {{record_length: 5}}\n{checkpoint}\n");
        std::fs::write(&file, old).unwrap();
        let at = |typed: &[&str], path: &[&str]| {
            let overrides: Vec<_> = typed.iter().map(|text| parse(text).unwrap()).collect();
            let composed = compose(&overrides, Some(folder.path())).unwrap();
            assert!(composed.complaints.is_empty(), "{:?}", composed.complaints);
            composed.workload.at(path).cloned()
        };
        let text = |text: &str| Some(Value::Text(text.into()));
        assert_eq!(at(&["workload=unet3d"], &["model", "name"]), text("old"));
        assert_eq!(at(&["workload=unet3d"], &["model", "model_size_bytes"]), Some(Value::Int(499_153_191)));
        assert_eq!(at(&["workload=unet3d"], &["checkpoint", "model_size"]), None);
        assert_eq!(at(&["workload=unet3d"], &["checkpoint", "checkpoint_folder"]), text("c/old"));
        let typed = ["workload=unet3d", "++workload.model=new", "++workload.checkpoint.model_size=7"];
        assert_eq!(at(&typed, &["model", "name"]), text("new"));
        assert_eq!(at(&typed, &["model", "model_size_bytes"]), Some(Value::Int(7)));
        assert_eq!(at(&["workload=unet3d", "++workload.model={name: new}"], &["model", "name"]), text("new"));
        assert_eq!(at(&["workload=unet3d"], &["checkpoint", "files"]), None);
    }

    #[test]
    fn dropped_size_key_names_the_effective_one() {
        let typed = ["workload=unet3d", "++workload.checkpoint.modelsize=7", "++workload.reader.batchsize=1"];
        let left_out = composed(&typed).unwrap().take_complaints();
        let size = "; workload.model.model_size_bytes=499153191 determines the size of checkpoints";
        assert!(left_out[0].what.ends_with(size) != left_out[1].what.ends_with(size), "{left_out:?}");
        let without = composed(&[&typed[..], &["++workload.workflow.checkpoint=false"]].concat());
        assert!(without.unwrap().take_complaints().iter().all(|failure| !failure.what.contains("determines the size")));
    }

    #[test]
    fn an_unknown_workload_is_refused_with_the_nearest() {
        assert!(find("unet3", None).unwrap_err().to_string().contains("workload=unet3d"));
    }

    #[test]
    fn adding_existing_key_fails_and_forcing_works() {
        assert!(composed(&["workload=unet3d", "+workload.reader.batch_size=9"]).is_err());
        let forced = composed(&["workload=unet3d", "++workload.reader.batch_size=9"]).unwrap();
        assert_eq!(forced.workload.at(&["reader", "batch_size"]), Some(&Value::Int(9)));
    }

    #[test]
    fn a_map_given_for_a_section_is_merged_into_it() {
        let merged = composed(&["workload=unet3d", "++workload.reader={batch_size: 2}"]).unwrap();
        assert_eq!(merged.workload.at(&["reader", "batch_size"]), Some(&Value::Int(2)));
        assert_eq!(merged.workload.at(&["reader", "read_threads"]), Some(&Value::Int(4)));
    }

    #[test]
    fn reference_is_kept_as_written_and_resolved() {
        let folder = "++workload.dataset.data_folder=data/${workload.model.name}";
        let found =
            composed(&["workload=unet3d", folder, "++workload.reader.batch_size=${workload.train.epochs}"]).unwrap();
        assert_eq!(found.workload.at(&["dataset", "data_folder"]), Some(&Value::Text("data/unet3d".into())));
        assert_eq!(found.workload.at(&["reader", "batch_size"]), Some(&Value::Int(5)));
        assert!(found.written.to_yaml().contains("data/${workload.model.name}"));
        assert!(found.complaints.is_empty(), "{:?}", found.complaints);
    }

    #[test]
    fn a_distribution_typed_over_another_takes_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("job.yaml");
        let time = "{type: gamma, shape: 2, scale: 0.005}";
        std::fs::write(&file, format!("model: {{name: x}}\ntrain: {{computation_time: {time}}}\n")).unwrap();
        let time = |typed: &[&str]| {
            let workload = format!("workload={}", file.display());
            let typed: Vec<&str> = [workload.as_str()].into_iter().chain(typed.iter().copied()).collect();
            let composed = composed(&typed).unwrap();
            let time = composed.workload.at(&["train", "computation_time"]).unwrap();
            (compute_time::Spread::read("train.computation_time", time, 0.0), composed.ignored)
        };
        let typed = |text: &str| format!("++workload.train.computation_time{text}");
        let uniform = typed("={type: uniform, min: 0.01, max: 0.02}");
        let (spread, notes) = time(&[&uniform]);
        assert_eq!(spread.unwrap(), compute_time::Spread::Uniform { min: 0.01, max: 0.02 });
        assert!(notes.len() == 1 && notes[0].ends_with("a gamma distribution; dropped: shape and scale"), "{notes:?}");
        let (spread, _) = time(&[&typed(".min=1"), &typed(".type=uniform"), &typed(".max=2")]);
        assert_eq!(spread.unwrap(), compute_time::Spread::Uniform { min: 1.0, max: 2.0 });
        // Values in both remain, as Hydra merges them.
        let (spread, notes) = time(&[&typed("={type: exponential}")]);
        assert_eq!(spread.unwrap(), compute_time::Spread::Exponential { scale: 0.005 });
        assert!(notes[0].ends_with("dropped: shape"), "{notes:?}");
        for wrong in ["={type: uniform, min: 1, max: 2, shape: 2}", ".lam=3", "={type: gamma, min: 1}"] {
            assert!(time(&[&typed(wrong)]).0.is_err(), "{wrong}");
        }
    }

    #[test]
    fn pythons_none_is_unset_except_for_names() {
        let typed = ["workload=unet3d", "++workload.reader.multiprocessing_context=None", "++workload.model.name=None"];
        let found = composed(&[&typed[..], &["++workload.reader.transfer_size=None"]].concat()).unwrap();
        assert!(found.complaints.is_empty(), "{:?}", found.complaints);
        assert_eq!(found.workload.at(&["model", "name"]), Some(&Value::Text("None".into())));
    }

    #[test]
    fn unknown_format_is_rejected_with_known_ones() {
        let found = composed(&["workload=unet3d", "++workload.dataset.format=hdf"]).unwrap();
        let [complaint] = &found.complaints[..] else { panic!("{:?}", found.complaints) };
        assert!(
            complaint.what.contains("one of npz, npy") && complaint.what.contains("did you mean hdf5?"),
            "{complaint}"
        );
    }

    #[test]
    fn overrides_without_effect_are_noted() {
        let typed = ["workload=unet3d", "++hydra.run.dir=x", "hydra.job.chdir=true", "hydra/job_logging=disabled"];
        let found = composed(&[&typed[..], &["++workload.reader.pin_memory=false"]].concat()).unwrap();
        assert!(found.complaints.is_empty(), "{:?}", found.complaints);
        assert_eq!(found.ignored.len(), 3, "{:?}", found.ignored);
        assert!(found.ignored[0].contains("hydra.job.chdir") && found.ignored[2].contains("no device to pin"));
    }

    #[test]
    fn removes_key_by_value_and_chooses_workload_once() {
        let refused = |typed: &str| composed(&["workload=unet3d", typed]).unwrap_err().to_string();
        assert!(refused("~workload.reader.batch_size=77").contains("its value is 7"));
        assert!(composed(&["workload=unet3d", "~workload.reader.batch_size=7"]).is_ok());
        assert!(composed(&["workload=unet3d", "~workload.reader.batch_size"]).is_ok());
        for typed in ["+workload=resnet50", "++workload=resnet50"] {
            assert!(refused(typed).contains("write workload=resnet50"), "{typed}");
        }
        assert!(refused("~workload").contains("write workload=NAME"));
        let notes = |typed: &str| composed(&["workload=unet3d", typed]).unwrap().ignored.join("\n");
        assert!(notes("workload.reader.transfer_size=7").contains("without + or ++"));
        assert_eq!(notes("++workload.reader.transfer_size=7") + &notes("workload.reader.batch_size=3"), "");
    }

    #[test]
    fn hydra_settings_are_kept_separately() {
        let found =
            composed(&["workload=unet3d", "++hydra.run.dir=/tmp/x", "hydra.output_subdir=dlio_config"]).unwrap();
        assert_eq!(found.hydra.at(&["run", "dir"]), Some(&Value::Text("/tmp/x".into())));
        assert!(found.complaints.is_empty());
    }
}
