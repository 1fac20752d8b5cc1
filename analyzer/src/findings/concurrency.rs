//! Gain of more calls in flight, by Little's law.
//!
//! Within an interval, L is the mean number of calls in flight while at least one is, and X is the number of bytes they
//! move per second of that time. Idle time counts in neither. If X grows with L, more calls in flight help. If X stays
//! constant, storage is at its limit, and more calls in flight only wait longer. Comparing the intervals with the
//! smallest and the largest L shows which case applies, provided that L varied.

use super::rule_context::{Case, Judgement, RECORD_TRAINING, Waited};
use crate::summary::figures::quantiles::median;
use crate::summary::report::findings::Measure;

/// Number of intervals that a run is divided into, and the share of an interval in which calls must be in flight for it
/// to count.
const STRETCHES: usize = 200;
const BUSY_LEAST: f64 = 0.25;

/// Minimum number of intervals, and minimum spread of L: with less, the comparison shows nothing.
const STRETCHES_LEAST: usize = 10;
const SPREAD_LEAST: f64 = 1.5;

/// Share of all intervals that counts as few in flight, and as many; and the minimum number of intervals for each.
const ENDS: f64 = 0.1;
const ENDS_LEAST: usize = 4;

/// An interval of the run.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// Time summed over calls, and time with at least one call in flight.
    io_ns: f64,
    busy_ns: f64,
    bytes: f64,
    /// The part of them that was written.
    written: f64,
    has_waited: bool,
}

impl Stretch {
    fn in_flight(&self) -> f64 {
        self.io_ns / self.busy_ns
    }

    fn bytes_per_s(&self) -> f64 {
        self.bytes * 1e9 / self.busy_ns
    }
}

/// Concurrency of a run, derived from its time series.
#[derive(Debug, PartialEq)]
pub struct Concurrency {
    /// 0: storage is at its limit; 1: twice as many calls in flight move twice as many bytes.
    pub slope: f64,
    /// Median throughput while training waited, relative to the best (the 99th percentile).
    pub of_best: Option<f64>,
    pub best_bytes_per_s: f64,
    /// Mean calls in flight when they were fewest and when they were most, and the ratio of the throughputs.
    pub few: f64,
    pub many: f64,
    pub gain: f64,
}

impl Concurrency {
    /// Returns text such as `2.0 calls in flight moved 1.9 times as many bytes as 1.0`.
    pub fn says(&self) -> String {
        format!("{:.1} calls in flight moved {:.1} times as many bytes as {:.1}", self.many, self.gain, self.few)
    }
}

/// Intervals with more writes than this, as a share of their bytes, do not show what more reads would move.
const WRITES: f64 = 0.1;

/// Returns the gain of more calls in flight; `None` if it is unknown because the number in flight did not vary, or because
/// other calls than reads were in flight.
pub fn concurrency(case: &Case) -> Option<Concurrency> {
    let all = stretches(case);
    let written: f64 = all.iter().map(|stretch| stretch.written).sum();
    (written <= WRITES * all.iter().map(|stretch| stretch.bytes).sum::<f64>()).then(|| concurrency_in(all))?
}

/// Returns the mean number of calls in flight, while at least one was, over the training; `None` if no bytes were moved
/// in it.
pub fn in_flight(case: &Case) -> Option<f64> {
    let stretches = stretches(case);
    (!stretches.is_empty()).then(|| together(&stretches).in_flight())
}

/// Returns the measures of a training run that waits for readers in I/O.
pub fn waits_for_io(case: &Case, waited: Option<&Waited>) -> Vec<Measure> {
    vec![
        case.at_least("wait", waited.map(Waited::share_at_work)),
        case.at_least("io-duty", waited.and_then(Waited::io_duty)),
    ]
}

/// Returns the judgement on a run that lacks its waits or its concurrency.
pub fn undecided(measures: Vec<Measure>, waited: Option<&Waited>) -> Judgement {
    let decide = if waited.is_none() { RECORD_TRAINING } else { RECORD_CONCURRENCY };
    Judgement { measures, decide, ..Judgement::default() }
}

/// Advice to record different concurrency.
const RECORD_CONCURRENCY: &str =
    "the number of calls in flight never changed: run it with half and with double the readers";

