//! The directories of checkpoints: their names, how many a run writes, whether they are writable.

use crate::config::{Checkpoints, Config};
use crate::data_set::layout::{Layout, Split};
use crate::failure::{Failure, Kind, Outcome};
use crate::store;
use std::fs;
use std::path::{Path, PathBuf};

/// Returns `global_epoch<E>_step<S>` below the checkpoint directory.
pub fn folder(below: &Path, epoch: u64, step: u64) -> PathBuf {
    below.join(format!("global_epoch{epoch}_step{step}"))
}

/// Returns the number of checkpoints that a run writes: each has a separate directory, and all are kept.
pub fn written(config: &Config, ranks: u64) -> u64 {
    let Config { checkpoint, train, reader, .. } = config;
    if !config.workflow.checkpoint {
        return 0;
    }
    if config.only_checkpoints() {
        return checkpoint.writes.max(0) as u64;
    }
    let samples = Layout::new(&config.dataset).samples(Split::Train);
    let steps = (samples / reader.batch.max(1) / ranks.max(1)).min(train.steps_max.unwrap_or(u64::MAX));
    let every_epochs = checkpoint.every_epochs.max(1);
    let from_first = |epochs: u64| epochs.checked_sub(checkpoint.after_epoch).map_or(0, |more| more / every_epochs + 1);
    match checkpoint.every_steps {
        Some(0) => 0,
        Some(every) => (steps / every).saturating_mul(train.epochs),
        None => from_first(train.epochs) - from_first(0),
    }
}

/// Returns the size of the existing checkpoints, by any program.
pub fn existing_bytes(below: &Path) -> u64 {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries(below).filter(|entry| entry.file_name().to_string_lossy().starts_with("global_epoch"));
    let files = folders.flat_map(|folder| entries(&folder.path())).filter_map(|file| file.metadata().ok());
    files.map(|file| file.len()).sum()
}

/// Checks that the checkpoints that a run reads exist, if they are files.
pub fn check_existence(checkpoints: &Checkpoints) -> Outcome<()> {
    let places = || [Some(&checkpoints.folder), checkpoints.fast_folder.as_ref()].into_iter().flatten();
    if places().any(|place| store::is_object(place)) {
        return Ok(());
    }
    let reads = checkpoints.reads.max(0) as u64;
    let exists = |step: u64| places().any(|place| folder(place, 1, step).is_dir());
    let Some(step) = (1..=reads).find(|step| !exists(*step)) else { return Ok(()) };
    let missing = folder(&checkpoints.folder, 1, step);
    let what = format!("cannot find the checkpoint to read: {} does not exist", missing.display());
    Err(Failure::new(Kind::MissingData, what)
        .remedy(format!("write it first with ++workload.checkpoint.num_checkpoints_write={reads}")))
}

/// Checks that checkpoints can be written to a directory: better before a run of hours than after its first epoch.
/// `key` is the key of the directory below `workload.checkpoint`.
pub fn check_folder(key: &str, below: &Path) -> Outcome<()> {
    if store::is_object(below) {
        return store::check_writable(below);
    }
    let probe = below.join(format!(".dlio-{}", std::process::id()));
    let tried = fs::create_dir_all(below).and_then(|()| fs::write(&probe, b"")).and_then(|()| fs::remove_file(&probe));
    tried.map_err(|error| {
        let what = format!("cannot write to the checkpoint directory {}: {error}", below.display());
        Failure::new(Kind::System, what).remedy(format!("choose another one with ++workload.checkpoint.{key}=DIR"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::value::parse_yaml;

    #[test]
    fn counts_checkpoints_by_epochs_and_steps() {
        for (text, expected) in [
            ("{workflow: {checkpoint: false}}", 0),
            ("{checkpoint: {checkpoint_after_epoch: 1, epochs_between_checkpoints: 1}}", 10),
            ("{checkpoint: {checkpoint_after_epoch: 0, epochs_between_checkpoints: 1}}", 10),
            ("{checkpoint: {checkpoint_after_epoch: 5, epochs_between_checkpoints: 2}}", 3),
            ("{checkpoint: {checkpoint_after_epoch: 11}}", 0),
            // 64 samples on 2 ranks make 16 steps.
            ("{checkpoint: {steps_between_checkpoints: 5}}", 30),
            ("{checkpoint: {steps_between_checkpoints: 0}}", 0),
            ("{workflow: {train: false}, checkpoint: {num_checkpoints_write: 4, num_checkpoints_read: 4}}", 4),
            ("{workflow: {train: false}, checkpoint: {num_checkpoints_write: -1, num_checkpoints_read: 4}}", 0),
        ] {
            let common = "{workflow: {checkpoint: true, train: true}, train: {epochs: 10}, \
                           reader: {batch_size: 2}, dataset: {num_files_train: 64}}";
            let mut tree = parse_yaml("t", common).unwrap();
            tree.merge(parse_yaml("t", text).unwrap());
            assert_eq!(written(&Config::read(&tree).unwrap(), 2), expected, "{text}");
        }
    }
}
