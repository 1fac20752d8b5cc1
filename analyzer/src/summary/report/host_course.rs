//! Counters of hosts over time, in the columns of the timeline.

use dlio_schemas::machine::samples::{Samples, Series};
use dlio_schemas::native::fields::key;
use serde::{Deserialize, Serialize};

use crate::catalog::Host;
use crate::load::Trace;

/// The growth of a counter per column; `None` in columns without samples.
type Course = Vec<Option<u64>>;

/// A host that was sampled. A counter is `None` if it was not read.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct HostCourse {
    pub host: String,
    pub cores: Option<i32>,
    /// Summed over CPUs.
    pub cpu_busy_ns: Option<Course>,
    pub throttled_ns: Option<Course>,
    /// File pages that had recently been evicted from the page cache.
    pub refaults: Option<Course>,
    pub devices: Vec<DeviceCourse>,
}

/// A block device.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct DeviceCourse {
    pub device: String,
    pub read_bytes: Option<Course>,
    pub write_bytes: Option<Course>,
    pub busy_ns: Option<Course>,
}

/// Largest numbers of hosts and of devices per host.
const HOSTS_MAX: usize = 4;
const DEVICES_MAX: usize = 3;

/// The columns of the timeline.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    pub start_ts: i64,
    pub width_ns: i64,
    pub count: usize,
}

/// Returns the hosts that were sampled, and their devices with the most bytes.
pub fn hosts(trace: &Trace, columns: Columns) -> Vec<HostCourse> {
    let of_host = |host: &Host| {
        let is_its = |samples: &&Samples| {
            samples.fact(key::HOST) == Some(&host.name) && samples.fact(key::BOOT_ID) == host.boot_id.as_deref()
        };
        let its = trace.machines.iter().filter(is_its);
        let sampled = its.map(|samples| HostSamples { samples, columns, offset_ns: host.clock_offset_ns });
        // A directory with several runs has the samples of each.
        let sampled = sampled.max_by_key(HostSamples::moments_within)?;
        (sampled.moments_within() > 0).then(|| sampled.course(host))
    };
    trace.catalog.hosts().iter().filter_map(of_host).take(HOSTS_MAX).collect()
}

/// The samples of one host.
struct HostSamples<'a> {
    samples: &'a Samples,
    columns: Columns,
    /// Unix time minus boot time.
    offset_ns: i64,
}

impl HostSamples<'_> {
    fn ts(&self, moment: usize) -> i64 {
        self.offset_ns.saturating_add_unsigned(self.samples.moments[moment].boot_ns)
    }

    fn moments_within(&self) -> usize {
        let Columns { start_ts, width_ns, count } = self.columns;
        let end_ts = start_ts + width_ns * count as i64;
        (0..self.samples.moments.len()).filter(|moment| (start_ts..=end_ts).contains(&self.ts(*moment))).count()
    }

    fn course(&self, host: &Host) -> HostCourse {
        let sum = |name: &str| self.samples.of(name).next().map(|series| self.spread(series));
        let mut devices: Vec<(u64, &str)> = Vec::new();
        for series in self.samples.of("device_read_bytes") {
            let written = self.samples.of("device_write_bytes").find(|other| other.scope == series.scope);
            let moved = [Some(series), written].into_iter().flatten().filter_map(Series::growth);
            devices.push((moved.sum(), &series.scope));
        }
        devices.sort_by(|a, b| b.cmp(a));
        let device = |&(_, scope): &(u64, &str)| {
            let of = |name: &str| self.samples.of(name).find(|series| series.scope == scope).map(|it| self.spread(it));
            DeviceCourse {
                device: scope.into(),
                read_bytes: of("device_read_bytes"),
                write_bytes: of("device_write_bytes"),
                busy_ns: of("device_busy_ns"),
            }
        };
        HostCourse {
            host: host.name.clone(),
            cores: host.cores,
            cpu_busy_ns: sum("cpu_busy_ns"),
            throttled_ns: sum("group_throttled_ns"),
            refaults: sum("refaults_file"),
            devices: devices.iter().filter(|(moved, _)| *moved > 0).take(DEVICES_MAX).map(device).collect(),
        }
    }

    /// Spreads the growth between two samples evenly over the columns between them. Only changed values are stored: a
    /// counter without a value in a sample has not grown.
    fn spread(&self, series: &Series) -> Course {
        let Columns { start_ts, width_ns, count } = self.columns;
        let (mut sums, mut is_known) = (vec![0.0; count], vec![false; count]);
        let mut values = series.values.iter().peekable();
        let Some(&(first, mut value)) = values.next() else { return vec![None; count] };
        for moment in first + 1..self.samples.moments.len() {
            let next = values.next_if(|(at, _)| *at == moment).map_or(value, |(_, value)| *value);
            let (from, to) = (self.ts(moment - 1) - start_ts, self.ts(moment) - start_ts);
            // A counter that went back was reset.
            if let Some(grown) = next.checked_sub(value).filter(|_| to > from) {
                let columns = (from.max(0) / width_ns) as usize..(to.max(0) as u64).div_ceil(width_ns as u64) as usize;
                for column in columns.start..columns.end.min(count) {
                    let begin = column as i64 * width_ns;
                    let within = to.min(begin + width_ns) - from.max(begin);
                    sums[column] += grown as f64 * within as f64 / (to - from) as f64;
                    is_known[column] = true;
                }
            }
            value = next;
        }
        sums.iter().zip(is_known).map(|(sum, is_known)| is_known.then_some(sum.round() as u64)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(text: &str, count: usize) -> Course {
        let samples = Samples::parse(format!("dlio-machine 1\ncounter\t1\tcpu_busy_ns\t\n{text}").as_bytes()).unwrap();
        let columns = Columns { start_ts: 1_000, width_ns: 10, count };
        let host = HostSamples { samples: &samples, columns, offset_ns: 900 };
        host.spread(&samples.series[0])
    }

    #[test]
    fn growth_is_spread_over_the_columns_between_samples() {
        // Samples before the first column, in the middle of the second one and at the end of the third one.
        let text = "at\t90\t0\n1\t0\nat\t115\t0\n1\t50\nat\t130\t0\n1\t80\n";
        assert_eq!(spread(text, 4), [Some(20), Some(20), Some(20), None]);
        // A value that is not written has not changed.
        assert_eq!(spread("at\t100\t0\n1\t7\nat\t110\t0\nat\t120\t0\n1\t9\n", 2), [Some(0), Some(2)]);
    }

    #[test]
    fn columns_without_samples_are_unknown() {
        assert_eq!(spread("at\t100\t0\n1\t7\n", 2), [None, None]);
        assert_eq!(spread("at\t120\t0\n1\t7\nat\t130\t0\n1\t8\n", 4), [None, None, Some(1), None]);
        // A reset counter says nothing about the time before.
        assert_eq!(spread("at\t100\t0\n1\t7\nat\t110\t0\n1\t3\nat\t120\t0\n1\t5\n", 2), [None, Some(2)]);
    }
}
