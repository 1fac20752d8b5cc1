//! Computes the metrics of a run from times, counts and bytes only.
//!
//! ```text
//! block |load|compute|load|compute| ... |load|compute|  end
//!       |  excluded  |<------- the window ------->|excluded|
//! ```
//!
//! Each metric exists twice. The corrected one counts what happened: the window is the time from the end of the last
//! excluded step to the end of the last counted one, the steps are those in it, the bytes are those read. The `compat`
//! one is DLIO's formula with its constants, for comparison with old results.

use crate::config::Excluded;
use serde_json::{Map, Value, json};

/// DLIO's megabyte: its keys that end in `MB_per_second` count in these.
const MIB: f64 = (1u64 << 20) as f64;

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Step {
    /// Waiting for the batch, and computing on it, in seconds.
    pub load: f64,
    pub compute: f64,
    /// The end of the step, in seconds from the start of the block.
    pub end: f64,
    pub samples: u64,
    pub bytes: u64,
}

impl Step {
    pub fn whole(&self) -> f64 {
        self.load + self.compute
    }
}

/// A series of steps that is measured together: up to a checkpoint, or an evaluation.
#[derive(Debug, Clone, Default)]
pub struct Block {
    pub steps: Vec<Step>,
    /// From the start of the block to its end.
    pub duration: f64,
}

/// The metrics of one block on one rank.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Figures {
    pub au: f64,
    pub samples_per_second: f64,
    pub mebibytes_per_second: f64,
    pub steps: f64,
}

/// The work of a window of steps, and its time.
#[derive(Debug, Clone, Copy, Default)]
struct Work {
    compute: f64,
    samples: f64,
    bytes: f64,
    seconds: f64,
}

impl Work {
    fn add(self, other: Work) -> Work {
        Work {
            compute: self.compute + other.compute,
            samples: self.samples + other.samples,
            bytes: self.bytes + other.bytes,
            seconds: self.seconds + other.seconds,
        }
    }

    fn figures(&self, steps: f64) -> Figures {
        Figures {
            au: ratio(100.0 * self.compute, self.seconds),
            samples_per_second: ratio(self.samples, self.seconds),
            mebibytes_per_second: ratio(self.bytes / MIB, self.seconds),
            steps,
        }
    }
}

impl Block {
    fn work(&self, excluded: Excluded) -> Work {
        let window = excluded.window(self.steps.len());
        let Some(last) = self.steps[window.clone()].last() else { return Work::default() };
        let begin = window.start.checked_sub(1).map_or(0.0, |before| self.steps[before].end);
        let counted = &self.steps[window];
        Work {
            compute: counted.iter().map(|step| step.compute).sum(),
            samples: counted.iter().map(|step| step.samples).sum::<u64>() as f64,
            bytes: counted.iter().map(|step| step.bytes).sum::<u64>() as f64,
            seconds: last.end - begin,
        }
    }

    pub fn corrected(&self, excluded: Excluded) -> Figures {
        self.work(excluded).figures(self.steps.len() as f64)
    }

    /// Returns DLIO's metrics of an evaluation: utilization has the window of a training run, throughput covers all
    /// steps and the whole time.
    pub fn compat_evaluation(&self, excluded: Excluded, batch: u64, record_bytes: f64) -> Figures {
        let rate = ratio(self.steps.len() as f64 * batch as f64, self.duration);
        Figures {
            samples_per_second: rate,
            mebibytes_per_second: rate * record_bytes / MIB,
            ..self.compat(excluded, batch, record_bytes)
        }
    }

    /// Returns DLIO's metrics: the window's time is the block's time minus the steps outside, and its steps are always
    /// two fewer.
    pub fn compat(&self, excluded: Excluded, batch: u64, record_bytes: f64) -> Figures {
        let steps = self.steps.len();
        let window = excluded.start.min(steps)..steps.saturating_sub(excluded.end).max(excluded.start.min(steps));
        let outside: f64 = self
            .steps
            .iter()
            .enumerate()
            .filter(|(step, _)| !window.contains(step))
            .map(|(_, step)| step.whole())
            .sum();
        let seconds = self.duration - outside;
        // An empty sum is negative zero.
        let computed: f64 = self.steps[window].iter().map(|step| step.compute).sum::<f64>().abs();
        let rate = ratio((steps as f64 - 2.0) * batch as f64, seconds);
        Figures {
            au: ratio(100.0 * computed, seconds),
            samples_per_second: rate,
            mebibytes_per_second: rate * record_bytes / MIB,
            steps: steps as f64,
        }
    }
}

