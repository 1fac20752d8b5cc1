//! Keys of the section `checkpoint`.

use std::collections::BTreeSet;

use super::entry::{Confidence, Entries, seconds};
use super::job::{Job, written};
use super::yaml::quoted;
use crate::behaviour::marks::{Mark, What};
use crate::summary::quantiles::median;
use crate::summary::units::bytes;

/// Whether anything is written that is taken for checkpoints.
pub fn add(job: &Job, steps: Option<(u64, u64)>, name: &str, entries: &mut Entries) -> bool {
    let Some((family, used, files)) = job.saved.iter().max_by_key(|(_, _, files)| written(files)) else { return false };
    let bytes_written: u64 = job.saved.iter().map(|(_, _, files)| written(files)).sum();
    let ranks = job.ranks();
    let saves: Vec<&Mark> = job.marks(What::Save).collect();
    let restores = job.marks(What::Restore).count() as u64 / ranks;
    let writers: BTreeSet<u32> = saves.iter().map(|save| save.proc).collect();
    let said = saves.len() as u64 / (writers.len() as u64).max(1);
    let (count, confidence, evidence) = match said {
        0 => (files.len() as u64, Confidence::Likely, format!("{} of which much is written", family.described())),
        said => (said, Confidence::Certain, format!("{} spans of checkpoints", saves.len())),
    };
    let each = bytes_written as f64 / count.max(1) as f64 / (writers.len() as f64).max(1.0);
    let told = format!("{} in {count} checkpoints", bytes(bytes_written as f64));
    entries.add("model.model_size_bytes", each.round(), confidence, told);
    let folder = files.first().and_then(|file| crate::summary::analysis::directory(&file.path)).unwrap_or(".");
    entries.certain(
        "checkpoint.checkpoint_folder",
        quoted(&format!("checkpoints/{name}")),
        format!("the original's are in {folder}"),
    );
    let synchronised = used.syncs >= count;
    entries.certain("checkpoint.fsync", synchronised, format!("{} calls synchronise them", used.syncs));
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

/// When checkpoints come in a training.
fn period(
    job: &Job,
    saves: &[&Mark],
    count: u64,
    (steps, epochs): (u64, u64),
    confidence: Confidence,
    evidence: &str,
    entries: &mut Entries,
) {
    // Where nothing tells when they were, they come at even distances.
    let evenly = |entries: &mut Entries| {
        let every = (steps * epochs / count.max(1)).max(1);
        let said = format!("{count} checkpoints in {} steps: {evidence}", steps * epochs);
        match every.is_multiple_of(steps.max(1)) {
            true => entries.guess("checkpoint.epochs_between_checkpoints", every / steps.max(1), said),
            false => entries.guess("checkpoint.steps_between_checkpoints", every, said),
        }
    };
    let Some(group) = job.groups.iter().max_by_key(|group| group.batches) else {
        return evenly(entries);
    };
    let own = |mark: &&Mark| (mark.proc, mark.tid) == (group.proc, group.tid);
    let fetches: Vec<i64> = job.marks(What::Fetch).filter(own).map(|mark| mark.end).collect();
    let at: Vec<u64> = saves.iter().map(|save| fetches.partition_point(|end| *end <= save.start) as u64).collect();
    if at.is_empty() || fetches.is_empty() {
        return evenly(entries);
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

/// A job that does nothing else.
fn alone(
    saves: &[&Mark],
    (count, restores): (u64, u64),
    confidence: Confidence,
    evidence: &str,
    entries: &mut Entries,
) {
    entries.add("checkpoint.num_checkpoints_write", count, confidence, evidence);
    entries.add("checkpoint.num_checkpoints_read", restores, confidence, "spans that read one back");
    let pauses = saves.windows(2).map(|pair| (pair[1].start - pair[0].end).max(0) as f64).collect();
    let pause = median(pauses).unwrap_or(0.0);
    entries.add("checkpoint.time_between_checkpoints", seconds(pause), confidence, "from the end of one to the next");
}
