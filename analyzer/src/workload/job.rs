//! The job in a trace: its data set, its checkpoints, its trainers and readers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::catalog::{Origin, Process, is_pipe};
use crate::io_profile::IoProfile;
use crate::io_profile::file_group::{FileGroup, finished};
use crate::io_profile::marks::{Activity, Mark};
use crate::io_profile::observer::Observed;
use crate::io_profile::passes::Use;
use crate::load::Trace;
use crate::replay::pipeline::Pipeline;
use crate::summary::analysis::Analysis;
use crate::summary::count::counted::FileCount;
use crate::summary::report::what_if::replayable;
use crate::summary::training::{RankGroup, rank_groups};

/// One file of a data set.
#[derive(Clone, Debug)]
pub struct DataFile {
    pub number: u32,
    pub path: Arc<str>,
    pub count: FileCount,
}

/// Files that are read for training, or for evaluation.
#[derive(Debug)]
pub struct DataSet<'a> {
    pub family: FileGroup,
    /// Index of the file group in marks.
    pub place: u32,
    pub used: &'a Use,
    /// In order of their paths.
    pub files: Vec<DataFile>,
}

impl DataSet<'_> {
    pub fn bytes_read(&self) -> u64 {
        self.files.iter().map(|file| file.count.bytes_read).sum()
    }

    pub fn paths(&self) -> Vec<&str> {
        self.files.iter().map(|file| file.path.as_ref()).collect()
    }

    pub fn folders(&self) -> BTreeSet<&str> {
        self.files.iter().filter_map(|file| crate::summary::analysis::directory(&file.path)).collect()
    }
}

/// The job of a trace.
pub struct Job<'a> {
    pub analysis: &'a Analysis,
    pub observed: &'a Observed,
    pub train: Option<DataSet<'a>>,
    pub valid: Option<DataSet<'a>>,
    /// Written groups except the data set, with their files, in order of time.
    pub saved: Vec<(FileGroup, &'a Use, Vec<DataFile>)>,
    pub groups: Vec<RankGroup>,
    /// By thread, the times of evaluations recorded as spans.
    evaluations: BTreeMap<(u32, i32), Vec<(i64, i64)>>,
    pub processes: Vec<Process>,
    /// The number of spans of samples.
    pub samples: u64,
    /// Spans of sample preprocessing: their number, and average durations.
    pub prepared: Option<(u64, f64, f64)>,
    /// The input pipeline, if replaying it reproduces the measurements.
    pub pipeline: Option<Pipeline>,
    pub lost: u64,
    /// By file, whether it is a pipe.
    pipes: Vec<bool>,
}

/// Extensions of checkpoints, which are rare for data sets.
const CHECKPOINTS: [&str; 9] = ["pt", "pth", "pb", "ckpt", "safetensors", "pkl", "distcp", "index", "meta"];

/// Extensions of programs and their parts, which are read to be executed.
const CODE: [&str; 6] = ["py", "pyc", "pyi", "so", "sh", "js"];

impl<'a> Job<'a> {
    pub fn of(behaviour: &'a IoProfile, trace: &Trace) -> Job<'a> {
        let IoProfile { analysis, observed } = behaviour;
        let files = files_by_family(analysis, observed, trace);
        let groups = rank_groups(&trace.catalog, analysis);
        let evaluations = evaluations(observed, &groups);
        let (train, valid) = read_for_training(analysis, observed, &files, &groups);
        let taken: Vec<&FileGroup> = [&train, &valid].into_iter().flatten().map(|set| &set.family).collect();
        let saved = saved(observed, &files, &taken);
        let kinds = trace.catalog.kinds();
        let spans = |named: &'static [&'static str]| {
            analysis
                .rows(&kinds)
                .filter(move |(_, kind, _)| kind.origin == Origin::Span && named.contains(&&*kind.name))
        };
        let samples = spans(&["reader.read", "item"]).map(|(_, _, count)| count.durations.count).sum();
        let prepared = spans(&["preprocess"]).map(|(_, _, count)| &count.durations);
        let prepared = prepared.map(|it| (it.count, it.mean(), it.deviation())).next();
        let lost = |process: &Process| process.lost.saturating_sub(process.aggregated);
        let processes = trace.catalog.processes();
        let lost = processes.iter().filter(|process| analysis.filter.takes_run_of(process)).map(lost).sum();
        let pipes = trace.catalog.files().iter().map(|path| is_pipe(path)).collect();
        // Batches of evaluations are part of a pipeline.
        let pipeline = if valid.is_none() { replayable(analysis, trace) } else { None };
        Job {
            analysis,
            observed,
            train,
            valid,
            saved,
            groups,
            evaluations,
            processes,
            samples,
            prepared,
            pipeline,
            lost,
            pipes,
        }
    }

