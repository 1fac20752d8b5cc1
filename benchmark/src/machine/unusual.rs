//! Unusual conditions of the host during a command, in one sentence: resources that the command could not use, and the time for
//! which it waited for them.

use std::collections::HashMap;
use std::time::Duration;

use dlio_schemas::machine::counters::COUNTERS;
use dlio_schemas::machine::samples::Reading;

/// The samples of a run, reduced to the values that the sentence needs.
#[derive(Default)]
pub struct RunSamples {
    /// First and last reading of each counter and scope.
    pub readings: HashMap<(&'static str, String), (u64, u64)>,
    /// Maximum of each counter.
    pub most: HashMap<&'static str, u64>,
    pub elapsed_ns: u64,
}

impl RunSamples {
    pub fn most(&self, name: &str) -> Option<u64> {
        self.most.get(name).copied()
    }

    /// Returns the growth of a counter, over all its scopes; `None` if it was never read.
    pub fn growth(&self, name: &str) -> Option<u64> {
        let of = self.readings.iter().filter(|((known, _), _)| *known == name);
        of.map(|(_, (first, last))| last.saturating_sub(*first)).reduce(u64::saturating_add)
    }

    /// Adds the readings of one sample.
    pub fn take(&mut self, readings: &[Reading]) {
        for reading in readings {
            let key = (COUNTERS[reading.counter].name, reading.scope.clone());
            let most = self.most.entry(key.0).or_default();
            *most = reading.value.max(*most);
            self.readings.entry(key).or_insert((reading.value, reading.value)).1 = reading.value;
        }
    }
}

/// The resources available to the command.
#[derive(Clone)]
pub struct Allowance {
    /// CPUs of the host, and those that the command may run on.
    pub cores: u64,
    pub allowed: Option<u64>,
    /// CPU time quota, in CPUs.
    pub quota: Option<f64>,
    /// In bytes.
    pub memory_limit: Option<u64>,
    /// Devices on which reads are limited, in bytes per second.
    pub read_limits: Vec<(String, u64)>,
}

/// A smaller share of throttled periods is not mentioned.
const THROTTLED_MIN: f64 = 0.05;
/// A group whose memory is this close to its limit evicts its page cache, or soon will.
const MEMORY_NEAR: f64 = 0.9;
/// A smaller share of the allowed rate of reads, over the whole run, is not mentioned.
const IO_NEAR: f64 = 0.5;
/// The minimum share of time taken by other guests that is mentioned.
const STOLEN_MIN: f64 = 0.05;

/// Returns the parts of the sentence; empty if nothing was unusual.
pub fn remarks(allowance: &Allowance, watched: &RunSamples) -> Vec<String> {
    [
        cpus(allowance),
        throttled(watched),
        memory(allowance, watched),
        io_limit(allowance, watched),
        stolen(allowance, watched),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn cpus(allowance: &Allowance) -> Option<String> {
    let allowed = allowance.allowed.filter(|allowed| *allowed < allowance.cores);
    let quota = allowance.quota.filter(|quota| *quota < allowed.unwrap_or(allowance.cores) as f64);
    let cores = allowance.cores;
    match (allowed, quota) {
        (_, Some(quota)) => Some(format!("this job may use {} of {cores} CPUs (quota)", rounded(quota))),
        (Some(allowed), None) => Some(format!("this job may use {allowed} of {cores} CPUs")),
        (None, None) => None,
    }
}

fn throttled(watched: &RunSamples) -> Option<String> {
    let (periods, throttled) = (watched.growth("group_periods")?, watched.growth("group_throttled_periods")?);
    let waited = Duration::from_nanos(watched.growth("group_throttled_ns")?);
    let share = throttled as f64 / periods.max(1) as f64;
    (share >= THROTTLED_MIN).then(|| {
        format!(
            "this job used up its quota in {:.0} % of the periods and was throttled for {:.1} s (summed over CPUs) of \
                {:.1} s",
            share * 100.0,
            waited.as_secs_f64(),
            watched.elapsed_ns as f64 / 1e9
        )
    })
}

fn memory(allowance: &Allowance, watched: &RunSamples) -> Option<String> {
    let limit = allowance.memory_limit?;
    let used = watched.most("group_memory_used")?;
    (used as f64 >= limit as f64 * MEMORY_NEAR).then(|| {
        format!("its memory, including page cache, reached {:.1} of {:.1} GiB", gibibytes(used), gibibytes(limit))
    })
}

/// Mentions the device whose reads came closest to their limit.
fn io_limit(allowance: &Allowance, watched: &RunSamples) -> Option<String> {
    let seconds = watched.elapsed_ns.max(1) as f64 / 1e9;
    let used = |(device, limit): &(String, u64)| {
        let (first, last) = watched.readings.get(&("device_read_bytes", device.clone()))?;
        let rate = last.saturating_sub(*first) as f64 / seconds;
        Some((rate / *limit as f64, device.clone(), *limit, rate))
    };
    let (share, device, limit, rate) =
        allowance.read_limits.iter().filter_map(used).max_by(|a, b| a.0.total_cmp(&b.0))?;
    (share >= IO_NEAR).then(|| {
        let [rate, limit] = [rate, limit as f64].map(|rate| rate / 1e6);
        format!("it read {rate:.1} MB/s from {device}, and its control group is limited to reading {limit:.1} MB/s")
    })
}

fn stolen(allowance: &Allowance, watched: &RunSamples) -> Option<String> {
    let share =
        watched.growth("cpu_steal_ns")? as f64 / (watched.elapsed_ns.max(1) as f64 * allowance.cores.max(1) as f64);
    (share >= STOLEN_MIN).then(|| format!("other guests of the hypervisor used {:.0} % of the CPU time", share * 100.0))
}

fn gibibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

fn rounded(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(values: &[(&'static str, u64, u64)]) -> RunSamples {
        let readings = values.iter().map(|(name, first, last)| ((*name, String::new()), (*first, *last))).collect();
        let most = values.iter().map(|(name, first, last)| (*name, *first.max(last))).collect();
        RunSamples { readings, most, elapsed_ns: 10_000_000_000 }
    }

    #[test]
    fn usual_conditions_are_not_mentioned() {
        let all =
            Allowance { cores: 64, allowed: Some(64), quota: Some(64.0), memory_limit: None, read_limits: Vec::new() };
        let quiet = watched(&[
            ("group_periods", 0, 100),
            ("group_throttled_periods", 0, 4),
            ("group_throttled_ns", 0, 9),
            ("cpu_steal_ns", 0, 1_000_000),
        ]);
        assert_eq!(remarks(&all, &quiet), [""; 0]);
        assert_eq!(remarks(&Allowance { allowed: None, quota: None, ..all }, &RunSamples::default()), [""; 0]);
    }

    #[test]
    fn unusual_conditions_have_numbers() {
        let little = Allowance {
            cores: 64,
            allowed: Some(8),
            quota: Some(1.5),
            memory_limit: Some(1 << 30),
            read_limits: vec![("vda".into(), 20_000_000)],
        };
        let mut busy = watched(&[
            ("group_periods", 100, 200),
            ("group_throttled_periods", 10, 60),
            ("group_throttled_ns", 0, 3_200_000_000),
            ("group_memory_used", 1, 1 << 30),
            ("cpu_steal_ns", 0, 64_000_000_000),
        ]);
        busy.readings.insert(("device_read_bytes", "vda".into()), (0, 190_000_000));
        let said = remarks(&little, &busy);
        assert_eq!(said[0], "this job may use 1.5 of 64 CPUs (quota)");
        assert!(said[1].contains("50 % of the periods") && said[1].contains("throttled for 3.2 s"), "{said:?}");
        assert!(said[2].contains("1.0 of 1.0 GiB"), "{said:?}");
        assert_eq!(said[3], "it read 19.0 MB/s from vda, and its control group is limited to reading 20.0 MB/s");
        assert!(said[4].contains("10 %"), "{said:?}");
        assert_eq!(remarks(&Allowance { quota: None, ..little }, &busy)[0], "this job may use 8 of 64 CPUs");
    }
}
