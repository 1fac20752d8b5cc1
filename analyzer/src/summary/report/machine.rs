//! The host resources that the processes were allowed to use, and their use.

use std::collections::{BTreeMap, BTreeSet};

use dlio_schemas::io_limits::IoLimits;
use dlio_schemas::machine::samples::Samples;
use dlio_schemas::native::fields::key;
use serde::{Deserialize, Serialize};

use super::sampled::Sampled;
use super::{Section, Summary};
use crate::catalog::{Host, Process};
use crate::load::Trace;
use crate::resources::{CpuWeight, Resources};
use crate::summary::analysis::Analysis;
use crate::summary::figures::units::{bytes, grouped, many, time};
use crate::summary::report::layout::{heading, hung};

/// One host.
#[derive(Serialize, Deserialize, Default, Debug, Clone)]
pub struct MachineUse {
    pub host: String,
    pub cores: Option<i32>,
    /// In bytes.
    pub memory: Option<i64>,
    /// CPUs on which any of the processes was allowed to run.
    pub cpus: Option<u32>,
    /// Number of NUMA nodes, those with the CPUs on which any of the processes was allowed to run, and those from which
    /// any of them may get memory.
    #[serde(default)]
    pub nodes: Option<u32>,
    #[serde(default)]
    pub cpu_nodes: Option<Vec<u32>>,
    #[serde(default)]
    pub memory_nodes: Option<Vec<u32>>,
    /// From the start of the first process to the end of the last.
    pub wall_ns: i64,
    /// CPU time of all processes whose end is in the trace.
    pub cpu_ns: Option<i64>,
    pub quotas: Vec<QuotaUse>,
    /// CPU weights of the processes' control groups that are not the default, lowest first.
    #[serde(default)]
    pub cpu_weights: Vec<CpuWeight>,
    pub memory_limits: Vec<MemoryLimit>,
    /// Bytes that storage read and wrote for these processes, without accesses to the page cache.
    pub storage_read: Option<u64>,
    pub storage_written: Option<u64>,
    /// Capacity of `/dev/shm` in bytes; the smallest, if processes have different ones.
    pub shm_size: Option<u64>,
    /// Host activity during the run; `null` if it was not sampled.
    #[serde(default)]
    pub sampled: Option<Sampled>,
}

/// A control group whose CPU quota applied to some of the processes.
#[derive(Serialize, Deserialize, Default, Debug, Clone, PartialEq)]
pub struct QuotaUse {
    pub group: String,
    pub cpus: f64,
    /// Periods in which the group was busy, periods in which it used up its quota, and the time its threads were then
    /// throttled. The values are those of the process that saw the most periods.
    pub periods: Option<u64>,
    pub throttled_periods: Option<u64>,
    pub throttled_ns: Option<u64>,
}

impl QuotaUse {
    /// Returns the share of its periods in which a group used up its quota.
    pub fn used_up(&self) -> Option<f64> {
        let periods = self.periods.filter(|periods| *periods > 0)?;
        Some(self.throttled_periods? as f64 / periods as f64)
    }
}

/// Returns the quota with the largest share of used-up periods.
pub fn most_used_up<'a>(quotas: impl Iterator<Item = &'a QuotaUse>) -> Option<&'a QuotaUse> {
    let part = |quota: &QuotaUse| quota.used_up().unwrap_or(0.0);
    quotas.max_by(|a, b| part(a).total_cmp(&part(b)))
}

/// A control group whose memory limit applied to some of the processes.
#[derive(Serialize, Deserialize, Default, Debug, Clone, PartialEq)]
pub struct MemoryLimit {
    pub group: String,
    pub bytes: u64,
}

/// The section on host resources.
pub struct Machine;

impl Section for Machine {
    type Values = Vec<MachineUse>;

