//! The resources that this process may use and those that it has used, including values that change while it runs. This code
//! allocates nothing and keeps no descriptor open.

use dlio_schemas::control_groups::{self, Weight};
use dlio_schemas::decimal::decimal;
use dlio_schemas::io_limits;
use dlio_schemas::native::fields::{FieldWriter, LATEST, THREAD_VARIABLES, key};

use crate::kernel::limits::{Folder, Limit, Limits, NO_LIMIT};
use crate::kernel::machine::Machine;
use crate::kernel::sys::{self, CpuMask};
use crate::kernel::variables::variable;
use crate::process::own_limits;

/// Longest list of CPUs that is kept; a longer one is omitted.
const LIST_MAX: usize = 128;

/// Maximum number of threads whose CPUs are read: more threads than CPUs show nothing new.
const THREADS_MAX: usize = 256;

/// Maximum length of a variable that is kept.
const VARIABLE_MAX: usize = 64;

/// Writes the resources that the process may use at its start.
pub fn at_start(writer: &mut FieldWriter, pid: i32, machine: &Machine) {
    if let Some(mask) = sys::cpus_allowed(pid) {
        writer.number(key::CPUS_ALLOWED, count(&mask) as i64);
        list(writer, key::CPUS_LIST, &mask);
    }
    if !machine.nodes().is_empty() {
        writer.text(key::NUMA_NODES, machine.nodes());
    }
    of_groups(writer, machine.limits());
    if let Some(throttling) = machine.limits().throttling() {
        writer.number(key::CPU_PERIODS, throttling.periods as i64);
        writer.number(key::THROTTLED_PERIODS, throttling.throttled as i64);
        writer.number(key::THROTTLED_NS, throttling.ns as i64);
    }
    of_scheduling(writer, pid);
    own_limits::at_start(writer);
    for (name, key) in THREAD_VARIABLES {
        variable(name).into_iter().for_each(|value| writer.text(key, &value[..value.len().min(VARIABLE_MAX)]));
    }
}

/// Writes the limits of the process's control groups.
pub fn of_groups(writer: &mut FieldWriter, limits: &Limits) {
    let mut digits = [0; 24];
    match limits.quota {
        Limit::Unknown => {}
        Limit::None => writer.text(key::CPU_QUOTA, NO_LIMIT),
        Limit::Of(quota) => writer.text(key::CPU_QUOTA, thousandths(quota, &mut digits)),
    }
    if let Some(weight) = limits.weight.filter(|weight| !weight.is_default()) {
        of_weight(writer, weight);
    }
    for (key, limit) in [(key::MEMORY_LIMIT, limits.memory), (key::SHM_SIZE, limits.shm)] {
        match limit {
            Limit::Unknown => {}
            Limit::None => writer.text(key, NO_LIMIT),
            Limit::Of(bytes) => writer.number(key, bytes as i64),
        }
    }
    if limits.memory_nodes != 0 {
        list(writer, key::NUMA_MEMORY_NODES, &[limits.memory_nodes]);
    }
    limits.io_text(&mut [0; io_limits::TEXT_MAX]).into_iter().for_each(|text| writer.text(key::IO_LIMITS, text));
    for (key, folder) in [(key::CPU_CGROUP, &limits.cpu_group), (key::MEMORY_CGROUP, &limits.memory_group)] {
        if *folder != Folder::UNKNOWN {
            writer.text(key, folder.path());
        }
    }
}

/// Writes the CPU weight of the process's control group.
pub fn of_weight(writer: &mut FieldWriter, weight: Weight) {
    writer.number(key::CPU_WEIGHT, weight.value.min(i64::MAX as u64) as i64);
    writer.number(key::CPU_WEIGHT_DEFAULT, weight.default as i64);
}

fn of_scheduling(writer: &mut FieldWriter, pid: i32) {
    let (policy, nice) = sys::scheduling(pid);
    let name: &[u8] = match policy {
        Some(libc::SCHED_OTHER) => b"other",
        Some(libc::SCHED_BATCH) => b"batch",
        Some(libc::SCHED_IDLE) => b"idle",
        Some(libc::SCHED_FIFO) => b"fifo",
        Some(libc::SCHED_RR) => b"rr",
        Some(libc::SCHED_DEADLINE) => b"deadline",
        _ => b"",
    };
    if !name.is_empty() {
        writer.text(key::SCHEDULING, name);
    }
    nice.into_iter().for_each(|nice| writer.number(key::NICE, nice.into()));
}

/// The extent of queries to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// System calls only: a process that runs for a few milliseconds does not pay for files of /proc.
    Calls,
    Files,
}

/// The changing values, in the order of [`LATEST`]; `None` if unknown.
pub type Latest = [Option<u64>; LATEST.len()];

