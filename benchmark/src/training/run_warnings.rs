//! Notes printed before training about differences between a run and what its keys suggest, one line each.

use crate::checkpoint;
use crate::config::{Config, LoaderKind};
use crate::training::loader::order::Share;

/// Returns notes about training and evaluation with shares like this rank's.
pub fn about(config: &Config, train: Share, evaluation: Share, ranks: u64) -> Vec<String> {
    let evaluates = config.workflow.evaluate.then_some(config.dataset.files_eval);
    let trained = left_over(config, "", config.dataset.files_train, train, ranks);
    let evaluated = evaluates.and_then(|files| left_over(config, "evaluation ", files, evaluation, ranks));
    let counted = not_counted(config, train);
    let all = [
        no_training(config),
        trained,
        evaluated,
        counted,
        forked(config),
        no_checkpoints(config, train.steps, ranks),
        not_numbered(config),
        uneven(config, ranks),
    ];
    all.into_iter().flatten().collect()
}

/// Returns a note if epochs have no training, as in DLIO.
fn no_training(config: &Config) -> Option<String> {
    let alone = config.evaluates_only();
    alone.then(|| "an epoch has no training steps, only an evaluation: num_files_train=0".into())
}

/// Returns the samples that do not fill a batch: frameworks drop them too (`drop_last`).
fn left_over(config: &Config, of: &str, files: u64, share: Share, ranks: u64) -> Option<String> {
    let (all, batch) = (files * config.dataset.samples_per_file, share.batch);
    if all / batch.max(1) / ranks.max(1) != share.steps {
        // A separate key has limited the number of steps.
        return None;
    }
    let left = all - share.steps * batch * ranks;
    let each = if ranks > 1 { format!(" on each of {ranks} ranks") } else { String::new() };
    (left > 0).then(|| format!("{left} of {all} {of}samples are dropped each epoch (batch size {batch}{each})"))
}

/// Returns the excluded steps: if they are more than one in ten, the metrics do not match the seconds next to them.
fn not_counted(config: &Config, share: Share) -> Option<String> {
    let (start, end) = (config.output.exclude_start, config.output.exclude_end);
    let (left_out, steps) = (start + end, share.steps);
    // The only step of an epoch counts without a note, because its exclusion was not requested.
    if left_out >= steps && steps > 1 {
        return Some(format!(
            "AU and rates include all {steps} steps of an epoch: excluding {start} at the start and {end} at the end \
             would leave none (workload.output.metric.exclude_start_steps and exclude_end_steps); DLIO's own formulas, \
             below `metric.compat`, then have no steps"
        ));
    }
    (left_out < steps && left_out * 10 > steps).then(|| {
        let counted = steps - left_out;
        format!(
            "AU and the rates below `metric` in summary.json include {counted} of {steps} steps per epoch; as in DLIO, \
             {start} at the start and {end} at the end are excluded (workload.output.metric.exclude_start_steps=0 \
             counts all)"
        )
    })
}

/// Returns a note if no checkpoint is written although the workload has checkpoints.
fn no_checkpoints(config: &Config, steps: u64, ranks: u64) -> Option<String> {
    let checkpoint = &config.checkpoint;
    if !config.workflow.checkpoint || checkpoint::written(config, ranks) > 0 {
        return None;
    }
    let why = match checkpoint.every_steps {
        // As in DLIO, zero steps never pass, and epochs no longer count.
        Some(0) => "steps_between_checkpoints=0 turns them off (-1: after epochs)".into(),
        Some(every) => format!("steps_between_checkpoints={every}, but an epoch has {steps} steps"),
        None => {
            format!("checkpoint_after_epoch={}, but the run has {} epochs", checkpoint.after_epoch, config.train.epochs)
        }
    };
    Some(format!("no checkpoint is written: {why}"))
}

/// Returns a note if numbers of checkpoints are set, which only runs without training have.
fn not_numbered(config: &Config) -> Option<String> {
    let is_set = config.checkpoint.writes > 0 || config.checkpoint.reads > 0;
    (config.workflow.checkpoint && is_set).then(|| {
        "num_checkpoints_write and num_checkpoints_read have no effect in a training run, whose checkpoints follow from \
         checkpoint_after_epoch, epochs_between_checkpoints and steps_between_checkpoints"
            .into()
    })
}

/// Returns a note if workers have unequal work: each streams separate shards, so some still read when others are done.
fn uneven(config: &Config, ranks: u64) -> Option<String> {
    let (shards, workers) = (config.dataset.files_train, config.reader.workers.max(1) as u64);
    let streams = config.dataset.format == "webdataset" && config.reader.loader != LoaderKind::Synthetic;
    (streams && !shards.is_multiple_of(workers * ranks)).then(|| {
        format!(
            "{shards} shards are not a multiple of {ranks} ranks with {workers} workers each: some read one more \
            than others"
        )
    })
}

