//! How a data set is traversed: files opened in sequence, streams, or positions in open files; how often; and the
//! number of samples per file.

use std::collections::{BTreeMap, BTreeSet};

use super::entry::Confidence;
use super::file_probe::{ProbeResult, probe};
use super::job::{DataSet, Job};
use super::pause_clusters::{PauseClusters, find_clusters};
use crate::io_profile::marks::{Activity, Mark};
use crate::io_profile::passes::{ReadStats, Use};
use crate::io_profile::transfers::TransferStats;
use crate::summary::files::access::Relation;
use crate::summary::training::RankGroup;

/// How a file is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Traversal {
    /// It is opened, read and closed for each sample, with few calls.
    Opened,
    /// It is read whole when it is opened, and its samples come from memory.
    Loaded,
    /// It is read from start to end, through one sample after another.
    Streamed,
    /// It stays open, and reads jump between positions.
    Visited,
}

/// A number with its evidence.
#[derive(Clone, Debug)]
pub struct Derived {
    pub value: u64,
    pub confidence: Confidence,
    pub evidence: String,
}

impl Derived {
    fn new(value: u64, confidence: Confidence, evidence: impl Into<String>) -> Derived {
        Derived { value, confidence, evidence: evidence.into() }
    }
}

/// How a data set is traversed.
#[derive(Debug)]
pub struct Shape {
    pub traversal: Traversal,
    pub epochs: Derived,
    /// The number of files, counted or contained in their names.
    pub files: Derived,
    pub samples_per_file: Derived,
    /// Samples of an epoch, on all ranks.
    pub samples: f64,
    /// Steps of an epoch on one rank.
    pub steps: Option<Derived>,
    /// Samples of a batch, derived from the tasks of readers if no span records steps.
    pub task: Option<u64>,
    /// Pauses between samples and batches, if no span records them.
    pub beat: Option<PauseClusters>,
    pub peek: Option<ProbeResult>,
    /// The share of the samples that are for training.
    pub trained: f64,
}

/// The minimum share of sequential reads at which a file counts as streamed.
const STREAMED: f64 = 0.8;

impl Shape {
    pub fn of(job: &Job, set: &DataSet) -> Shape {
        let epochs = epochs(job, set);
        let files = files(set);
        let peek = probe(&set.paths(), &set.family.suffix);
        let valid = job.valid.as_ref().map_or(0, |valid| valid.files.len());
        let trained = job.trained(epochs.value);
        let mut traversal = traversal(set);
        let fetched = fetched(job, &epochs, trained);
        let per_file =
            |all: f64| ((all * trained / epochs.value as f64 / set.files.len() as f64).round() as u64).max(1);
        let opened = set.used.passes.whole.max(set.used.opens.saturating_sub(set.used.passes.unread)) as f64;
        let opened = opened / epochs.value as f64;
        // A job with more steps than opened files has several samples per file.
        let steps = fetched.as_ref().map_or(0.0, |steps| (steps.value * job.ranks()) as f64);
        if traversal == Traversal::Opened && steps > opened * 1.5 {
            traversal = match (files_stay_open(job, set), is_streamed(&set.used.read)) {
                (false, _) => Traversal::Loaded,
                (true, true) => Traversal::Streamed,
                (true, false) => Traversal::Visited,
            };
        }
        let records = peek
            .as_ref()
            .and_then(|peek| peek.records)
            .filter(|_| matches!(traversal, Traversal::Loaded | Traversal::Streamed));
        let samples_per_file = match (job.samples, records) {
            (1.., _) => Derived::new(
                per_file(job.samples as f64),
                Confidence::Certain,
                format!(
                    "{} spans of samples in {} epochs of {} files",
                    job.samples,
                    epochs.value,
                    set.files.len() + valid
                ),
            ),
            (0, Some(records)) => {
                Derived::new(records, Confidence::Certain, "number of records in the files, which still exist")
            }
            (0, None) => by_calls(set, traversal, &epochs, (opened, steps)),
        };
        let spoken = samples_per_file.value as f64 * set.files.len() as f64;
        let samples = if job.samples > 0 { job.samples as f64 * trained / epochs.value as f64 } else { spoken };
        let beat = if fetched.is_none() { rhythm(job, set, traversal) } else { None };
        let task = if fetched.is_none() && job.samples == 0 { task(job, set, traversal) } else { None };
        let beaten = || steps_from_pauses(job, set, traversal, &epochs, samples, beat);
        let by_tasks = task.map(|task| {
            let steps = (samples / (task * job.ranks()) as f64).round().max(1.0);
            Derived::new(
                steps as u64,
                Confidence::Likely,
                format!("readers read {task} samples for each task they take"),
            )
        });
        // If batches are taken together, one pause covers several steps.
        let is_of_steps =
            |steps: &Derived| beaten().is_none_or(|beaten| beaten.value as f64 >= 0.8 * steps.value as f64);
        let beat = beat.filter(|_| by_tasks.as_ref().is_none_or(is_of_steps));
        let steps = fetched.or(by_tasks).or_else(beaten);
        // There cannot be more steps than samples: then those were not batches, and their pauses are meaningless.
        let is_possible = |steps: &Derived| steps.value as f64 <= samples.max(1.0);
        let beat = beat.filter(|_| steps.as_ref().is_none_or(is_possible));
        let steps = steps.filter(|steps| steps.confidence == Confidence::Certain || is_possible(steps));
        Shape { traversal, epochs, files, samples_per_file, samples, steps, task, beat, peek, trained }
    }
}

