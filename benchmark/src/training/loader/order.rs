//! The order of samples for each rank and worker. Pure computation: everything follows from the configuration, the
//! epoch and a seed, so the trainer and its workers agree without communicating.
//!
//! ```text
//! all samples in the epoch's order    0 ........................................ n
//! a rank's share                            |start ... start + steps * batch|
//! by index: batch k is the k-th run of the share, read by worker k mod W
//! streams:  the share's files go to streams 0, 1, ... W-1, 0, 1, ...; each stream is read front to back
//! ```

use crate::config::Shuffle;
use crate::data_set::layout::Split;
use crate::system::random::{Permutation, mixed};
use std::ops::Range;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleId {
    pub file: u64,
    pub index: u64,
}

/// The inputs of an order, identical for every rank and worker of a run.
#[derive(Debug, Clone, Copy)]
pub struct Shuffling {
    pub files: Shuffle,
    pub samples: Shuffle,
    pub seed: u64,
    pub seed_change_epoch: bool,
    /// Drawn once per run, for shuffles that differ in each run.
    pub run_seed: u64,
    /// A streaming loader shuffles samples in a buffer, not by position.
    pub streams: bool,
}

/// The order of all samples of a split in one epoch.
#[derive(Debug, Clone, Copy)]
pub struct Order {
    pub epoch: u64,
    samples_per_file: u64,
    files: Option<Permutation>,
    samples: Option<Permutation>,
}

impl Order {
    pub fn new(files: u64, samples_per_file: u64, shuffling: &Shuffling, split: Split, epoch: u64) -> Order {
        let seeded = if shuffling.seed_change_epoch { epoch } else { 0 };
        let seed = |kind: Shuffle, what: u64| match kind {
            Shuffle::Off => None,
            Shuffle::Seed => Some(mixed(&[shuffling.seed, seeded, split as u64, what])),
            Shuffle::Random => Some(mixed(&[shuffling.run_seed, seeded, split as u64, what])),
        };
        let total = files * samples_per_file;
        Order {
            epoch,
            samples_per_file,
            files: seed(shuffling.files, 1).map(|seed| Permutation::new(files, seed)),
            samples: seed(shuffling.samples, 2)
                .filter(|_| !shuffling.streams)
                .map(|seed| Permutation::new(total, seed)),
        }
    }

    pub fn at(&self, position: u64) -> SampleId {
        let position = self.samples.map_or(position, |samples| samples.at(position));
        let file = position / self.samples_per_file;
        SampleId { file: self.files.map_or(file, |files| files.at(file)), index: position % self.samples_per_file }
    }
}

/// A rank's part of an epoch: whole batches, the same number on every rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    pub start: u64,
    pub steps: u64,
    pub batch: u64,
    /// Positions from the start of one batch to the next.
    pub stride: u64,
}

impl Share {
    pub fn new(total: u64, batch: u64, rank: u64, ranks: u64, steps_max: Option<u64>) -> Share {
        let steps = total / batch.max(1) / ranks;
        let start = (u128::from(rank) * u128::from(total) / u128::from(ranks)) as u64;
        Share { start, steps: steps.min(steps_max.unwrap_or(u64::MAX)), batch, stride: batch }
    }

    /// Returns a share of the same size whose batches alternate with those of other ranks, so that together they read
    /// the samples in order.
    pub fn strided(self, rank: u64, ranks: u64) -> Share {
        Share { start: rank * self.batch, stride: ranks * self.batch, ..self }
    }

    /// Returns all positions, if batches are consecutive.
    pub fn positions(&self) -> Range<u64> {
        self.start..self.start + self.steps * self.batch
    }

    pub fn batch_positions(&self, step: u64) -> Range<u64> {
        let first = self.start + step * self.stride;
        first..first + self.batch
    }
}