    const MEANING: &'static str = "\
        Machine: the resources that processes were allowed to use, and their use of them. CPUs allowed: those on \
        which any process may run, by affinity and cpusets. A quota of CPU time belongs to a control group: in \
        periods in which it was used up, threads were kept from running. The weight of a control group determines \
        its share of busy CPUs. CPU time and bytes from storage are the \
        kernel's counters, for all processes whose end is in the trace; bytes from storage exclude the page cache.";
    const FIELDS: &'static str = "\
        a list: `host`, `cores`, `memory` (bytes), `cpus` (on which any process may run), `nodes` \
        (number of NUMA nodes), `cpu_nodes` (with these CPUs), `memory_nodes` (from which any process may get memory), `wall_ns` (first start to \
        last end), `cpu_ns`, `quotas` (a list: `group`, `cpus`, `periods`, `throttled_periods`, `throttled_ns`), \
        `cpu_weights` (of control groups, other than the default: `value`, and the kernel's `default`), `memory_limits` (a list: `group`, `bytes`), `storage_read` and `storage_written` (bytes not served by the \
        page cache), `shm_size` (bytes of `/dev/shm`), `sampled` (increase of the host's counters from the last \
        sample before the run to the first one after it: `ns`, `cpu_busy_ns`, `cpu_iowait_ns`, `cpu_steal_ns`, \
        `refaults`, `swap_in`, `swap_out`, `retransmissions`; `devices` with `device`, `reads`, `read_bytes`, \
        `read_ns`, `writes`, `write_bytes`, `busy_ns`, `queue_ns`; `nfs` with `folder`, `operations`, `retransmissions`, \
        `queue_ns`, `round_trip_ns`, `execution_ns`; and `mounts` with `folder`, `type`, `source`, `device`, \
        `disk` (number of the device or of its disk), `read_ahead_kb`, `rotational`, `scheduler`, `free_bytes`, \
        `read_bytes_limit`, `reads_limit`, `write_bytes_limit` and `writes_limit` (per second, of the control group with most I/O)); `null` if unknown";

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        let processes = trace.catalog.processes();
        let hosts = trace.catalog.hosts();
        let mut of_host: BTreeMap<u32, Vec<&Process>> = BTreeMap::new();
        for (process, _) in analysis.partakers(&processes) {
            of_host.entry(process.host).or_default().push(process);
        }
        let machine = |(host, processes): (u32, Vec<&Process>)| {
            let host = hosts.get(host as usize)?;
            let machine = MachineUse {
                host: host.name.clone(),
                cores: host.cores,
                memory: host.memory,
                sampled: sampled(host, &processes, trace),
                ..MachineUse::default()
            };
            Some(machine.with(&processes))
        };
        of_host.into_iter().filter_map(machine).collect()
    }

    fn print(summary: &Summary, top: usize, out: &mut String) {
        Self::print_within(summary, top, usize::MAX, out);
    }

    fn print_within(summary: &Summary, top: usize, width: usize, out: &mut String) {
        let told: Vec<&MachineUse> = summary.machine.iter().filter(|machine| machine.tells()).collect();
        if told.is_empty() {
            return;
        }
        heading("Machine", out);
        for machine in told.iter().take(top) {
            if told.len() > 1 {
                hung("  ", &machine.host, (2, width), out);
            }
            for (name, text) in machine.lines(summary) {
                hung(&format!("  {name:<9} "), &text, (12, width), out);
            }
        }
    }
}

impl MachineUse {
    fn with(mut self, processes: &[&Process]) -> MachineUse {
        let resources = || processes.iter().map(|process| &process.resources);
        let start = processes.iter().filter_map(|process| process.start_ts).min();
        let end = processes.iter().filter_map(|process| process.end_ts).max();
        self.wall_ns = start.zip(end).map_or(0, |(start, end)| (end - start).max(0));
        self.cpus = allowed(resources());
        self.set_nodes(processes);
        // An image that replaces another one by exec continues its counters.
        let mut last: BTreeMap<i32, &Resources> = BTreeMap::new();
        for process in processes.iter().filter(|process| process.resources.cpu_ns.is_some()) {
            let kept = last.entry(process.pid).or_insert(&process.resources);
            if process.resources.cpu_ns >= kept.cpu_ns {
                *kept = &process.resources;
            }
        }
        self.cpu_ns = last.values().filter_map(|last| last.cpu_ns).reduce(|a, b| a + b);
        self.storage_read = by_storage(processes, |resources| resources.storage_read);
        self.storage_written = by_storage(processes, |resources| resources.storage_written);
        self.shm_size = resources().filter_map(|resources| resources.shm_size).min();
        for resources in resources() {
            self.add_limits(resources);
        }
        self
    }

