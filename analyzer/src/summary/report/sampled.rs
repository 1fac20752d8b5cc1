//! Host activity during a run, from sampled counters.

use std::collections::BTreeSet;

use dlio_schemas::io_limits::IoLimits;
use dlio_schemas::machine::samples::{Mount, Samples, Series};
use serde::{Deserialize, Serialize};

use crate::summary::figures::units::{bytes, grouped, time};
use crate::summary::report::directories::Directory;
use crate::summary::report::findings::Unit;

/// The growth of a host's counters over a run. Unknown values are `None`.
#[derive(Serialize, Deserialize, Default, Debug, Clone, PartialEq)]
pub struct Sampled {
    /// From the last sample before the run to the first one after it.
    pub ns: u64,
    /// CPU times, summed over CPUs: busy, idle while a task waited for storage, and stolen by other guests of the
    /// hypervisor.
    pub cpu_busy_ns: Option<u64>,
    pub cpu_iowait_ns: Option<u64>,
    pub cpu_steal_ns: Option<u64>,
    /// File pages that had recently been evicted from the page cache.
    pub refaults: Option<u64>,
    pub swap_in: Option<u64>,
    pub swap_out: Option<u64>,
    /// Retransmitted TCP segments.
    pub retransmissions: Option<u64>,
    pub devices: Vec<DeviceUse>,
    pub nfs: Vec<NfsUse>,
    pub mounts: Vec<MountUse>,
}

/// A block device.
#[derive(Serialize, Deserialize, Default, Debug, Clone, PartialEq)]
pub struct DeviceUse {
    pub device: String,
    pub reads: Option<u64>,
    pub read_bytes: Option<u64>,
    /// Total time of its reads, from the queue to completion.
    pub read_ns: Option<u64>,
    #[serde(default)]
    pub writes: Option<u64>,
    pub write_bytes: Option<u64>,
    /// Time with at least one request in flight.
    pub busy_ns: Option<u64>,
    /// Total time of all requests.
    pub queue_ns: Option<u64>,
}

/// An NFS mount. Times are totals over its requests.
#[derive(Serialize, Deserialize, Default, Debug, Clone, PartialEq)]
pub struct NfsUse {
    pub folder: String,
    pub operations: Option<u64>,
    pub retransmissions: Option<u64>,
    pub queue_ns: Option<u64>,
    pub round_trip_ns: Option<u64>,
    pub execution_ns: Option<u64>,
}

/// A mount.
#[derive(Serialize, Deserialize, Default, Debug, Clone, PartialEq)]
pub struct MountUse {
    pub folder: String,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub source: Option<String>,
    pub device: Option<String>,
    /// Number of the device, or of its disk, `8:0`.
    #[serde(default)]
    pub disk: Option<String>,
    pub read_ahead_kb: Option<u64>,
    pub rotational: Option<bool>,
    #[serde(default)]
    pub scheduler: Option<String>,
    pub free_bytes: Option<u64>,
    /// Bytes and requests per second that the control group of the readers may read and write; if their groups are
    /// unknown, that of `dlio trace`.
    pub read_bytes_limit: Option<u64>,
    pub reads_limit: Option<u64>,
    #[serde(default)]
    pub write_bytes_limit: Option<u64>,
    #[serde(default)]
    pub writes_limit: Option<u64>,
}

impl MountUse {
    /// Returns `true` if the control group of the readers has an I/O limit on its device.
    pub fn is_limited(&self) -> bool {
        let limits = [self.read_bytes_limit, self.reads_limit, self.write_bytes_limit, self.writes_limit];
        limits.iter().any(Option::is_some)
    }

    fn text(&self) -> String {
        const UNKNOWN: &str = "unknown";
        let kind = self.kind.as_deref().unwrap_or(UNKNOWN);
        let Some(device) = &self.device else { return format!("{}: {kind}", self.folder) };
        let read_ahead = self.read_ahead_kb.map_or(UNKNOWN.into(), |kb| bytes(kb as f64 * 1024.0));
        let scheduler = self.scheduler.as_deref().unwrap_or(UNKNOWN);
        let rotational = match self.rotational {
            Some(true) => ", rotational",
            Some(false) => ", not rotational",
            None => "",
        };
        format!(
            "{}: {kind} on device {device}, read-ahead {read_ahead}, I/O scheduler {scheduler}{rotational}",
            self.folder
        )
    }
}

