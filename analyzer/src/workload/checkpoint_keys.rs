//! Keys of the section `checkpoint`.

use std::collections::BTreeSet;

use super::entry::{Confidence, Entries, seconds};
use super::job::{DataFile, Job, written};
use super::pause_clusters::middle;
use super::yaml::quoted;
use crate::io_profile::marks::{Activity, Mark};
use crate::io_profile::passes::Use;
use crate::summary::figures::quantiles::median;
use crate::summary::figures::units::{bytes, many};

/// Adds the keys; returns `true` if the job writes checkpoints.
pub fn add(job: &Job, steps: Option<(u64, u64)>, name: &str, entries: &mut Entries) -> bool {
    let Some((family, used, files)) = job.saved.iter().max_by_key(|(_, _, files)| written(files)) else { return false };
    let bytes_written: u64 = job.saved.iter().map(|(_, _, files)| written(files)).sum();
    let ranks = job.ranks();
    let mut saves: Vec<&Mark> = job.marks(Activity::Save).collect();
    let restores = job.marks(Activity::Restore).count() as u64 / ranks;
    // Ranks that only wait until a checkpoint is written record spans too, so spans of ranks without writes do not
    // count. If no rank wrote, another process writes for it, and all spans count.
    let written_by = |proc: u32| {
        let mut all = job.saved.iter().flat_map(|(_, _, files)| files);
        all.any(|file| job.analysis.counted.has_moved(proc, file.number))
    };
    let mut writers: BTreeSet<u32> = saves.iter().map(|save| save.proc).collect();
    if writers.iter().any(|proc| written_by(*proc)) {
        writers.retain(|proc| written_by(*proc));
        saves.retain(|save| writers.contains(&save.proc));
    }
    let said = saves.len() as u64 / (writers.len() as u64).max(1);
    let (count, confidence, evidence) = match said {
        0 => (files.len() as u64, Confidence::Likely, format!("{} with large writes", family.described())),
        said => (said, Confidence::Certain, format!("{} spans of checkpoints", saves.len())),
    };
    let told = format!("{} in {}", bytes(bytes_written as f64), many(count, "checkpoint", "checkpoints"));
    let shares = count.max(1) * (writers.len() as u64).max(1);
    match sizes_of_files(job, shares).filter(|_| !are_tensors(&family.suffix, files)) {
        Some(sizes) => {
            let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
            entries.add("checkpoint.file_bytes", format!("[{}]", sizes.join(", ")), confidence, told);
        }
        None => entries.add("model.model_size_bytes", bytes_written / shares, confidence, told),
    }
    if family.suffix == "safetensors" {
        entries.certain("checkpoint.format", "safetensors", "their extension");
    }
    transfer_size(used, entries);
    let folder = files.first().and_then(|file| crate::summary::analysis::directory(&file.path)).unwrap_or(".");
    entries.certain(
        "checkpoint.checkpoint_folder",
        quoted(&format!("checkpoints/{name}")),
        format!("the original files are in {folder}"),
    );
    let synchronised = used.syncs >= count;
    entries.certain("checkpoint.fsync", synchronised, format!("{} calls sync these files", used.syncs));
    if writers.len() as u64 == ranks && ranks > 1 {
        entries.certain("checkpoint.type", "all_ranks", "every rank writes one");
    }
    let own: Vec<&Mark> = saves.iter().filter(|save| Some(&save.proc) == writers.first()).copied().collect();
    match steps {
        Some(steps) => period(job, &own, count, steps, confidence, &evidence, entries),
        None => alone(&own, (count, restores), confidence, &evidence, entries),
    }
    true
}

/// Extensions of files whose content the benchmark generates: dictionaries of tensors.
const TENSORS: [&str; 6] = ["pt", "pth", "ckpt", "bin", "safetensors", "index"];

/// Part of the names of the files of a TensorFlow checkpoint.
const TENSORFLOW_PART: &str = ".data-0";

fn are_tensors(suffix: &str, files: &[DataFile]) -> bool {
    TENSORS.contains(&suffix) || files.iter().any(|file| file.path.contains(TENSORFLOW_PART))
}

/// More files in one checkpoint are not listed.
const FILES_MAX: usize = 64;

/// Returns the sizes of one checkpoint's files if all of them are plain bytes: each of `shares` gets an equal part of
/// the bytes written.
fn sizes_of_files(job: &Job, shares: u64) -> Option<Vec<u64>> {
    let of_family = |files: &Vec<DataFile>| -> Vec<u64> {
        let number = (files.len() as u64 / shares).max(1);
        let mut sizes: Vec<u64> = files.iter().take(number as usize).map(|file| file.count.bytes_written).collect();
        if number == 1 {
            // One file per checkpoint, or one that is overwritten each time.
            sizes = vec![written(files) / shares];
        }
        sizes
    };
    let sizes: Vec<u64> =
        job.saved.iter().flat_map(|(_, _, files)| of_family(files)).filter(|size| *size > 0).collect();
    (1..=FILES_MAX).contains(&sizes.len()).then_some(sizes)
}

