//! Storage of the data, and the activity of its device or server during the run.

use std::collections::BTreeMap;

use super::causes::of_wait;
use super::rule_context::{Case, Judgement, part};
use crate::summary::figures::units::{grouped, time};
use crate::summary::report::findings::Confidence;
use crate::summary::report::machine::MachineUse;
use crate::summary::report::sampled::{DeviceUse, MountUse, NfsUse, Sampled};
use crate::summary::waits::parts::Part;

/// Advice to record device counters.
pub const RECORD_COUNTERS: &str =
    "record with dlio trace, which samples the devices and mounts of the host during the run";

/// The mount from which most bytes were read, on the host that read them, and its samples.
pub struct DataMount<'a> {
    pub machine: &'a MachineUse,
    pub sampled: &'a Sampled,
    pub mount: &'a MountUse,
}

/// Returns the mount of the data, or of the opened files if calls read nothing; `None` if no mounts were sampled, or
/// the data have no absolute paths.
pub fn data_mount<'a>(case: &Case<'a>) -> Option<DataMount<'a>> {
    let machine = case.summary.machine.iter().find(|machine| machine.sampled.is_some())?;
    let sampled = machine.sampled.as_ref()?;
    let mut used: BTreeMap<&str, (u64, u64, &MountUse)> = BTreeMap::new();
    for folder in &case.summary.directories {
        if let Some(mount) = sampled.mount_of(&folder.directory) {
            let (bytes, opens, _) = used.entry(&mount.folder).or_insert((0, 0, mount));
            *bytes += folder.use_.bytes_read;
            *opens += folder.use_.opens;
        }
    }
    let (.., mount) = used.into_values().max_by_key(|(bytes, opens, _)| (*bytes, *opens))?;
    Some(DataMount { machine, sampled, mount })
}

/// File systems in memory, whose files no device stores.
const IN_MEMORY: [&str; 3] = ["tmpfs", "ramfs", "devtmpfs"];

/// Returns the mount of the data if training waited for files on it; `None` if it may have waited for files on another mount.
/// Calls show which files took the time. Page faults do not: then no other mount has opened files.
pub fn waited_mount<'a>(case: &Case<'a>) -> Option<DataMount<'a>> {
    let data = data_mount(case)?;
    let in_memory = |mount: &MountUse| mount.kind.as_deref().is_some_and(|kind| IN_MEMORY.contains(&kind));
    let (mut own, mut others, mut opened) = (0, 0, 0);
    for folder in &case.summary.directories {
        let use_ = &folder.use_;
        let mount = data.sampled.mount_of(&folder.directory).filter(|mount| !in_memory(mount));
        match mount.filter(|_| use_.bytes_read >= use_.bytes_written) {
            Some(mount) if mount.folder == data.mount.folder => own += use_.time_ns,
            Some(_) => (others, opened) = (others + use_.time_ns, opened + use_.opens),
            None => {}
        }
    }
    let [faults, calls] = [Part::PageFaults, Part::Storage].map(|part| case.cause_share(&[part]).unwrap_or(0.0));
    let is_known = own >= others && (faults <= calls || opened == 0);
    is_known.then_some(data)
}

/// Returns the mount with files of the run whose device read most bytes, also for page faults.
pub fn most_read_mount<'a>(case: &Case<'a>) -> Option<DataMount<'a>> {
    let machine = case.summary.machine.iter().find(|machine| machine.sampled.is_some())?;
    let sampled = machine.sampled.as_ref()?;
    let mounts = case.summary.directories.iter().filter_map(|folder| sampled.mount_of(&folder.directory));
    let data = mounts.map(|mount| DataMount { machine, sampled, mount });
    data.max_by_key(|data| data.device().and_then(|device| device.read_bytes))
}

impl<'a> DataMount<'a> {
    pub fn device(&self) -> Option<&'a DeviceUse> {
        let name = self.mount.device.as_ref()?;
        self.sampled.devices.iter().find(|device| &device.device == name)
    }

    pub fn nfs(&self) -> Option<&'a NfsUse> {
        self.sampled.nfs.iter().find(|nfs| nfs.folder == self.mount.folder)
    }

    /// Returns the share of the time in which its device had requests in flight.
    pub fn busy(&self) -> Option<f64> {
        self.sampled.busy(self.device()?)
    }
}

/// Returns the initial judgement of a rule on a device, with storage's share of the wait.
pub fn by_storage(case: &Case) -> Judgement {
    let (judgement, _) = of_wait(case, "storage", &[Part::Storage, Part::PageFaults]);
    Judgement { confidence: Some(Confidence::Inferred), decide: RECORD_COUNTERS, ..judgement }
}

/// Returns the judgement of a rule on one part of the duration of NFS requests for the data; `says` receives the number
/// of requests, and the duration of that part per request.
pub fn by_nfs(
    case: &Case,
    key: &str,
    part_ns: impl Fn(&NfsUse) -> Option<u64>,
    says: impl FnOnce(&str, &str) -> String,
) -> Judgement {
    let mut judgement = by_storage(case);
    let nfs = data_mount(case).and_then(|data| data.nfs());
    let share = nfs.and_then(|nfs| part(part_ns(nfs)? as f64, nfs.execution_ns? as f64));
    judgement.measures.push(case.at_least(key, share));
    let requests = nfs.and_then(|nfs| part_ns(nfs).zip(nfs.operations.filter(|count| *count > 0)));
    if let Some((ns, requests)) = requests {
        judgement.says = says(&grouped(requests), &time(ns as f64 / requests as f64));
    }
    judgement
}