impl Sampled {
    /// Returns the growth between two boot times; `None` if the enclosing samples do not span any time.
    pub fn of(samples: &Samples, from_ns: u64, to_ns: u64) -> Option<Sampled> {
        let moments = &samples.moments;
        let first = moments.partition_point(|moment| moment.boot_ns <= from_ns).saturating_sub(1);
        let last = moments.partition_point(|moment| moment.boot_ns < to_ns).min(moments.len().checked_sub(1)?);
        let ns = moments[last].boot_ns.saturating_sub(moments[first].boot_ns);
        let window = Window { samples, first, last };
        let mut found = Sampled {
            ns,
            cpu_busy_ns: window.total("cpu_busy_ns"),
            cpu_iowait_ns: window.total("cpu_iowait_ns"),
            cpu_steal_ns: window.total("cpu_steal_ns"),
            refaults: window.total("refaults_file"),
            swap_in: window.total("swap_in"),
            swap_out: window.total("swap_out"),
            retransmissions: window.total("tcp_retransmissions"),
            mounts: samples.mounts.iter().map(mount).collect(),
            ..Sampled::default()
        };
        for scope in window.scopes("device_reads") {
            found.devices.push(DeviceUse {
                device: scope.into(),
                reads: window.growth("device_reads", scope),
                read_bytes: window.growth("device_read_bytes", scope),
                read_ns: window.growth("device_read_ns", scope),
                writes: window.growth("device_writes", scope),
                write_bytes: window.growth("device_write_bytes", scope),
                busy_ns: window.growth("device_busy_ns", scope),
                queue_ns: window.growth("device_queue_ns", scope),
            });
        }
        for scope in window.scopes("nfs_operations") {
            found.nfs.push(NfsUse {
                folder: scope.into(),
                operations: window.growth("nfs_operations", scope),
                retransmissions: window.growth("nfs_retransmissions", scope),
                queue_ns: window.growth("nfs_queue_ns", scope),
                round_trip_ns: window.growth("nfs_round_trip_ns", scope),
                execution_ns: window.growth("nfs_execution_ns", scope),
            });
        }
        (ns > 0).then_some(found)
    }

    /// Returns the mount that contains a path: the mount point that is its longest prefix.
    pub fn mount_of(&self, path: &str) -> Option<&MountUse> {
        let is_on = |mount: &&MountUse| match mount.folder.as_str() {
            "/" => path.starts_with('/'),
            folder => path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        };
        // A later mount hides an earlier one at the same mount point.
        self.mounts.iter().filter(is_on).max_by_key(|mount| mount.folder.len())
    }

    /// Replaces the I/O limits, which were read for another process, by those of a control group.
    pub fn set_limits(&mut self, limits: &IoLimits) {
        for mount in &mut self.mounts {
            let Some(disk) = &mount.disk else { continue };
            let limit = limits.of(disk).unwrap_or_default();
            (mount.read_bytes_limit, mount.reads_limit) = (limit.read_bytes, limit.reads);
            (mount.write_bytes_limit, mount.writes_limit) = (limit.write_bytes, limit.writes);
        }
    }

    /// Returns the printed lines, each with a label; devices and mounts are included if they were used. `folders` are
    /// the directories of the files.
    pub fn lines(&self, folders: &[Directory]) -> Vec<(&'static str, String)> {
        let used = folders.iter().filter(|folder| folder.use_.bytes_read + folder.use_.bytes_written > 0);
        let used: BTreeSet<&str> =
            used.filter_map(|folder| self.mount_of(&folder.directory)).map(|mount| mount.folder.as_str()).collect();
        let mounts = self.mounts.iter().filter(|mount| used.contains(mount.folder.as_str()));
        let mut lines: Vec<(&'static str, String)> = mounts.map(|mount| ("mount", mount.text())).collect();
        lines.extend(self.devices.iter().filter_map(|device| self.line(device)));
        for nfs in self.nfs.iter().filter(|nfs| nfs.operations.unwrap_or(0) > 0) {
            let requests = nfs.operations.unwrap_or(1);
            let each = |ns: Option<u64>| ns.map_or_else(|| "unknown".into(), |ns| time(ns as f64 / requests as f64));
            let (trip, queue, all) = (each(nfs.round_trip_ns), each(nfs.queue_ns), grouped(requests));
            lines.push(("NFS", format!("{}: {all} requests, round trip {trip}, queue {queue} each", nfs.folder)));
        }
        for (name, moved) in [("swap in", self.swap_in), ("swap out", self.swap_out)] {
            lines.extend(moved.filter(|moved| *moved > 0).map(|moved| (name, bytes(moved as f64))));
        }
        let steal = self.cpu_steal_ns.filter(|ns| *ns * 100 > self.ns);
        lines
            .extend(steal.map(|ns| {
                ("steal", format!("{} of CPU time was stolen by other guests on the host", time(ns as f64)))
            }));
        lines
    }

    fn line(&self, device: &DeviceUse) -> Option<(&'static str, String)> {
        let reads = device.reads?;
        let (read, written) = (device.read_bytes?, device.write_bytes?);
        let moved =
            (read + written > 0).then(|| format!("read {}, wrote {}", bytes(read as f64), bytes(written as f64)));
        let busy = self.busy(device).map(|busy| format!("busy {} of the time", Unit::Share.text(busy)));
        let each = device.read_ns.filter(|_| reads > 0).map(|ns| format!("{} a read", time(ns as f64 / reads as f64)));
        moved.as_ref()?;
        let facts: Vec<String> = [moved, busy, each].into_iter().flatten().collect();
        Some(("device", format!("{}: {}", device.device, facts.join(", "))))
    }

    /// Returns the share of time in which a device had at least one request.
    pub fn busy(&self, device: &DeviceUse) -> Option<f64> {
        Some(device.busy_ns? as f64 / self.ns as f64)
    }
}

/// The samples between which counters are compared.
struct Window<'a> {
    samples: &'a Samples,
    first: usize,
    last: usize,
}

