//! The results, and the version and division they are checked for.

use crate::check::edition::{Division, Version};
use crate::check::results::{GENERATION_LOGS, Results, Workload};
use crate::check::run::Run;

pub struct Case<'a> {
    pub results: &'a Results,
    pub version: Version,
    /// The division of all workloads; by default, of each its own.
    pub division: Option<Division>,
    /// Memory of each host in GiB, if the user gave it.
    pub memory: Option<f64>,
    /// The tree is one run, so that rules about several cannot be decided.
    pub one_run: bool,
}

/// The action for a rule that needs more than one run.
pub const ALL_RUNS: &str = "check the directory that contains all runs of the workload";

/// The action for a rule about a whole submission.
pub const WHOLE_SUBMISSION: &str = "check the directory of the submission, which contains `closed` or `open`";

impl Case<'_> {
    /// Returns the memory of all hosts of a run in GiB.
    pub fn memory(&self, run: &Run) -> Option<f64> {
        match self.memory {
            Some(each) => Some(each * run.hosts().unwrap_or(1) as f64),
            None => run.memory(),
        }
    }

    pub fn division_of(&self, workload: &Workload) -> Division {
        self.division.or(workload.division).unwrap_or(Division::Closed)
    }
}

/// Returns `true` if a submission to version 2 has a directory for the logs of all generations.
pub fn has_generation_logs(case: &Case, workload: &Workload) -> bool {
    let above = |run: &Run| run.folder.ancestors().any(|above| above.join(GENERATION_LOGS).is_dir());
    case.version == Version::V2 && workload.runs.iter().any(|(_, run)| above(run))
}

/// Returns the name of a run with a text about it.
pub fn of(run: &Run, what: impl std::fmt::Display) -> String {
    format!("{}: {what}", run.name)
}

/// Texts about runs; a text that several runs share is listed once.
#[derive(Default)]
pub struct ByText(Vec<(String, Vec<String>)>);

impl ByText {
    pub fn add(&mut self, run: &Run, text: impl Into<String>) {
        let text = text.into();
        match self.0.iter_mut().find(|(known, _)| *known == text) {
            Some((_, runs)) => runs.push(run.name.clone()),
            None => self.0.push((text, vec![run.name.clone()])),
        }
    }

    pub fn list(self) -> Vec<String> {
        let line = |(text, runs): (String, Vec<String>)| match runs.as_slice() {
            [one] => format!("{one}: {text}"),
            [first, second] => format!("{first} and {second}: {text}"),
            _ => format!("{} and {} other runs: {text}", runs[0], runs.len() - 1),
        };
        self.0.into_iter().map(line).collect()
    }
}

/// Returns the smallest and the largest of some numbers.
pub fn range(numbers: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    numbers.fold(None, |range, number| match range {
        Some((low, high)) => Some((f64::min(low, number), f64::max(high, number))),
        None => Some((number, number)),
    })
}

/// Returns the only value, or `None` if there is none or they differ.
pub fn agreed<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}