fn ratio(number: f64, by: f64) -> f64 {
    if by > 0.0 { number / by } else { 0.0 }
}

/// Combines the blocks of an epoch: rates are total work divided by total time. Utilization is weighted by steps, as in
/// DLIO.
pub fn combine_blocks<'a>(blocks: impl Iterator<Item = &'a Block> + Clone, excluded: Excluded) -> Figures {
    let each: Vec<Figures> = blocks.clone().map(|block| block.corrected(excluded)).collect();
    let Figures { au, steps, .. } = weighted(&each);
    let work = blocks.map(|block| block.work(excluded)).fold(Work::default(), Work::add);
    Figures { au, ..work.figures(steps) }
}

/// Combines the metrics of an epoch's blocks as DLIO does, weighted by their steps.
pub fn weighted(blocks: &[Figures]) -> Figures {
    let steps: f64 = blocks.iter().map(|block| block.steps).sum();
    let mean = |of: fn(&Figures) -> f64| ratio(blocks.iter().map(|block| of(block) * block.steps).sum(), steps);
    Figures {
        au: mean(|block| block.au),
        samples_per_second: mean(|block| block.samples_per_second),
        mebibytes_per_second: mean(|block| block.mebibytes_per_second),
        steps,
    }
}

/// Combines ranks: utilization is averaged, rates are added.
pub fn over_ranks(ranks: &[Figures]) -> Figures {
    let sum = |of: fn(&Figures) -> f64| ranks.iter().map(of).sum::<f64>();
    Figures {
        au: ratio(sum(|rank| rank.au), ranks.len() as f64),
        samples_per_second: sum(|rank| rank.samples_per_second),
        mebibytes_per_second: sum(|rank| rank.mebibytes_per_second),
        steps: ranks.first().map_or(0.0, |rank| rank.steps),
    }
}

/// Returns mean and population deviation, both zero for an empty slice: a NaN is not JSON.
pub fn mean_stdev(numbers: &[f64]) -> (f64, f64) {
    let mean = ratio(numbers.iter().sum(), numbers.len() as f64);
    let variance = ratio(numbers.iter().map(|number| (number - mean).powi(2)).sum(), numbers.len() as f64);
    (mean, variance.sqrt())
}

/// Returns the value below which a share of the sorted numbers is, interpolated between neighbors.
pub fn percentile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let at = share * last as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
}

/// Returns statistics of the trainer's waits for batches, in milliseconds.
pub fn waits<'a>(steps: impl Iterator<Item = &'a Step>) -> Value {
    let mut waits: Vec<f64> = steps.map(|step| step.load * 1e3).collect();
    waits.sort_by(f64::total_cmp);
    json!({
        "p50": percentile(&waits, 0.5),
        "p90": percentile(&waits, 0.9),
        "p99": percentile(&waits, 0.99),
        "max": waits.last().copied().unwrap_or(0.0),
    })
}

