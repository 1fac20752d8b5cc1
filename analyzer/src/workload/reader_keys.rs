//! Keys of the sections `reader` and `train`: loader workers, read-ahead, order, batch sizes, compute time of steps.

use std::collections::BTreeMap;

use super::calls::pause_ns;
use super::dataset::ReadMethod;
use super::entry::{Confidence, Entries, seconds};
use super::job::{DataSet, Job};
use super::shape::{Shape, Traversal, reading_lanes};
use crate::io_profile::marks::{Activity, Mark};
use crate::replay::pipeline::{ALL_KINDS, Kind, Pipeline};
use crate::summary::figures::quantiles::median;
use crate::summary::training::RankGroup;

/// Adds the keys; returns the framework with this kind of loader.
pub fn add(job: &Job, set: &DataSet, shape: &Shape, means: &ReadMethod, entries: &mut Entries) -> &'static str {
    let workers = workers(job, set);
    let goes_through =
        matches!(shape.traversal, Traversal::Streamed | Traversal::Loaded) && shape.samples_per_file.value > 1;
    let streams = means.plain && means.format == "tfrecord" || goes_through;
    let loader = match (streams, workers.0) {
        (true, 1..) => ("tensorflow", "files are streams, each read by one worker from start to end"),
        (true, 0) if means.plain => ("tensorflow", "files are streams"),
        (_, 0) => ("pytorch", "the training process reads its data itself"),
        _ => ("pytorch", "workers read samples by number"),
    };
    entries.likely("reader.data_loader", loader.0, loader.1);
    entries.add("reader.read_threads", workers.0, workers.1, workers.2);
    let batch = batch(job, shape, entries);
    if workers.0 > 0 {
        prefetch(job, set, shape, batch, entries);
    }
    order(job, set, shape, entries);
    preprocess(job, set, shape, (workers.0, means), entries);
    let epochs = &shape.epochs;
    entries.add("train.epochs", epochs.value, epochs.confidence, &*epochs.evidence);
    computation(job, set, shape, batch, entries);
    evaluation(job, epochs.value, entries);
    limit(job, shape, batch, entries);
    loader.0
}

/// Returns the number of readers apart from the training thread.
fn workers(job: &Job, set: &DataSet) -> (usize, Confidence, String) {
    if let Some(pipeline) = &job.pipeline {
        return (
            pipeline.readers(),
            Confidence::Certain,
            "number of processes that send batches to the trainer".into(),
        );
    }
    if let Some(group) = job.groups.iter().max_by_key(|group| group.readers.len()) {
        let own = |group: &RankGroup| {
            let mut group = group.clone();
            group.readers.retain(|reader| (reader.proc, reader.tid) != (group.proc, group.tid));
            group.readers_at_once()
        };
        let confidence = if group.inferred { Confidence::Likely } else { Confidence::Certain };
        return (own(group), confidence, "number of threads that read at the same time for the trainer".into());
    }
    let lanes = reading_lanes(job, set);
    let first = |&(proc, tid): &(u32, i32)| job.processes.get(proc as usize).is_some_and(|process| process.pid == tid);
    match lanes.len() {
        0 | 1 => (0, Confidence::Likely, "one thread reads, and the trace shows no separate trainer".into()),
        all => {
            // Ranks of a launcher read for themselves, and so do their reader threads.
            let ranked = job.processes.iter().filter(|process| process.rank.is_some()).count() > 0;
            let mains = lanes.keys().filter(|lane| first(lane)).count();
            let workers = if ranked && mains == all { 0 } else { all / job.ranks() as usize };
            (workers, Confidence::Guess, format!("{all} threads read; it is unknown which of them trains"))
        }
    }
}

fn batch(job: &Job, shape: &Shape, entries: &mut Entries) -> u64 {
    let Some(steps) = &shape.steps else {
        entries.guess("reader.batch_size", 1, "neither spans nor the rhythm of reads show batches");
        return 1;
    };
    let average = shape.samples / (steps.value * job.ranks()) as f64;
    // Pauses give an approximate size, and show fewer steps if batches are taken together; among the sizes that fit,
    // choose the one that leaves out the fewest samples.
    let batch = match (shape.task, steps.confidence) {
        (Some(task), _) => task,
        (None, Confidence::Certain) => whole_batch(average),
        _ => filling(average.round().max(1.0) as u64, shape.samples, job.ranks()),
    };
    let is_about = (batch as f64 - average).abs() <= ABOUT * average;
    let sure = if is_about || shape.task.is_some() || steps.confidence == Confidence::Certain {
        Confidence::Certain
    } else {
        Confidence::Guess
    };
    let confidence = steps.confidence.min(shape.samples_per_file.confidence).min(sure);
    let evidence = format!("{:.0} samples of an epoch in {} steps ({})", shape.samples, steps.value, steps.evidence);
    entries.add("reader.batch_size", batch, confidence, evidence);
    evaluated_batch(job, shape, batch, confidence, entries);
    batch
}

