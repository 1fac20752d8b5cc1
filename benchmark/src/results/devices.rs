//! Counters of the block devices and CPUs from /proc: sampled each second during a run, in the layout of
//! `iostat -x -o JSON`, which report tools for DLIO's runs read, and before and after each epoch.

use crate::failure::Outcome;
use crate::machine::mounts;
use crate::results::run_folder::RunFolder;
use crate::system::clock::local_time;
use crate::system::host::{self, host_name};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PERIOD: Duration = Duration::from_secs(1);
const SECTOR: f64 = 512.0;
/// A megabyte and a kilobyte as in `iostat -m`.
const MEGABYTE: f64 = 1024.0 * 1024.0;
const KILOBYTE: f64 = 1024.0;

/// Returns "04/23/26 16:33:43", iostat's default time format.
fn short_time() -> String {
    let now = local_time();
    format!("{}/{}/{} {}", &now[5..7], &now[8..10], &now[2..4], &now[11..19])
}

/// Fields of a line of /proc/diskstats after the name.
type Counters = Vec<f64>;

fn counters(text: &str) -> BTreeMap<String, Counters> {
    let line = |line: &str| {
        let mut words = line.split_whitespace().skip(2);
        let name = words.next()?.to_string();
        Some((name, words.filter_map(|word| word.parse().ok()).collect()))
    };
    text.lines().filter_map(line).filter(|(_, counters): &(String, Counters)| counters.len() >= 11).collect()
}

/// Returns the devices that this host does not have.
pub fn unknown(devices: &[String]) -> Vec<String> {
    let known = counters(&fs::read_to_string("/proc/diskstats").unwrap_or_default());
    devices.iter().filter(|name| !known.contains_key(*name)).cloned().collect()
}

/// Returns the rates between two readings of one device.
fn rates(name: &str, before: &Counters, after: &Counters, seconds: f64) -> Value {
    // Older kernels do not report discards and flushes.
    let of = |counters: &Counters, field: usize| counters.get(field).copied().unwrap_or(0.0);
    let grown = |field: usize| of(after, field) - of(before, field);
    let mean = |total: f64, count: f64| if count > 0.0 { total / count } else { 0.0 };
    let hundredths = |number: f64| (number * 100.0).round() / 100.0;
    let mut fields = Map::from_iter([("disk_device".to_string(), json!(name))]);
    let mut put = |field: String, number: f64| fields.insert(field, json!(hundredths(number)));
    // For each kind: operations, merged ones, sectors, milliseconds.
    let kinds = [("r", 0), ("w", 4), ("d", 11)];
    for (kind, at) in kinds {
        put(format!("{kind}/s"), grown(at) / seconds);
    }
    put("f/s".into(), grown(15) / seconds);
    for (kind, at) in kinds {
        put(format!("{kind}MB/s"), grown(at + 2) * SECTOR / MEGABYTE / seconds);
        put(format!("{kind}rqm/s"), grown(at + 1) / seconds);
        put(format!("{kind}rqm"), 100.0 * mean(grown(at + 1), grown(at) + grown(at + 1)));
        put(format!("{kind}_await"), mean(grown(at + 3), grown(at)));
        put(format!("{kind}areq-sz"), mean(grown(at + 2) * SECTOR / KILOBYTE, grown(at)));
    }
    put("f_await".into(), mean(grown(16), grown(15)));
    put("aqu-sz".into(), grown(10) / 1e3 / seconds);
    put("util".into(), (grown(9) / 10.0 / seconds).min(100.0));
    Value::Object(fields)
}

/// Returns user, nice, system, idle, iowait, irq, softirq and steal in ticks.
fn processor_ticks(text: &str) -> Vec<f64> {
    let line = text.lines().next().unwrap_or_default();
    line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect()
}

fn processor_shares(before: &[f64], after: &[f64]) -> Value {
    let grown: Vec<f64> = after.iter().zip(before).map(|(after, before)| after - before).take(8).collect();
    let all: f64 = grown.iter().sum::<f64>().max(1.0);
    let share = |field: usize| 100.0 * grown.get(field).copied().unwrap_or(0.0) / all;
    json!({
        "user": share(0), "nice": share(1), "system": share(2) + share(5) + share(6),
        "iowait": share(4), "steal": share(7), "idle": share(3),
    })
}

struct Reading {
    devices: BTreeMap<String, Counters>,
    processor: Vec<f64>,
    at: Instant,
}

impl Reading {
    fn now() -> Reading {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        Reading {
            devices: counters(&text("/proc/diskstats")),
            processor: processor_ticks(&text("/proc/stat")),
            at: Instant::now(),
        }
    }

    fn since(&self, before: &Reading, wanted: &[String]) -> Value {
        let seconds = self.at.duration_since(before.at).as_secs_f64().max(1e-9);
        let named = |name: &String| wanted.is_empty() || wanted.contains(name);
        let both = self
            .devices
            .iter()
            .filter(|(name, _)| named(name))
            .filter_map(|(name, after)| Some((name, before.devices.get(name)?, after)));
        let disks: Vec<Value> = both.map(|(name, before, after)| rates(name, before, after, seconds)).collect();
        json!({"timestamp": short_time(), "avg-cpu": processor_shares(&before.processor, &self.processor), "disk": disks})
    }
}

