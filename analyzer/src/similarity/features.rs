//! Single numbers of a run, by name.

use super::{FeatureOfBoth, Side};
use crate::compare::metrics::Unit;
use crate::io_profile::transfers::TransferStats;
use crate::summary::figures::quantiles::Quantiles;
use crate::summary::report::layout::hung;

/// A number of a run, if the run has it.
pub struct Feature {
    pub name: &'static str,
    pub meaning: &'static str,
    pub unit: Unit,
    of: fn(&Side) -> Option<f64>,
}

const fn feature(name: &'static str, meaning: &'static str, unit: Unit, of: fn(&Side) -> Option<f64>) -> Feature {
    Feature { name, meaning, unit, of }
}

fn size(moves: &TransferStats, of: fn(Quantiles) -> f64) -> Option<f64> {
    moves.sizes.quantiles().map(of)
}

/// Separate for reads and writes: a program that reads is not similar to one that writes the data.
pub const FEATURES: &[Feature] = &[
    feature("io.s", "in file calls with data, all threads together", Unit::Seconds, |side| {
        Some(side.io_ns as f64 / 1e9)
    }),
    feature("files", "files with data", Unit::Count, |side| Some(side.files as f64)),
    feature("read.bytes", "bytes read from them", Unit::Bytes, |side| Some(side.read.bytes as f64)),
    feature("read.size.min", "smallest read", Unit::Bytes, |side| size(&side.read, |it| it.min)),
    feature("read.size.median", "median read", Unit::Bytes, |side| size(&side.read, |it| it.median)),
    feature("read.size.mean", "mean read", Unit::Bytes, |side| size(&side.read, |it| it.mean)),
    feature("read.size.max", "largest read", Unit::Bytes, |side| size(&side.read, |it| it.max)),
    feature("read.bandwidth", "bytes per second that half of the reads reached", Unit::Rate, |side| {
        side.read.bandwidth()
    }),
    feature("read.sequential", "reads that are the first of their pass or begin further on", Unit::Share, |side| {
        side.read.sequential()
    }),
    feature("read.consecutive", "reads that begin where the previous one ended", Unit::Share, |side| {
        side.read.consecutive()
    }),
    feature("write.bytes", "bytes written to them", Unit::Bytes, |side| Some(side.written.bytes as f64)),
    feature("write.size.min", "smallest write", Unit::Bytes, |side| size(&side.written, |it| it.min)),
    feature("write.size.median", "median write", Unit::Bytes, |side| size(&side.written, |it| it.median)),
    feature("write.size.mean", "mean write", Unit::Bytes, |side| size(&side.written, |it| it.mean)),
    feature("write.size.max", "largest write", Unit::Bytes, |side| size(&side.written, |it| it.max)),
    feature("write.bandwidth", "bytes per second that half of the writes reached", Unit::Rate, |side| {
        side.written.bandwidth()
    }),
    feature("write.sequential", "writes that are the first of their pass or begin further on", Unit::Share, |side| {
        side.written.sequential()
    }),
    feature("write.consecutive", "writes that begin where the previous one ended", Unit::Share, |side| {
        side.written.consecutive()
    }),
];

impl Feature {
    /// Returns `None` if it is zero, or missing, in both.
    pub fn of_both(&self, before: &Side, after: &Side) -> Option<FeatureOfBoth> {
        let (a, b) = ((self.of)(before).unwrap_or(0.0), (self.of)(after).unwrap_or(0.0));
        let both = FeatureOfBoth { feature: self.name, unit: self.unit, before: a, after: b, difference: 0.0 };
        (a.max(b) > 0.0).then(|| FeatureOfBoth { difference: (a - b).abs() / both.scale(), ..both })
    }
}

/// Returns the list for `--explain`.
pub fn listing(width: usize) -> String {
    let longest = FEATURES.iter().map(|feature| feature.name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for feature in FEATURES {
        hung(&format!("  {:<longest$}  ", feature.name), feature.meaning, (longest + 4, width), &mut out);
    }
    out
}
