//! What a run does otherwise than its keys may suggest: a line each, told before it trains.

use crate::config::{Config, LoaderKind};
use crate::loader::order::Share;

/// Remarks about training with `shares` of ranks like this one's.
pub fn about(config: &Config, share: Share, ranks: u64) -> Vec<String> {
    let (left_over, forked) = (left_over(config, share, ranks), forked(config));
    left_over.into_iter().chain(forked).collect()
}

/// Samples that fill no batch: frameworks leave them out too, under the name of `drop_last`.
fn left_over(config: &Config, share: Share, ranks: u64) -> Option<String> {
    let (all, batch) = (config.dataset.files_train * config.dataset.samples_per_file, config.reader.batch);
    if all / batch.max(1) / ranks.max(1) != share.steps {
        // The number of steps was limited by a key of its own.
        return None;
    }
    let left = all - share.steps * batch * ranks;
    let each = if ranks > 1 { format!(" on each of {ranks} ranks") } else { String::new() };
    (left > 0).then(|| format!("{left} of {all} samples are left over each epoch: batches of {batch}{each}"))
}

fn forked(config: &Config) -> Option<String> {
    let asked = &config.reader.worker_start;
    let starts = config.reader.workers > 0 && config.reader.loader != LoaderKind::Synthetic;
    (starts && asked != "fork")
        .then(|| format!("loader workers are forked; multiprocessing_context={asked} changes nothing"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::parse;
    use crate::workload::compose;

    fn remarks(typed: &[&str], ranks: u64) -> Vec<String> {
        let overrides: Vec<_> = typed.iter().map(|text| parse(text).unwrap()).collect();
        let config = Config::read(&compose(&overrides, None).unwrap().workload).unwrap();
        let all = config.dataset.files_train * config.dataset.samples_per_file;
        about(&config, Share::new(all, config.reader.batch, 0, ranks, config.train.steps_max), ranks)
    }

    const FILES: &str = "++workload.dataset.num_files_train=16";

    #[test]
    fn samples_that_fill_no_batch_are_told() {
        let expected = "2 of 16 samples are left over each epoch: batches of 7";
        assert_eq!(remarks(&["workload=unet3d", FILES], 1), [expected]);
        assert!(remarks(&["workload=unet3d", FILES, "++workload.reader.batch_size=4"], 1).is_empty());
        assert!(
            remarks(&["workload=unet3d", FILES, "++workload.reader.batch_size=5"], 3)[0].contains("each of 3 ranks")
        );
    }

    #[test]
    fn steps_that_were_limited_leave_nothing_over() {
        assert!(remarks(&["workload=unet3d", FILES, "++workload.train.total_training_steps=1"], 1).is_empty());
    }

    #[test]
    fn workers_that_should_be_spawned_are_told_to_be_forked() {
        let spawn = "++workload.reader.multiprocessing_context=spawn";
        let typed = ["workload=unet3d", FILES, "++workload.reader.batch_size=4", spawn];
        assert_eq!(remarks(&typed, 1), ["loader workers are forked; multiprocessing_context=spawn changes nothing"]);
        assert!(remarks(&[&typed[..], &["++workload.reader.read_threads=0"]].concat(), 1).is_empty());
    }
}
