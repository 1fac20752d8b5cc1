//! The counters of the host, each from its file in /proc or /sys. Missing files are skipped.

use std::path::{Path, PathBuf};

use dlio_schemas::control_groups::{self, Throttling, line};
use dlio_schemas::machine::counters::place;
use dlio_schemas::machine::samples::Reading;

use crate::machine::lustre;
use crate::machine::mounts::Mount;
use crate::system::file_calls::{kernel_text, placed};

/// Further devices and interfaces are left out.
const DEVICES_MAX: usize = 16;

/// The kernel reports CPU time to programs in hundredths of a second, regardless of its own clock.
const TICK_NS: u64 = 10_000_000;
const SECTOR: u64 = 512;
const MS: u64 = 1_000_000;
const US: u64 = 1_000;
/// The size of a page in swap counters.
const PAGE: u64 = 4096;

/// The files that are read.
pub struct Sources {
    /// Empty except in tests.
    pub root: PathBuf,
    /// Directories of the job's control groups, if known.
    pub cpu_group: Option<PathBuf>,
    pub memory_group: Option<PathBuf>,
    pub has_quota: bool,
    /// Kernel names of block devices.
    pub devices: Vec<String>,
    pub has_nfs: bool,
    /// Mounts of Lustre: name of the file system, and directory.
    pub lustre: Vec<(String, String)>,
}

impl Sources {
    /// Adds the devices of these mounts.
    pub fn of_mounts(mut self, mounts: &[Mount]) -> Sources {
        for name in mounts.iter().filter_map(|mount| mount.device_name(&self.root)) {
            if !self.devices.contains(&name) && self.devices.len() < DEVICES_MAX {
                self.devices.push(name);
            }
        }
        self.has_nfs = mounts.iter().any(Mount::is_nfs);
        let lustre = |mount: &Mount| Some((mount.lustre()?.to_string(), mount.folder.clone()));
        self.lustre = mounts.iter().filter_map(lustre).collect();
        self
    }

    /// Reads everything once.
    pub fn read(&self) -> Vec<Reading> {
        let mut out = Readings(Vec::with_capacity(64));
        self.processors(&mut out);
        self.pressure(&mut out);
        self.memory(&mut out);
        self.group(&mut out);
        self.devices(&mut out);
        self.network(&mut out);
        if self.has_nfs {
            nfs(&self.text("/proc/self/mountstats"), &mut out);
        }
        for (counter, folder, value) in lustre::counters(&self.root, &self.lustre) {
            out.put(counter, &folder, value);
        }
        out.0
    }

    fn text(&self, path: &str) -> String {
        kernel_text(placed(&self.root, path)).unwrap_or_default()
    }

    fn processors(&self, out: &mut Readings) {
        let text = self.text("/proc/stat");
        let Some(cpu) = text.lines().next().and_then(|line| line.strip_prefix("cpu ")) else { return };
        let ticks: Vec<u64> = cpu.split_whitespace().map_while(|word| word.parse().ok()).collect();
        // Guest time is included in user time.
        let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks[..] else { return };
        let busy = [user, nice, system, irq, softirq].into_iter().fold(0u64, u64::saturating_add);
        for (name, ticks) in
            [("cpu_busy_ns", busy), ("cpu_idle_ns", idle), ("cpu_iowait_ns", iowait), ("cpu_steal_ns", steal)]
        {
            out.put(name, "", ticks.saturating_mul(TICK_NS));
        }
    }

    fn pressure(&self, out: &mut Readings) {
        for (file, some, full) in [
            ("cpu", "cpu_some_ns", None),
            ("memory", "memory_some_ns", Some("memory_full_ns")),
            ("io", "io_some_ns", Some("io_full_ns")),
        ] {
            put_pressure(&self.text(&format!("/proc/pressure/{file}")), "", [Some(some), full], out);
        }
    }

