//! The metrics of a run that are compared, read from a report of any version.
//!
//! A metric that an old report lacks is unknown, never zero.

use serde::Deserialize;

use super::statistics::{Location, Weighted};
use crate::replay::predict::Replay;
use crate::summary::report::runs;
use crate::summary::report::steps::StepPart;
use crate::summary::report::timeline::Timeline;

/// The schema name at the start of every readable report.
pub const SCHEMA: &str = "dlio-summary";

#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct Run {
    /// The path that was given on the command line.
    #[serde(skip)]
    pub typed: String,
    pub schema: String,
    pub version: u32,
    pub headline: Headline,
    pub runs: Vec<runs::Run>,
    pub training: Vec<Trainer>,
    pub allocation: Allocation,
    pub dataset: Dataset,
    pub time: Time,
    pub timeline: Timeline,
    pub functions: Vec<Function>,
    pub past_files: Vec<Function>,
    pub spans: Vec<Function>,
    pub directories: Vec<Folder>,
    pub processes: Vec<Process>,
    pub ranks: Vec<Rank>,
    pub hosts: Vec<Host>,
    pub damage: Vec<Damage>,
    pub steps: Vec<Steps>,
    pub findings: Vec<Finding>,
    pub what_if: Option<Replay>,
    /// `true` if the predictions are for changes of the command line (`--what-if`).
    #[serde(skip)]
    pub typed_changes: bool,
    /// Present if calls were counted, not recorded. Rows then combine file calls and other calls.
    pub tally: Option<serde::de::IgnoredAny>,
}

/// Classes of calls that neither move data nor access metadata.
const NO_IO: [&str; 3] = ["wait", "other", "compute"];

/// A quantity per step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerStep {
    Length,
    Wait,
}

#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct Trainer {
    pub inferred: bool,
    pub startup_ns: Option<i64>,
    pub trained_ns: i64,
    pub waited_ns: Option<i64>,
    pub checkpoint_ns: Option<i64>,
    /// The time of its GPUs, if something timed them.
    pub device: Option<Device>,
    pub readers: Vec<serde::de::IgnoredAny>,
}

/// The time of a trainer's GPUs, one of which is busy or all of which are idle.
#[derive(Deserialize, Clone, Copy, Debug, Default)]
#[serde(default)]
pub struct Device {
    /// `false` if the busy time is an upper bound.
    pub by_kernels: bool,
    pub busy_ns: i64,
    pub idle_ns: i64,
    pub idle_data_ns: i64,
}

/// The verdict box; without text in reports of old versions.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct Headline {
    pub text: String,
}

/// The steps of one trainer.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct Steps {
    pub sum: StepPart,
    pub median_ns: f64,
    pub readers: u64,
    pub columns: Vec<StepPart>,
}

#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct Finding {
    pub id: String,
    pub state: String,
    pub says: String,
    pub worth_ns: Option<i64>,
    /// `true` if the change could not be replayed: its savings are unknown.
    pub at_most_wait: bool,
}

#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct Allocation {
    pub processes: u64,
    pub threads: u64,
    pub events: u64,
    pub lost: u64,
}

#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct Dataset {
    pub files: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
}

#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct Time {
    pub start_ts: i64,
    pub total_ns: i64,
    pub io_ns: Option<i64>,
    pub compute_ns: Option<i64>,
    pub unoverlapped_io_ns: Option<i64>,
    pub other_ns: Option<i64>,
}

#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct Function {
    pub name: String,
    pub cat: String,
    pub class: String,
    pub count: u64,
    pub failed: u64,
    pub time_ns: u64,
    pub duration_ns: Spread,
    pub bytes: Option<u64>,
}

#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct Spread {
    pub mean: f64,
    pub median: f64,
    pub p99: f64,
    pub max: f64,
}

#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct Folder {
    pub directory: String,
    pub opens: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub time_ns: u64,
}

#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct Process {
    pub program: String,
    pub called: String,
    pub ended: String,
}

#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct Rank {
    pub rank: i32,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub read_ns: u64,
    pub write_ns: u64,
    pub metadata_ns: u64,
    pub sync_ns: u64,
    pub events: u64,
}

#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct Host {
    pub host: String,
    pub cores: Option<i32>,
}

#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct Damage {
    pub remark: bool,
}

fn sums_of(columns: &[StepPart], part: PerStep) -> impl Iterator<Item = Weighted> {
    columns.iter().map(move |column| {
        let ns = match part {
            PerStep::Length => column.total_ns,
            PerStep::Wait => column.wait_ns,
        };
        Weighted { sum: ns as f64, weight: column.steps as f64 }
    })
}

/// The sections that every report has.
#[derive(Deserialize)]
struct Whole {
    allocation: Option<serde::de::IgnoredAny>,
    dataset: Option<serde::de::IgnoredAny>,
    time: Option<serde::de::IgnoredAny>,
}