fn traversal(set: &DataSet) -> Traversal {
    let passes = &set.used.passes;
    // Some libraries open a file several times to detect its format: bytes show its purpose.
    let few = passes.few_bytes * 2 >= set.used.read.bytes;
    let read = set.used.opens.saturating_sub(passes.unread);
    if few && passes.whole * 2 >= read && !is_wild(&passes.places) {
        return Traversal::Opened;
    }
    if is_streamed(&set.used.read) { Traversal::Streamed } else { Traversal::Visited }
}

/// Returns `true` if most reads of a pass start anywhere, and not at positions common to all passes.
fn is_wild(places: &[ReadStats]) -> bool {
    const MOST: f64 = 0.9;
    let wild = |place: &&ReadStats| {
        let is_placed = place.from_start.most(MOST).is_some() || place.from_end.most(MOST).is_some();
        place.next * 2 < place.reads && !is_placed
    };
    places.iter().filter(wild).count() * 2 > places.len()
}

/// Returns `true` if files stay open from step to step.
fn files_stay_open(job: &Job, set: &DataSet) -> bool {
    let passes: Vec<&Mark> = job.marks(Activity::Pass).filter(|mark| mark.family == set.place).collect();
    let fetches: Vec<i64> = job.marks(Activity::Fetch).map(|mark| mark.start).collect();
    let within = |pass: &&&Mark| {
        let begun = fetches.partition_point(|start| *start <= pass.start);
        fetches.get(begun).is_some_and(|next| *next < pass.end)
    };
    passes.iter().filter(within).count() * 2 > passes.len()
}

/// Returns the number of reads at the start of each file with equal position and size in all files: tables of its
/// format.
pub fn fixed_places(used: &Use) -> usize {
    const MOST: f64 = 0.9;
    let passes = &used.passes;
    if passes.opened() * 2 < used.opens.saturating_sub(passes.unread) || passes.opened() == 0 {
        return 0;
    }
    let usual = used.runs.asked.most(MOST);
    let is_fixed = |place: &&ReadStats| {
        let asked = place.asked.most(MOST);
        place.from_start.most(MOST).is_some() && asked.is_some() && asked != usual
    };
    passes.places.iter().take_while(is_fixed).count()
}

fn is_streamed(read: &TransferStats) -> bool {
    let of = |relation: Relation| read.relations[relation as usize];
    let jumps = of(Relation::Forward) + of(Relation::Backward) + of(Relation::Repeated);
    let on = of(Relation::Consecutive);
    // If positions are unknown: most files are read from front to back.
    on + jumps == 0 || on as f64 >= STREAMED * (on + jumps) as f64
}

fn epochs(job: &Job, set: &DataSet) -> Derived {
    let sizes: i64 = set.files.iter().map(|file| file.count.size.max(0)).sum();
    let times = set.bytes_read() as f64 / (sizes.max(1) as f64);
    let times = as_often_as_opened(set, times);
    let evidence = format!("all files together are read {times:.2} times");
    // Loaders that are created again for each pass restart their count.
    let is_one_of_several = |epochs: u64| epochs == 1 && times >= 1.5;
    match job.groups.iter().map(|group| group.epochs).max().filter(|epochs| *epochs > 0 && !is_one_of_several(*epochs))
    {
        Some(epochs) => Derived::new(epochs, Confidence::Certain, "spans number them"),
        None => {
            let confidence = if times < 0.9 { Confidence::Guess } else { Confidence::Likely };
            Derived::new((times.round() as u64).max(1), confidence, evidence)
        }
    }
}

