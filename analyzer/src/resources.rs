//! The resources that a process was allowed to use on its host, and its use of them. Unknown values are `None`.

use std::collections::{BTreeMap, BTreeSet};

use dlio_schemas::native::fields::{Fields, THREAD_VARIABLES, key};
use serde::{Deserialize, Serialize};

/// Resources of a process. Fields named `_end` are from the end of the process, or from the last sample of a killed
/// one.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Resources {
    /// CPUs that its main thread could run on at its start, and CPUs that any of its threads could run on later.
    pub cpus: Option<u32>,
    pub cpus_end: Option<u32>,
    /// The CPUs as lists, `0-3,8`.
    pub cpu_list: Option<String>,
    pub cpu_list_end: Option<String>,
    /// NUMA nodes of its host with their CPUs, `0:0-31;1:32-63`, and the nodes from which it may get memory, a list.
    #[serde(default)]
    pub numa_nodes: Option<String>,
    #[serde(default)]
    pub memory_nodes: Option<String>,
    /// `true` if its control groups could be read: then a missing quota or limit means that there was none.
    pub are_groups_known: bool,
    /// CPU time quota of its control group, in CPUs, and the directory of the group with that quota.
    pub cpu_quota: Option<f64>,
    pub cpu_group: Option<String>,
    /// CPU weight of its own control group, if that is not the kernel's default.
    #[serde(default)]
    pub cpu_weight: Option<CpuWeight>,
    /// While the process ran: periods in which that group was busy, periods in which it used up its quota, and how long
    /// its threads were throttled.
    pub periods: Option<u64>,
    pub throttled_periods: Option<u64>,
    pub throttled_ns: Option<u64>,
    /// Memory limit of its control group in bytes, and the directory of the group with that limit.
    pub memory_limit: Option<u64>,
    pub memory_group: Option<String>,
    /// Limits on the I/O of devices as in [`dlio_schemas::io_limits`]; empty without a limit.
    #[serde(default)]
    pub io_limits: Option<String>,
    /// Size of `/dev/shm` in bytes.
    pub shm_size: Option<u64>,
    pub threads_end: Option<u64>,
    pub cpu_ns: Option<i64>,
    /// Bytes that storage read and wrote for it, not served from the page cache.
    pub storage_read: Option<u64>,
    pub storage_written: Option<u64>,
    /// Environment variables that set the number of threads of libraries: name and value.
    pub thread_variables: Vec<(String, String)>,
}

/// The CPU weight of a control group: if CPUs are busy, groups share them in proportion to their weights.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct CpuWeight {
    pub value: u64,
    /// The kernel's default, which the other groups usually have.
    pub default: u64,
}

impl CpuWeight {
    /// Returns `None` for the default, which a process records when it has left a group with another weight.
    fn of(facts: &Fields) -> Option<CpuWeight> {
        let (value, default) =
            facts.number(key::CPU_WEIGHT).zip(facts.number(key::CPU_WEIGHT_DEFAULT).filter(|it| *it > 0))?;
        Some(CpuWeight { value, default }).filter(|_| value != default)
    }

    pub fn is_low(self) -> bool {
        self.value < self.default
    }

    /// Returns the weight as a multiple of the default.
    pub fn share(self) -> f64 {
        self.value as f64 / self.default as f64
    }
}

impl Resources {
    pub fn of(facts: &Fields) -> Resources {
        let text = |key: &str| facts.get(key).filter(|text| *text != "none").map(str::to_string);
        let since = |start: &str, end: &str| {
            let (start, end) = facts.number::<u64>(start).zip(facts.number(end))?;
            // A group that was created again counts from zero.
            Some(u64::checked_sub(end, start).unwrap_or(end))
        };
        let variable = |&(name, key): &(&str, &str)| Some((name.to_string(), facts.get(key)?.to_string()));
        Resources {
            cpus: facts.number(key::CPUS_ALLOWED),
            cpus_end: facts.number(key::CPUS_ALLOWED_END),
            cpu_list: text(key::CPUS_LIST),
            cpu_list_end: text(key::CPUS_LIST_END),
            numa_nodes: text(key::NUMA_NODES),
            memory_nodes: text(key::NUMA_MEMORY_NODES),
            are_groups_known: facts.get(key::CPU_QUOTA).is_some(),
            cpu_quota: facts.number(key::CPU_QUOTA).filter(|quota: &f64| *quota > 0.0 && quota.is_finite()),
            cpu_group: text(key::CPU_CGROUP),
            cpu_weight: CpuWeight::of(facts),
            periods: since(key::CPU_PERIODS, key::CPU_PERIODS_END),
            throttled_periods: since(key::THROTTLED_PERIODS, key::THROTTLED_PERIODS_END),
            throttled_ns: since(key::THROTTLED_NS, key::THROTTLED_NS_END),
            memory_limit: facts.number(key::MEMORY_LIMIT),
            memory_group: text(key::MEMORY_CGROUP),
            io_limits: facts.get(key::IO_LIMITS).map(|text| if text == "none" { "" } else { text }.to_string()),
            shm_size: facts.number(key::SHM_SIZE),
            threads_end: facts.number(key::THREADS_END),
            cpu_ns: facts.number(key::CPU_NS_END),
            storage_read: facts.number(key::READ_BYTES_END),
            storage_written: facts.number(key::WRITE_BYTES_END),
            thread_variables: THREAD_VARIABLES.iter().filter_map(variable).collect(),
        }
    }

