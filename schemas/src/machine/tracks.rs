//! Counters of a host as viewers draw them: a counter that grows becomes a rate, so the line is high when the load
//! was.

use super::counters::{COUNTERS, Unit};
use super::samples::{Samples, Series};

/// A line in a viewer.
#[derive(Clone, PartialEq, Debug)]
pub struct Track {
    /// The counter's name and its scope: `device_read_bytes sda`.
    pub name: String,
    pub unit: &'static str,
    pub meaning: &'static str,
    /// Boot time, and the value from then on.
    pub values: Vec<(u64, f64)>,
}

/// The lines of one host.
#[derive(Clone, PartialEq, Debug)]
pub struct Tracks {
    pub host: String,
    pub boot_id: Option<String>,
    pub all: Vec<Track>,
}

impl Tracks {
    /// Returns the lines that are not constant zero between two boot times.
    pub fn of(samples: &Samples, from_ns: u64, to_ns: u64) -> Tracks {
        let all = samples.series.iter().map(|series| track(samples, series, from_ns, to_ns));
        Tracks {
            host: samples.fact("host").unwrap_or_default().into(),
            boot_id: samples.fact("boot_id").map(str::to_string),
            all: all.filter(|track| track.values.iter().any(|(_, value)| *value != 0.0)).collect(),
        }
    }
}

fn track(samples: &Samples, series: &Series, from_ns: u64, to_ns: u64) -> Track {
    let counter = &COUNTERS[series.counter];
    let unit = match (counter.unit, counter.accumulates) {
        (Unit::Bytes, true) => "B/s",
        (Unit::Bytes, false) => "B",
        (Unit::Count, true) => "1/s",
        (Unit::Count, false) => "",
        (Unit::Nanoseconds, _) => "s/s",
        (Unit::Percent, _) => "%",
        (Unit::Milliwatts, _) => "mW",
    };
    let mut values = match counter.accumulates {
        true => rates(samples, series, counter.unit == Unit::Nanoseconds),
        false => {
            series.values.iter().map(|(moment, value)| (samples.moments[*moment].boot_ns, *value as f64)).collect()
        }
    };
    // The value at the start was recorded before it.
    let before = values.iter().rposition(|(at, _)| *at <= from_ns).unwrap_or(0);
    values.drain(..before);
    values.retain(|(at, _)| *at <= to_ns);
    let name = if series.scope.is_empty() { counter.name.into() } else { format!("{} {}", counter.name, series.scope) };
    Track { name, unit, meaning: counter.meaning, values }
}

/// Returns the growth per time between two consecutive samples; a counter that is not written has not changed.
fn rates(samples: &Samples, series: &Series, is_time: bool) -> Vec<(u64, f64)> {
    let Some(&(first, mut last)) = series.values.first() else { return Vec::new() };
    let (mut written, mut rates) = (series.values[1..].iter().peekable(), Vec::new());
    for (moment, pair) in samples.moments.windows(2).enumerate().skip(first) {
        let now = written.next_if(|(at, _)| *at == moment + 1).map_or(last, |(_, value)| *value);
        let elapsed = pair[1].boot_ns.saturating_sub(pair[0].boot_ns);
        let growth = now.saturating_sub(last) as f64;
        let per = if is_time { 1.0 } else { 1e9 };
        rates.push((pair[0].boot_ns, if elapsed > 0 { growth * per / elapsed as f64 } else { 0.0 }));
        last = now;
    }
    // The last rate is valid up to the last sample.
    rates.extend(samples.moments.last().filter(|_| !rates.is_empty()).map(|moment| (moment.boot_ns, 0.0)));
    rates
}

#[cfg(test)]
mod tests {
    use super::super::counters::place;
    use super::super::samples::SampleTime;
    use super::*;

    fn samples(name: &str, values: &[(usize, u64)]) -> Samples {
        let moments = (0..4u64).map(|second| SampleTime { boot_ns: second * 1_000_000_000, unix_ns: 0 }).collect();
        let series = Series { counter: place(name).unwrap(), scope: "sda".into(), values: values.to_vec() };
        Samples { moments, series: vec![series], ..Samples::default() }
    }

    fn values(name: &str, given: &[(usize, u64)], from: u64, to: u64) -> Vec<(u64, f64)> {
        let tracks = Tracks::of(&samples(name, given), from * 1_000_000_000, to * 1_000_000_000);
        let seconds = |(at, value): &(u64, f64)| (at / 1_000_000_000, *value);
        tracks.all.first().map_or(Vec::new(), |track| track.values.iter().map(seconds).collect())
    }

    #[test]
    fn growing_counters_become_rates() {
        let given = [(0, 100), (1, 300), (3, 350)];
        assert_eq!(values("device_reads", &given, 0, 9), [(0, 200.0), (1, 0.0), (2, 50.0), (3, 0.0)]);
        assert_eq!(values("device_busy_ns", &[(0, 0), (1, 500_000_000)], 0, 9)[0], (0, 0.5));
        // Reset during the recording.
        assert_eq!(values("device_reads", &[(0, 100), (1, 3), (2, 5)], 0, 9), [(0, 0.0), (1, 2.0), (2, 0.0), (3, 0.0)]);
        assert_eq!(values("device_reads", &[(0, 7)], 0, 9), []);
    }

    #[test]
    fn levels_are_kept_within_the_window() {
        assert_eq!(values("memory_dirty", &[(0, 5), (2, 7)], 0, 9), [(0, 5.0), (2, 7.0)]);
        assert_eq!(values("memory_dirty", &[(0, 5), (1, 6), (2, 7), (3, 8)], 1, 2), [(1, 6.0), (2, 7.0)]);
        assert_eq!(values("memory_dirty", &[(0, 5), (3, 8)], 2, 2), [(0, 5.0)]);
    }
}
