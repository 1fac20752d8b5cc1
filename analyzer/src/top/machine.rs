//! Current host activity, from the samples that `dlio trace` writes next to the traces once a second.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use dlio_schemas::machine::samples::{ENDING, HEAD, Samples};
use dlio_schemas::native::fields::key;
use serde::Serialize;

/// The start of a file contains host information and counters, its end the latest samples.
const PART: u64 = 64 << 10;

/// Older samples are stale: samples come every second, or every ten seconds in runs of several hours.
const OLD: Duration = Duration::from_secs(30);

/// The activity of a host between the last two samples. Values that the kernel does not report are `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MachineRow {
    pub host: String,
    /// Unix time of the last sample in nanoseconds, and the time since the previous one.
    pub ts: i64,
    pub interval_s: f64,
    pub cores: Option<u64>,
    /// Busy CPU time per elapsed time.
    pub cpus_busy: Option<f64>,
    pub cpus_stolen: Option<f64>,
    /// The share of periods in which the control group used up its quota.
    pub throttled: Option<f64>,
    /// The share of time in which a task waited for storage, and for memory.
    pub io_pressure: Option<f64>,
    pub memory_pressure: Option<f64>,
    /// In bytes.
    pub memory_available: Option<u64>,
}

/// Returns the hosts on which a command is now traced into the directory, by name.
pub fn look(folder: &Path, now: Duration) -> Vec<MachineRow> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let ours = entries.filter(|path| path.extension().is_some_and(|ending| ending == ENDING));
    let mut rows: Vec<MachineRow> = ours.filter_map(|path| row(&ends_of(&path)?, now)).collect();
    rows.sort_by(|a, b| a.host.cmp(&b.host).then(a.ts.cmp(&b.ts)));
    rows
}

/// Reads the first and the last part of a file and skips the middle.
fn ends_of(path: &Path) -> Option<Samples> {
    let mut file = File::open(path).ok()?;
    let size = file.metadata().ok().filter(|facts| facts.is_file())?.len();
    let (mut first, mut last) = (Vec::new(), Vec::new());
    if size <= 2 * PART {
        file.read_to_end(&mut first).ok()?;
        return Samples::parse(&first);
    }
    file.by_ref().take(PART).read_to_end(&mut first).ok()?;
    file.seek(SeekFrom::Start(size - PART)).ok()?;
    file.read_to_end(&mut last).ok()?;
    // Keep whole samples of the end, and whole header lines of the start, whose samples do not adjoin those of the end.
    let whole = last.windows(4).position(|bytes| bytes == b"\nat\t")? + 1;
    let known = first.split_inclusive(|byte| *byte == b'\n').filter(|line| {
        line.ends_with(b"\n") && [HEAD, "fact\t", "counter\t"].iter().any(|start| line.starts_with(start.as_bytes()))
    });
    Samples::parse(&[&known.collect::<Vec<_>>().concat()[..], &last[whole..]].concat())
}

fn row(samples: &Samples, now: Duration) -> Option<MachineRow> {
    let [.., before, last] = &samples.moments[..] else { return None };
    let age = now.saturating_sub(Duration::from_nanos(last.unix_ns));
    if samples.has_ended || age > OLD {
        return None;
    }
    let elapsed = last.boot_ns.checked_sub(before.boot_ns).filter(|ns| *ns > 0)?;
    let at = samples.moments.len() - 1;
    // A value that is not in a sample has not changed.
    let grown = |name: &str| {
        let series = samples.of(name).next()?;
        let value = |moment: usize| series.values.iter().rfind(|(of, _)| *of <= moment).map(|(_, value)| *value);
        Some(value(at)?.saturating_sub(value(at - 1).or(value(at))?))
    };
    let share = |name: &str| grown(name).map(|ns| ns as f64 / elapsed as f64);
    let periods = grown("group_periods").zip(grown("group_throttled_periods"));
    Some(MachineRow {
        host: samples.fact(key::HOST).unwrap_or("unknown").into(),
        ts: last.unix_ns as i64,
        interval_s: elapsed as f64 / 1e9,
        cores: samples.fact(key::CORES).and_then(|cores| cores.parse().ok()),
        cpus_busy: share("cpu_busy_ns"),
        cpus_stolen: share("cpu_steal_ns"),
        throttled: periods.map(|(all, throttled)| throttled as f64 / all.max(1) as f64),
        io_pressure: share("io_some_ns"),
        memory_pressure: share("memory_some_ns"),
        memory_available: samples.of("memory_available").next().and_then(|series| Some(series.values.last()?.1)),
    })
}

#[cfg(test)]
mod tests {
    use dlio_schemas::machine::counters::place;
    use dlio_schemas::machine::samples::{END, Reading, Writer};

    use super::*;

    fn text(seconds: u64) -> String {
        let mut writer = Writer::default();
        let facts = [(key::HOST, "node".to_string()), (key::CORES, "8".to_string())];
        let mut text = Writer::head(&facts, &[]);
        let reading = |name, value| Reading { counter: place(name).unwrap(), scope: String::new(), value };
        for second in 1..=seconds {
            let ns = second * 1_000_000_000;
            let all = [
                reading("cpu_busy_ns", 3 * ns),
                reading("io_some_ns", ns / 4),
                reading("memory_available", 5),
                reading("group_periods", 10 * second),
                reading("group_throttled_periods", 4 * second),
            ];
            text += &writer.sample(ns, ns, &all);
        }
        text
    }

    #[test]
    fn the_last_second_is_told_however_long_the_run_is() {
        for seconds in [2, 5, 60_000] {
            let folder = std::env::temp_dir().join(format!("dlio-top-machine-{}-{seconds}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("a.machine"), text(seconds)).unwrap();
            let now = Duration::from_secs(seconds);
            let rows = look(&folder, now);
            let (late, others) = (look(&folder, now + 2 * OLD), look(Path::new("/no/such/folder"), now));
            std::fs::write(folder.join("a.machine"), text(seconds) + END).unwrap();
            let ended = look(&folder, now);
            std::fs::remove_dir_all(&folder).unwrap();
            let [row] = &rows[..] else { panic!("{rows:?}") };
            assert_eq!((row.host.as_str(), row.cores, row.interval_s), ("node", Some(8), 1.0));
            assert_eq!((row.cpus_busy, row.io_pressure, row.throttled), (Some(3.0), Some(0.25), Some(0.4)));
            // Only changed values are written, and this one was written long ago.
            assert_eq!(row.memory_available, if seconds > 1000 { None } else { Some(5) });
            assert_eq!((row.cpus_stolen, late.len(), others.len(), ended.len()), (None, 0, 0, 0));
        }
    }
}