/// Corrects for formats that read a part of a file twice: for files that are read whole at each opening, the opens give
/// the number of passes.
fn as_often_as_opened(set: &DataSet, times: f64) -> f64 {
    const TWICE: f64 = 1.5;
    let passes = set.used.passes.whole as f64;
    let opened = passes / set.files.len().max(1) as f64;
    let are_whole = passes >= 0.9 * set.used.opens.saturating_sub(set.used.passes.unread) as f64;
    if are_whole && (opened..TWICE * opened).contains(&times) { opened } else { times }
}

/// Names like `img_07_of_16.npz` contain the number of files.
fn files(set: &DataSet) -> Derived {
    let seen = set.files.len() as u64;
    let spoken = |path: &str| -> Option<u64> {
        let (_, last) = path.rsplit_once("_of_").or_else(|| path.rsplit_once("-of-"))?;
        last.split('.').next()?.parse().ok()
    };
    let first = set.files.first().and_then(|file| spoken(&file.path));
    match first.filter(|files| *files >= seen && set.files.iter().all(|file| spoken(&file.path) == Some(*files))) {
        Some(files) => Derived::new(files, Confidence::Certain, format!("their names show it; {seen} were read")),
        None => Derived::new(seen, Confidence::Certain, format!("number of {} read", set.family.described())),
    }
}

/// Returns the steps of an epoch on one rank, from spans.
fn fetched(job: &Job, epochs: &Derived, trained: f64) -> Option<Derived> {
    let group = job.groups.iter().max_by_key(|group| group.batches).filter(|group| group.batches > 0)?;
    let own = |mark: &&Mark| (mark.proc, mark.tid) == (group.proc, group.tid);
    let batches = match job.observed.unmarked {
        0 => job.marks(Activity::Fetch).filter(own).count() as u64,
        _ => group.batches,
    };
    let computed = job.marks(Activity::Compute).filter(own).count() as u64;
    // A loop requests one batch more than there are, and finds none.
    let asked_in_vain = computed > 0 && computed + epochs.value == batches;
    let all = if asked_in_vain { computed } else { batches };
    let evidence = format!("{all} waits for batches in {} epochs", epochs.value);
    let each = all as f64 / epochs.value as f64;
    let are_apart = !job.evaluations().is_empty() && job.observed.unmarked == 0;
    if job.valid.is_none() || are_apart {
        return Some(Derived::new((each.round() as u64).max(1), Confidence::Certain, evidence));
    }
    let evidence = format!("{evidence}, assuming that training has the same share of them as of the files");
    Some(Derived::new(((each * trained).round() as u64).max(1), Confidence::Likely, evidence))
}

fn by_calls(set: &DataSet, traversal: Traversal, epochs: &Derived, (opened, steps): (f64, f64)) -> Derived {
    let files = set.files.len() as f64;
    let rounded = |all: f64| ((all / files).round() as u64).max(1);
    match traversal {
        Traversal::Opened => {
            Derived::new(rounded(opened), Confidence::Likely, "number of opens of a file per epoch, one per sample")
        }
        Traversal::Streamed | Traversal::Loaded => {
            let reads = set.used.read.calls() as f64 / epochs.value as f64;
            Derived::new(
                rounded(reads.max(steps)),
                Confidence::Guess,
                "the number of samples per file is unknown: assuming one per read or step",
            )
        }
        Traversal::Visited => {
            let tables = set.used.passes.places.iter().take(fixed_places(set.used)).enumerate();
            let jumps = tables.filter(|(at, place)| *at == 0 || place.next * 2 < place.reads).count() as u64;
            let tables = (jumps * set.used.passes.opened()) as f64;
            let runs = (set.used.runs.reads.count as f64 - tables) / epochs.value as f64;
            Derived::new(
                rounded(runs.max(steps)),
                Confidence::Likely,
                "number of positions that reads of a file jump to per epoch",
            )
        }
    }
}

/// Returns the threads that read the data set, with their number of marks.
pub fn reading_lanes(job: &Job, set: &DataSet) -> BTreeMap<(u32, i32), u64> {
    let mut lanes = BTreeMap::new();
    let its = job.observed.marks.iter().filter(|mark| mark.family == set.place);
    its.for_each(|mark| *lanes.entry((mark.proc, mark.tid)).or_default() += 1);
    lanes
}

/// Fewer tasks are not meaningful.
const TASKS_MIN: usize = 4;