    fn memory(&self, out: &mut Readings) {
        let text = self.text("/proc/meminfo");
        let kilobytes = |name: &str| {
            let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            rest.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kb| kb.saturating_mul(1024))
        };
        out.put_some("memory_available", "", kilobytes("MemAvailable"));
        let dirty =
            kilobytes("Dirty").zip(kilobytes("Writeback")).map(|(dirty, writeback)| dirty.saturating_add(writeback));
        out.put_some("memory_dirty", "", dirty);
        let text = self.text("/proc/vmstat");
        let of = |name: &str| line(text.as_bytes(), name.as_bytes());
        out.put_some("major_faults", "", of("pgmajfault"));
        out.put_some("refaults_file", "", of("workingset_refault_file").or_else(|| of("workingset_refault")));
        out.put_some("swap_in", "", of("pswpin").map(|pages| pages.saturating_mul(PAGE)));
        out.put_some("swap_out", "", of("pswpout").map(|pages| pages.saturating_mul(PAGE)));
    }

    fn group(&self, out: &mut Readings) {
        if let Some(folder) = &self.cpu_group {
            let scope = folder.to_string_lossy();
            let stat = read(folder, "cpu.stat");
            let used = line(stat.as_bytes(), b"usage_usec").map(|us| us.saturating_mul(US));
            let used = used.or_else(|| control_groups::number(read(folder, "cpuacct.usage").as_bytes()));
            out.put_some("group_cpu_ns", &scope, used);
            if let Some(throttling) = Throttling::parse(stat.as_bytes()).filter(|_| self.has_quota) {
                out.put("group_periods", &scope, throttling.periods);
                out.put("group_throttled_periods", &scope, throttling.throttled);
                out.put("group_throttled_ns", &scope, throttling.ns);
            }
            put_pressure(&read(folder, "cpu.pressure"), &scope, [Some("group_cpu_some_ns"), None], out);
            let io = [Some("group_io_some_ns"), Some("group_io_full_ns")];
            put_pressure(&read(folder, "io.pressure"), &scope, io, out);
        }
        if let Some(folder) = &self.memory_group {
            let scope = folder.to_string_lossy();
            let either = |names: [&str; 2]| {
                let read = |name: &&str| Some(read(folder, name)).filter(|text| !text.is_empty());
                names.iter().find_map(read).unwrap_or_default()
            };
            let used = either(["memory.current", "memory.usage_in_bytes"]);
            out.put_some("group_memory_used", &scope, control_groups::number(used.as_bytes()));
            let limit = either(["memory.max", "memory.limit_in_bytes"]);
            out.put_some("group_memory_limit", &scope, control_groups::memory_limit(limit.as_bytes()));
            let stat = read(folder, "memory.stat");
            // Version 1 has other names, with a `total_` prefix for sums over subgroups.
            let of = |names: [&str; 2]| names.iter().find_map(|name| line(stat.as_bytes(), name.as_bytes()));
            out.put_some("group_memory_file", &scope, of(["total_cache", "file"]));
            out.put_some("group_major_faults", &scope, of(["total_pgmajfault", "pgmajfault"]));
            let refaults = of(["total_workingset_refault_file", "workingset_refault_file"]);
            out.put_some("group_refaults_file", &scope, refaults);
            let memory = [Some("group_memory_some_ns"), Some("group_memory_full_ns")];
            put_pressure(&read(folder, "memory.pressure"), &scope, memory, out);
        }
    }

    fn devices(&self, out: &mut Readings) {
        for line in self.text("/proc/diskstats").lines() {
            let mut words = line.split_whitespace().skip(2);
            let Some(name) = words.next().filter(|name| self.devices.iter().any(|device| device == name)) else {
                continue;
            };
            let numbers: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
            let [reads, _, read, read_ms, writes, _, written, write_ms, _, busy_ms, queue_ms, ..] = numbers[..] else {
                continue;
            };
            for (counter, value) in [
                ("device_reads", reads),
                ("device_read_bytes", read.saturating_mul(SECTOR)),
                ("device_read_ns", read_ms.saturating_mul(MS)),
                ("device_writes", writes),
                ("device_write_bytes", written.saturating_mul(SECTOR)),
                ("device_write_ns", write_ms.saturating_mul(MS)),
                ("device_busy_ns", busy_ms.saturating_mul(MS)),
                ("device_queue_ns", queue_ms.saturating_mul(MS)),
            ] {
                out.put(counter, name, value);
            }
        }
    }

    fn network(&self, out: &mut Readings) {
        let text = self.text("/proc/net/dev");
        let interfaces = text.lines().filter_map(|line| line.split_once(':'));
        let mut seen = 0;
        for (name, rest) in interfaces.map(|(name, rest)| (name.trim(), rest)).filter(|(name, _)| *name != "lo") {
            let numbers: Vec<u64> = rest.split_whitespace().map_while(|word| word.parse().ok()).collect();
            let [received, _, _, _, _, _, _, _, sent, ..] = numbers[..] else { continue };
            if received == 0 && sent == 0 || seen == DEVICES_MAX {
                continue;
            }
            seen += 1;
            out.put("network_received_bytes", name, received);
            out.put("network_sent_bytes", name, sent);
        }
        out.put_some("tcp_retransmissions", "", retransmissions(&self.text("/proc/net/snmp")));
    }
}

