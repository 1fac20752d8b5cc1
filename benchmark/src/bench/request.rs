//! The parsed arguments, and the combinations of a sweep.

use crate::failure::{Failure, Outcome};
use crate::keys;
use crate::keys::grammar::{self, Override};
use crate::keys::value::Value;
use crate::training::loader::WorkerKind;
use crate::training::trainer;
use crate::workload::presets;
use dlio_schemas::words::nearest;
use std::path::PathBuf;
use std::time::Duration;

/// The parsed arguments.
#[derive(Debug, Clone)]
pub struct Request {
    /// The program's name as it was called, and the verb: how a suggested command starts.
    pub called: Vec<String>,
    pub overrides: Vec<String>,
    pub config_dir: Option<PathBuf>,
    /// Unknown keys are reported and dropped instead of refused.
    pub lenient: bool,
    pub training: trainer::Options,
    pub original_order: bool,
    pub workers: WorkerKind,
    pub verify: bool,
    pub regenerate: bool,
    pub ranks: u64,
    /// After this long at a barrier, missing ranks are reported.
    pub barrier_timeout: Duration,
    /// Several values of a key mean several runs.
    pub multirun: bool,
    /// Called by DLIO's own name: prints its lines and reads every key as DLIO does.
    pub as_original: bool,
    pub quiet: bool,
}

impl Request {
    pub(super) fn parsed(&self) -> Outcome<Vec<Override>> {
        parsed(&self.overrides)
    }

    /// Returns the program and the options that the overrides depend on.
    pub(super) fn command(&self) -> Vec<String> {
        let folder = self.config_dir.iter().flat_map(|folder| ["--config-dir".into(), folder.display().to_string()]);
        let lenient = self.lenient.then(|| "--lenient".to_string());
        self.called.iter().cloned().chain(folder).chain(lenient).collect()
    }
}

/// Parses overrides. The refusal of a word without a value contains its probable meaning.
pub(super) fn parsed(overrides: &[String]) -> Outcome<Vec<Override>> {
    let before = |word: &String| {
        let arguments: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        arguments.windows(2).find(|pair| pair[1] == *word).map(|pair| pair[0].clone())
    };
    let parse = |text: &String| {
        grammar::parse(text).map_err(|failure| match meant(text, before(text).as_deref()) {
            Some(meant) if !text.contains('=') => failure.remedy(meant),
            _ => failure,
        })
    };
    overrides.iter().map(parse).collect()
}

/// Subcommands of `dlio bench`.
const SUBCOMMANDS: [&str; 3] = ["report", "size", "ranks"];

/// Returns the correct form of a word without `=`, if its meaning can be guessed. `before` is the argument in front of the word.
fn meant(word: &str, before: Option<&str>) -> Option<String> {
    if let Some(option @ ("--trace" | "--compare-layouts")) = before {
        return Some(format!("write {option}={word}"));
    }
    let key = word.trim_start_matches(['+', '~']);
    let path = keys::present_name(key.strip_prefix("workload.").unwrap_or(key));
    match key {
        "workload" => Some("write workload=NAME, without blanks; `dlio workloads` lists the names".into()),
        _ if presets::is_built_in(word) => Some(format!("write workload={word}")),
        _ if keys::find(&path).is_some() => Some(format!("write ++workload.{path}=VALUE, without blanks")),
        _ => nearest(word, SUBCOMMANDS.into_iter()).map(|near| format!("did you mean `dlio bench {near}`?")),
    }
}

/// Returns the overrides of each run: one, or one per combination of a sweep.
pub(super) fn combinations(typed: &[Override], multirun: bool) -> Outcome<Vec<Vec<Override>>> {
    if let Some(sweep) = typed.iter().find(|typed| typed.values.len() > 1 && !multirun) {
        let what = format!("`{}` has several values", sweep.typed);
        return Err(Failure::refused(what)
            .remedy("quote a single value, write a list as [a,b], or add --multirun for one run per value"));
    }
    let runs = typed.iter().fold(1usize, |runs, typed| runs.saturating_mul(typed.values.len().max(1)));
    if runs > grammar::SWEEP_MAX {
        return Err(Failure::refused(format!(
            "the sweep has {runs} runs; at most {} are supported",
            grammar::SWEEP_MAX
        )));
    }
    let mut all: Vec<Vec<Override>> = vec![Vec::new()];
    for typed in typed {
        let variants: Vec<Override> = match typed.values.len() {
            0 | 1 => vec![typed.clone()],
            _ => typed.values.iter().map(|value| one_of(typed, value)).collect(),
        };
        all = all
            .iter()
            .flat_map(|before| variants.iter().map(|variant| [before.clone(), vec![variant.clone()]].concat()))
            .collect();
    }
    Ok(all)
}

fn one_of(sweep: &Override, value: &Value) -> Override {
    let key = sweep.typed.split('=').next().unwrap_or_default();
    Override { typed: format!("{key}={}", value.inline()), values: vec![value.clone()], ..sweep.clone() }
}

/// Returns a directory that all hosts of a run see: the requested one for the results, or the working directory.
pub fn shared_folder(request: &Request) -> PathBuf {
    let place = |typed: &Override| match &typed.values[..] {
        [Value::Text(folder)] if !folder.contains("${") => Some(PathBuf::from(folder)),
        _ => None,
    };
    let folders = ["hydra.run.dir", "workload.output.folder"];
    let typed = request.overrides.iter().rev().filter_map(|text| grammar::parse(text).ok());
    let found = typed.filter(|typed| folders.contains(&typed.key.as_str())).find_map(|typed| place(&typed));
    found.unwrap_or_else(|| PathBuf::from("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_without_value_are_refused_with_the_right_form() {
        for (word, expected) in [
            ("unet3d", "write workload=unet3d"),
            ("workload", "workload=NAME"),
            ("++workload.dataset.num_files_train", "write ++workload.dataset.num_files_train=VALUE"),
            ("rank", "`dlio bench ranks`"),
        ] {
            let failure = parsed(&[word.into()]).unwrap_err();
            assert!(failure.remedy.contains(expected), "{failure}");
        }
        assert_eq!(meant("mine", Some("--trace")).as_deref(), Some("write --trace=mine"));
        assert!(parsed(&["k=[1".into()]).unwrap_err().remedy.contains("quote values"));
    }
}
