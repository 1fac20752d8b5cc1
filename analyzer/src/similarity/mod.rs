//! The similarity of two runs in their I/O, for example of a benchmark and the program it represents.
//!
//! [`features`] are single numbers of each run, by which the paper on DLIO compares its benchmark with eight
//! applications; [`distance`] compares whole distributions, so that a high cosine cannot hide a different distribution;
//! [`text`] prints.
//!
//! Only files with data count: groups of files with at least 1 % of the bytes of a run. Logs and settings, which are
//! many and small, would otherwise determine the number of files of two runs.

pub mod distance;
pub mod features;
pub mod text;

use serde::Serialize;

use crate::compare::metrics::Unit;
use crate::io_profile::IoProfile;
use crate::io_profile::file_group::FileGroup;
use crate::io_profile::transfers::TransferStats;
use crate::summary::figures::quantiles::Histogram;
use features::FEATURES;

pub const SCHEMA: &str = "dlio-similarity";
pub const VERSION: u32 = 1;

/// Groups with a smaller share of a run's bytes do not count as data.
const CARRIES: f64 = 0.01;

/// The compared data of a run.
#[derive(Clone, Debug, Default)]
pub struct Side {
    pub trace: String,
    /// Data files, and the time of calls on them, summed over threads.
    pub files: u64,
    pub io_ns: u64,
    pub read: TransferStats,
    pub written: TransferStats,
    /// Files that are left out.
    pub small_files: u64,
    pub small_bytes: u64,
    pub events: u64,
    pub lost: u64,
}

impl Side {
    /// Creates a side. With a filter on files, all files that pass it count: the user has selected them.
    pub fn of(typed: &str, behaviour: &IoProfile) -> Side {
        let IoProfile { analysis, observed } = behaviour;
        let all: u64 = observed.families.values().map(|used| used.read.bytes + used.written.bytes).sum();
        let chosen = !analysis.filter.files.is_empty();
        let carries = |bytes: u64| chosen || bytes as f64 >= CARRIES * all as f64 && bytes > 0;
        let mut side = Side {
            trace: typed.into(),
            events: analysis.events(),
            lost: analysis.counted.processes.iter().map(|process| process.lost).sum(),
            ..Side::default()
        };
        let mut carried: Vec<&FileGroup> = Vec::new();
        for (family, used) in &observed.families {
            let bytes = used.read.bytes + used.written.bytes;
            if carries(bytes) {
                carried.push(family);
                side.read.merge(&used.read);
                side.written.merge(&used.written);
            } else {
                side.small_bytes += bytes;
            }
        }
        let carried: Vec<Option<u32>> = carried.into_iter().map(|family| observed.place(family)).collect();
        for (file, count) in analysis.counted.files.iter().enumerate() {
            let place = observed.family_of.get(file).copied();
            match count.bytes_read + count.bytes_written > 0 && place.is_some() && carried.contains(&place) {
                true => {
                    side.files += 1;
                    side.io_ns += count.time_ns;
                }
                false if count.is_used() => side.small_files += 1,
                false => {}
            }
        }
        side
    }
}

/// One number of both runs.
#[derive(Serialize, Clone, Debug)]
pub struct FeatureOfBoth {
    pub feature: &'static str,
    pub unit: Unit,
    pub before: f64,
    pub after: f64,
    /// Their difference, relative to the larger one; for shares, absolute.
    pub difference: f64,
}

impl FeatureOfBoth {
    /// Returns the larger of both, or 1 for shares.
    pub fn scale(&self) -> f64 {
        if self.unit == Unit::Share { 1.0 } else { self.before.max(self.after) }
    }
}

/// The distance of two distributions.
#[derive(Serialize, Clone, Debug)]
pub struct Distance {
    pub distribution: &'static str,
    /// From 0 (equal) to 1 (nothing in common), see [`distance`].
    pub distance: f64,
    pub before_calls: u64,
    pub after_calls: u64,
}

/// A run, and its files that were left out.
#[derive(Serialize, Clone, Debug)]
pub struct Head {
    pub trace: String,
    pub events: u64,
    pub lost: u64,
    pub files: u64,
    pub small_files: u64,
    pub small_bytes: u64,
}

#[derive(Serialize, Clone, Debug)]
pub struct Similarity {
    pub schema: &'static str,
    pub version: u32,
    /// The cosine of the features, each divided by the larger of both, except shares.
    pub cosine: f64,
    pub before: Head,
    pub after: Head,
    pub features: Vec<FeatureOfBoth>,
    pub distances: Vec<Distance>,
}

