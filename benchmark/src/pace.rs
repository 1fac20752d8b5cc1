//! The pace of compute that is not done: distributions of durations, and a clock that keeps to them.
//!
//! A sleep ends late, by tens of microseconds on a quiet machine and by milliseconds on a busy one. The lateness of one
//! step is taken off the next, so that a thousand steps take a thousand times the asked time. Only of the next one, and
//! at most half of it: an accelerator that was kept waiting does not compute faster afterwards.

use crate::failure::{Failure, Outcome};
use crate::random::Draws;
use crate::value::Value;
use std::time::{Duration, Instant};

/// Longer than anybody waits, and short enough for every clock: thirty years.
const LONGEST: f64 = 1e9;

/// A time that a clock can count, whatever number it comes from.
pub fn seconds(number: f64) -> Duration {
    if number > 0.0 { Duration::from_secs_f64(number.min(LONGEST)) } else { Duration::ZERO }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Spread {
    Fixed(f64),
    Normal { mean: f64, stdev: f64 },
    Uniform { min: f64, max: f64 },
    Gamma { shape: f64, scale: f64 },
    Exponential { scale: f64 },
    Poisson { mean: f64 },
}

impl Spread {
    /// `value` is a number or a map as the workloads write it; `stdev` is the separate key older files use.
    pub fn read(key: &str, value: &Value, stdev: f64) -> Outcome<Spread> {
        let Value::Map(entries) = value else {
            let mean = as_number(value).unwrap_or(0.0);
            return checked(key, if stdev > 0.0 { Spread::Normal { mean, stdev } } else { Spread::Fixed(mean) });
        };
        if entries.is_empty() {
            return Ok(Spread::Fixed(0.0));
        }
        let kind = match value.get("type") {
            Some(Value::Text(kind)) => kind.as_str(),
            _ => "normal",
        };
        let (spread, names): (Spread, &[&str]) = {
            let part = |name: &str| number_in(key, value, name);
            match kind {
                "normal" if value.get("stdev").is_none() => (Spread::Fixed(part("mean")?), &["mean"]),
                "normal" => (Spread::Normal { mean: part("mean")?, stdev: part("stdev")? }, &["mean", "stdev"]),
                "uniform" => (Spread::Uniform { min: part("min")?, max: part("max")? }, &["min", "max"]),
                "gamma" => (Spread::Gamma { shape: part("shape")?, scale: part("scale")? }, &["shape", "scale"]),
                "exponential" => (Spread::Exponential { scale: part("scale")? }, &["scale"]),
                "poisson" => (Spread::Poisson { mean: part("lam")? }, &["lam"]),
                other => {
                    let what = format!("workload.{key}: there is no distribution `{other}`");
                    return Err(Failure::refused(what).remedy("known: normal, uniform, gamma, exponential, poisson"));
                }
            }
        };
        if let Some((extra, _)) = entries.iter().find(|(name, _)| name != "type" && !names.contains(&name.as_str())) {
            let what = format!("workload.{key}: a {kind} distribution has no `{extra}`");
            return Err(Failure::refused(what).remedy(format!("it takes {}", names.join(" and "))));
        }
        checked(key, spread)
    }

    pub fn mean(&self) -> f64 {
        match *self {
            Spread::Fixed(mean) | Spread::Normal { mean, .. } | Spread::Poisson { mean } => mean,
            Spread::Uniform { min, max } => (min + max) / 2.0,
            Spread::Gamma { shape, scale } => shape * scale,
            Spread::Exponential { scale } => scale,
        }
    }

    /// Seconds; never negative, as DLIO takes the absolute value.
    pub fn draw(&self, draws: &mut Draws) -> f64 {
        let drawn = match *self {
            Spread::Fixed(mean) => mean,
            Spread::Normal { mean, stdev } => mean + stdev * draws.normal(),
            Spread::Uniform { min, max } => min + (max - min) * draws.uniform(),
            Spread::Gamma { shape, scale } => scale * draws.gamma(shape),
            Spread::Exponential { scale } => scale * draws.exponential(),
            Spread::Poisson { mean } => draws.poisson(mean),
        };
        drawn.abs()
    }
}

fn as_number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}

fn number_in(key: &str, value: &Value, name: &str) -> Outcome<f64> {
    let number = value.get(name).and_then(as_number);
    number.ok_or_else(|| Failure::refused(format!("workload.{key}: the distribution needs a number `{name}`")))
}

fn checked(key: &str, spread: Spread) -> Outcome<Spread> {
    let legal = match spread {
        Spread::Fixed(mean) | Spread::Poisson { mean } => mean >= 0.0 && mean.is_finite(),
        Spread::Normal { mean, stdev } => mean >= 0.0 && stdev >= 0.0 && (mean + stdev).is_finite(),
        Spread::Uniform { min, max } => 0.0 <= min && min <= max && max.is_finite(),
        Spread::Gamma { shape, scale } => shape > 0.0 && scale > 0.0,
        Spread::Exponential { scale } => scale > 0.0,
    };
    let what = || format!("workload.{key} is no time: it is negative, endless or not a number");
    if legal { Ok(spread) } else { Err(Failure::refused(what())) }
}

