//! Calls that move bytes: number, size, duration, distance in time, and position.

use crate::summary::figures::quantiles::Histogram;
use crate::summary::files::access::{RELATIONS, Relation};

/// Reads, or writes, of the files of one group.
#[derive(Clone, Default, Debug)]
pub struct TransferStats {
    pub bytes: u64,
    pub time_ns: u64,
    /// Sizes of calls that moved bytes.
    pub sizes: Histogram,
    pub latency: Histogram,
    /// Bytes per second of individual calls, weighted by bytes: many small calls are not bandwidth.
    pub rates: Histogram,
    /// From the start of the previous call on the thread to the start of this one.
    pub arrivals: Histogram,
    /// By [`Relation`].
    pub relations: [u64; RELATIONS],
}

impl TransferStats {
    /// Adds a call that moved bytes, with the time since the start of the previous one.
    pub fn add(&mut self, bytes: u64, time_ns: u64, arrival: Option<u64>, relation: Relation) {
        self.bytes += bytes;
        self.time_ns += time_ns;
        self.sizes.add(bytes);
        self.latency.add(time_ns);
        let rate = (bytes as u128 * 1_000_000_000 / u128::from(time_ns.max(1))) as u64;
        self.rates.add_steps(&[(rate, bytes)], 0, (rate, rate));
        arrival.into_iter().for_each(|ns| self.arrivals.add(ns));
        self.relations[relation as usize] += 1;
    }

    pub fn merge(&mut self, other: &TransferStats) {
        self.bytes += other.bytes;
        self.time_ns += other.time_ns;
        self.sizes.merge(&other.sizes);
        self.latency.merge(&other.latency);
        self.rates.merge(&other.rates);
        self.arrivals.merge(&other.arrivals);
        self.relations.iter_mut().zip(other.relations).for_each(|(mine, theirs)| *mine += theirs);
    }

    pub fn calls(&self) -> u64 {
        self.sizes.count
    }

    /// Returns the bytes per second at which half of the bytes moved, or faster: a few calls during which a thread was
    /// descheduled say nothing about storage.
    pub fn bandwidth(&self) -> Option<f64> {
        self.rates.quantiles().map(|rates| rates.median)
    }

    /// Returns the share of calls with a known position that started at the end of the previous one.
    pub fn consecutive(&self) -> Option<f64> {
        self.part(&[Relation::Consecutive])
    }

    /// Returns the share that started there or further on, or was the first of its pass.
    pub fn sequential(&self) -> Option<f64> {
        self.part(&[Relation::First, Relation::Consecutive, Relation::Forward])
    }

    fn part(&self, of: &[Relation]) -> Option<f64> {
        let known: u64 = self.relations.iter().sum::<u64>() - self.relations[Relation::Unknown as usize];
        let part: u64 = of.iter().map(|relation| self.relations[*relation as usize]).sum();
        (known > 0).then(|| part as f64 / known as f64)
    }
}