/// Adds the size of one write, if it differs from the benchmark's default.
fn transfer_size(used: &Use, entries: &mut Entries) {
    /// The benchmark's default.
    const USUAL: f64 = (512 << 10) as f64;
    const ALIKE: f64 = 0.1;
    let sizes = used.written.sizes.values();
    let all: f64 = sizes.iter().map(|(size, count)| size * *count as f64).sum();
    // Weighted by bytes.
    let by_bytes: Vec<(f64, u64)> = sizes.iter().map(|(size, count)| (*size, (size * *count as f64) as u64)).collect();
    let half = middle(&by_bytes);
    let Some(size) = half.filter(|size| (size - USUAL).abs() > ALIKE * USUAL) else { return };
    let near: f64 = sizes.iter().filter(|it| (it.0 - size).abs() <= ALIKE * size).map(|it| it.0 * it.1 as f64).sum();
    let confidence = if near >= 0.9 * all { Confidence::Certain } else { Confidence::Likely };
    let evidence = format!("{:.0} % of their bytes are written in calls of about this size", near / all * 100.0);
    entries.add("checkpoint.transfer_size", size.round(), confidence, evidence);
}

/// Adds the keys for the times of checkpoints in a training run.
fn period(
    job: &Job,
    saves: &[&Mark],
    count: u64,
    (steps, epochs): (u64, u64),
    confidence: Confidence,
    evidence: &str,
    entries: &mut Entries,
) {
    // If their times are unknown, they are evenly spaced.
    let evenly = |entries: &mut Entries| {
        let every = (steps * epochs / count.max(1)).max(1);
        let said = format!("{} in {} steps: {evidence}", many(count, "checkpoint", "checkpoints"), steps * epochs);
        match every.is_multiple_of(steps.max(1)) {
            true => entries.guess("checkpoint.epochs_between_checkpoints", every / steps.max(1), said),
            false => entries.guess("checkpoint.steps_between_checkpoints", every, said),
        }
    };
    // Use the steps of the saving rank: ranks have not progressed equally at any time.
    let saver = job.groups.iter().find(|group| saves.first().is_some_and(|save| save.proc == group.proc));
    let Some(group) = saver.or_else(|| job.groups.iter().max_by_key(|group| group.batches)) else {
        return evenly(entries);
    };
    let own = |mark: &&Mark| (mark.proc, mark.tid) == (group.proc, group.tid);
    let fetches: Vec<i64> = job.marks(Activity::Fetch).filter(own).map(|mark| mark.end).collect();
    let at: Vec<u64> = saves.iter().map(|save| fetches.partition_point(|end| *end <= save.start) as u64).collect();
    if at.is_empty() || fetches.is_empty() {
        return evenly(entries);
    }
    // Some jobs count steps per epoch: then each checkpoint follows a multiple of the first one's step.
    let within = |at: &u64| (at.max(&1) - 1) % steps.max(1) + 1;
    let every = within(&at[0]);
    if every < steps && at.iter().all(|at| within(at).is_multiple_of(every)) && at.iter().any(|at| *at > steps) {
        let said = format!("checkpoints after steps {} of epochs of {steps}", list(&at));
        return entries.add("checkpoint.steps_between_checkpoints", every, confidence, said);
    }
    let gaps: Vec<f64> = at.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    let gap = median(gaps).unwrap_or(at[0] as f64) as u64;
    let said = format!("checkpoints after steps {}", list(&at));
    if at[0].is_multiple_of(steps) && gap.is_multiple_of(steps) && gap > 0 {
        entries.add("checkpoint.checkpoint_after_epoch", (at[0] / steps).max(1), confidence, &*said);
        entries.add("checkpoint.epochs_between_checkpoints", (gap / steps).max(1), confidence, "from one to the next");
    } else {
        entries.add("checkpoint.steps_between_checkpoints", gap.max(1), confidence, said);
    }
}

fn list(steps: &[u64]) -> String {
    const SHOWN: usize = 6;
    let shown: Vec<String> = steps.iter().take(SHOWN).map(u64::to_string).collect();
    shown.join(", ") + if steps.len() > SHOWN { ", ..." } else { "" }
}

/// Adds the keys of a job that only writes and reads checkpoints.
fn alone(
    saves: &[&Mark],
    (count, restores): (u64, u64),
    confidence: Confidence,
    evidence: &str,
    entries: &mut Entries,
) {
    entries.add("checkpoint.num_checkpoints_write", count, confidence, evidence);
    entries.add("checkpoint.num_checkpoints_read", restores, confidence, "spans that read a checkpoint");
    let pauses = saves.windows(2).map(|pair| (pair[1].start - pair[0].end).max(0) as f64).collect();
    let pause = median(pauses).unwrap_or(0.0);
    entries.add("checkpoint.time_between_checkpoints", seconds(pause), confidence, "from the end of one to the next");
}