    fn set_nodes(&mut self, processes: &[&Process]) {
        let resources = || processes.iter().map(|process| &process.resources);
        let nodes = resources().find_map(Resources::nodes);
        let cpus: BTreeSet<u32> = resources().filter_map(Resources::last_cpus).flatten().collect();
        let with_these = |nodes: &BTreeMap<u32, BTreeSet<u32>>| {
            let is_used = |cpus_of_node: &BTreeSet<u32>| !cpus_of_node.is_disjoint(&cpus);
            nodes.iter().filter(|(_, cpus)| is_used(cpus)).map(|(node, _)| *node).collect()
        };
        self.nodes = nodes.as_ref().map(|nodes| nodes.len() as u32);
        self.cpu_nodes = nodes.as_ref().filter(|_| !cpus.is_empty()).map(with_these);
        let memory: Vec<BTreeSet<u32>> = resources().filter_map(Resources::nodes_of_memory).collect();
        let memory: Option<BTreeSet<u32>> = memory.into_iter().reduce(|all, more| &all | &more);
        self.memory_nodes = memory.map(|nodes| nodes.into_iter().collect());
    }

    fn add_limits(&mut self, of: &Resources) {
        if let Some((cpus, group)) = of.cpu_quota.zip(of.cpu_group.clone()) {
            let (periods, throttled_periods, throttled_ns) = (of.periods, of.throttled_periods, of.throttled_ns);
            let quota = QuotaUse { group, cpus, periods, throttled_periods, throttled_ns };
            match self.quotas.iter_mut().find(|known| known.group == quota.group) {
                Some(known) if quota.periods > known.periods => *known = quota,
                Some(_) => {}
                None => self.quotas.push(quota),
            }
        }
        if let Some(weight) = of.cpu_weight.filter(|weight| !self.cpu_weights.contains(weight)) {
            self.cpu_weights.push(weight);
            self.cpu_weights.sort_by(|a, b| a.share().total_cmp(&b.share()));
        }
        if let Some((bytes, group)) = of.memory_limit.zip(of.memory_group.clone()) {
            let limit = MemoryLimit { group, bytes };
            if !self.memory_limits.contains(&limit) {
                self.memory_limits.push(limit);
            }
        }
    }

    /// Returns `true` if the trace has more than the host's name.
    fn tells(&self) -> bool {
        self.cpus.is_some() || self.cpu_ns.is_some()
    }

    /// Returns the average number of CPUs that were busy with these processes.
    pub fn cpus_used(&self) -> Option<f64> {
        Some(self.cpu_ns? as f64 / self.wall_ns as f64).filter(|_| self.wall_ns > 0)
    }

    /// Returns the smallest amount of memory that any of the processes could use: its limit, or all memory of the host.
    pub fn memory_allowed(&self) -> Option<u64> {
        let memory = self.memory.map(|memory| memory as u64);
        self.memory_limits.iter().map(|limit| limit.bytes).chain(memory).min()
    }

    /// Returns the printed lines, each with a label.
    fn lines(&self, summary: &Summary) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        let allowed = self.cpus.map(|cpus| match self.cores {
            Some(cores) => format!("{cpus} of {cores} allowed"),
            None => format!("{cpus} allowed"),
        });
        let used = self.cpus_used().map(|used| format!("{used:.2} used on average"));
        lines.extend(join([allowed, used]).map(|text| ("CPUs", text)));
        lines.extend(self.nodes.map(|nodes| ("NUMA", self.text_of_nodes(nodes))));
        for quota in &self.quotas {
            lines.push(("CPU quota", quota.text()));
        }
        for weight in &self.cpu_weights {
            lines.push(("weight", weight_text(*weight)));
        }
        let limits =
            self.memory_limits.iter().map(|limit| format!("limit {} ({})", bytes(limit.bytes as f64), limit.group));
        let memory = self.memory.map(|memory| bytes(memory as f64));
        lines.extend(join(memory.into_iter().chain(limits).map(Some)).map(|text| ("memory", text)));
        let read = self.storage_read.map(|read| {
            let (read, asked) = (bytes(read as f64), bytes(summary.dataset.bytes_read as f64));
            format!("of {asked} that calls read, {read} came from storage, not from the page cache")
        });
        lines.extend(read.map(|text| ("storage", text)));
        lines.extend(self.sampled.iter().flat_map(|sampled| sampled.lines(&summary.directories)));
        lines
    }
}