impl Run {
    /// Returns the first line of its verdict.
    pub fn verdict(&self) -> Option<String> {
        Some(self.headline.text.clone()).filter(|text| !text.is_empty())
    }

    /// Parses a report in JSON.
    pub fn of(report: &str) -> serde_json::Result<Run> {
        serde_json::from_str(report)
    }

    /// Parses a report that a user passed. A report of selected sections has no metrics to compare.
    pub fn written(report: &str) -> Result<Run, String> {
        let whole: Whole = serde_json::from_str(report).map_err(|error| error.to_string())?;
        let parts = [("allocation", whole.allocation), ("dataset", whole.dataset), ("time", whole.time)];
        let lacking: Vec<_> = parts.iter().filter(|(_, part)| part.is_none()).map(|(name, _)| *name).collect();
        match lacking.is_empty() {
            true => Run::of(report).map_err(|error| error.to_string()),
            false => Err(format!(
                "it contains only some sections, without {} (it was written with --section or --findings)",
                lacking.join(" and ")
            )),
        }
    }

    /// Sums a value over the trainers; `None` if it is unknown for one of them, or if there are no trainers.
    pub fn trainers(&self, of: impl Fn(&Trainer) -> Option<i64>) -> Option<i64> {
        // As in the report, trainers without recorded waits are ignored if another trainer has some.
        let knows = |trainer: &&Trainer| trainer.waited_ns.is_some();
        let any = self.training.iter().any(|trainer| knows(&trainer));
        let told = self.training.iter().filter(|trainer| !any || knows(trainer));
        let sum = told.map(of).sum::<Option<i64>>();
        sum.filter(|_| !self.training.is_empty())
    }

    /// Returns a time of the trainers as a share of the training; `None` if it is unknown for one of them.
    pub fn training_share(&self, of: impl Fn(&Trainer) -> Option<i64>) -> Option<f64> {
        let trained = self.trainers(|trainer| Some(trainer.trained_ns)).filter(|trained| *trained > 0)?;
        Some(self.trainers(of)? as f64 / trained as f64)
    }

    /// Returns a time of the trainers' GPUs, in the same way.
    pub fn gpu_share(&self, of: impl Fn(&Device) -> Option<i64>) -> Option<f64> {
        self.training_share(|trainer| of(trainer.device.as_ref()?))
    }

    /// Returns the quantity for each step, combined over all trainers: trainers that wait for each other are one
    /// sample.
    pub fn steps(&self, part: PerStep) -> Vec<Weighted> {
        let count = self.steps.iter().map(|trainer| trainer.columns.len()).max().unwrap_or(0);
        let mut sums = vec![Weighted { sum: 0.0, weight: 0.0 }; count];
        for (sum, column) in self.steps.iter().flat_map(|trainer| sums_of(&trainer.columns, part).enumerate()) {
            sums[sum].sum += column.sum;
            sums[sum].weight += column.weight;
        }
        sums
    }

    /// Returns one metric of the steps.
    pub fn step(&self, part: PerStep, location: Location) -> Option<f64> {
        location.of(&self.steps(part))
    }

    /// Returns the step times of the trainer whose steps took longest in total.
    pub fn longest_steps(&self) -> Option<&StepPart> {
        self.steps.iter().map(|trainer| &trainer.sum).max_by_key(|sum| sum.total_ns)
    }

    /// Returns the columns of the trainer whose steps took longest.
    pub fn longest_columns(&self) -> &[StepPart] {
        let longest = self.steps.iter().max_by_key(|trainer| trainer.sum.total_ns);
        longest.map_or(&[], |trainer| &trainer.columns)
    }

    /// Returns the findings that fired.
    pub fn fired(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.state == "fired")
    }

    /// Returns the largest saving of a finding, or 0 if it did not fire; `None` if it is unknown.
    pub fn cost(&self, id: &str) -> Option<f64> {
        let Some(finding) = self.fired().find(|finding| finding.id == id) else { return Some(0.0) };
        (!finding.at_most_wait).then(|| finding.worth_ns.unwrap_or(0) as f64)
    }

    pub fn readers(&self) -> usize {
        self.training.iter().map(|trainer| trainer.readers.len()).sum()
    }

    /// Returns all kinds of calls, on files and on anything else.
    pub fn calls(&self) -> impl Iterator<Item = &Function> {
        self.functions.iter().chain(&self.past_files)
    }

    /// Returns calls that move file data or access metadata. Calls that depend on timing are excluded: waits, and calls
    /// on pipes, which take the available bytes. `None` if the report does not separate file calls from other
    /// calls.
    pub fn on_files(&self) -> Option<impl Iterator<Item = &Function>> {
        let asks = |function: &&Function| !NO_IO.contains(&function.class.as_str());
        self.tally.is_none().then(|| self.functions.iter().filter(asks))
    }

    pub fn damaged(&self) -> usize {
        self.damage.iter().filter(|damage| !damage.remark).count()
    }
}
