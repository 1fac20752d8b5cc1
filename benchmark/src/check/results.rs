//! The runs below a directory, by workload, in any layout:
//!
//! ```text
//! closed/ORG/results/SYSTEM/training/MODEL/run/TIME      a submission to version 3
//! training/MODEL/run/TIME, checkpointing/MODEL/TIME      results of MLPerf's program
//! SYSTEM/unet3d-h100/runs/run1/HOST                      results of version 1.0
//! hydra_log/MODEL/TIME                                   runs of DLIO and `dlio bench`
//! ```

use super::edition::{self, Division, Version};
use super::run::{CONFIG_FOLDERS, Phase, Run, names};
use super::value::timestamp;
use crate::failure::{Failure, Outcome};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Training,
    Checkpointing,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Training => "training",
            Kind::Checkpointing => "checkpointing",
        }
    }
}

/// The runs of a model on a system.
#[derive(Debug)]
pub struct Workload {
    pub kind: Kind,
    pub model: String,
    /// The accelerator, if a directory such as `unet3d-h100` names it.
    pub variant: Option<String>,
    pub division: Option<Division>,
    pub submitter: Option<String>,
    pub system: Option<String>,
    /// The directory of the model, if the layout has one.
    pub folder: Option<PathBuf>,
    /// In the order of their times.
    pub runs: Vec<(Phase, Run)>,
}

/// The directory of a submitter in a submission.
#[derive(Debug)]
pub struct Submitter {
    pub division: Division,
    pub name: String,
    pub folder: PathBuf,
}

#[derive(Debug)]
pub struct Results {
    pub root: PathBuf,
    pub workloads: Vec<Workload>,
    /// Empty if the directory is not a submission.
    pub submitters: Vec<Submitter>,
    /// Directories of benchmarks that are not checked here.
    pub other_benchmarks: Vec<String>,
}

impl Workload {
    pub fn of(&self, phase: Phase) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |(of, _)| *of == phase).map(|(_, run)| run)
    }

    /// Returns the runs that a result consists of.
    pub fn measured(&self) -> Vec<&Run> {
        self.of(Phase::Run).collect()
    }

    pub fn accelerators(&self) -> Vec<String> {
        let mut found: Vec<String> = self.of(Phase::Run).filter_map(Run::accelerator).collect();
        found.sort();
        found.dedup();
        found
    }

    pub fn label(&self) -> String {
        let system = self.system.as_ref().map(|system| format!(" on {system}")).unwrap_or_default();
        let variant = self.variant.as_ref().map(|variant| format!("-{variant}")).unwrap_or_default();
        format!("{}/{}{variant}{system}", self.kind.name(), self.model)
    }

    /// Returns every version that a file of the workload points to, with the reason.
    pub fn versions(&self) -> Vec<(Version, String)> {
        let mut found = Vec::new();
        for (_, run) in &self.runs {
            let edition = run.provenance.get("rules_edition").and_then(|edition| edition.as_str());
            match edition.and_then(|edition| edition.split('.').next()) {
                Some("2") => found.push((Version::V2, "provenance.json of rules 2".to_string())),
                Some("3") => found.push((Version::V3, "provenance.json of rules 3".to_string())),
                _ => {}
            }
            if run.metadata.get("invocation_start_time").is_some() {
                found.push((Version::V3, "metadata of mlpstorage 3".to_string()));
            } else if run.metadata.get("combined_params").is_some() {
                found.push((Version::V2, "metadata of mlpstorage 2".to_string()));
            }
            let words = [run.model(), run.accelerator()].into_iter().flatten();
            found.extend(words.filter_map(|word| Some((edition::version_of(&word)?, word))));
        }
        if let Some(version) = edition::version_of(&self.model) {
            found.push((version, self.model.clone()));
        }
        found.dedup();
        found
    }
}

/// The maximum depth of a layout below the given directory.
const DEPTH_MAX: usize = 12;

/// Logs of generations in a submission to version 2; their layout is free.
pub const GENERATION_LOGS: &str = "generation_logs";

/// Directories that contain no results.
const SKIPPED: [&str; 4] = ["code", "systems", "code-images", GENERATION_LOGS];

const OTHER_BENCHMARKS: [&str; 2] = ["vector_database", "kv_cache"];

