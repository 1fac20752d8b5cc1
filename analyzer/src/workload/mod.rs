//! Derives a benchmark workload that does the same I/O as a trace, with the evidence for every value, and its
//! reliability.
//!
//! [`job`] finds the job in the trace, [`shape`] how its data set is traversed, [`pause_clusters`] the pace of reads
//! without spans, [`file_probe`] the content of files that still exist; [`dataset`], [`calls`], [`reader_keys`] and
//! [`checkpoint_keys`] turn these into keys, [`yaml`] prints them.
//!
//! If DLIO's model cannot express the job's reads (a header before each sample, tables at the end of a file, random
//! positions), the calls themselves become a profile: the workload keeps all its keys, and reads with these calls.

pub mod calls;
pub mod checkpoint_keys;
pub mod dataset;
pub mod entry;
pub mod file_probe;
pub mod job;
pub mod pause_clusters;
pub mod reader_keys;
pub mod shape;
pub mod yaml;

use std::collections::BTreeSet;
use std::path::Path;

use crate::io_profile::IoProfile;
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::count::counted::kind_of;
use crate::summary::figures::units::{grouped, many};
use crate::summary::report::Section;
use crate::summary::report::runs::Runs;
use entry::{Confidence, Entries, Entry};
use job::Job;
use shape::Shape;

/// Why there is no workload.
#[derive(Clone, PartialEq, Debug)]
pub enum Refusal {
    /// The directory contains several jobs.
    Mixed(usize),
    /// Nothing was read that could be a data set, nor written that could be a checkpoint.
    Nothing,
    /// Files were only mapped, by this number of calls.
    Mapped(u64),
    /// Events were counted and not recorded, so order and times are unknown.
    Counted,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::Mixed(runs) => {
                write!(
                    f,
                    "the trace contains {runs} runs, and a workload is one job: select one with --run N or \
                    --run last"
                )
            }
            Refusal::Nothing => write!(
                f,
                "the trace has no file read that could be a data set, and no file written that could be a checkpoint; \
                 filters may hide them, and reads of Python's packages are left out unless --all was given"
            ),
            Refusal::Mapped(calls) => write!(
                f,
                "its files are mapped (mmap: {}) and not read by calls, so the trace does not show which parts were \
                 used, in which order and when; trace the program with a reader that reads its files",
                many(*calls, "call", "calls")
            ),
            Refusal::Counted => write!(
                f,
                "its events were counted, not recorded (--mode summary), so order and time are unknown; record a \
                 shorter run in full"
            ),
        }
    }
}

/// A workload: the comments at its top, and its keys.
#[derive(Debug)]
pub struct Workload {
    pub head: Vec<String>,
    pub entries: Vec<Entry>,
}

impl Workload {
    pub fn yaml(&self) -> String {
        yaml::print(&self.head, &self.entries)
    }
}

/// Returns the number of calls that mapped files.
fn mapping_calls(analysis: &Analysis, trace: &Trace) -> u64 {
    let kinds = trace.catalog.kinds();
    let maps = analysis.rows(&kinds).filter(|(row, kind, _)| *kind.name == *"mmap" && !kind_of(*row).1);
    maps.map(|(.., count)| count.durations.count).sum()
}

/// Derives the workload of a trace; `file` is the path where it will be written, for the command that runs it.
pub fn derive(behaviour: &IoProfile, trace: &Trace, typed: &[String], file: &str) -> Result<Workload, Refusal> {
    let runs = Runs::values(&behaviour.analysis, trace).iter().filter(|run| run.reported).count();
    if runs > 1 {
        return Err(Refusal::Mixed(runs));
    }
    let job = Job::of(behaviour, trace);
    let name = name(&job);
    let mut entries = Entries::default();
    let shape = job.train.as_ref().map(|set| Shape::of(&job, set));
    let mut framework = ("pytorch", "nothing in the trace points to TensorFlow's loader");
    if let (Some(set), Some(shape)) = (&job.train, &shape) {
        let means = dataset::add(&job, set, shape, &name, &mut entries);
        if reader_keys::add(&job, set, shape, &means, &mut entries) == "tensorflow" {
            framework = ("tensorflow", "its loader reads files as streams");
        }
    }
    let batch = |entries: &Entries| {
        let written = entries.0.iter().find(|entry| entry.key == "reader.batch_size");
        written.and_then(|entry| entry.value.parse().ok()).unwrap_or(1.0)
    };
    // The number of steps the benchmark will make of it; the program's pauses give only an estimate.
    let steps = shape.as_ref().map(|shape| {
        let made = (shape.samples / batch(&entries) / job.ranks() as f64).ceil().max(1.0) as u64;
        (
            shape.steps.as_ref().filter(|steps| steps.confidence == Confidence::Certain).map_or(made, |it| it.value),
            shape.epochs.value,
        )
    });
    let saves = checkpoint_keys::add(&job, steps, &name, &mut entries);
    if shape.is_none() && !saves {
        let counted = behaviour.analysis.tally.is_some();
        let maps = mapping_calls(&behaviour.analysis, trace);
        return Err(match (counted, maps) {
            (true, _) => Refusal::Counted,
            (false, 0) => Refusal::Nothing,
            (false, maps) => Refusal::Mapped(maps),
        });
    }
    entries.likely("framework", framework.0, framework.1);
    entries.certain("model.name", yaml::quoted(&name), "the program's name");
    workflow(&job, saves, &mut entries);
    let lacking = lacking(&job, &mut entries);
    // Values of one line precede those of several lines.
    entries.0.sort_by_key(|entry| entry.value.contains('\n'));
    Ok(Workload { head: head(&job, typed, file, lacking), entries: entries.0 })
}

