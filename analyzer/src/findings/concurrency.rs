//! The gain of more in flight, by Little's law.
//!
//! In a stretch of time, L is how many calls are in flight on average and X what they move in a second. Where X grows as L
//! does there is room for more in flight; where it stays the storage gives what it can, and more in flight only wait longer.
//! The slope of log X over log L says which, if L was ever different.

use super::case::Case;
use crate::summary::quantiles::median;

/// Stretches that a run is cut into, and calls that one of them needs to be counted.
const STRETCHES: usize = 200;
const CALLS_LEAST: u64 = 20;

/// Fewer stretches than that draw no line, nor do those whose L is all but the same.
const STRETCHES_LEAST: usize = 10;
const SPREAD_LEAST: f64 = 2.0;

/// One stretch.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    in_flight: f64,
    bytes_per_s: f64,
    has_waited: bool,
}

/// Concurrency, from the columns of a run.
#[derive(Debug, PartialEq)]
pub struct Concurrency {
    /// 0: storage gives what it can; 1: twice as much in flight moves twice as much.
    pub slope: f64,
    /// Throughput while training waited (in the median), of that at best (the 99th percentile).
    pub of_best: Option<f64>,
    pub best_bytes_per_s: f64,
    /// In flight: the 10th and the 90th percentile.
    pub few: f64,
    pub many: f64,
}

/// The gain of more in flight; `None` where it cannot be known, because there were always as many.
pub fn concurrency(case: &Case) -> Option<Concurrency> {
    concurrency_in(stretches(case))
}

/// The run that would show it.
pub const RECORD_CONCURRENCY: &str =
    "as many calls were in flight all the time: run it with half and with double the readers";

fn stretches(case: &Case) -> Vec<Stretch> {
    let line = &case.summary.timeline;
    let wide = line.calls.len().div_ceil(STRETCHES).max(1);
    let width_ns = (line.column_ns * wide as i64) as f64;
    let sum = |column: &[u64], at: usize| column[at..column.len().min(at + wide)].iter().sum::<u64>();
    let starts = (0..line.calls.len()).step_by(wide);
    let busy = starts.filter(|&at| sum(&line.calls, at) >= CALLS_LEAST);
    busy.map(|at| Stretch {
        in_flight: sum(&line.io_ns, at) as f64 / width_ns,
        bytes_per_s: (sum(&line.bytes_read, at) + sum(&line.bytes_written, at)) as f64 * 1e9 / width_ns,
        has_waited: line.waited_ns.as_ref().is_some_and(|waited| sum(waited, at) > 0),
    })
    .filter(|stretch| stretch.in_flight > 0.0 && stretch.bytes_per_s > 0.0)
    .collect()
}

fn concurrency_in(stretches: Vec<Stretch>) -> Option<Concurrency> {
    let sorted = |of: fn(&Stretch) -> f64| {
        let mut values: Vec<f64> = stretches.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let at = |values: &[f64], share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    if stretches.len() < STRETCHES_LEAST {
        return None;
    }
    let (in_flight, rates) = (sorted(|it| it.in_flight), sorted(|it| it.bytes_per_s));
    let (few, many) = (at(&in_flight, 0.1), at(&in_flight, 0.9));
    if many < SPREAD_LEAST * few {
        return None;
    }
    let points = stretches.iter().map(|it| (it.in_flight.ln(), it.bytes_per_s.ln()));
    let best = at(&rates, 0.99);
    let waited = stretches.iter().filter(|it| it.has_waited).map(|it| it.bytes_per_s).collect();
    Some(Concurrency {
        slope: slope(points.collect()),
        of_best: median(waited).map(|rate| rate / best),
        best_bytes_per_s: best,
        few,
        many,
    })
}

/// Of the line through some points with the least squares.
fn slope(points: Vec<(f64, f64)>) -> f64 {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let both: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let own: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    if own > 0.0 { both / own } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(rate: impl Fn(f64) -> f64) -> Vec<Stretch> {
        let of = |i: u32| f64::from(1 + i % 4);
        (0..40).map(|i| Stretch { in_flight: of(i), bytes_per_s: rate(of(i)), has_waited: i % 4 == 3 }).collect()
    }

    #[test]
    fn the_slope_is_one_where_more_in_flight_moves_more_and_zero_where_it_does_not() {
        let latency = concurrency_in(made(|many| 1e6 * many)).unwrap();
        assert!((latency.slope - 1.0).abs() < 1e-9 && (latency.few, latency.many) == (1.0, 4.0), "{latency:?}");
        let saturated = concurrency_in(made(|_| 1e6)).unwrap();
        assert!(saturated.slope.abs() < 1e-9 && saturated.of_best == Some(1.0), "{saturated:?}");
        let half = concurrency_in(made(|many| 1e6 * many.sqrt())).unwrap();
        assert!((half.slope - 0.5).abs() < 1e-9, "{half:?}");
    }

    #[test]
    fn nothing_is_told_where_as_many_are_always_in_flight_or_little_was_seen() {
        let steady = |i| Stretch { in_flight: 4.0 + f64::from(i % 2), bytes_per_s: 1e6, has_waited: true };
        assert_eq!(concurrency_in((0..40).map(steady).collect()), None);
        assert_eq!(concurrency_in(made(|many| many).into_iter().take(9).collect()), None);
        assert_eq!(concurrency_in(Vec::new()), None);
    }
}
