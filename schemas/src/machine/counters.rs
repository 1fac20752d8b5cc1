//! The counters of a host: one list, for the writer, the table `machine`, Perfetto tracks and the documentation.

/// The unit of a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    Count,
    Bytes,
    Nanoseconds,
    Percent,
    Milliwatts,
}

impl Unit {
    pub fn name(self) -> &'static str {
        match self {
            Unit::Count => "count",
            Unit::Bytes => "bytes",
            Unit::Nanoseconds => "ns",
            Unit::Percent => "percent",
            Unit::Milliwatts => "mW",
        }
    }
}

/// The source of a counter, which its scope names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// The whole host; the scope is empty.
    Machine,
    /// The directory of a control group.
    Group,
    /// A block device by its kernel name.
    Device,
    /// A network interface.
    Network,
    /// The directory of a mount.
    Mount,
    /// A GPU by its number in the order of the driver.
    Gpu,
}

/// One counter.
pub struct Counter {
    pub name: &'static str,
    pub unit: Unit,
    /// `true` if the counter only grows: two readings give a rate. Otherwise a reading is the current state.
    pub accumulates: bool,
    pub scope: Scope,
    pub meaning: &'static str,
}

const fn sum(name: &'static str, unit: Unit, scope: Scope, meaning: &'static str) -> Counter {
    Counter { name, unit, accumulates: true, scope, meaning }
}

const fn level(name: &'static str, unit: Unit, scope: Scope, meaning: &'static str) -> Counter {
    Counter { name, unit, accumulates: false, scope, meaning }
}

use Scope::{Device, Gpu, Group, Machine, Mount, Network};
use Unit::{Bytes, Count, Milliwatts, Nanoseconds, Percent};