/// The tolerance within which a batch size derived from pauses is likely.
const ABOUT: f64 = 0.1;

/// Returns the batch size for an average number of samples per step: a last batch that is not full makes the average
/// smaller.
fn whole_batch(average: f64) -> u64 {
    let is_whole = (average - average.round()).abs() < 0.01 * average;
    if is_whole { average.round() } else { average.ceil() }.max(1.0) as u64
}

/// Adds the batch size of evaluations.
fn evaluated_batch(job: &Job, shape: &Shape, batch: u64, confidence: Confidence, entries: &mut Entries) {
    let Some(valid) = &job.valid else { return };
    let evaluations = job.evaluations().len() as u64;
    let steps = evaluated_spans(job, Activity::Fetch).len() as u64;
    if steps == 0 || job.observed.unmarked > 0 {
        return entries.guess("reader.batch_size_eval", batch, "assumed to be the same as in training");
    }
    let samples = match job.samples {
        0 => (valid.files.len() as u64 * shape.samples_per_file.value) as f64,
        all => all as f64 * (1.0 - shape.trained) / evaluations as f64,
    };
    let each = whole_batch(samples * evaluations as f64 / (steps * job.ranks()) as f64);
    let evidence = format!("{samples:.0} samples of an evaluation, {steps} waits for batches in {evaluations} of them");
    entries.add("reader.batch_size_eval", each, confidence, evidence);
}

/// Returns the durations of spans of a kind in one trainer's evaluations.
fn evaluated_spans(job: &Job, what: Activity) -> Vec<f64> {
    let Some(group) = job.groups.iter().max_by_key(|group| group.batches) else { return Vec::new() };
    let own = job.evaluated(what).filter(|mark| (mark.proc, mark.tid) == (group.proc, group.tid));
    own.map(|mark| (mark.end - mark.start) as f64).collect()
}

/// Adds when evaluations happen, and how long their steps compute.
fn evaluation(job: &Job, epochs: u64, entries: &mut Entries) {
    let spans = job.evaluations();
    let [first, ..] = spans else { return };
    let computed = evaluated_spans(job, Activity::Compute);
    if !computed.is_empty() && job.observed.unmarked == 0 {
        let mean = computed.iter().sum::<f64>() / computed.len() as f64;
        let evidence = format!("spans of compute in evaluations, {} of them", computed.len());
        entries.certain("evaluation.eval_time", seconds(mean), evidence);
        spread("evaluation.eval_time_stdev", &computed, mean, Confidence::Certain, entries);
    }
    if spans.len() as u64 >= epochs {
        return;
    }
    // An evaluation follows the number of epochs that started before it.
    let mut begun: BTreeMap<i32, i64> = BTreeMap::new();
    for mark in job.marks(Activity::Fetch).filter(|mark| mark.epoch >= 0) {
        begun.entry(mark.epoch).and_modify(|start| *start = mark.start.min(*start)).or_insert(mark.start);
    }
    let after = |(start, _): &(i64, i64)| begun.values().filter(|epoch| *epoch <= start).count() as f64;
    let gaps = spans.windows(2).map(|pair| after(&pair[1]) - after(&pair[0])).collect();
    let evidence = format!("{} evaluations in {epochs} epochs", spans.len());
    entries.likely("evaluation.eval_after_epoch", after(first).max(1.0), &*evidence);
    let every = median(gaps).unwrap_or(epochs as f64).max(1.0);
    entries.likely("evaluation.epochs_between_evals", every.round(), "from one to the next");
}

/// Returns, among sizes close to `batch`, the one whose whole steps leave out the fewest samples; the nearest of
/// several.
fn filling(batch: u64, samples: f64, ranks: u64) -> u64 {
    const AROUND: f64 = 0.25;
    let samples = samples.round() as u64;
    let (least, most) = ((batch as f64 * (1.0 - AROUND)).floor(), (batch as f64 * (1.0 + AROUND)).ceil());
    let sizes = (least.max(1.0) as u64)..=(most as u64);
    sizes.min_by_key(|size| (samples % (size * ranks), size.abs_diff(batch))).unwrap_or(batch)
}