    /// Returns the messages that a process received from its readers: those through pipes if there are any, because
    /// loaders with processes communicate through pipes and use sockets only to pass descriptors.
    pub fn received_messages(&self, proc: u32) -> Vec<&'a Mark> {
        let own = || self.marks(Activity::Take).filter(|mark| mark.proc == proc);
        let piped: Vec<&Mark> = own().filter(|mark| self.pipes.get(mark.file as usize) == Some(&true)).collect();
        if piped.is_empty() { own().collect() } else { piped }
    }

    /// Returns those received messages that start a message. Python's processes send its length before each, in 4
    /// bytes.
    pub fn messages(&self, proc: u32) -> Vec<&'a Mark> {
        const LENGTH: u64 = 4;
        let taken = self.received_messages(proc);
        let lengths: Vec<&Mark> = taken.iter().filter(|mark| mark.bytes == LENGTH).copied().collect();
        let follow =
            taken.windows(2).any(|pair| pair.iter().all(|mark| mark.bytes == LENGTH && mark.tid == pair[0].tid));
        if lengths.is_empty() || follow { taken } else { lengths }
    }

    /// Returns marks of one kind in order of time. Waits and compute in an evaluation are not training.
    pub fn marks(&self, what: Activity) -> impl Iterator<Item = &'a Mark> {
        let steps = matches!(what, Activity::Fetch | Activity::Compute);
        self.observed.marks_of(what).filter(move |mark| !steps || !self.evaluates(mark))
    }

    /// Returns marks of one kind within an evaluation.
    pub fn evaluated(&self, what: Activity) -> impl Iterator<Item = &'a Mark> {
        self.observed.marks_of(what).filter(|mark| self.evaluates(mark))
    }

    fn evaluates(&self, mark: &Mark) -> bool {
        let spans = self.evaluations.get(&(mark.proc, mark.tid)).map_or(&[][..], Vec::as_slice);
        let begun = spans.partition_point(|(start, _)| *start <= mark.start);
        spans[..begun].last().is_some_and(|(_, end)| mark.start < *end)
    }

    /// Returns the evaluations recorded as spans of the trainer, in order; empty if there are none.
    pub fn evaluations(&self) -> &[(i64, i64)] {
        self.evaluations.values().max_by_key(|spans| spans.len()).map_or(&[], Vec::as_slice)
    }

    /// Returns the share of the samples that belongs to training, of all in training and evaluations.
    pub fn trained(&self, epochs: u64) -> f64 {
        let of = |set: &Option<DataSet>| set.as_ref().map_or(0, |set| set.files.len()) as f64;
        let evaluations = if self.evaluations.is_empty() { epochs } else { self.evaluations().len() as u64 };
        let trained = of(&self.train) * epochs as f64;
        trained / (trained + of(&self.valid) * evaluations as f64).max(1.0)
    }

    /// Returns the number of trainers; one if unknown.
    pub fn ranks(&self) -> u64 {
        let numbered: BTreeSet<i32> = self.processes.iter().filter_map(|process| process.rank).collect();
        (self.groups.len() as u64).max(numbered.len() as u64).max(1)
    }
}