/// All counters. A counter that the kernel or the driver does not provide is missing from a trace; it is never
/// zero instead.
pub const COUNTERS: &[Counter] = &[
    sum("cpu_busy_ns", Nanoseconds, Machine, "Time in which CPUs ran programs or the kernel, summed over CPUs."),
    sum("cpu_idle_ns", Nanoseconds, Machine, "Time in which CPUs had nothing to do, without cpu_iowait_ns."),
    sum("cpu_iowait_ns", Nanoseconds, Machine, "Time in which CPUs had nothing to do and a task waited for storage."),
    sum("cpu_steal_ns", Nanoseconds, Machine, "Time that the hypervisor gave to other guests."),
    sum("cpu_some_ns", Nanoseconds, Machine, "Time in which a task waited for a CPU (pressure)."),
    sum("memory_some_ns", Nanoseconds, Machine, "Time in which a task waited for memory (pressure)."),
    sum("memory_full_ns", Nanoseconds, Machine, "Time in which every task waited for memory (pressure)."),
    sum("io_some_ns", Nanoseconds, Machine, "Time in which a task waited for storage (pressure)."),
    sum("io_full_ns", Nanoseconds, Machine, "Time in which every task waited for storage (pressure)."),
    level("memory_available", Bytes, Machine, "Memory that is still available to programs."),
    level("memory_dirty", Bytes, Machine, "Pages written but not yet on storage, including those in flight."),
    sum("major_faults", Count, Machine, "Page faults that had to read storage."),
    sum("refaults_file", Count, Machine, "Pages of files that had left the page cache a short time before."),
    sum("swap_in", Bytes, Machine, "Bytes read from swap."),
    sum("swap_out", Bytes, Machine, "Bytes written to swap."),
    sum("tcp_retransmissions", Count, Machine, "Retransmitted TCP segments."),
    sum("group_cpu_ns", Nanoseconds, Group, "CPU time that the control group used."),
    sum("group_periods", Count, Group, "Periods in which the group was busy; counted only with a quota."),
    sum("group_throttled_periods", Count, Group, "Periods in which the group used up its quota."),
    sum(
        "group_throttled_ns",
        Nanoseconds,
        Group,
        "Time in which the group waited for its next period, summed over CPUs.",
    ),
    sum("group_cpu_some_ns", Nanoseconds, Group, "As cpu_some_ns, of the group."),
    sum("group_memory_some_ns", Nanoseconds, Group, "As memory_some_ns, of the group."),
    sum("group_memory_full_ns", Nanoseconds, Group, "As memory_full_ns, of the group."),
    sum("group_io_some_ns", Nanoseconds, Group, "As io_some_ns, of the group."),
    sum("group_io_full_ns", Nanoseconds, Group, "As io_full_ns, of the group."),
    level("group_memory_used", Bytes, Group, "Memory charged to the group, including page cache."),
    level("group_memory_file", Bytes, Group, "Page cache in group_memory_used."),
    level("group_memory_limit", Bytes, Group, "Memory limit of the group."),
    sum("group_major_faults", Count, Group, "As major_faults, of the group."),
    sum("group_refaults_file", Count, Group, "As refaults_file, of the group."),
    sum("device_reads", Count, Device, "Reads that the device completed."),
    sum("device_read_bytes", Bytes, Device, "Bytes read."),
    sum("device_read_ns", Nanoseconds, Device, "Total time of the reads, from queue to completion."),
    sum("device_writes", Count, Device, "Writes that the device completed."),
    sum("device_write_bytes", Bytes, Device, "Bytes written."),
    sum("device_write_ns", Nanoseconds, Device, "Total time of the writes, from queue to completion."),
    sum("device_busy_ns", Nanoseconds, Device, "Time in which the device had requests in flight."),
    sum(
        "device_queue_ns",
        Nanoseconds,
        Device,
        "Total time of all requests; divided by elapsed time, the average number in flight.",
    ),
    sum("network_received_bytes", Bytes, Network, "Bytes received."),
    sum("network_sent_bytes", Bytes, Network, "Bytes sent."),
    sum("nfs_operations", Count, Mount, "Completed requests of the NFS mount."),
    sum("nfs_retransmissions", Count, Mount, "Retransmitted requests."),
    sum("nfs_queue_ns", Nanoseconds, Mount, "Total time that requests waited in the client."),
    sum("nfs_round_trip_ns", Nanoseconds, Mount, "Total time from sending requests to their responses."),
    sum("nfs_execution_ns", Nanoseconds, Mount, "Total time of requests from start to end."),
    sum("nfs_received_bytes", Bytes, Mount, "Bytes received in responses."),
    sum("nfs_sent_bytes", Bytes, Mount, "Bytes sent in requests."),
    sum("lustre_reads", Count, Mount, "Reads of files of the Lustre mount, including those from the page cache."),
    sum("lustre_read_bytes", Bytes, Mount, "Bytes of these reads."),
    sum("lustre_writes", Count, Mount, "Writes to files of the Lustre mount."),
    sum("lustre_write_bytes", Bytes, Mount, "Bytes of these writes."),
    sum("lustre_cache_hits", Count, Mount, "Pages that reads found in the page cache, most of them read ahead."),
    sum("lustre_cache_misses", Count, Mount, "Pages that reads had to fetch from servers."),
    level("gpu_busy", Percent, Gpu, "Time in which at least one kernel ran, in the driver's last sample period."),
    level("gpu_memory_busy", Percent, Gpu, "Time in which the memory of the GPU was read or written, in that period."),
    level("gpu_memory_used", Bytes, Gpu, "Memory of the GPU that is allocated or reserved."),
    level("gpu_power", Milliwatts, Gpu, "Power that the GPU draws."),
    sum("gpu_pcie_sent", Bytes, Gpu, "Bytes that the GPU sent over PCIe."),
    sum("gpu_pcie_received", Bytes, Gpu, "Bytes that the GPU received over PCIe."),
    level("gpu_lost", Count, Gpu, "1 once the driver cannot reach the GPU; it has no later values."),
];

/// Returns the index of the counter with this name.
pub fn place(name: &str) -> Option<usize> {
    COUNTERS.iter().position(|counter| counter.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_names_are_unique_and_end_in_the_unit() {
        for (at, counter) in COUNTERS.iter().enumerate() {
            assert_eq!(place(counter.name), Some(at));
            assert_eq!(counter.name.ends_with("_ns"), counter.unit == Unit::Nanoseconds, "{}", counter.name);
            assert!(counter.meaning.ends_with('.'), "{}", counter.name);
        }
    }
}