    /// Returns the set of CPUs that it could run on last; `None` if not recorded.
    pub fn last_cpus(&self) -> Option<BTreeSet<u32>> {
        cpus_of(self.cpu_list_end.as_deref().or(self.cpu_list.as_deref())?)
    }

    /// Returns the NUMA nodes of its host with their CPUs; `None` if unknown.
    pub fn nodes(&self) -> Option<BTreeMap<u32, BTreeSet<u32>>> {
        let node = |text: &str| {
            let (node, cpus) = text.split_once(':')?;
            let cpus = if cpus.is_empty() { BTreeSet::new() } else { cpus_of(cpus)? };
            Some((node.parse().ok()?, cpus))
        };
        self.numa_nodes.as_deref()?.split(';').map(node).collect()
    }

    /// Returns the NUMA nodes from which it may get memory; `None` if unknown.
    pub fn nodes_of_memory(&self) -> Option<BTreeSet<u32>> {
        cpus_of(self.memory_nodes.as_deref()?)
    }

    /// Returns the number of CPUs that it could run on last.
    pub fn cpus_last(&self) -> Option<u32> {
        self.cpus_end.or(self.cpus)
    }
}

/// The limit of CPU numbers: no host has as many, and a forged list does not exhaust memory.
const CPUS_MAX: u32 = 1 << 16;

/// Returns the numbers in a list such as `0-3,8`.
fn cpus_of(list: &str) -> Option<BTreeSet<u32>> {
    let mut cpus = BTreeSet::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= CPUS_MAX {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_values_are_unknown_and_none_is_unlimited() {
        assert_eq!(Resources::of(&Fields::default()), Resources::default());
        let mut facts = Fields::default();
        facts.set(key::CPU_QUOTA, "none");
        facts.set(key::MEMORY_LIMIT, "none");
        facts.set(key::THROTTLED_PERIODS, 5);
        let found = Resources::of(&facts);
        assert!(found.are_groups_known && found.cpu_quota.is_none() && found.memory_limit.is_none());
        assert_eq!(found.throttled_periods, None, "the end is not known");
        facts.set(key::THROTTLED_PERIODS_END, 9);
        facts.set(key::CPU_QUOTA, 0.6);
        let found = Resources::of(&facts);
        assert_eq!((found.throttled_periods, found.cpu_quota), (Some(4), Some(0.6)));
        assert_eq!(found.cpu_weight, None);
        facts.set(key::CPU_WEIGHT, 512);
        assert_eq!(Resources::of(&facts).cpu_weight, None, "without a default it has no meaning");
        facts.set(key::CPU_WEIGHT_DEFAULT, 1024);
        assert_eq!(Resources::of(&facts).cpu_weight, Some(CpuWeight { value: 512, default: 1024 }));
        facts.set(key::CPU_WEIGHT, 1024);
        assert_eq!(Resources::of(&facts).cpu_weight, None);
        facts.set(key::THROTTLED_PERIODS_END, 3);
        assert_eq!(Resources::of(&facts).throttled_periods, Some(3), "counted anew");
    }

    #[test]
    fn lists_of_cpus_are_sets() {
        let set = |cpus: &[u32]| Some(cpus.iter().copied().collect::<BTreeSet<_>>());
        assert_eq!(cpus_of("0-2,8"), set(&[0, 1, 2, 8]));
        assert_eq!(cpus_of("3"), set(&[3]));
        for wrong in ["", "x", "3-1", "0-4000000000", "1,,2"] {
            assert_eq!(cpus_of(wrong), None, "{wrong}");
        }
    }
}