/// Reads the changing values. `cpus` is the set that the threads may run on.
pub fn latest(cpus: Option<&CpuMask>, depth: Depth, limits: Option<&Limits>) -> Latest {
    let mut latest = [None; LATEST.len()];
    latest[0] = cpus.map(count);
    latest[4] = Some(sys::clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)).filter(|ns| *ns > 0);
    if depth == Depth::Files {
        // The directory has one link from its parent, one from itself, and one from each thread's directory.
        latest[1] = sys::status_at(c"/proc/self/task").and_then(|found| found.links.checked_sub(2));
        let mut text = [0; 512];
        let text = sys::read_small(c"/proc/self/io", &mut text);
        latest[2] = control_groups::line(text, b"read_bytes");
        latest[3] = control_groups::line(text, b"write_bytes");
        let limits = limits.filter(|limits| limits.has_quota() && limits.apply_here());
        if let Some(throttling) = limits.and_then(Limits::throttling) {
            latest[5..].copy_from_slice(&[throttling.periods, throttling.throttled, throttling.ns].map(Some));
        }
    }
    latest
}

/// Returns the CPUs that any of the threads may run on. If the main thread may run on all `cores`, other threads are
/// not read.
pub fn cpus_of_threads(pid: i32, cores: u64, depth: Depth) -> Option<CpuMask> {
    let mut all = sys::cpus_allowed(pid)?;
    if depth == Depth::Files && count(&all) < cores {
        let mut left = THREADS_MAX;
        sys::each_thread(|thread| {
            let mask = sys::cpus_allowed(thread).filter(|_| thread != pid);
            mask.into_iter().for_each(|mask| all.iter_mut().zip(mask).for_each(|(all, more)| *all |= more));
            left -= 1;
            left > 0 && count(&all) < cores
        });
    }
    Some(all)
}

/// Writes a list of CPUs or nodes, if it is not too long.
pub fn list(writer: &mut FieldWriter, key: &str, mask: &[u64]) {
    let mut room = [0; LIST_MAX];
    cpu_list(mask, &mut room).into_iter().for_each(|list| writer.text(key, list));
}

fn count(mask: &CpuMask) -> u64 {
    mask.iter().map(|word| word.count_ones() as u64).sum()
}

/// Formats a number of thousandths as a decimal: `1.5`.
fn thousandths(number: u64, room: &mut [u8; 24]) -> &[u8] {
    let (whole, part) = (number / 1000, number % 1000);
    let mut digits = [0; 20];
    let text = decimal(whole.min(i64::MAX as u64) as i64, &mut digits);
    room[..text.len()].copy_from_slice(text);
    let mut used = text.len();
    if part > 0 {
        room[used] = b'.';
        for (at, unit) in [100, 10, 1].into_iter().enumerate() {
            room[used + 1 + at] = b'0' + (part / unit % 10) as u8;
        }
        used += 4;
        while room[used - 1] == b'0' {
            used -= 1;
        }
    }
    &room[..used]
}

/// Formats a CPU set, one bit per CPU in `mask`, as the kernel does: `0-3,8`. `None` if `room` is too small.
pub fn cpu_list<'a>(mask: &[u64], room: &'a mut [u8]) -> Option<&'a [u8]> {
    let has = |cpu: usize| mask.get(cpu / 64).is_some_and(|word| word >> (cpu % 64) & 1 == 1);
    let (mut used, mut cpu) = (0, 0);
    let mut put = |text: &[u8]| {
        room.get_mut(used..used + text.len())?.copy_from_slice(text);
        used += text.len();
        Some(())
    };
    let mut separator: &[u8] = b"";
    // A mask has one bit per CPU that a host may have; most are zero.
    let end = mask.iter().rposition(|word| *word != 0).map_or(0, |last| 64 * (last + 1));
    while cpu < end {
        if !has(cpu) {
            cpu += 1;
            continue;
        }
        let first = cpu;
        while has(cpu + 1) {
            cpu += 1;
        }
        put(separator)?;
        put(decimal(first as i64, &mut [0; 20]))?;
        if cpu > first {
            put(b"-")?;
            put(decimal(cpu as i64, &mut [0; 20]))?;
        }
        separator = b",";
        cpu += 1;
    }
    Some(&room[..used])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_cpus_read_as_the_kernel_writes_them() {
        for (mask, list) in [
            (vec![0], ""),
            (vec![1], "0"),
            (vec![0b1_0000_1111], "0-3,8"),
            (vec![u64::MAX, 1], "0-64"),
            (vec![1 << 63, u64::MAX], "63-127"),
            (vec![0b10101], "0,2,4"),
        ] {
            assert_eq!(cpu_list(&mask, &mut [0; 40]).map(<[u8]>::to_vec), Some(list.as_bytes().to_vec()));
        }
        assert_eq!(cpu_list(&[0b10101], &mut [0; 4]), None);
    }

    #[test]
    fn quotas_are_decimals() {
        for (number, text) in [(1000, "1"), (1500, "1.5"), (1, "0.001"), (64_250, "64.25"), (100, "0.1")] {
            assert_eq!(thousandths(number, &mut [0; 24]), text.as_bytes());
        }
        assert_eq!(thousandths(u64::MAX, &mut [0; 24]).len(), 21);
    }
}