fn forked(config: &Config) -> Option<String> {
    let asked = &config.reader.worker_start;
    let starts = config.reader.workers > 0 && config.reader.loader != LoaderKind::Synthetic;
    (starts && asked != "fork")
        .then(|| format!("loader workers are always forked; multiprocessing_context={asked} has no effect"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::grammar::parse;
    use crate::workload::presets::compose;

    fn remarks(typed: &[&str], ranks: u64) -> Vec<String> {
        let overrides: Vec<_> = typed.iter().map(|text| parse(text).unwrap()).collect();
        let config = Config::read(&compose(&overrides, None).unwrap().workload).unwrap();
        let all = |files| files * config.dataset.samples_per_file;
        let train = Share::new(all(config.dataset.files_train), config.reader.batch, 0, ranks, config.train.steps_max);
        let evaluation = Share::new(all(config.dataset.files_eval), config.reader.batch_eval, 0, ranks, None);
        about(&config, train, evaluation, ranks)
    }

    /// Returns the notes except the one on excluded steps, which all short runs get.
    fn other_remarks(typed: &[&str], ranks: u64) -> Vec<String> {
        remarks(typed, ranks).into_iter().filter(|remark| !remark.starts_with("AU")).collect()
    }

    #[test]
    fn many_excluded_steps_give_a_note() {
        let of = |files: &str| remarks(&["workload=unet3d", files, "++workload.reader.batch_size=4"], 1);
        assert!(of("++workload.dataset.num_files_train=16")[0].contains("3 of 4 steps"));
        assert!(of("++workload.dataset.num_files_train=4").is_empty(), "a single step counts");
        assert!(of("++workload.dataset.num_files_train=40").is_empty());
        for excluded in ["exclude_end_steps=3", "exclude_start_steps=50"] {
            let key = format!("++workload.output.metric.{excluded}");
            let typed = ["workload=unet3d", "++workload.dataset.num_files_train=16", &key];
            let told = remarks(&[&typed[..], &["++workload.reader.batch_size=4"]].concat(), 1);
            assert!(told[0].starts_with("AU and rates include all 4 steps"), "{told:?}");
        }
    }

    const FILES: &str = "++workload.dataset.num_files_train=16";

    #[test]
    fn samples_that_fill_no_batch_are_told() {
        let expected = "2 of 16 samples are dropped each epoch (batch size 7)";
        assert_eq!(other_remarks(&["workload=unet3d", FILES], 1), [expected]);
        assert!(other_remarks(&["workload=unet3d", FILES, "++workload.reader.batch_size=4"], 1).is_empty());
        assert!(
            other_remarks(&["workload=unet3d", FILES, "++workload.reader.batch_size=5"], 3)[0]
                .contains("each of 3 ranks")
        );
    }

    #[test]
    fn samples_dropped_by_evaluation_give_a_note() {
        let typed = ["workload=unet3d", FILES, "++workload.reader.batch_size=4", "++workload.dataset.num_files_eval=5"];
        let typed = [&typed[..], &["++workload.reader.batch_size_eval=2"]].concat();
        assert!(other_remarks(&typed, 1).is_empty());
        let expected = "1 of 5 evaluation samples are dropped each epoch (batch size 2)";
        assert_eq!(other_remarks(&[&typed[..], &["++workload.workflow.evaluation=true"]].concat(), 1), [expected]);
    }

    #[test]
    fn steps_that_were_limited_leave_nothing_over() {
        assert!(other_remarks(&["workload=unet3d", FILES, "++workload.train.total_training_steps=1"], 1).is_empty());
    }

    #[test]
    fn checkpoints_that_never_come_are_told() {
        let typed = ["workload=unet3d", FILES, "++workload.reader.batch_size=4", "++workload.workflow.checkpoint=true"];
        let notes = |more: &str| other_remarks(&[&typed[..], &[more]].concat(), 1).join("; ");
        assert!(notes("++workload.checkpoint.steps_between_checkpoints=100").contains("an epoch has 4 steps"));
        assert!(notes("++workload.checkpoint.checkpoint_after_epoch=9").contains("the run has 5 epochs"));
        assert!(notes("++workload.checkpoint.steps_between_checkpoints=0").contains("turns them off"));
        assert!(notes("++workload.checkpoint.num_checkpoints_write=3").contains("have no effect in a training run"));
        assert_eq!(notes("++workload.checkpoint.checkpoint_after_epoch=5"), "");
    }

    #[test]
    fn spawn_setting_gives_a_note_about_fork() {
        let spawn = "++workload.reader.multiprocessing_context=spawn";
        let typed = ["workload=unet3d", FILES, "++workload.reader.batch_size=4", spawn];
        assert_eq!(
            other_remarks(&typed, 1),
            ["loader workers are always forked; multiprocessing_context=spawn has no effect"]
        );
        assert!(other_remarks(&[&typed[..], &["++workload.reader.read_threads=0"]].concat(), 1).is_empty());
    }
}