/// Adds the number of steps if whole batches do not determine it.
fn limit(job: &Job, shape: &Shape, batch: u64, entries: &mut Entries) {
    let Some(steps) = shape.steps.as_ref().filter(|steps| steps.confidence == Confidence::Certain) else { return };
    let all = shape.files.value * shape.samples_per_file.value;
    let possible = all / batch.max(1) / job.ranks();
    if steps.value + 1 < possible {
        entries.add(
            "train.total_training_steps",
            steps.value,
            steps.confidence,
            format!("an epoch ends after them; the data is sufficient for {possible}"),
        );
    }
}

/// Adds the maximum number of samples that were ready and not yet taken.
fn prefetch(job: &Job, set: &DataSet, shape: &Shape, batch: u64, entries: &mut Entries) {
    const FURTHEST: u64 = 64;
    if let Some(pipeline) = &job.pipeline {
        let requested = pipeline.passes.iter().map(|pass| pass.requested).max().unwrap_or(1).max(1);
        let evidence = "number of batches requested before the first one was taken";
        return entries.certain("reader.prefetch_size", requested, evidence);
    }
    let Some(group) = job.groups.iter().max_by_key(|group| group.batches) else { return };
    let below = |mark: &&Mark| job.groups.len() == 1 || group.readers.iter().any(|reader| reader.proc == mark.proc);
    let unit = match (job.samples, shape.traversal) {
        (1.., _) => Activity::Sample,
        (0, Traversal::Opened) => Activity::Pass,
        _ => Activity::Run,
    };
    let its = |mark: &&Mark| unit == Activity::Sample || mark.family == set.place;
    let mut ready: Vec<i64> = job.marks(unit).filter(its).filter(below).map(|mark| mark.end).collect();
    let own = |mark: &&Mark| (mark.proc, mark.tid) == (group.proc, group.tid);
    let mut taken: Vec<i64> = job.marks(Activity::Fetch).filter(own).map(|mark| mark.end).collect();
    // Batches produced in an evaluation are taken there.
    if let Some((start, _)) = job.evaluations().first() {
        ready.retain(|end| end < start);
        taken.retain(|end| end < start);
    }
    if ready.is_empty() || taken.is_empty() || job.observed.unmarked > 0 {
        return;
    }
    ready.sort_unstable();
    taken.sort_unstable();
    let lead = |(number, end): (u64, &i64)| {
        let made = ready.partition_point(|ready| ready <= end) as f64;
        (made - (number * batch) as f64) / batch.max(1) as f64
    };
    let furthest = (1..).zip(&taken).map(lead).fold(0.0, f64::max);
    let ahead = (furthest.round() as u64).clamp(1, FURTHEST);
    entries.likely(
        "reader.prefetch_size",
        ahead,
        format!("at most {furthest:.1} batches were ready and not yet taken"),
    );
}

/// Adds whether files and samples are read in order of their names and positions.
fn order(job: &Job, set: &DataSet, shape: &Shape, entries: &mut Entries) {
    let numbers: BTreeMap<u32, i64> = set.files.iter().map(|file| file.number).zip(0..).collect();
    let visits = |what: Activity| {
        job.marks(what)
            .filter(|mark| mark.family == set.place)
            .filter_map(|mark| numbers.get(&mark.file))
            .collect::<Vec<_>>()
    };
    let places = [visits(Activity::Pass), visits(Activity::Run)].into_iter().max_by_key(Vec::len).unwrap_or_default();
    let lanes = reading_lanes(job, set).len().max(1) as i64;
    let moves: Vec<i64> = places.windows(2).map(|pair| pair[1] - pair[0]).filter(|by| *by != 0).collect();
    let near = moves.iter().filter(|by| (1..2 * lanes).contains(*by)).count();
    let share = near as f64 / moves.len().max(1) as f64;
    if set.files.len() > 2 {
        let shuffled = share < 0.5 && set.files.len() as i64 >= 4 * lanes;
        let (word, evidence) = match shuffled {
            true => ("seed", format!("only {:.0} % of files follow their neighbors", share * 100.0)),
            false => ("off", format!("{:.0} % of files follow their neighbors", share * 100.0)),
        };
        entries.likely("reader.file_shuffle", word, evidence);
        if shape.traversal == Traversal::Opened && shape.samples_per_file.value == 1 {
            return entries.likely("reader.sample_shuffle", "off", "the order of samples is that of files");
        }
    }
    if shape.traversal == Traversal::Visited {
        let read = &set.used.read.relations;
        let [_, _, forward, backward, ..] = *read;
        let shuffled = backward * 10 > forward;
        let (word, evidence) = match shuffled {
            true => ("seed", format!("{backward} jumps go backward, {forward} forward")),
            false => ("off", format!("{forward} jumps go forward, {backward} backward")),
        };
        entries.likely("reader.sample_shuffle", word, evidence);
    }
}