/// Emulates computation to the asked time over the whole run.
pub struct Pace {
    spread: Spread,
    draws: Draws,
    /// The delay of the last step.
    late: Duration,
    /// Keep the processor busy instead of sleeping.
    busy: bool,
}

impl Pace {
    pub fn new(spread: Spread, seed: u64, busy: bool) -> Pace {
        Pace { spread, draws: Draws::new(seed), late: Duration::ZERO, busy }
    }

    /// Forgets the delay: the next step has nothing to do with the last one.
    pub fn rest(&mut self) {
        self.late = Duration::ZERO;
    }

    /// Computes for the next duration. Returns what it took by the clock.
    pub fn step(&mut self) -> Duration {
        let wanted = seconds(self.spread.draw(&mut self.draws));
        if wanted.is_zero() {
            return Duration::ZERO;
        }
        let begun = Instant::now();
        let asked = self.asked(wanted);
        wait(asked, begun, self.busy);
        let took = begun.elapsed();
        self.late = took.saturating_sub(asked);
        took
    }

    /// The time to wait after a step that ended late. What is beyond half a step was a stall and is gone for good.
    fn asked(&self, wanted: Duration) -> Duration {
        wanted - self.late.min(wanted / 2)
    }
}

fn wait(asked: Duration, begun: Instant, busy: bool) {
    if !busy {
        crate::system::sleep(asked);
        return;
    }
    let mut spun = 0u64;
    while begun.elapsed() < asked && !crate::system::interrupted() && !crate::system::lost_child() {
        for _ in 0..64 {
            spun = std::hint::black_box(crate::random::word(spun, spun));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::parse_yaml;

    fn read(text: &str) -> Outcome<Spread> {
        Spread::read("train.computation_time", &parse_yaml("t", text).unwrap(), 0.0)
    }

    #[test]
    fn every_distribution_of_the_workloads_is_read() {
        assert_eq!(read("0.5").unwrap(), Spread::Fixed(0.5));
        assert_eq!(read("{}").unwrap(), Spread::Fixed(0.0));
        assert_eq!(read("{mean: 1}").unwrap(), Spread::Fixed(1.0));
        assert_eq!(read("{mean: 1, stdev: 0.1}").unwrap(), Spread::Normal { mean: 1.0, stdev: 0.1 });
        assert_eq!(read("{type: uniform, min: 1, max: 2}").unwrap().mean(), 1.5);
        assert_eq!(read("{type: gamma, shape: 2, scale: 3}").unwrap().mean(), 6.0);
        assert_eq!(read("{type: exponential, scale: 3}").unwrap().mean(), 3.0);
        assert_eq!(read("{type: poisson, lam: 3}").unwrap().mean(), 3.0);
    }

    #[test]
    fn what_is_no_distribution_is_refused() {
        for text in [
            "{type: zipf, a: 1}",
            "{stdev: 1}",
            "-1",
            "{type: uniform, min: 2, max: 1}",
            "{mean: 1, sd: 2}",
            "{type: gamma, shape: 1}",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    /// Steps of 10 ms whose sleeps end late by so many milliseconds; how long they take.
    fn paced(lateness: &[u64]) -> Vec<u64> {
        let mut pace = Pace::new(Spread::Fixed(0.01), 1, false);
        let mut step = |late: &u64| {
            let asked = pace.asked(Duration::from_millis(10));
            pace.late = Duration::from_millis(*late);
            (asked + pace.late).as_millis() as u64
        };
        lateness.iter().map(&mut step).collect()
    }

    #[test]
    fn a_stall_is_not_made_up_for() {
        assert_eq!(paced(&[0, 1000, 0, 0, 0]), [10, 1010, 5, 10, 10]);
        assert_eq!(paced(&[2, 2, 2, 0, 0]), [12, 10, 10, 8, 10]);
    }

    #[test]
    fn every_number_is_a_time() {
        for number in [1e300, f64::INFINITY] {
            assert_eq!(seconds(number), Duration::from_secs_f64(LONGEST));
        }
        assert_eq!(
            (seconds(-1.0), seconds(f64::NAN), seconds(0.5)),
            (Duration::ZERO, Duration::ZERO, Duration::from_millis(500))
        );
    }

    #[test]
    fn many_short_steps_take_the_asked_time_together() {
        let mut pace = Pace::new(Spread::Fixed(0.002), 1, false);
        let begun = Instant::now();
        for _ in 0..100 {
            pace.step();
        }
        let took = begun.elapsed().as_secs_f64();
        // Upwards there is no limit to what other programs may take of a sleep.
        assert!(took >= 0.199, "{took}");
    }
}