fn workflow(job: &Job, saves: bool, entries: &mut Entries) {
    entries.certain("workflow.generate_data", false, "data is generated if it does not exist");
    let trains = job.train.is_some();
    // Many programs read files, or write large ones, without training.
    let confidence = if job.groups.is_empty() { Confidence::Likely } else { Confidence::Certain };
    entries.add(
        "workflow.train",
        trains,
        confidence,
        if trains {
            "it reads a data set"
        } else {
            "it does not read a \
        data set"
        },
    );
    entries.certain(
        "workflow.evaluation",
        job.valid.is_some(),
        match job.valid.is_some() {
            true => "files in a directory for evaluation are read too",
            false => "no files in a directory for evaluation are read",
        },
    );
    entries.add(
        "workflow.checkpoint",
        saves,
        confidence,
        if saves { "it writes checkpoints" } else { "it does not write checkpoints" },
    );
}

/// Returns the gaps in the trace, which reduce the confidence of all values.
fn lacking(job: &Job, entries: &mut Entries) -> Vec<String> {
    let mut said = Vec::new();
    let recorded = job.analysis.events();
    if job.lost > 0 {
        said.push(format!(
            "{} lost and {} recorded: no value below is certain.",
            many(job.lost, "event is", "events are"),
            grouped(recorded)
        ));
        entries.limit(if job.lost * 10 > recorded { Confidence::Guess } else { Confidence::Likely });
    }
    if job.observed.unmarked > 0 {
        said.push("The run is so long that times between samples come from a part of it.".into());
    }
    if job.groups.is_empty() && programs(job) > 1 {
        said.push(
            "Several programs ran, and the trace does not show which of them trains: no value below is certain.".into(),
        );
        entries.limit(Confidence::Likely);
    }
    let unknown = job.train.as_ref().is_some_and(|set| set.used.read.consecutive().is_none());
    if unknown && job.train.is_some() {
        said.push("The trace has no read positions: order and sizes of files are inferred.".into());
    }
    said
}

/// Returns the number of different programs that were traced.
fn programs(job: &Job) -> usize {
    job.processes.iter().filter_map(|process| process.program.as_deref()).collect::<BTreeSet<_>>().len()
}

fn head(job: &Job, typed: &[String], file: &str, lacking: Vec<String>) -> Vec<String> {
    let ranks = job.ranks();
    let option = if ranks > 1 { format!(" --ranks={ranks}") } else { String::new() };
    let mut head = vec![
        format!("The I/O of {}, derived from its trace {}.", name(job), typed.join(" ")),
        String::new(),
        // A run that generates its data first would have that in its trace, unlike the original.
        format!("  dlio bench workload={file}{option} {MAKES_DATA}"),
        format!("  dlio bench workload={file}{option} --trace=bench-trace"),
        format!("  dlio-analyze {} --compare bench-trace --similarity", typed.join(" ")),
        String::new(),
        "The comment after each value gives its source and reliability: certain (counted, or from spans), likely \
         (inferred), or a guess."
            .into(),
    ];
    if let Some(set) = &job.train {
        let folder = set.files.first().and_then(|it| crate::summary::analysis::directory(&it.path)).unwrap_or(".");
        head.push(format!("On the original files: --data {folder}"));
        let used = set.used;
        let beside = [("stat", used.stats), ("list", used.lists), ("open", used.opens), ("mmap", used.maps)];
        let counted: Vec<_> =
            beside.iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!("{what} {}", grouped(*n))).collect();
        head.push(format!("Calls on its {} files other than reads: {}.", set.files.len(), counted.join(", ")));
        if used.maps > 0 {
            head.push("Files are mapped into memory: reads of mapped memory are not in the trace.".into());
        }
    }
    head.extend(lacking);
    head
}

/// The overrides of a run that only generates the data.
const MAKES_DATA: &str =
    "++workload.workflow.generate_data=true ++workload.workflow.train=false ++workload.workflow.checkpoint=false";

/// Returns the name of the trainer, or of the program that reads.
fn name(job: &Job) -> String {
    let trainer = job.groups.first().map(|group| group.trainer.clone());
    let program = job.processes.first().and_then(|process| process.program.clone());
    let name = trainer.or(program).unwrap_or_else(|| "job".into());
    let stem = Path::new(&name).file_stem().map_or("job".into(), |stem| stem.to_string_lossy().into_owned());
    stem.chars().map(|c| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' }).collect()
}
