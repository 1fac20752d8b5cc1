//! Emulated compute: distributions of durations, and a clock that follows them.
//!
//! A step takes its time or longer, like DLIO's sleep: an accelerator that had to wait does not compute faster
//! afterwards. A sleep ends late by the time the kernel needs to wake a thread, and by more on a busy host.

use crate::failure::{Failure, Outcome};
use crate::keys::value::Value;
use crate::system::random::Draws;
use std::time::{Duration, Instant};

/// Thirty years: longer than any wait, and within the range of every clock.
const LONGEST: f64 = 1e9;

/// Returns a duration that a clock can represent, for any number.
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
    /// Reads `value`, a number or a map as in workloads; `stdev` is the separate key of older files.
    pub fn read(key: &str, value: &Value, stdev: f64) -> Outcome<Spread> {
        let Value::Map(entries) = value else {
            let mean = as_number(value).unwrap_or(0.0);
            return checked(key, if stdev > 0.0 { Spread::Normal { mean, stdev } } else { Spread::Fixed(mean) });
        };
        if entries.is_empty() {
            return Ok(Spread::Fixed(0.0));
        }
        let kind = kind_of(value);
        let Some(names) = names_of(kind) else {
            let known: Vec<&str> = DISTRIBUTIONS.iter().map(|(kind, _)| *kind).collect();
            let what = format!("workload.{key}: unknown distribution `{kind}`");
            return Err(Failure::refused(what).remedy(format!("known: {}", known.join(", "))));
        };
        let spread = {
            let part = |name: &str| number_in(key, value, name);
            match kind {
                "uniform" => Spread::Uniform { min: part("min")?, max: part("max")? },
                "gamma" => Spread::Gamma { shape: part("shape")?, scale: part("scale")? },
                "exponential" => Spread::Exponential { scale: part("scale")? },
                "poisson" => Spread::Poisson { mean: part("lam")? },
                _ if value.get("stdev").is_none() => Spread::Fixed(part("mean")?),
                _ => Spread::Normal { mean: part("mean")?, stdev: part("stdev")? },
            }
        };
        if let Some((extra, _)) = entries.iter().find(|(name, _)| name != "type" && !names.contains(&name.as_str())) {
            let what = format!("workload.{key}: a {kind} distribution has no `{extra}`");
            return Err(Failure::refused(what).remedy(format!("expected {}", names.join(" and "))));
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

    /// Returns seconds; never negative, because DLIO takes the absolute value.
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

/// The distributions and their parameters.
const DISTRIBUTIONS: &[(&str, &[&str])] = &[
    ("normal", &["mean", "stdev"]),
    ("uniform", &["min", "max"]),
    ("gamma", &["shape", "scale"]),
    ("exponential", &["scale"]),
    ("poisson", &["lam"]),
];

/// Returns the parameters of a distribution; `None` if it does not exist.
pub fn names_of(kind: &str) -> Option<&'static [&'static str]> {
    DISTRIBUTIONS.iter().find(|(known, _)| *known == kind).map(|(_, names)| *names)
}

/// Returns the type of distribution in a map: normal by default.
pub fn kind_of(map: &Value) -> &str {
    match map.get("type") {
        Some(Value::Text(kind)) => kind,
        _ => "normal",
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
    let what = || format!("workload.{key}: expected a time in seconds, not negative and finite");
    if legal { Ok(spread) } else { Err(Failure::refused(what())) }
}

/// Emulates compute, with at least its time for each step.
pub struct Pace {
    spread: Spread,
    draws: Draws,
    /// Keeps the processor busy instead of sleeping.
    busy: bool,
}

impl Pace {
    pub fn new(spread: Spread, seed: u64, busy: bool) -> Pace {
        crate::system::clock::wake_in_time();
        Pace { spread, draws: Draws::new(seed), busy }
    }

    /// Computes for the next duration; returns the elapsed time.
    pub fn step(&mut self) -> Duration {
        let asked = seconds(self.spread.draw(&mut self.draws));
        if asked.is_zero() {
            return Duration::ZERO;
        }
        let begun = Instant::now();
        wait(asked, begun, self.busy);
        begun.elapsed()
    }
}

fn wait(asked: Duration, begun: Instant, busy: bool) {
    if !busy {
        crate::system::processes::sleep(asked);
        return;
    }
    let mut spun = 0u64;
    while begun.elapsed() < asked && !crate::system::processes::interrupted() && !crate::system::processes::lost_child()
    {
        for _ in 0..64 {
            spun = std::hint::black_box(crate::system::random::word(spun, spun));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::value::parse_yaml;

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
    fn rejects_invalid_distributions() {
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
    fn no_step_is_short_after_a_late_one() {
        for busy in [false, true] {
            let mut pace = Pace::new(Spread::Fixed(0.002), 1, busy);
            let shortest = (0..100).map(|_| pace.step()).min();
            assert!(shortest >= Some(Duration::from_millis(2)), "{shortest:?}");
        }
    }
}