/// Returns evaluations by thread, in order of time. If there is no training outside of them, they are the training.
fn evaluations(observed: &Observed, groups: &[RankGroup]) -> BTreeMap<(u32, i32), Vec<(i64, i64)>> {
    let mut found: BTreeMap<(u32, i32), Vec<(i64, i64)>> = BTreeMap::new();
    let is_trainer = |mark: &&Mark| groups.iter().any(|group| (group.proc, group.tid) == (mark.proc, mark.tid));
    for span in observed.marks_of(Activity::Evaluate).filter(is_trainer) {
        let spans = found.entry((span.proc, span.tid)).or_default();
        // A nested span is part of the outer one.
        if spans.last().is_none_or(|(_, end)| span.start >= *end) {
            spans.push((span.start, span.end));
        }
    }
    let outside = |(lane, spans): (&(u32, i32), &Vec<(i64, i64)>)| {
        let mut own = observed.marks_of(Activity::Fetch).filter(|mark| (mark.proc, mark.tid) == *lane);
        own.any(|mark| !spans.iter().any(|(start, end)| (*start..*end).contains(&mark.start)))
    };
    if found.iter().all(outside) { found } else { BTreeMap::new() }
}

fn files_by_family(analysis: &Analysis, observed: &Observed, trace: &Trace) -> BTreeMap<u32, Vec<DataFile>> {
    let mut found: BTreeMap<u32, Vec<DataFile>> = BTreeMap::new();
    let numbered = (0u32..).zip(trace.catalog.files()).zip(&analysis.counted.files);
    for ((number, path), count) in numbered.filter(|(_, count)| count.is_used()) {
        if let Some(place) = observed.family_of.get(number as usize) {
            found.entry(*place).or_default().push(DataFile { number, path, count: *count });
        }
    }
    found.values_mut().for_each(|files| files.sort_by(|a, b| a.path.cmp(&b.path)));
    found
}

type DataSets<'a> = (Option<DataSet<'a>>, Option<DataSet<'a>>);

/// Returns the files that readers read, or, if there are none, that trainers read. Files that other programs of the run
/// read are not a data set, unless the trace shows no training.
fn read_for_training<'a>(
    analysis: &Analysis,
    observed: &'a Observed,
    files: &BTreeMap<u32, Vec<DataFile>>,
    groups: &[RankGroup],
) -> DataSets<'a> {
    if groups.is_empty() {
        return data_sets(observed, files);
    }
    let trainers: BTreeSet<u32> = groups.iter().map(|group| group.proc).collect();
    let readers: BTreeSet<u32> = groups.iter().flat_map(|group| &group.readers).map(|reader| reader.proc).collect();
    let of = |procs: &BTreeSet<u32>| -> BTreeMap<u32, Vec<DataFile>> {
        let is_theirs = |file: &&DataFile| procs.iter().any(|proc| analysis.counted.has_moved(*proc, file.number));
        let some = |(place, files): (&u32, &Vec<DataFile>)| (*place, files.iter().filter(is_theirs).cloned().collect());
        files.iter().map(some).collect()
    };
    let found = data_sets(observed, &of(&readers));
    if found.0.is_some() { found } else { data_sets(observed, &of(&trainers)) }
}