impl Results {
    pub fn read(given: &Path) -> Outcome<Results> {
        let root = given.parent().filter(|_| given.is_file()).unwrap_or(given);
        let root = if root.as_os_str().is_empty() { Path::new(".") } else { root };
        let unread = |error| {
            Failure::refused(format!("cannot read the results in {}: {error}", root.display()))
                .remedy("pass the directory of a submission, of mlpstorage results, or of a run (hydra.run.dir)")
        };
        fs::read_dir(root).map_err(unread)?;
        // Parts above the given directory name division, system and model too.
        let absolute = fs::canonicalize(root).map_err(unread)?;
        let mut results = Results {
            root: root.into(),
            workloads: Vec::new(),
            submitters: submitters(root),
            other_benchmarks: Vec::new(),
        };
        results.walk(&absolute, 0);
        if results.workloads.is_empty() && results.submitters.is_empty() && results.other_benchmarks.is_empty() {
            let what = format!("cannot find results in {}: no directory has a summary.json", root.display());
            return Err(Failure::refused(what)
                .remedy("pass the directory of a submission, of mlpstorage results, or of a run (hydra.run.dir)"));
        }
        for workload in &mut results.workloads {
            workload.runs.sort_by(|(_, left), (_, right)| {
                let times = left.time().unwrap_or(f64::MAX).total_cmp(&right.time().unwrap_or(f64::MAX));
                times.then_with(|| left.folder.cmp(&right.folder))
            });
        }
        Ok(results)
    }

    fn walk(&mut self, folder: &Path, depth: usize) {
        let entries = names(folder);
        if is_run(folder, &entries) {
            return self.add(Run::read(folder));
        }
        if depth == DEPTH_MAX {
            return;
        }
        let mut found = Vec::new();
        for name in entries {
            let below = folder.join(&name);
            let is_folder = fs::symlink_metadata(&below).is_ok_and(|entry| entry.is_dir());
            let skipped = name.starts_with('.') || name.starts_with("code-") || SKIPPED.contains(&name.as_str());
            if !is_folder || skipped {
                continue;
            }
            if OTHER_BENCHMARKS.contains(&name.as_str()) {
                self.other_benchmarks.push(name);
            } else if is_run(&below, &names(&below)) {
                found.push(below);
            } else {
                self.walk(&below, depth + 1);
            }
        }
        // In version 1.0, each host of a run has a directory, and one of these directories contains the summary.
        let has_summary = |run: &PathBuf| run.join("summary.json").is_file();
        let of_host = |run: &PathBuf| !has_summary(run) && !is_timed(run);
        let of_hosts =
            found.iter().any(has_summary) && !found.iter().any(|run| Phase::parse(&file_name(run)).is_some());
        for run in found.iter().filter(|run| !(of_hosts && of_host(run) && !is_of_program(run))) {
            self.add(Run::read(run));
        }
    }

    fn add(&mut self, run: Run) {
        let place = Place::of(&run);
        let phase = place.phase.or(run.phase()).unwrap_or(Phase::Run);
        let known = self.workloads.iter_mut().find(|workload| {
            (workload.kind, &workload.model, workload.division) == (place.kind, &place.model, place.division)
                && workload.variant == place.variant
                && (&workload.submitter, &workload.system) == (&place.submitter, &place.system)
        });
        match known {
            Some(workload) => workload.runs.push((phase, run)),
            None => self.workloads.push(Workload {
                kind: place.kind,
                model: place.model,
                variant: place.variant,
                division: place.division,
                submitter: place.submitter,
                system: place.system,
                folder: place.folder,
                runs: vec![(phase, run)],
            }),
        }
    }

    pub fn is_submission(&self) -> bool {
        !self.submitters.is_empty()
    }

    /// Returns `true` if the directory is one run, which cannot show rules about several.
    pub fn is_one_run(&self) -> bool {
        let mut runs = self.workloads.iter().flat_map(|workload| &workload.runs);
        let first = runs.next().map(|(_, run)| run.folder.clone());
        runs.next().is_none() && first.is_some() && first == fs::canonicalize(&self.root).ok()
    }
}

