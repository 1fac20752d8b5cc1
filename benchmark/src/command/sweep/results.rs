//! The numbers of one run of a sweep, and their spread over the runs of a setting.

use crate::failure::Outcome;
use crate::results::metrics::percentile;
use crate::results::summary::summary_in;
use std::path::Path;

/// The result of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RunResult {
    pub(super) seconds: f64,
    pub(super) samples_per_second: f64,
    pub(super) megabytes_per_second: f64,
    pub(super) utilization: f64,
}

pub(super) fn outturn(folder: &Path) -> Outcome<RunResult> {
    let summary = summary_in(folder)?;
    let metric = |key: &str| summary["metric"][key].as_f64().unwrap_or(0.0);
    let sum = |key: &str| -> f64 {
        let epochs = summary["epoch"].as_array().into_iter().flatten();
        epochs.filter_map(|epoch| epoch[key].as_f64()).sum()
    };
    // Whole epochs, because without its first steps a short run looks as fast as its readers had prefetched.
    let seconds = sum("seconds");
    Ok(RunResult {
        seconds,
        samples_per_second: sum("samples") / seconds.max(f64::MIN_POSITIVE),
        megabytes_per_second: sum("bytes_read") / 1e6 / seconds.max(f64::MIN_POSITIVE),
        utilization: metric("train_au_mean_percentage"),
    })
}

/// Returns the median, minimum and maximum.
pub(super) fn spread(outturns: &[RunResult], of: fn(&RunResult) -> f64) -> (f64, f64, f64) {
    let mut values: Vec<f64> = outturns.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    let end = |value: Option<&f64>| value.copied().unwrap_or(0.0);
    (percentile(&values, 0.5), end(values.first()), end(values.last()))
}