/// Returns the kind of mark that a reader leaves for a sample, or for several.
fn unit(shape: &Shape) -> Activity {
    if matches!(shape.traversal, Traversal::Opened | Traversal::Loaded) { Activity::Pass } else { Activity::Run }
}

/// Adds the time that a reader spends on a sample in addition to reading it.
fn preprocess(job: &Job, set: &DataSet, shape: &Shape, (workers, means): (usize, &ReadMethod), entries: &mut Entries) {
    if let Some((count, mean, spread)) = job.prepared {
        entries.certain("reader.preprocess_time", seconds(mean), format!("{count} spans of preparing a sample"));
        if spread > 0.05 * mean {
            entries.certain("reader.preprocess_time_stdev", seconds(spread), "their standard deviation");
        }
        return;
    }
    if let Some((each, batches)) = job.pipeline.as_ref().map(|pipeline| (made_ns(pipeline), pipeline.batches())) {
        let samples = shape.samples * shape.epochs.value as f64 / batches.max(1) as f64;
        let each = each / samples.max(1.0);
        if each >= 1000.0 {
            let evidence = "the readers' work per sample, apart from reading, without waits for a CPU";
            entries.likely("reader.preprocess_time", seconds(each), evidence);
        }
        return;
    }
    let unit = unit(shape);
    let its = || job.marks(unit).filter(|mark| mark.family == set.place);
    let fetched: f64 = job.marks(Activity::Fetch).map(|mark| (mark.end - mark.start) as f64).sum();
    let inside = its().map(|mark| (mark.end - mark.start) as f64).sum::<f64>();
    let marks = its().count().max(1) as f64;
    let moving = set.used.read.time_ns as f64 / marks;
    // Pauses between a file's reads are not I/O either, and a profile contains them.
    let said = pause_ns(set, shape, !means.plain);
    let within = if unit == Activity::Pass { (inside / marks - moving - said).max(0.0) } else { 0.0 };
    let between = match (workers, fetched > 0.0, shape.beat) {
        (0, true, _) if shape.traversal != Traversal::Streamed => Some((fetched - inside).max(0.0) / marks),
        (0, true, _) => Some((fetched - set.used.read.time_ns as f64).max(0.0) / marks),
        (0, false, Some(beat)) => Some(beat.short_ns),
        (0, false, None) => None,
        _ => median(its().filter_map(|mark| mark.busy_before).map(|ns| ns as f64).collect()),
    };
    let Some(between) = between else { return };
    let units = shape.samples * shape.epochs.value as f64;
    let each = (between + within) * marks / units.max(1.0);
    if each >= 1000.0 {
        entries.likely("reader.preprocess_time", seconds(each), "a reader's time between reads, per sample");
    }
}

/// Returns the mean work of a batch apart from storage.
fn made_ns(pipeline: &Pipeline) -> f64 {
    let work = pipeline.work();
    let all: f64 = ALL_KINDS.iter().filter(|kind| **kind != Kind::Io).map(|kind| work[*kind as usize]).sum();
    all / pipeline.batches().max(1) as f64
}

fn computation(job: &Job, set: &DataSet, shape: &Shape, batch: u64, entries: &mut Entries) {
    let steps = shape.steps.as_ref().map_or(0, |steps| steps.value) * shape.epochs.value;
    let Some(group) = job.groups.iter().max_by_key(|group| group.batches) else {
        return without_spans(job, set, shape, batch, entries);
    };
    let own = |mark: &&Mark| (mark.proc, mark.tid) == (group.proc, group.tid);
    let spans: Vec<f64> = job.marks(Activity::Compute).filter(own).map(|mark| (mark.end - mark.start) as f64).collect();
    if let Some(computed) = group.computed_ns.filter(|_| steps > 0) {
        // Spans of evaluations are included, unless each mark is known.
        let are_apart = !job.evaluations().is_empty() && job.observed.unmarked == 0;
        let computed = if are_apart { spans.iter().sum() } else { computed as f64 };
        let mean = computed / steps as f64;
        entries.certain("train.computation_time", seconds(mean), format!("spans of compute, {} of them", spans.len()));
        if spans.len() as u64 == steps {
            spread("train.computation_time_stdev", &spans, mean, Confidence::Certain, entries);
        }
        return;
    }
    if let Some(pipeline) = &job.pipeline {
        let batches = pipeline.passes.iter().flat_map(|pass| &pass.batches);
        let steps: Vec<f64> = batches.map(|batch| batch.think_cpu_ns + batch.think_ns).collect();
        let mean = steps.iter().sum::<f64>() / steps.len().max(1) as f64;
        let evidence = format!("from a batch to the next request for one, {} steps", steps.len());
        entries.likely("train.computation_time", seconds(mean), evidence);
        return spread("train.computation_time_stdev", &steps, mean, Confidence::Likely, entries);
    }
    let fetches: Vec<&Mark> = job.marks(Activity::Fetch).filter(own).collect();
    if fetches.len() > 1 {
        let gaps: Vec<f64> = fetches.windows(2).map(|pair| (pair[1].start - pair[0].end).max(0) as f64).collect();
        let typical = median(gaps).unwrap_or(0.0);
        return entries.likely("train.computation_time", seconds(typical), "from the end of a wait to the next one");
    }
    without_spans(job, set, shape, batch, entries);
}