/// Activity of the first rank's host during an epoch, by any program.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HostUse {
    /// The device with the data, the bytes that it read, and the share of the time in which it had a request.
    pub device: Option<(String, u64, f64)>,
    pub cpu_busy_share: Option<f64>,
}

impl HostUse {
    pub fn facts(&self) -> Value {
        let device = self.device.as_ref();
        json!({
            "device": device.map(|(name, ..)| name),
            "device_read_bytes": device.map(|(_, bytes, _)| bytes),
            "device_busy_share": device.map(|(.., busy)| busy),
            "cpu_busy_share": self.cpu_busy_share,
        })
    }
}

/// Reads the counters of the host before and after each epoch.
pub struct HostCounters {
    device: Option<String>,
    before: Reading,
}

impl HostCounters {
    /// `folder` has the data.
    pub fn of(folder: &Path) -> HostCounters {
        let mounts = mounts::parse(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default());
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
        let mount =
            mounts.iter().filter(|mount| folder.starts_with(&mount.folder)).max_by_key(|mount| mount.folder.len());
        HostCounters { device: mount.and_then(|mount| mount.device_name(Path::new(""))), before: Reading::now() }
    }

    pub fn begin(&mut self) {
        self.before = Reading::now();
    }

    pub fn end(&self) -> HostUse {
        let Reading { devices, processor, at } = Reading::now();
        let device = self.device.as_ref().and_then(|name| {
            let (before, after) = (self.before.devices.get(name)?, devices.get(name)?);
            let [sectors, busy_ms] = [2, 9].map(|field| (after[field] - before[field]).max(0.0));
            let ms = at.duration_since(self.before.at).as_secs_f64() * 1e3;
            Some((name.clone(), (sectors * SECTOR) as u64, (busy_ms / ms.max(1e-6)).min(1.0)))
        });
        // The kernel counts CPU time in hundredths of a second.
        let ticks = |of: &[f64]| of.iter().take(8).sum::<f64>();
        let is_long = ticks(&processor) - ticks(&self.before.processor) >= TICKS_MIN;
        let shares = is_long.then(|| processor_shares(&self.before.processor, &processor));
        let idle = shares.and_then(|shares| Some(shares["idle"].as_f64()? + shares["iowait"].as_f64()?));
        HostUse { device, cpu_busy_share: idle.map(|idle| 1.0 - idle / 100.0) }
    }
}

/// Fewer ticks do not show how busy CPUs were.
const TICKS_MIN: f64 = 50.0;

/// Samples in a thread until it is finished.
pub struct Sampler {
    stop: Sender<()>,
    thread: JoinHandle<Vec<Value>>,
}

impl Sampler {
    /// Must be called after all worker processes exist: a process with threads must not fork.
    pub fn start(wanted: Vec<String>) -> Sampler {
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            let (mut samples, mut before) = (Vec::new(), Reading::now());
            loop {
                let end = stopped.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout);
                let now = Reading::now();
                samples.push(now.since(&before, &wanted));
                before = now;
                if end {
                    return samples;
                }
            }
        });
        Sampler { stop, thread }
    }

    pub fn finish(self, folder: &RunFolder) -> Outcome<()> {
        // Fails if the thread has already ended; then there is nothing to wait for.
        let _ = self.stop.send(());
        let samples = self.thread.join().unwrap_or_default();
        let kernel =
            |what: &str| fs::read_to_string(format!("/proc/sys/kernel/{what}")).unwrap_or_default().trim().to_string();
        let host = json!({
            "nodename": host_name(),
            "sysname": kernel("ostype"),
            "release": kernel("osrelease"),
            "machine": std::env::consts::ARCH,
            "number-of-cpus": host::all_processors(),
            "date": short_time().split(' ').next().unwrap_or_default(),
            "statistics": samples,
        });
        folder.write_json("iostat.json", &json!({"sysstat": {"hosts": [host]}}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_follow_from_two_readings() {
        let before = counters("   8       0 sda 100 0 2000 50 10 0 400 20 0 30 70\n");
        let after = counters("   8       0 sda 300 0 6000 250 10 0 400 20 0 530 1070\n");
        let rates = rates("sda", &before["sda"], &after["sda"], 2.0);
        assert_eq!(rates["r/s"], 100.0);
        assert_eq!(rates["rMB/s"], 0.98);
        assert_eq!((&rates["rareq-sz"], &rates["rrqm"], &rates["dMB/s"]), (&json!(10.0), &json!(0.0), &json!(0.0)));
        let mut fields: Vec<&str> = rates.as_object().unwrap().keys().map(String::as_str).collect();
        fields.sort_unstable();
        let mut asked: Vec<&str> =
            "disk_device r/s w/s d/s f/s rMB/s wMB/s dMB/s rrqm/s wrqm/s drqm/s rrqm wrqm drqm r_await \
            w_await d_await f_await rareq-sz wareq-sz dareq-sz aqu-sz util"
                .split_whitespace()
                .collect();
        asked.sort_unstable();
        assert_eq!(fields, asked);
        assert_eq!(rates["r_await"], 1.0);
        assert_eq!(rates["w_await"], 0.0);
        assert_eq!(rates["util"], 25.0);
    }
}
