//! Where the data lie, and what their device or server was doing meanwhile.

use std::collections::BTreeMap;

use super::rule_context::{Case, Judgement, Waited, Worth};
use crate::summary::report::findings::Confidence;
use crate::summary::report::machine::MachineUse;
use crate::summary::report::sampled::{DeviceUse, MountUse, NfsUse, Sampled};
use crate::summary::waits::parts::Part;

/// The run that would show what devices were doing.
pub const RECORD_COUNTERS: &str =
    "record with dlio trace: it samples the devices and mounts of the machine beside the command";

/// The mount from which most was read, on the machine that read it, and what was sampled there.
pub struct DataMount<'a> {
    pub machine: &'a MachineUse,
    pub sampled: &'a Sampled,
    pub mount: &'a MountUse,
}

/// `None` where no mounts were sampled, or the data have no absolute paths.
pub fn data_mount<'a>(case: &Case<'a>) -> Option<DataMount<'a>> {
    let machine = case.summary.machine.iter().find(|machine| machine.sampled.is_some())?;
    let sampled = machine.sampled.as_ref()?;
    let mut read: BTreeMap<&str, (u64, &MountUse)> = BTreeMap::new();
    for folder in &case.summary.directories {
        if let Some(mount) = sampled.mount_of(&folder.directory) {
            read.entry(&mount.folder).or_insert((0, mount)).0 += folder.use_.bytes_read;
        }
    }
    let (_, mount) = read.into_values().max_by_key(|(bytes, _)| *bytes)?;
    Some(DataMount { machine, sampled, mount })
}

impl<'a> DataMount<'a> {
    pub fn device(&self) -> Option<&'a DeviceUse> {
        let name = self.mount.device.as_ref()?;
        self.sampled.devices.iter().find(|device| &device.device == name)
    }

    pub fn nfs(&self) -> Option<&'a NfsUse> {
        self.sampled.nfs.iter().find(|nfs| nfs.folder == self.mount.folder)
    }

    /// The part of the time in which its device had a request.
    pub fn busy(&self) -> Option<f64> {
        self.sampled.busy(self.device()?)
    }
}

/// The part of a wait that storage took, as a rule on a device begins.
pub fn by_storage(case: &Case) -> Judgement {
    let waited = case.waited();
    let share = case.cause_share(&[Part::Storage, Part::PageFaults]);
    let worth = waited.as_ref().zip(share).map(|(waited, share)| (waited.waited_ns as f64 * share) as i64);
    Judgement {
        measures: vec![case.at_least("wait", waited.as_ref().map(Waited::share)), case.at_least("storage", share)],
        worth: worth.map(|ns| Worth { ns, exposed: true }),
        confidence: Some(Confidence::Inferred),
        decide: RECORD_COUNTERS,
        ..Judgement::default()
    }
}