/// Compares two runs.
pub fn similarity(before: &Side, after: &Side) -> Similarity {
    let features: Vec<_> = FEATURES.iter().filter_map(|feature| feature.of_both(before, after)).collect();
    let head = |side: &Side| Head {
        trace: side.trace.clone(),
        events: side.events,
        lost: side.lost,
        files: side.files,
        small_files: side.small_files,
        small_bytes: side.small_bytes,
    };
    Similarity {
        schema: SCHEMA,
        version: VERSION,
        cosine: cosine(&features),
        before: head(before),
        after: head(after),
        features,
        distances: distances(before, after),
    }
}

/// Returns the cosine of the vectors of all features, each divided by the larger of both, so that units do not matter.
/// Shares are not divided, and two shares near zero are alike.
fn cosine(features: &[FeatureOfBoth]) -> f64 {
    let scaled = features.iter().map(|feature| {
        let scale = feature.scale();
        (feature.before / scale, feature.after / scale)
    });
    let (dot, a, b) = scaled.fold((0.0, 0.0, 0.0), |(dot, a, b), (x, y)| (dot + x * y, a + x * x, b + y * y));
    if a * b > 0.0 { dot / (a * b).sqrt() } else { 0.0 }
}

type Distribution = (&'static str, fn(&Side) -> &Histogram);

const DISTRIBUTIONS: [Distribution; 6] = [
    ("read.size", |side| &side.read.sizes),
    ("read.arrival", |side| &side.read.arrivals),
    ("read.latency", |side| &side.read.latency),
    ("write.size", |side| &side.written.sizes),
    ("write.arrival", |side| &side.written.arrivals),
    ("write.latency", |side| &side.written.latency),
];

fn distances(before: &Side, after: &Side) -> Vec<Distance> {
    let measured = |(distribution, of): &Distribution| {
        let (a, b) = (of(before), of(after));
        (a.count + b.count > 0).then(|| Distance {
            distribution,
            distance: distance::normalised(&a.values(), &b.values()),
            before_calls: a.count,
            after_calls: b.count,
        })
    };
    DISTRIBUTIONS.iter().filter_map(measured).collect()
}

/// For `--explain`.
pub const MEANING: &str = "\
    Similarity (--compare OTHER --similarity): how similar the I/O of two runs is. The cosine compares the vectors of \
    the features below, each divided by the larger of the two values (shares are not divided); 1 means equal. A \
    difference is the larger value minus the smaller one, divided by the larger one; for shares it is not divided. \
    Distances compare whole distributions: Wasserstein's distance divided by the sum of both means, which is 0 if they \
    are equal and 1 if they have nothing in common. An arrival is the time from the start of one call to the start of \
    the next on the same thread. Only files with data count: file groups (one extension, training or evaluation) with \
    1 % of a run's bytes or more; with --file, all that match. The features:";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::files::access::Relation;

    fn side(sizes: &[u64], ns: u64) -> Side {
        let mut side = Side { files: 4, io_ns: 1000, ..Side::default() };
        sizes.iter().for_each(|size| side.read.add(*size, ns, Some(2 * ns), Relation::First));
        side
    }

    #[test]
    fn a_run_is_like_itself() {
        let a = side(&[10, 20, 30], 5);
        let found = similarity(&a, &a);
        assert!((found.cosine - 1.0).abs() < 1e-12);
        assert!(found.features.iter().all(|feature| feature.difference == 0.0));
        assert!(found.distances.iter().all(|distance| distance.distance == 0.0));
    }

    #[test]
    fn activity_of_one_run_only_differs_completely() {
        let (a, mut b) = (side(&[100; 8], 5), side(&[100; 8], 5));
        b.written.add(50, 5, None, Relation::First);
        let found = similarity(&a, &b);
        let written = found.features.iter().find(|feature| feature.feature == "write.bytes").unwrap();
        assert_eq!((written.before, written.after, written.difference), (0.0, 50.0, 1.0));
        assert!(found.cosine < 0.95);
        assert!(
            found.distances.iter().any(|distance| distance.distribution == "write.size" && distance.distance == 1.0)
        );
    }

    #[test]
    fn the_cosine_is_that_of_scaled_vectors() {
        let feature = |before, after| FeatureOfBoth { feature: "", unit: Unit::Count, before, after, difference: 0.0 };
        // (1, 1) and (1/2, 1).
        let found = cosine(&[feature(1000.0, 500.0), feature(3.0, 3.0)]);
        assert!((found - 1.5 / (2.0f64 * 1.25).sqrt()).abs() < 1e-12);
    }
}