/// Adds DLIO's keys for one phase (`train` or `eval`): a list with one number per epoch, mean and deviation.
pub fn phase(name: &str, epochs: &[Figures], expected_au: f64, into: &mut Map<String, Value>) {
    if epochs.is_empty() {
        return;
    }
    let list = |of: fn(&Figures) -> f64| epochs.iter().map(of).collect::<Vec<f64>>();
    let (au, rate, transfer) =
        (list(|epoch| epoch.au), list(|epoch| epoch.samples_per_second), list(|epoch| epoch.mebibytes_per_second));
    let mut put = |key: &str, value: Value| into.insert(format!("{name}_{key}"), value);
    let (mean, stdev) = mean_stdev(&au);
    put("au_percentage", json!(au));
    put("au_mean_percentage", json!(mean));
    put("au_meet_expectation", json!(if mean >= 100.0 * expected_au { "success" } else { "fail" }));
    put("au_stdev_percentage", json!(stdev));
    let (mean, stdev) = mean_stdev(&rate);
    put("throughput_samples_per_second", json!(rate));
    put("throughput_mean_samples_per_second", json!(mean));
    put("throughput_stdev_samples_per_second", json!(stdev));
    let (mean, stdev) = mean_stdev(&transfer);
    put("io_mean_MB_per_second", json!(mean));
    put("io_stdev_MB_per_second", json!(stdev));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns steps of 1 s load and 3 s compute, the first with 5 s load.
    fn block(steps: usize) -> Block {
        let mut block = Block::default();
        let mut end = 0.0;
        for number in 0..steps {
            let load = if number == 0 { 5.0 } else { 1.0 };
            end += load + 3.0;
            block.steps.push(Step { load, compute: 3.0, end, samples: 4, bytes: 4 << 20 });
        }
        block.duration = end;
        block
    }

    const FIRST: Excluded = Excluded { start: 1, end: 0 };

    #[test]
    fn the_window_leaves_out_the_first_step() {
        let figures = block(5).corrected(FIRST);
        assert_eq!((figures.au, figures.samples_per_second, figures.mebibytes_per_second), (75.0, 1.0, 1.0));
    }

    #[test]
    fn throughput_counts_the_steps_of_the_window() {
        assert_eq!(block(2).corrected(FIRST).samples_per_second, 1.0);
        assert_eq!(block(2).compat(FIRST, 4, 1.0).samples_per_second, 0.0);
        assert_eq!(block(5).compat(FIRST, 4, 1.0).samples_per_second, 12.0 / 16.0);
    }

    #[test]
    fn both_metrics_use_dlios_megabyte() {
        let mut into = Map::new();
        phase("train", &[block(5).corrected(FIRST)], 0.9, &mut into);
        assert_eq!(into["train_io_mean_MB_per_second"], 1.0);
        // Four samples of a mebibyte per step: 12 in 16 s.
        assert_eq!(block(5).compat(FIRST, 4, 1_048_576.0).mebibytes_per_second, 0.75);
    }

    #[test]
    fn combined_rate_is_total_work_over_total_time() {
        // 16 samples in 16 s, and 8 in 2 s of a window that started at 1 s.
        let quick = |end| Step { load: 0.0, compute: 1.0, end, samples: 4, bytes: 1 << 20 };
        let short = Block { steps: vec![quick(1.0), quick(2.0), quick(3.0)], duration: 3.0 };
        let figures = combine_blocks([&block(5), &short].into_iter(), FIRST);
        assert_eq!((figures.samples_per_second, figures.mebibytes_per_second), (24.0 / 18.0, 1.0));
        assert_eq!((figures.au, figures.steps), ((75.0 * 5.0 + 100.0 * 3.0) / 8.0, 8.0));
        assert_eq!(combine_blocks([&Block::default()].into_iter(), FIRST), Figures::default());
    }

    #[test]
    fn compat_evaluation_covers_all_steps() {
        // 8 + 4 s: DLIO's utilization excludes the first step, its throughput does not.
        let figures = block(2).compat_evaluation(FIRST, 3, 1024.0 * 1024.0);
        assert_eq!((figures.au, figures.samples_per_second, figures.mebibytes_per_second), (75.0, 0.5, 0.5));
    }

    #[test]
    fn utilization_without_steps_is_zero() {
        let nothing = Excluded { start: 3, end: 3 };
        assert!(block(5).compat(nothing, 4, 1.0).au.is_sign_positive());
    }

    #[test]
    fn a_block_of_one_step_still_has_figures() {
        let figures = block(1).corrected(FIRST);
        assert_eq!((figures.au, figures.samples_per_second), (37.5, 0.5));
        assert_eq!(Block::default().corrected(FIRST), Figures::default());
    }

    #[test]
    fn ranks_add_rates_and_share_utilization() {
        let ranks = [
            Figures { au: 80.0, samples_per_second: 1.0, mebibytes_per_second: 2.0, steps: 3.0 },
            Figures { au: 90.0, samples_per_second: 2.0, mebibytes_per_second: 3.0, steps: 3.0 },
        ];
        assert_eq!(
            over_ranks(&ranks),
            Figures { au: 85.0, samples_per_second: 3.0, mebibytes_per_second: 5.0, steps: 3.0 }
        );
    }

    #[test]
    fn blocks_weigh_as_many_steps_as_they_have() {
        let short = Figures { au: 0.0, steps: 1.0, ..Figures::default() };
        let long = Figures { au: 100.0, steps: 3.0, ..Figures::default() };
        assert_eq!(weighted(&[short, long]).au, 75.0);
    }

    #[test]
    fn nothing_measured_is_zero_and_never_nan() {
        assert_eq!(mean_stdev(&[]), (0.0, 0.0));
        assert_eq!(percentile(&[], 0.5), 0.0);
        assert_eq!(weighted(&[]), Figures::default());
    }

    #[test]
    fn percentiles_interpolate_between_neighbors() {
        assert_eq!(percentile(&[1.0, 2.0, 3.0], 0.5), 2.0);
        assert_eq!(percentile(&[1.0, 2.0], 0.5), 1.5);
        assert_eq!(percentile(&[1.0, 2.0], 1.0), 2.0);
    }
}