/// Selects the group with the most bytes read, and its counterpart for evaluation. Files that the job writes itself are
/// not a data set, unless there are no others.
fn data_sets<'a>(observed: &'a Observed, files: &BTreeMap<u32, Vec<DataFile>>) -> DataSets<'a> {
    let read_only = |file: &&DataFile| file.count.bytes_read > 0 && file.count.bytes_written == 0;
    let made_before = |file: &&DataFile| file.count.bytes_read > 0 && file.count.bytes_written > 0;
    let all = |takes: &dyn Fn(&&DataFile) -> bool, checkpoints: bool| -> Vec<DataSet<'a>> {
        let places = (0u32..).zip(&observed.families);
        let is_one = |suffix: &str| !CODE.contains(&suffix) && (checkpoints || !CHECKPOINTS.contains(&suffix));
        let sets = places.filter(|(_, (family, _))| is_one(&family.suffix));
        let set = |(place, (family, used)): (u32, (&FileGroup, &'a Use))| {
            let files: Vec<DataFile> = files.get(&place)?.iter().filter(|it| takes(it)).cloned().collect();
            (!files.is_empty()).then(|| DataSet { family: family.clone(), place, used, files })
        };
        sets.filter_map(set).collect()
    };
    // If there are spans of checkpoints, written files that are read again are checkpoints.
    let saves = observed.marks.iter().any(|mark| matches!(mark.what, Activity::Save | Activity::Restore));
    let mut sets = all(&read_only, !saves);
    if sets.is_empty() {
        sets = all(&made_before, false);
    }
    let most = |sets: &[DataSet], evaluates: bool| {
        let its = sets.iter().enumerate().filter(|(_, set)| set.family.evaluates == evaluates);
        its.max_by_key(|(_, set)| set.bytes_read()).map(|(at, set)| (at, set.bytes_read()))
    };
    // A whole job below a directory named test does not evaluate.
    let chosen = match (most(&sets, false), most(&sets, true)) {
        (Some((at, bytes)), Some((_, evaluated))) if bytes * 20 >= evaluated => at,
        (_, Some((at, _))) | (Some((at, _)), None) => at,
        (None, None) => return (None, None),
    };
    let train = sets.swap_remove(chosen);
    let twin = sets.iter().position(|set| set.family.evaluates && set.family.suffix == train.family.suffix);
    let valid = twin.filter(|_| !train.family.evaluates).map(|at| sets.swap_remove(at));
    (Some(train), valid)
}

/// Returns the path of a file once it is complete.
fn complete_path(path: &str) -> &str {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    &path[..path.len() - name.len() + finished(name).len()]
}

/// A file with fewer bytes written is a log, or a setting.
const SAVED_MIN: u64 = 1 << 20;

fn saved<'a>(
    observed: &'a Observed,
    files: &BTreeMap<u32, Vec<DataFile>>,
    taken: &[&FileGroup],
) -> Vec<(FileGroup, &'a Use, Vec<DataFile>)> {
    let spans = observed.marks_of(Activity::Save).next().is_some();
    let made: Vec<&Mark> = observed.marks_of(Activity::Generate).collect();
    let is_made = |ts: i64| made.iter().any(|span| (span.start..span.end).contains(&ts));
    // A file that is renamed when complete is written under another name than it is read.
    let read = files.values().flatten().filter(|file| file.count.bytes_read > 0);
    let read: BTreeSet<&str> = read.map(|file| &*file.path).collect();
    let is_read = |file: &DataFile| file.count.bytes_read > 0 || read.contains(complete_path(&file.path));
    let mut found = Vec::new();
    for ((place, (family, used)), is_data) in (0u32..).zip(&observed.families).map(|it| (it, taken.contains(&it.1.0))) {
        let is_checkpoint = CHECKPOINTS.contains(&family.suffix.as_str());
        let least = if is_checkpoint || spans && !is_data { 1 } else { SAVED_MIN };
        let mut its: Vec<DataFile> = files.get(&place).cloned().unwrap_or_default();
        its.retain(|file| file.count.bytes_written >= least);
        its.retain(|file| !(is_made(file.count.first_ts) || is_data && is_read(file)));
        its.sort_by_key(|file| file.count.first_ts);
        if !its.is_empty() {
            found.push((family.clone(), used, its));
        }
    }
    // Next to checkpoints, all other written files are small, or checkpoints themselves.
    let most = found.iter().map(|(_, _, files)| written(files)).max().unwrap_or(0);
    found.retain(|(_, _, files)| written(files) * 20 >= most);
    found
}

pub fn written(files: &[DataFile]) -> u64 {
    files.iter().map(|file| file.count.bytes_written).sum()
}