/// Returns the ranges of positions that one of `streams` readers reads: its files, in pieces of `piece` samples.
pub fn stream_pieces(
    share: Share,
    samples_per_file: u64,
    streams: u64,
    stream: u64,
    piece: u64,
) -> impl Iterator<Item = Range<u64>> {
    let all = share.positions();
    let first_file = all.start / samples_per_file;
    let last_file = all.end.div_ceil(samples_per_file);
    (first_file + stream..last_file).step_by(streams as usize).flat_map(move |file| {
        let from = all.start.max(file * samples_per_file);
        let to = all.end.min((file + 1) * samples_per_file);
        (from..to).step_by(piece as usize).map(move |first| first..(first + piece).min(to))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shuffling(files: Shuffle, samples: Shuffle) -> Shuffling {
        Shuffling { files, samples, seed: 123, seed_change_epoch: true, run_seed: 9, streams: false }
    }

    fn visited(order: &Order, total: u64) -> Vec<SampleId> {
        (0..total).map(|position| order.at(position)).collect()
    }

    #[test]
    fn every_sample_occurs_once_when_shuffled() {
        for files in [Shuffle::Off, Shuffle::Seed, Shuffle::Random] {
            for samples in [Shuffle::Off, Shuffle::Seed, Shuffle::Random] {
                let order = Order::new(7, 5, &shuffling(files, samples), Split::Train, 1);
                let mut seen: Vec<u64> = visited(&order, 35).iter().map(|id| id.file * 5 + id.index).collect();
                seen.sort_unstable();
                assert!(seen.into_iter().eq(0..35));
            }
        }
    }

    #[test]
    fn shuffle_differs_in_each_epoch() {
        let seeded = shuffling(Shuffle::Seed, Shuffle::Seed);
        let epoch = |number| visited(&Order::new(16, 1, &seeded, Split::Train, number), 16);
        let in_order: Vec<SampleId> = (0..16).map(|file| SampleId { file, index: 0 }).collect();
        assert_ne!(epoch(1), in_order);
        assert_ne!(epoch(1), epoch(2));
        assert_eq!(epoch(1), epoch(1));
        let kept = Shuffling { seed_change_epoch: false, ..seeded };
        assert_eq!(
            visited(&Order::new(16, 1, &kept, Split::Train, 1), 16),
            visited(&Order::new(16, 1, &kept, Split::Train, 2), 16)
        );
    }

    #[test]
    fn off_is_the_order_of_names() {
        let order = Order::new(3, 2, &shuffling(Shuffle::Off, Shuffle::Off), Split::Train, 4);
        let ids: Vec<(u64, u64)> = visited(&order, 6).iter().map(|id| (id.file, id.index)).collect();
        assert_eq!(ids, [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]);
    }

    #[test]
    fn ranks_take_disjoint_shares_with_equal_steps() {
        for (total, batch, ranks) in [(128, 8, 2), (100, 7, 3), (16, 4, 4), (10, 1, 3), (5, 2, 2)] {
            let shares: Vec<Share> = (0..ranks).map(|rank| Share::new(total, batch, rank, ranks, None)).collect();
            assert!(shares.iter().all(|share| share.steps == total / batch / ranks));
            let mut seen: Vec<u64> = shares.iter().flat_map(|share| share.positions()).collect();
            let count = seen.len();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), count, "no sample twice");
            assert!(seen.iter().all(|position| *position < total));
        }
    }

    #[test]
    fn strided_ranks_go_through_the_samples_together() {
        let shares: Vec<Share> = (0..3).map(|rank| Share::new(40, 4, rank, 3, None).strided(rank, 3)).collect();
        let visited = (0..shares[0].steps).flat_map(|step| shares.iter().map(move |share| share.batch_positions(step)));
        assert!(visited.flatten().eq(0..36));
    }

    /// 16 files of 8 samples in batches of 8 are 16 steps: files and samples must not be confused.
    #[test]
    fn many_samples_a_file_make_many_steps() {
        assert_eq!(Share::new(16 * 8, 8, 0, 1, None).steps, 16);
        assert_eq!(Share::new(1024 * 1251, 400, 0, 1, None).steps, 3202);
        assert_eq!(Share::new(128, 8, 0, 1, Some(3)).steps, 3);
    }

    #[test]
    fn streams_together_cover_the_share_once() {
        for (start, steps, per_file, streams, piece) in
            [(0, 10, 4, 3, 2), (7, 9, 5, 2, 64), (3, 1, 100, 4, 1), (0, 6, 1, 8, 3)]
        {
            let share = Share { start, steps, batch: 3, stride: 3 };
            let mut seen: Vec<u64> = (0..streams)
                .flat_map(|stream| stream_pieces(share, per_file, streams, stream, piece))
                .flatten()
                .collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(share.positions()));
        }
    }

    #[test]
    fn a_billion_samples_need_no_list() {
        let order = Order::new(1_000_000_000, 1, &shuffling(Shuffle::Seed, Shuffle::Seed), Split::Train, 1);
        assert_eq!(std::mem::size_of_val(&order), 64 + 16);
        assert!(order.at(999_999_999).file < 1_000_000_000);
    }
}