/// Adds a distribution if it is wider than the accuracy of clocks.
fn spread(key: &'static str, spans: &[f64], mean: f64, confidence: Confidence, entries: &mut Entries) {
    let square = spans.iter().map(|ns| (ns - mean).powi(2)).sum::<f64>();
    let deviation = (square / spans.len().max(1) as f64).sqrt();
    if deviation > 0.05 * mean {
        entries.add(key, seconds(deviation), confidence, "their standard deviation");
    }
}

/// Returns the time per batch of the consumer, if several readers are idle most of the time and so wait for it.
fn consumer_pace(job: &Job, set: &DataSet, shape: &Shape, batch: u64) -> Option<f64> {
    const IDLE: f64 = 0.3;
    let lanes = reading_lanes(job, set).len();
    let unit = unit(shape);
    let its = || job.marks(unit).filter(|mark| mark.family == set.place);
    let (from, to) = (its().map(|mark| mark.start).min()?, its().map(|mark| mark.end).max()?);
    let busy: i64 = its().map(|mark| mark.end - mark.start + mark.busy_before.unwrap_or(0)).sum();
    let wall = (to - from) as f64;
    let waits = lanes > 1 && (busy as f64) < (1.0 - IDLE) * wall * lanes as f64;
    let batches = shape.samples * shape.epochs.value as f64 / (batch * job.ranks()) as f64;
    waits.then(|| wall / batches.max(1.0))
}

/// Returns the time in which a trainer neither waited nor wrote. The benchmark writes its checkpoints too.
pub fn computed(group: &RankGroup) -> Option<i64> {
    Some(group.trained_ns - group.waited_ns? - group.written_ns.unwrap_or(0))
}

/// Adds the compute time if no spans record it.
fn without_spans(job: &Job, set: &DataSet, shape: &Shape, batch: u64, entries: &mut Entries) {
    if let Some(beat) = shape.beat {
        entries.likely(
            "train.computation_time",
            seconds(beat.long_ns - beat.short_ns),
            "long pauses between reads, or messages",
        );
        if beat.spread_ns > 0.05 * beat.long_ns {
            entries.likely("train.computation_time_stdev", seconds(beat.spread_ns), "their standard deviation");
        }
        return;
    }
    let trained = job.groups.iter().filter_map(computed).max();
    let steps = shape.samples * shape.epochs.value as f64 / (batch * job.ranks()) as f64;
    if let Some(busy) = trained.filter(|busy| *busy > 0) {
        let each = seconds(busy as f64 / steps.max(1.0));
        return entries.likely(
            "train.computation_time",
            each,
            "training without its waits and its own writes, per step",
        );
    }
    if let Some(each) = consumer_pace(job, set, shape, batch) {
        let evidence = "readers wait most of the time: for a trainer that the trace does not show otherwise";
        return entries.guess("train.computation_time", seconds(each), evidence);
    }
    // A single reader with even pauses computes after each sample.
    let its = job.marks(unit(shape)).filter(|mark| mark.family == set.place);
    let pause = median(its.filter_map(|mark| mark.busy_before).map(|ns| ns as f64).collect());
    let evidence = "the pause between samples: the trace does not distinguish computing from preparing";
    entries.guess("train.computation_time", seconds(pause.unwrap_or(0.0) * batch as f64), evidence);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_from_pauses_drops_fewest_samples() {
        assert_eq!(filling(5, 64.0, 1), 4);
        assert_eq!(filling(8, 64.0, 1), 8);
        assert_eq!(filling(40, 64.0, 1), 32);
        assert_eq!(filling(4, 6.0, 1), 3);
        assert_eq!(filling(1, 7.0, 1), 1);
        assert_eq!(filling(5, 64.0, 2), 4);
    }
}