/// A line of names, then a line of numbers in the same order.
fn retransmissions(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let at = lines.next()?.split_whitespace().position(|name| name == "RetransSegs")?;
    lines.next()?.split_whitespace().nth(at)?.parse().ok()
}

fn read(folder: &Path, name: &str) -> String {
    kernel_text(folder.join(name)).unwrap_or_default()
}

/// Parses `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`, and the line for `full`.
fn put_pressure(text: &str, scope: &str, names: [Option<&str>; 2], out: &mut Readings) {
    for (kind, name) in ["some ", "full "].into_iter().zip(names) {
        let total = text.lines().find(|line| line.starts_with(kind)).and_then(|line| line.split_once("total="));
        let us = total.and_then(|(_, total)| total.trim().parse::<u64>().ok());
        if let (Some(name), Some(us)) = (name, us) {
            out.put(name, scope, us.saturating_mul(US));
        }
    }
}

/// Sums over the operations of each NFS mount in `/proc/self/mountstats`.
fn nfs(text: &str, out: &mut Readings) {
    let mut mount: Option<(String, [u64; 7])> = None;
    let mut in_operations = false;
    let mut put = |mount: &mut Option<(String, [u64; 7])>| {
        let Some((folder, sums)) = mount.take() else { return };
        let [operations, sent_requests, sent, received, queue, round_trip, execution] = sums;
        for (counter, value) in [
            ("nfs_operations", operations),
            ("nfs_retransmissions", sent_requests.saturating_sub(operations)),
            ("nfs_queue_ns", queue.saturating_mul(MS)),
            ("nfs_round_trip_ns", round_trip.saturating_mul(MS)),
            ("nfs_execution_ns", execution.saturating_mul(MS)),
            ("nfs_received_bytes", received),
            ("nfs_sent_bytes", sent),
        ] {
            out.put(counter, &folder, value);
        }
    };
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("device ") {
            put(&mut mount);
            in_operations = false;
            let folder = rest.split_once(" mounted on ").and_then(|(_, rest)| rest.split_once(" with fstype nfs"));
            mount = folder.map(|(folder, _)| (folder.to_string(), [0; 7]));
        } else if line.trim() == "per-op statistics" {
            in_operations = true;
        } else if let (true, Some((_, sums)), Some((_, numbers))) = (in_operations, &mut mount, line.split_once(": ")) {
            let numbers: Vec<u64> = numbers.split_whitespace().map_while(|word| word.parse().ok()).collect();
            // Operations, requests sent, timeouts, bytes sent and received, milliseconds of queue, round trip,
            // execution.
            if let [operations, requests, _, sent, received, queue, round_trip, execution, ..] = numbers[..] {
                let all = [operations, requests, sent, received, queue, round_trip, execution];
                sums.iter_mut().zip(all).for_each(|(sum, number)| *sum = sum.saturating_add(number));
            }
        }
    }
    put(&mut mount);
}

struct Readings(Vec<Reading>);

impl Readings {
    fn put(&mut self, name: &str, scope: &str, value: u64) {
        let counter = place(name).expect("the list has every counter that is read");
        self.0.push(Reading { counter, scope: scope.into(), value });
    }