impl MachineUse {
    /// Returns the average number of CPUs that were busy with processes outside the trace, or taken by the hypervisor.
    pub(super) fn others_busy(&self) -> Option<f64> {
        let sampled = self.sampled.as_ref()?;
        let all = sampled.cpu_busy_ns? + sampled.cpu_steal_ns.unwrap_or(0);
        Some((all as f64 - self.cpu_ns? as f64).max(0.0) / sampled.ns as f64)
    }

    /// Returns the average number of CPUs that were idle; `None` if the host was not sampled, or if the processes might not use all
    /// of its CPUs.
    pub(super) fn idle(&self) -> Option<f64> {
        let (sampled, cores) = (self.sampled.as_ref()?, self.cores?);
        let are_limited = !self.quotas.is_empty() || self.cpus != Some(cores as u32);
        let busy = (sampled.cpu_busy_ns? + sampled.cpu_steal_ns.unwrap_or(0)) as f64 / sampled.ns.max(1) as f64;
        (!are_limited).then_some((cores as f64 - busy).max(0.0))
    }

    fn text_of_nodes(&self, nodes: u32) -> String {
        let list = |nodes: &Option<Vec<u32>>| match nodes {
            None => "unknown nodes".into(),
            Some(nodes) => {
                let all: Vec<String> = nodes.iter().map(u32::to_string).collect();
                format!("{} {}", if nodes.len() == 1 { "node" } else { "nodes" }, all.join(", "))
            }
        };
        match nodes {
            1 => "1 node".into(),
            _ => format!("{nodes} nodes; CPUs of {}, memory of {}", list(&self.cpu_nodes), list(&self.memory_nodes)),
        }
    }
}

impl QuotaUse {
    fn text(&self) -> String {
        let used = self
            .throttled_periods
            .zip(self.periods)
            .map(|(up, all)| format!("used up in {} of {}", grouped(up), many(all, "period", "periods")));
        let kept = self
            .throttled_ns
            .filter(|ns| *ns > 0)
            .map(|ns| format!("threads kept from running for {} (summed over CPUs)", time(ns as f64)));
        let head = format!("{} {} ({})", self.cpus, if self.cpus == 1.0 { "CPU" } else { "CPUs" }, self.group);
        join([Some(head), used, kept]).unwrap_or_default()
    }
}

/// Describes the effect of a weight among groups with the default.
fn weight_text(weight: CpuWeight) -> String {
    let CpuWeight { value, default } = weight;
    let effect = match value {
        0 => "idle CPU time only".into(),
        _ => format!("{} times the CPU time of a group with the default, if CPUs are busy", two_digits(weight.share())),
    };
    format!("CPU weight {value} (default {default}): {effect}")
}

