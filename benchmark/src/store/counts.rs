//! Counts requests to the store in memory shared by all processes of a rank. Nothing has to be sent, and the requests
//! of a killed worker count too.

use crate::failure::{Failure, Kind, Outcome};
use crate::system::shared_memory::SharedNumbers;
use serde_json::{Value, json};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The counters. Each request sent counts, attempts and redirects included, as the store counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Figure {
    Gets,
    Heads,
    Puts,
    Parts,
    Deletes,
    /// Starting, completing and aborting uploads, and all other requests.
    Others,
    BytesIn,
    BytesOut,
    Connections,
    Redirects,
    /// Requests sent again because the store was busy, failed, closed the connection, or did not respond.
    Throttled,
    Failed,
    Broken,
    Stalled,
    /// Bodies that broke and resumed at the byte reached.
    Resumed,
    GetNanos,
    /// Pieces of objects in the cache: hits, pieces fetched on use, pieces fetched ahead of use, pieces waited for while another
    /// process fetched them, and evicted pieces; also bytes fetched into the cache and bytes read from it.
    TierHits,
    TierMisses,
    TierAhead,
    TierWaits,
    TierEvictions,
    TierIn,
    TierOut,
}

const FIGURES: usize = Figure::TierOut as usize + 1;

/// Names in summary.json, in the order of the counters.
const NAMES: [&str; FIGURES] = [
    "get_requests",
    "head_requests",
    "put_requests",
    "part_requests",
    "delete_requests",
    "other_requests",
    "bytes_read",
    "bytes_written",
    "connections",
    "redirects",
    "retries_throttled",
    "retries_server_errors",
    "retries_connection",
    "retries_stalled",
    "resumed_bodies",
    "get_nanos",
    "tier_hits",
    "tier_misses",
    "tier_fetched_ahead",
    "tier_waits",
    "tier_evictions",
    "tier_bytes_in",
    "tier_bytes_out",
];

/// The measured times: a GET to its last byte, to the first one, a part or a whole object written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Timed {
    Get,
    FirstByte,
    Put,
}

const TIMED: usize = 3;

/// Classes of times: eight per octave of nanoseconds, so that a quantile is accurate to 10 %.
const PER_OCTAVE: usize = 8;
const CLASSES: usize = 64 * PER_OCTAVE;

fn class_of(nanos: u64) -> usize {
    let nanos = nanos.max(PER_OCTAVE as u64);
    let octave = nanos.ilog2() as usize;
    octave * PER_OCTAVE + (nanos >> (octave - 3)) as usize % PER_OCTAVE
}

/// Returns the middle of a class, in nanoseconds.
fn middle_of(class: usize) -> f64 {
    let (octave, part) = (class / PER_OCTAVE, class % PER_OCTAVE);
    2f64.powi(octave as i32) * (1.0 + (part as f64 + 0.5) / PER_OCTAVE as f64)
}

static NUMBERS: OnceLock<SharedNumbers> = OnceLock::new();

/// Creates the shared counters, before forking the processes that count together.
pub fn share() -> Outcome<()> {
    if NUMBERS.get().is_none() {
        let numbers = SharedNumbers::new(FIGURES + TIMED * CLASSES).map_err(|error| {
            Failure::new(Kind::System, format!("cannot allocate memory for request counts: {error}"))
        })?;
        let _ = NUMBERS.set(numbers);
    }
    Ok(())
}

pub fn add(figure: Figure, count: u64) {
    if let Some(numbers) = NUMBERS.get() {
        numbers.at(figure as usize).fetch_add(count, Relaxed);
    }
}