/// Returns the intervals within the training: reads at startup are not data.
fn stretches(case: &Case) -> Vec<Stretch> {
    let line = &case.summary.timeline;
    let wide = line.calls.len().div_ceil(STRETCHES).max(1);
    let width_ns = line.column_ns * wide as i64;
    let sum = |column: &[u64], at: usize| column[at..column.len().min(at + wide)].iter().sum::<u64>();
    let groups = &case.summary.training;
    let trains = |at: &usize| {
        let start = line.start_ts + line.column_ns * *at as i64;
        let within = |from: i64, to: i64| from <= start && start + width_ns <= to;
        groups.is_empty() || groups.iter().any(|group| within(group.start_ts, group.start_ts + group.trained_ns))
    };
    let starts = (0..line.calls.len()).step_by(wide).filter(trains);
    starts
        .map(|at| Stretch {
            io_ns: sum(&line.io_ns, at) as f64,
            busy_ns: sum(&line.busy_ns, at) as f64,
            bytes: (sum(&line.bytes_read, at) + sum(&line.bytes_written, at)) as f64,
            written: sum(&line.bytes_written, at) as f64,
            has_waited: line.waited_ns.as_ref().is_some_and(|waited| sum(waited, at) > 0),
        })
        .filter(|stretch| stretch.busy_ns >= BUSY_LEAST * width_ns as f64 && stretch.bytes > 0.0)
        .collect()
}

fn concurrency_in(mut stretches: Vec<Stretch>) -> Option<Concurrency> {
    if stretches.len() < STRETCHES_LEAST {
        return None;
    }
    stretches.sort_by(|a, b| a.in_flight().total_cmp(&b.in_flight()));
    let ends = ((stretches.len() as f64 * ENDS) as usize).max(ENDS_LEAST);
    let (few, many) = (together(&stretches[..ends]), together(&stretches[stretches.len() - ends..]));
    if many.in_flight() < SPREAD_LEAST * few.in_flight() {
        return None;
    }
    let mut rates: Vec<f64> = stretches.iter().map(Stretch::bytes_per_s).collect();
    rates.sort_by(f64::total_cmp);
    let best = rates[((rates.len() - 1) as f64 * 0.99).round() as usize];
    let waited = stretches.iter().filter(|it| it.has_waited).map(Stretch::bytes_per_s).collect();
    let gain = many.bytes_per_s() / few.bytes_per_s();
    Some(Concurrency {
        slope: gain.ln() / (many.in_flight() / few.in_flight()).ln(),
        of_best: median(waited).map(|rate| rate / best),
        best_bytes_per_s: best,
        few: few.in_flight(),
        many: many.in_flight(),
        gain,
    })
}

/// Merges several intervals.
fn together(stretches: &[Stretch]) -> Stretch {
    let sum = |of: fn(&Stretch) -> f64| stretches.iter().map(of).sum();
    let (io_ns, busy_ns, bytes) = (sum(|it| it.io_ns), sum(|it| it.busy_ns), sum(|it| it.bytes));
    let (written, has_waited) = (sum(|it| it.written), stretches.iter().any(|it| it.has_waited));
    Stretch { io_ns, busy_ns, bytes, written, has_waited }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(rate: impl Fn(f64) -> f64) -> Vec<Stretch> {
        let of = |i: u32| f64::from(1 + i % 4);
        let stretch = |i| Stretch {
            // In half of the intervals, calls are active for only part of the time, which must not change the result.
            io_ns: of(i) * 1e9 / f64::from(1 + i / 20),
            busy_ns: 1e9 / f64::from(1 + i / 20),
            bytes: rate(of(i)) / f64::from(1 + i / 20),
            written: 0.0,
            has_waited: i % 4 == 3,
        };
        (0..40).map(stretch).collect()
    }

    #[test]
    fn the_slope_is_one_where_more_in_flight_moves_more_and_zero_where_it_does_not() {
        let latency = concurrency_in(made(|many| 1e6 * many)).unwrap();
        assert!((latency.slope - 1.0).abs() < 1e-9 && (latency.few, latency.many) == (1.0, 4.0), "{latency:?}");
        assert_eq!(latency.says(), "4.0 calls in flight moved 4.0 times as many bytes as 1.0");
        let saturated = concurrency_in(made(|_| 1e6)).unwrap();
        assert!(saturated.slope.abs() < 1e-9 && saturated.of_best == Some(1.0), "{saturated:?}");
        let half = concurrency_in(made(|many| 1e6 * many.sqrt())).unwrap();
        assert!((half.slope - 0.5).abs() < 1e-9, "{half:?}");
    }

    #[test]
    fn nothing_is_told_where_as_many_are_always_in_flight_or_little_was_seen() {
        let steady =
            |i| Stretch { io_ns: 4.0 + f64::from(i % 2), busy_ns: 1.0, bytes: 1e6, written: 0.0, has_waited: true };
        assert_eq!(concurrency_in((0..40).map(steady).collect()), None);
        assert_eq!(concurrency_in(made(|many| many).into_iter().take(9).collect()), None);
        assert_eq!(concurrency_in(Vec::new()), None);
    }
}