/// Formats a ratio with two significant digits.
fn two_digits(ratio: f64) -> String {
    let places = (1 - ratio.log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{ratio:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

fn join(texts: impl IntoIterator<Item = Option<String>>) -> Option<String> {
    let texts: Vec<String> = texts.into_iter().flatten().collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// Sums bytes over all processes.
fn by_storage(processes: &[&Process], bytes: impl Fn(&Resources) -> Option<u64>) -> Option<u64> {
    own_bytes(processes, bytes).into_iter().map(|(_, bytes)| bytes).reduce(|a, b| a + b)
}

/// Returns the processes with known bytes, and the bytes of each. The kernel adds a child's bytes to its parent's when
/// the parent has waited for the child.
fn own_bytes<'a>(processes: &[&'a Process], bytes: impl Fn(&Resources) -> Option<u64>) -> Vec<(&'a Process, u64)> {
    let mut last: BTreeMap<i32, (u64, &'a Process)> = BTreeMap::new();
    for process in processes {
        let Some(bytes) = bytes(&process.resources) else { continue };
        let kept = last.entry(process.pid).or_insert((bytes, process));
        if bytes >= kept.0 {
            *kept = (bytes, process);
        }
    }
    let mut of_children: BTreeMap<i32, u64> = BTreeMap::new();
    for (bytes, process) in last.values() {
        let parent = process.ppid.and_then(|ppid| last.get(&ppid));
        if let Some((_, parent)) = parent.filter(|(_, parent)| process.end_ts <= parent.end_ts) {
            *of_children.entry(parent.pid).or_default() += bytes;
        }
    }
    let own = |(pid, (bytes, process)): (i32, (u64, &'a Process))| {
        (process, bytes.saturating_sub(of_children.get(&pid).copied().unwrap_or(0)))
    };
    last.into_iter().map(own).collect()
}

/// Returns the host activity while these processes ran.
fn sampled(host: &Host, processes: &[&Process], trace: &Trace) -> Option<Sampled> {
    let start = processes.iter().filter_map(|process| process.start_ts).min()?;
    let end = processes.iter().filter_map(|process| process.end_ts).max()?;
    let boot = |ts: i64| ts.saturating_sub(host.clock_offset_ns).max(0) as u64;
    let is_its = |samples: &&Samples| {
        samples.fact(key::HOST) == Some(&host.name) && samples.fact(key::BOOT_ID) == host.boot_id.as_deref()
    };
    let of_host = trace.machines.iter().filter(is_its);
    let found = of_host.filter_map(|samples| Sampled::of(samples, boot(start), boot(end)));
    let mut found = found.min_by_key(|sampled| sampled.ns)?;
    io_limits(processes).iter().for_each(|limits| found.set_limits(limits));
    Some(found)
}

/// Returns the I/O limits of the control groups whose processes read and wrote most; `None` if unknown.
fn io_limits<'a>(processes: &[&'a Process]) -> Option<IoLimits> {
    let limits = |process: &'a Process| process.resources.io_limits.as_deref();
    let mut moved: BTreeMap<&str, u64> = processes.iter().filter_map(|it| Some((limits(it)?, 0))).collect();
    let with_storage = |resources: &Resources| Some(resources.storage_read? + resources.storage_written.unwrap_or(0));
    for (process, bytes) in own_bytes(processes, with_storage) {
        limits(process).and_then(|limits| moved.get_mut(limits)).into_iter().for_each(|sum| *sum += bytes);
    }
    // If none of them used storage, the limits of a group are preferred to no limit.
    let (text, _) = moved.into_iter().max_by_key(|(_, bytes)| *bytes)?;
    IoLimits::parse(text.as_bytes())
}

/// Returns the number of CPUs on which any of these processes was last allowed to run: the size of the union of their
/// sets, or the largest number.
pub fn allowed<'a>(of: impl Iterator<Item = &'a Resources> + Clone) -> Option<u32> {
    let sets: BTreeSet<u32> = of.clone().filter_map(Resources::last_cpus).flatten().collect();
    let most = of.filter_map(Resources::cpus_last).max();
    match sets.is_empty() {
        true => most,
        false => most.max(Some(sets.len() as u32)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, resources: Resources) -> Process {
        Process { pid, start_ts: Some(0), end_ts: Some(1_000), resources, ..Process::default() }
    }

    fn of(processes: &[Process]) -> MachineUse {
        MachineUse::default().with(&processes.iter().collect::<Vec<_>>())
    }

    #[test]
    fn an_image_that_follows_another_one_is_not_counted_twice() {
        let ran = |cpu_ns| Resources { cpu_ns: Some(cpu_ns), storage_read: Some(7), ..Resources::default() };
        let found = of(&[process(1, ran(100)), process(1, ran(300)), process(2, ran(200))]);
        assert_eq!((found.cpu_ns, found.storage_read, found.cpus_used()), (Some(500), Some(14), Some(0.5)));
        assert_eq!(of(&[process(1, Resources::default())]).cpu_ns, None);
    }

    #[test]
    fn bytes_of_children_that_were_waited_for_are_in_their_parents_too() {
        let read = |bytes| Resources { storage_read: Some(bytes), ..Resources::default() };
        let child = |pid, bytes| Process { ppid: Some(1), end_ts: Some(900), ..process(pid, read(bytes)) };
        assert_eq!(of(&[process(1, read(100)), child(2, 60), child(3, 30)]).storage_read, Some(100));
        // No process waited for this child.
        assert_eq!(of(&[process(1, read(10)), child(2, 60)]).storage_read, Some(60));
        let outlives = Process { end_ts: Some(2_000), ..child(2, 60) };
        assert_eq!(of(&[process(1, read(10)), outlives]).storage_read, Some(70));
    }

    #[test]
    fn limits_on_devices_are_those_of_the_processes_that_read() {
        let under = |limits: Option<&str>, read| Resources {
            io_limits: limits.map(str::to_string),
            storage_read: read,
            ..Resources::default()
        };
        let limits = |of: &[(Option<&str>, Option<u64>)]| {
            let of = of.iter().zip(1..);
            let processes: Vec<_> = of.map(|((limits, read), pid)| process(pid, under(*limits, *read))).collect();
            io_limits(&processes.iter().collect::<Vec<_>>())
        };
        let slow = Some("8:0 rbps=20000000");
        assert_eq!(
            limits(&[(Some(""), Some(5)), (slow, Some(6)), (slow, Some(6))]),
            IoLimits::parse(b"8:0 rbps=20000000")
        );
        assert_eq!(limits(&[(Some(""), Some(50)), (slow, Some(6))]), Some(IoLimits::default()));
        assert_eq!(limits(&[(Some(""), None), (slow, None)]), IoLimits::parse(b"8:0 rbps=20000000"));
        assert_eq!(limits(&[(None, Some(9))]), None);
    }

    #[test]
    fn sets_of_cpus_are_united() {
        let pinned =
            |list: &str| Resources { cpus_end: Some(1), cpu_list_end: Some(list.into()), ..Resources::default() };
        assert_eq!(of(&[process(1, pinned("0")), process(2, pinned("3"))]).cpus, Some(2));
        assert_eq!(of(&[process(1, pinned("3")), process(2, pinned("3"))]).cpus, Some(1));
        assert_eq!(of(&[process(1, Resources { cpus: Some(4), ..Resources::default() })]).cpus, Some(4));
    }

    #[test]
    fn numa_nodes_are_those_of_the_allowed_cpus() {
        let of_nodes = |nodes: Option<&str>, cpus: Option<&str>, memory: Option<&str>| {
            let resources = Resources {
                numa_nodes: nodes.map(str::to_string),
                cpu_list: cpus.map(str::to_string),
                memory_nodes: memory.map(str::to_string),
                ..Resources::default()
            };
            of(&[process(1, resources)])
        };
        let found = of_nodes(Some("0:0-3;1:4-7;2:"), Some("5"), Some("0-1"));
        assert_eq!((found.nodes, found.cpu_nodes.as_deref()), (Some(3), Some(&[1][..])));
        assert_eq!(found.text_of_nodes(3), "3 nodes; CPUs of node 1, memory of nodes 0, 1");
        let found = of_nodes(Some("0:0-3;1:4-7"), None, None);
        assert_eq!(found.text_of_nodes(2), "2 nodes; CPUs of unknown nodes, memory of unknown nodes");
        for unknown in [None, Some(""), Some("0"), Some("x:0"), Some("0:3-1")] {
            assert_eq!(of_nodes(unknown, Some("5"), None).nodes, None, "{unknown:?}");
        }
    }

    #[test]
    fn weights_other_than_the_default_are_listed_once() {
        let with = |value| Resources { cpu_weight: Some(CpuWeight { value, default: 1024 }), ..Resources::default() };
        let found = of(&[process(1, with(2048)), process(2, with(512)), process(3, with(512))]);
        assert_eq!(found.cpu_weights.iter().map(|weight| weight.value).collect::<Vec<_>>(), [512, 2048]);
        let text = |value| weight_text(CpuWeight { value, default: 1024 });
        assert!(text(512).starts_with("CPU weight 512 (default 1024): 0.5 times the CPU time"), "{}", text(512));
        assert!(text(2).contains(": 0.002 times"), "{}", text(2));
        assert!(text(262144).contains(": 256 times"), "{}", text(262144));
        assert!(text(0).ends_with(": idle CPU time only"), "{}", text(0));
    }

    #[test]
    fn a_quota_is_as_whoever_saw_most_of_its_periods_says() {
        let under = |periods, throttled| Resources {
            cpu_quota: Some(0.5),
            cpu_group: Some("/a".into()),
            periods: Some(periods),
            throttled_periods: Some(throttled),
            ..Resources::default()
        };
        let found = of(&[process(1, under(10, 9)), process(2, under(40, 20)), process(3, under(5, 5))]);
        assert_eq!(found.quotas.len(), 1);
        assert_eq!(found.quotas[0].used_up(), Some(0.5));
    }
}