/// Returns the samples that readers read per task: from one received message to the next. `None` if most tasks differ,
/// or if each is one sample, which allows any batch size.
fn task(job: &Job, set: &DataSet, traversal: Traversal) -> Option<u64> {
    let unit = match traversal {
        Traversal::Opened => Activity::Pass,
        Traversal::Visited => Activity::Run,
        Traversal::Loaded | Traversal::Streamed => return None,
    };
    if job.observed.unmarked > 0 {
        return None;
    }
    let trainers: BTreeSet<u32> = job.groups.iter().map(|group| group.proc).collect();
    let readers: BTreeSet<u32> = job.groups.iter().flat_map(|group| &group.readers).map(|reader| reader.proc).collect();
    let mut sizes = Vec::new();
    for &reader in readers.difference(&trainers) {
        let tasks: Vec<i64> = job.messages(reader).iter().map(|mark| mark.start).collect();
        let mut counts = vec![0u64; tasks.len()];
        let its = job.marks(unit).filter(|mark| mark.family == set.place && mark.proc == reader);
        for mark in its {
            if let Some(at) = tasks.partition_point(|start| *start <= mark.start).checked_sub(1) {
                counts[at] += 1;
            }
        }
        // The message that ends the work is not a task.
        sizes.extend(counts.into_iter().filter(|count| *count > 0));
    }
    sizes.sort_unstable();
    let usual = sizes.get(sizes.len() / 2).copied().filter(|usual| *usual > 1)?;
    let alike = sizes.iter().filter(|size| **size == usual).count();
    (sizes.len() >= TASKS_MIN && alike * 2 > sizes.len()).then_some(usual)
}

/// Returns the pauses of a single reader, or of a trainer with separate readers.
fn rhythm(job: &Job, set: &DataSet, traversal: Traversal) -> Option<PauseClusters> {
    if let Some(group) = job.groups.iter().find(|group| !group.readers.is_empty()) {
        let beat = of_marks(&mut job.received_messages(group.proc).into_iter());
        return beat.filter(|beat| is_pace(beat, job, group));
    }
    if reading_lanes(job, set).len() > 1 {
        return None;
    }
    match traversal {
        Traversal::Streamed => find_clusters(&set.used.read.arrivals.values(), 0),
        Traversal::Opened | Traversal::Loaded => {
            of_marks(&mut job.marks(Activity::Pass).filter(|mark| mark.family == set.place))
        }
        Traversal::Visited => of_marks(&mut job.marks(Activity::Run).filter(|mark| mark.family == set.place)),
    }
}

/// Returns the rhythm of marks. The activity of a thread before its first mark was its start.
fn of_marks(marks: &mut dyn Iterator<Item = &Mark>) -> Option<PauseClusters> {
    let mut begun = BTreeSet::new();
    let later = marks.filter(|mark| !begun.insert((mark.proc, mark.tid)));
    let pauses: Vec<_> = later.filter_map(|mark| mark.busy_before).map(|ns| (ns as f64, 1)).collect();
    find_clusters(&pauses, begun.len() as u64)
}

/// Returns `true` if long pauses between messages are a trainer's compute: a trainer whose batches another of its
/// threads fetches ahead, as fast as they arrive, computes long afterwards.
fn is_pace(beat: &PauseClusters, job: &Job, group: &RankGroup) -> bool {
    let longs = job.received_messages(group.proc).len() as f64 / beat.every;
    let busy = (group.trained_ns - group.waited_ns.unwrap_or(0)) as f64;
    2.0 * longs * beat.long_ns >= busy
}

/// Returns the steps derived from the rhythm.
fn steps_from_pauses(
    job: &Job,
    set: &DataSet,
    traversal: Traversal,
    epochs: &Derived,
    samples: f64,
    beat: Option<PauseClusters>,
) -> Option<Derived> {
    let beat = beat?;
    let epochs = epochs.value as f64;
    let units = match traversal {
        _ if job.groups.iter().any(|group| !group.readers.is_empty()) => {
            let group = job.groups.iter().find(|group| !group.readers.is_empty())?;
            job.received_messages(group.proc).len() as f64 / epochs
        }
        Traversal::Opened | Traversal::Loaded => samples,
        Traversal::Visited => set.used.runs.reads.count as f64 / epochs,
        Traversal::Streamed => set.used.read.calls() as f64 / epochs,
    };
    let steps = (units / beat.every).round().max(1.0) as u64;
    Some(Derived::new(steps, Confidence::Likely, "no span shows it: long pauses between short ones"))
}