fn file_name(folder: &Path) -> String {
    folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn is_timed(folder: &Path) -> bool {
    timestamp(&file_name(folder)).is_some()
}

/// Returns `true` if MLPerf's program wrote its metadata or logs there.
fn is_of_program(folder: &Path) -> bool {
    names(folder).iter().any(|name| name.ends_with("_metadata.json") || name.ends_with(".stdout.log"))
}

fn is_run(folder: &Path, entries: &BTreeSet<String>) -> bool {
    let has = |ending: &str| entries.iter().any(|name| name.ends_with(ending));
    let configured = CONFIG_FOLDERS.iter().any(|name| {
        let complete = ["config.yaml", "overrides.yaml"].iter().all(|file| folder.join(name).join(file).is_file());
        entries.contains(*name) && complete
    });
    // A directory of a run that left nothing is still a run.
    let parent = folder.parent().map(file_name).unwrap_or_default();
    let of_phase = Phase::parse(&parent).is_some() || edition::language_model(&parent).is_some();
    let known = entries.contains("summary.json") || has("_metadata.json") || has(".stdout.log");
    known || configured || is_timed(folder) && of_phase
}

/// The workload of a run, from its path and its files.
struct Place {
    kind: Kind,
    model: String,
    variant: Option<String>,
    phase: Option<Phase>,
    division: Option<Division>,
    submitter: Option<String>,
    system: Option<String>,
    folder: Option<PathBuf>,
}

impl Place {
    fn of(run: &Run) -> Place {
        let parts: Vec<String> = run.folder.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let part = |index: usize| parts.get(index).cloned();
        let below = parts.len().saturating_sub(DEPTH_MAX);
        let find = |wanted: &dyn Fn(&str) -> bool| (below..parts.len()).rev().find(|index| wanted(&parts[*index]));
        let kind = find(&|name| name == "training" || name == "checkpointing");
        let results = find(&|name| name == "results");
        // closed/ORG/results
        let division = results.and_then(|index| Division::parse(&part(index.checked_sub(2)?)?));
        let submitter = division.and_then(|_| part(results?.checked_sub(1)?));
        let system = division.and_then(|_| part(results? + 1));
        // Other directories may have these names too.
        let of_path = kind.filter(|index| match (parts[*index].as_str(), part(index + 1), part(index + 2)) {
            ("training", Some(_), Some(phase)) => Phase::parse(&phase).is_some(),
            (_, Some(model), Some(_)) => edition::language_model(&model).is_some() || timestamp(&run.name).is_some(),
            _ => false,
        });
        let of_version_1 = of_version_1(&parts);
        let variant = of_version_1.as_ref().map(|(_, accelerator)| accelerator.clone());
        let model = of_path.and_then(|index| part(index + 1)).or(of_version_1.map(|(model, _)| model));
        let model = model.or_else(|| run.model());
        let kind = match of_path.map(|index| parts[index].as_str()) {
            Some("checkpointing") => Kind::Checkpointing,
            Some(_) => Kind::Training,
            None if run.writes_checkpoints_only() => Kind::Checkpointing,
            None => Kind::Training,
        };
        let phase = of_path.filter(|_| kind == Kind::Training).and_then(|index| Phase::parse(&part(index + 2)?));
        Place {
            kind,
            model: model.unwrap_or_else(|| "unknown".into()),
            variant,
            phase,
            division: division.or(run.division()),
            submitter,
            system,
            folder: of_path.map(|index| parts[..index + 2].iter().collect()),
        }
    }
}

/// Returns model and accelerator of a directory such as `unet3d-h100`.
fn of_version_1(parts: &[String]) -> Option<(String, String)> {
    let named = |part: &String| {
        let lower = part.to_ascii_lowercase();
        let (model, accelerator) = lower.rsplit_once('-')?;
        let known = Version::V2.trained().iter().any(|(name, _)| *name == model);
        (known && Version::V2.accelerators().contains(&accelerator))
            .then(|| (model.to_string(), accelerator.to_string()))
    };
    parts.iter().rev().take(4).find_map(named)
}

/// Returns the submitters of a submission, which has a directory per division.
fn submitters(root: &Path) -> Vec<Submitter> {
    let mut found = Vec::new();
    for name in names(root) {
        let Some(division) = Division::parse(&name).filter(|_| root.join(&name).is_dir()) else { continue };
        let below = root.join(&name);
        let own = names(&below).into_iter().filter(|name| !name.starts_with('.') && below.join(name).is_dir());
        found.extend(own.map(|name| Submitter { division, folder: below.join(&name), name }));
    }
    found
}