pub fn time(what: Timed, took: Duration) {
    if let Some(numbers) = NUMBERS.get() {
        let class = class_of(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        numbers.at(FIGURES + what as usize * CLASSES + class).fetch_add(1, Relaxed);
    }
}

/// All counters at one time, or their difference between two.
#[derive(Debug, Clone, PartialEq)]
pub struct Counts(Vec<f64>);

impl Counts {
    /// Returns the counters of this rank so far.
    pub fn now() -> Counts {
        let number = |place| NUMBERS.get().map_or(0.0, |numbers| numbers.at(place).load(Relaxed) as f64);
        Counts((0..FIGURES + TIMED * CLASSES).map(number).collect())
    }

    pub fn since(&self, before: &Counts) -> Counts {
        Counts(self.0.iter().zip(&before.0).map(|(now, before)| now - before).collect())
    }

    /// Returns the numbers that ranks exchange.
    pub fn numbers(&self) -> &[f64] {
        &self.0
    }

    /// Returns the sum over all ranks.
    pub fn sum(ranks: &[Vec<f64>]) -> Counts {
        let mut sum = vec![0.0; FIGURES + TIMED * CLASSES];
        for rank in ranks {
            sum.iter_mut().zip(rank).for_each(|(sum, number)| *sum += number);
        }
        Counts(sum)
    }

    pub fn of(&self, figure: Figure) -> u64 {
        self.0[figure as usize] as u64
    }

    /// Returns the quantile of a measured time in milliseconds; `None` if nothing was measured.
    fn quantile(&self, what: Timed, share: f64) -> Option<f64> {
        let classes = &self.0[FIGURES + what as usize * CLASSES..][..CLASSES];
        let wanted = (classes.iter().sum::<f64>() * share).max(1.0);
        let mut seen = 0.0;
        let class = classes.iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        Some(middle_of(class) / 1e6)
    }

    /// Returns the numbers for summary.json, for an epoch of `seconds`.
    pub fn facts(&self, seconds: f64) -> Value {
        let mut facts = serde_json::Map::new();
        let tiered = self.has_tier();
        let is_told = |name: &str| name != "get_nanos" && (tiered || !name.starts_with("tier_"));
        for (name, number) in NAMES.iter().zip(&self.0).filter(|(name, _)| is_told(name)) {
            facts.insert((*name).to_string(), json!(*number as u64));
        }
        let requests = self.of(Figure::Gets) + self.of(Figure::Heads);
        facts.insert("requests_per_second".into(), json!(requests as f64 / seconds.max(1e-9)));
        facts.insert(
            "GiB_per_second".into(),
            json!(self.of(Figure::BytesIn) as f64 / (1u64 << 30) as f64 / seconds.max(1e-9)),
        );
        facts.insert("gets_in_flight_mean".into(), json!(self.of(Figure::GetNanos) as f64 / 1e9 / seconds.max(1e-9)));
        for (name, what) in [("get_ms", Timed::Get), ("first_byte_ms", Timed::FirstByte), ("put_ms", Timed::Put)] {
            let quantile = |share| json!(self.quantile(what, share));
            if self.quantile(what, 0.5).is_some() {
                let quantiles =
                    json!({"p50": quantile(0.5), "p90": quantile(0.9), "p99": quantile(0.99), "max": quantile(1.0)});
                facts.insert(name.into(), quantiles);
            }
        }
        Value::Object(facts)
    }

    /// Returns `true` if objects were read through a cache.
    fn has_tier(&self) -> bool {
        let figures = [Figure::TierHits, Figure::TierMisses, Figure::TierAhead, Figure::TierWaits];
        figures.iter().any(|figure| self.of(*figure) > 0)
    }

    /// Returns a readable line of the counters.
    pub fn line(&self, seconds: f64) -> String {
        let latency = |share| self.quantile(Timed::Get, share).map_or("?".into(), |ms| format!("{ms:.2}"));
        let mut line = format!(
            "{} GETs, {:.1} MB/s, {:.0} requests/s, {} / {} ms (p50 / p99)",
            self.of(Figure::Gets),
            self.of(Figure::BytesIn) as f64 / 1e6 / seconds.max(1e-9),
            self.of(Figure::Gets) as f64 / seconds.max(1e-9),
            latency(0.5),
            latency(0.99)
        );
        for (figure, word) in [
            (Figure::Throttled, "retried (store busy)"),
            (Figure::Failed, "retried (server error)"),
            (Figure::Broken, "retried (connection lost)"),
            (Figure::Stalled, "retried (stalled)"),
            (Figure::Resumed, "resumed"),
        ] {
            if self.of(figure) > 0 {
                line.push_str(&format!(", {} {word}", self.of(figure)));
            }
        }
        if self.has_tier() {
            let megabytes = |figure| self.of(figure) as f64 / 1e6;
            line.push_str(&format!(
                "; cache: {} hits, {} misses, {} fetched ahead, {} waits, {} evictions, {:.1} MB in, {:.1} MB out",
                self.of(Figure::TierHits),
                self.of(Figure::TierMisses),
                self.of(Figure::TierAhead),
                self.of(Figure::TierWaits),
                self.of(Figure::TierEvictions),
                megabytes(Figure::TierIn),
                megabytes(Figure::TierOut)
            ));
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_class_whose_middle_is_near_it() {
        for nanos in [8u64, 100, 1_234, 99_999, 1 << 20, 5_000_000_000] {
            let middle = middle_of(class_of(nanos));
            assert!((middle / nanos as f64 - 1.0).abs() < 0.08, "{nanos}: {middle}");
        }
        assert!(class_of(u64::MAX) < CLASSES && class_of(0) < CLASSES);
    }

    #[test]
    fn quantiles_cover_the_difference_of_two_counts() {
        let mut numbers = vec![0.0; FIGURES + TIMED * CLASSES];
        let before = Counts(numbers.clone());
        numbers[Figure::Gets as usize] = 100.0;
        numbers[FIGURES + class_of(1_000_000)] = 98.0;
        numbers[FIGURES + class_of(50_000_000)] = 2.0;
        let between = Counts(numbers).since(&before);
        let (half, most) = (between.quantile(Timed::Get, 0.5).unwrap(), between.quantile(Timed::Get, 0.99).unwrap());
        assert!((half - 1.0).abs() < 0.1 && (most - 50.0).abs() < 5.0, "{half} {most}");
        assert_eq!(between.quantile(Timed::Put, 0.5), None);
        assert_eq!(between.facts(2.0)["get_requests"], json!(100));
        let twice = Counts::sum(&[between.numbers().to_vec(), between.numbers().to_vec()]);
        assert_eq!(twice.of(Figure::Gets), 200);
    }
}
