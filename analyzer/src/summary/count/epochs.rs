//! Counts per epoch, from spans that contain the epoch's number.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::summary::time::intervals::Interval;

/// The maximum number of epochs, keeping the lowest numbers: larger numbers are not epochs.
pub const EPOCHS_MAX: usize = 4096;

/// One epoch, over all trainers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochCount {
    /// From the first start to the last end of the spans with its number.
    pub start: i64,
    pub end: i64,
    /// Waits for batches, and compute, summed over spans.
    pub batches: u64,
    pub wait_ns: i64,
    pub compute_ns: i64,
    /// When the first of its batches was available.
    pub first_batch_ts: Option<i64>,
}

/// The role of a span in an epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    Wait,
    /// A wait that found no more batches.
    VainWait,
    Compute,
    Other,
}

/// The counts by epoch.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub struct Epochs(BTreeMap<i32, EpochCount>);

impl Epochs {
    pub fn add(&mut self, epoch: i32, interval: Interval, part: Part) {
        let length = |holds: bool| if holds { interval.end.saturating_sub(interval.start) } else { 0 };
        let is_wait = part == Part::Wait;
        self.put(
            epoch,
            EpochCount {
                start: interval.start,
                end: interval.end,
                batches: is_wait as u64,
                wait_ns: length(is_wait || part == Part::VainWait),
                compute_ns: length(part == Part::Compute),
                first_batch_ts: is_wait.then_some(interval.end),
            },
        );
    }

    pub fn merge(&mut self, other: Epochs) {
        other.0.into_iter().for_each(|(epoch, count)| self.put(epoch, count));
    }

    /// Iterates in order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (i32, &EpochCount)> {
        self.0.iter().map(|(&epoch, count)| (epoch, count))
    }

    fn put(&mut self, epoch: i32, more: EpochCount) {
        let add = |count: &mut EpochCount| {
            *count = EpochCount {
                start: count.start.min(more.start),
                end: count.end.max(more.end),
                batches: count.batches + more.batches,
                wait_ns: count.wait_ns + more.wait_ns,
                compute_ns: count.compute_ns + more.compute_ns,
                first_batch_ts: [count.first_batch_ts, more.first_batch_ts].into_iter().flatten().min(),
            };
        };
        self.0.entry(epoch).and_modify(add).or_insert(more);
        // The lowest are kept, independent of the order of arrival.
        if self.0.len() > EPOCHS_MAX {
            self.0.pop_last();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_an_epoch_merge_in_any_order() {
        let spans = [
            (1, (10, 20), Part::Wait),
            (1, (20, 50), Part::Compute),
            (2, (60, 65), Part::Wait),
            (1, (5, 8), Part::Other),
            (2, (55, 58), Part::Wait),
            (1, (50, 54), Part::VainWait),
        ];
        let add = |epochs: &mut Epochs, (epoch, (start, end), part): (i32, (i64, i64), Part)| {
            epochs.add(epoch, Interval { start, end }, part);
        };
        let (mut whole, mut parts) = (Epochs::default(), Epochs::default());
        spans.iter().for_each(|one| add(&mut whole, *one));
        spans.iter().rev().for_each(|one| {
            let mut part = Epochs::default();
            add(&mut part, *one);
            parts.merge(part);
        });
        assert_eq!(whole.0, parts.0);
        let first = whole.0[&1];
        assert_eq!((first.start, first.end, first.batches, first.wait_ns, first.compute_ns), (5, 54, 1, 14, 30));
        assert_eq!((first.first_batch_ts, whole.0[&2].first_batch_ts), (Some(20), Some(58)));
    }

    #[test]
    fn numbers_without_end_are_not_all_kept() {
        let mut epochs = Epochs::default();
        let many = EPOCHS_MAX as i32 + 100;
        (0..many).rev().for_each(|epoch| epochs.add(epoch, Interval { start: 0, end: 1 }, Part::Other));
        assert_eq!((epochs.0.len(), epochs.0.keys().next().copied()), (EPOCHS_MAX, Some(0)));
    }
}