impl<'a> Window<'a> {
    fn scopes(&self, counter: &str) -> impl Iterator<Item = &'a str> {
        self.samples.of(counter).map(|series| series.scope.as_str())
    }

    fn total(&self, counter: &str) -> Option<u64> {
        self.growth(counter, "")
    }

    fn growth(&self, counter: &str, scope: &str) -> Option<u64> {
        let series = self.samples.of(counter).find(|series| series.scope == scope)?;
        // A counter that decreased was reset.
        self.value(series, self.last)?.checked_sub(self.value(series, self.first)?)
    }

    /// Returns the value at a sample: only changes are written.
    fn value(&self, series: &Series, moment: usize) -> Option<u64> {
        let known = &series.values[..series.values.partition_point(|(at, _)| *at <= moment)];
        known.last().map(|(_, value)| *value)
    }
}

fn mount(mount: &Mount) -> MountUse {
    let text = |key: &str| mount.get(key).map(str::to_string);
    let number = |key: &str| mount.get(key)?.parse().ok();
    MountUse {
        folder: mount.folder.clone(),
        kind: text("type"),
        source: text("source"),
        device: text("device"),
        disk: text("disk"),
        read_ahead_kb: number("read_ahead_kb"),
        rotational: mount.get("rotational").map(|text| text == "1"),
        scheduler: text("scheduler"),
        free_bytes: number("free_bytes"),
        read_bytes_limit: number("read_bytes_limit"),
        reads_limit: number("reads_limit"),
        write_bytes_limit: number("write_bytes_limit"),
        writes_limit: number("writes_limit"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "dlio-machine 1\nmount\t/\ttype=ext4\tdevice=vda\nmount\t/data\ttype=xfs\tdevice=vdb\trotational=1\n\
        counter\t0\tcpu_busy_ns\t\ncounter\t1\tdevice_reads\tvdb\ncounter\t2\tdevice_busy_ns\tvdb\n\
        at\t1000\t1000\n0\t50\n1\t5\n2\t100\nat\t2000\t2000\n0\t70\nat\t3000\t3000\n0\t90\n1\t25\n2\t900\nat\t4000\t4000\n2\t10\nend\n";

    fn of(from: u64, to: u64) -> Option<Sampled> {
        Sampled::of(&Samples::parse(TEXT.as_bytes()).unwrap(), from, to)
    }

    #[test]
    fn counters_grow_between_the_samples_around_a_run() {
        let found = of(1500, 2500).unwrap();
        assert_eq!((found.ns, found.cpu_busy_ns), (2000, Some(40)));
        assert_eq!((found.devices[0].reads, found.busy(&found.devices[0])), (Some(20), Some(0.4)));
        // Unchanged values are not written again.
        assert_eq!(of(1000, 2000).unwrap().devices[0].reads, Some(0));
        assert_eq!(of(2000, 4000).unwrap().devices[0].busy_ns, None, "it was reset");
        assert_eq!((of(3500, 3600).map(|found| found.ns), of(9000, 9900)), (Some(1000), None));
    }

    #[test]
    fn mounts_with_data_are_described() {
        let mount = |about: &str| {
            let text = TEXT.replace("type=xfs\tdevice=vdb\trotational=1", about);
            Sampled::of(&Samples::parse(text.as_bytes()).unwrap(), 1000, 3000).unwrap().mounts[1].text()
        };
        assert_eq!(
            mount("type=xfs\tdevice=vdb\trotational=0\tread_ahead_kb=0\tscheduler=none"),
            "/data: xfs on device vdb, read-ahead 0 B, I/O scheduler none, not rotational"
        );
        assert_eq!(
            mount("type=xfs\tdevice=vdb"),
            "/data: xfs on device vdb, read-ahead unknown, I/O scheduler unknown"
        );
        assert_eq!(mount("type=nfs4\tread_ahead_kb=128"), "/data: nfs4");
    }

    #[test]
    fn a_path_lies_on_the_longest_mount_it_begins_with() {
        let found = of(1000, 3000).unwrap();
        let device = |path: &str| found.mount_of(path).and_then(|mount| mount.device.clone());
        assert_eq!(device("/data/a").as_deref(), Some("vdb"));
        assert_eq!(device("/database").as_deref(), Some("vda"));
        assert_eq!(device("relative"), None);
    }
}