    fn put_some(&mut self, name: &str, scope: &str, value: Option<u64>) {
        value.into_iter().for_each(|value| self.put(name, scope, value));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use dlio_schemas::machine::counters::COUNTERS;

    use super::*;

    fn of(root: &str) -> Sources {
        Sources {
            root: root.into(),
            cpu_group: Some(placed(Path::new(root), "/group")),
            memory_group: Some(placed(Path::new(root), "/group")),
            has_quota: true,
            devices: vec!["sda1".into()],
            has_nfs: true,
            lustre: vec![("scratch".into(), "/lustre".into())],
        }
    }

    fn forged(name: &str, files: &[(&str, &str)]) -> Vec<(String, String, u64)> {
        let root = std::env::temp_dir().join(format!("dlio-readings-{}-{name}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let readings = of(root.to_str().unwrap()).read();
        fs::remove_dir_all(&root).unwrap();
        let group = root.join("group").to_string_lossy().into_owned();
        let named = |reading: Reading| {
            (COUNTERS[reading.counter].name.to_string(), reading.scope.replace(&group, "GROUP"), reading.value)
        };
        readings.into_iter().map(named).collect()
    }

    const FILES: &[(&str, &str)] = &[
        ("proc/stat", "cpu  10 1 5 100 7 2 3 4 9 9\ncpu0 1 2\n"),
        ("proc/pressure/io", "some avg10=0.00 total=70\nfull avg10=0.00 total=30\n"),
        ("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:     100 kB\nDirty: 1 kB\nWriteback: 2 kB\n"),
        ("proc/vmstat", "pgmajfault 5\nworkingset_refault_anon 1\nworkingset_refault_file 6\npswpin 1\npswpout 2\n"),
        ("proc/diskstats", "8 0 sda 1 2 3 4 5 6 7 8 0 9 10\n8 1 sda1 100 2 2000 50 10 0 400 20 0 30 70 0 0 0 0\n"),
        (
            "proc/net/dev",
            "Inter-|\n face |\n lo: 5 0 0 0 0 0 0 0 5 0\neth0: 11 0 0 0 0 0 0 0 22 0\nib0: 0 0 0 0 0 0 0 0 0 0\n",
        ),
        ("proc/net/snmp", "Tcp: InSegs RetransSegs\nTcp: 3 12\n"),
        (
            "proc/self/mountstats",
            "device /dev/sda1 mounted on / with fstype ext4\n\
             device s:/e mounted on /data with fstype nfs4 statvers=1.1\n\tper-op statistics\n\
             \t READ: 10 12 0 100 5000 1 20 30 0\n\t WRITE: 1 1 0 7 8 0 2 3\n",
        ),
        (
            "proc/fs/lustre/llite/scratch-ffff8803f05de800/stats",
            "snapshot_time 1589909588.32 secs.nsecs\nread_bytes 25 samples [bytes] 4096 1048576 26214400\n\
             write_bytes 2 samples [bytes] 1 7 8\nopen 5 samples [regs]\n",
        ),
        (
            "proc/fs/lustre/llite/scratch-ffff8803f05de800/read_ahead_stats",
            "snapshot_time 1589909588.32 secs.nsecs\nhits 40 samples [pages]\nmisses 3 samples [pages]\n",
        ),
        ("group/cpu.stat", "usage_usec 9\nnr_periods 4\nnr_throttled 3\nthrottled_usec 2\n"),
        ("group/memory.current", "77\n"),
        ("group/memory.max", "max\n"),
        ("group/memory.stat", "file 55\npgmajfault 2\nworkingset_refault_file 8\n"),
    ];

    #[test]
    fn every_counter_is_read_from_its_file() {
        let readings = forged("whole", FILES);
        let get = |name: &str, scope: &str| {
            readings.iter().find(|(known, of, _)| known == name && of == scope).map(|(_, _, value)| *value)
        };
        for (name, scope, value) in [
            ("cpu_busy_ns", "", 21 * TICK_NS),
            ("cpu_iowait_ns", "", 7 * TICK_NS),
            ("cpu_steal_ns", "", 4 * TICK_NS),
            ("io_full_ns", "", 30_000),
            ("memory_available", "", 102_400),
            ("memory_dirty", "", 3072),
            ("refaults_file", "", 6),
            ("swap_out", "", 8192),
            ("device_read_bytes", "sda1", 1_024_000),
            ("device_queue_ns", "sda1", 70 * MS),
            ("network_sent_bytes", "eth0", 22),
            ("tcp_retransmissions", "", 12),
            ("nfs_operations", "/data", 11),
            ("nfs_retransmissions", "/data", 2),
            ("nfs_round_trip_ns", "/data", 22 * MS),
            ("nfs_received_bytes", "/data", 5008),
            ("lustre_reads", "/lustre", 25),
            ("lustre_read_bytes", "/lustre", 26_214_400),
            ("lustre_write_bytes", "/lustre", 8),
            ("lustre_cache_misses", "/lustre", 3),
            ("group_cpu_ns", "GROUP", 9000),
            ("group_throttled_ns", "GROUP", 2000),
            ("group_memory_used", "GROUP", 77),
            ("group_memory_file", "GROUP", 55),
            ("group_refaults_file", "GROUP", 8),
        ] {
            assert_eq!(get(name, scope), Some(value), "{name} {scope}");
        }
        for (name, scope) in [("group_memory_limit", "GROUP"), ("network_sent_bytes", "lo"), ("device_reads", "sda")] {
            assert_eq!(get(name, scope), None, "{name} {scope}");
        }
    }

    #[test]
    fn missing_or_forged_counters_are_left_out() {
        assert_eq!(forged("none", &[]), []);
        let nonsense: Vec<_> = FILES.iter().map(|(path, _)| (*path, "cpu  1 x\nsome total=-1\n\u{0}: :\n")).collect();
        assert_eq!(forged("nonsense", &nonsense), []);
        for (path, text) in FILES {
            for cut in 0..text.len() {
                forged("cut", &[(path, &text[..cut])]);
            }
        }
    }
}
