//! Facts about a process: pairs of a key and a text.
//!
//! Pairs, not a struct, so that a new fact needs no new version: an old reader ignores unknown keys. Stored as
//! `length: u16, key, length: u16, text`; numbers are written in decimal, lists separated by a zero byte.

use std::collections::BTreeMap;

use super::Damage;
use crate::text::decimal::decimal;

/// The keys, each defined once, for the writer in the process and for every reader.
pub mod key {
    pub const HOST: &str = "host";
    /// Distinguishes boots of a host; times of one boot can be compared without a wall clock.
    pub const BOOT_ID: &str = "boot_id";
    pub const PID: &str = "pid";
    pub const PPID: &str = "ppid";
    /// Boot time at which the process started, as its first image recorded it: equal for all images of a process.
    pub const START_BOOT_NS: &str = "start_boot_ns";
    /// The number of this image in the process: exec starts a new one.
    pub const IMAGE: &str = "image";
    pub const PROGRAM: &str = "program";
    /// The name of the process in viewers, if it is more than its program's: its script, its index among workers.
    pub const NAME: &str = "name";
    /// Arguments separated by zero bytes.
    pub const COMMAND: &str = "command";
    pub const CWD: &str = "cwd";
    /// Directory of the trace: a ring may be in another one.
    pub const TRACE_DIR: &str = "trace_dir";
    pub const RANK: &str = "rank";
    pub const RANKS: &str = "ranks";
    pub const JOB: &str = "job";
    pub const LABEL: &str = "label";
    /// A note on merged events, if the file shows less than was recorded.
    pub const OVERVIEW: &str = "overview";
    pub const UID: &str = "uid";
    pub const CORES: &str = "cores";
    pub const MEMORY: &str = "memory";
    pub const KERNEL: &str = "kernel";
    /// `tsc` or `monotonic`.
    pub const CLOCK: &str = "clock";
    pub const CLOCK_HZ: &str = "clock_hz";
    pub const TRACER: &str = "tracer";
    /// `ptrace` if `dlio trace` recorded the process from outside; missing if the library did.
    pub const RECORDED_BY: &str = "recorded_by";
    /// The program that converts the trace after the process has ended, if the process does not.
    pub const CONVERTER: &str = "converter";
    /// The traced command of the process, which was to convert its trace to this format, and has.
    pub const RUN: &str = "run";
    /// Names of threads, `tid=name`, separated by zero bytes.
    pub const THREADS: &str = "threads";
    /// The ending of the process: see [`super::Ending`].
    pub const ENDED: &str = "ended";
    pub const END_BOOT_NS: &str = "end_boot_ns";
    pub const EVENTS: &str = "events";
    pub const LOST: &str = "lost";
    /// The number of the first error that caused a loss: see [`super::super::trouble`].
    pub const TROUBLE: &str = "trouble";
    /// The reason why the number of further missing events is unknown; in exports of such a trace.
    pub const INCOMPLETE: &str = "incomplete";
    /// Events in the table of counts; zero if the table could not be written.
    pub const COUNTED: &str = "counted";
    /// Length of the period whose events a flight recorder keeps, in nanoseconds. In such a trace the table of counts
    /// covers all events, including the recorded ones.
    pub const LAST_NS: &str = "last_ns";
    /// Boot time before which events of a flight recorder may be missing, and the number of those that it has dropped.
    pub const KEPT_FROM_BOOT_NS: &str = "kept_from_boot_ns";
    pub const DROPPED: &str = "dropped";
    pub const FILTERED: &str = "filtered";
    /// CPU time of the tracer itself in nanoseconds.
    pub const TRACER_NS: &str = "tracer_ns";
    /// Spans closed on another thread than their own.
    pub const MISUSED_SPANS: &str = "misused_spans";
    /// Names of files and spans that were lost for lack of space: their events exist without them.
    pub const NAMES_LOST: &str = "names_lost";

    // The resources that the process may use, and has used. A missing key means unknown, never zero. Keys with `_end`
    // contain the later value: at the end, or at the last reading of a process that was killed.

    /// CPUs that the main thread may run on (affinity). `_end`: those that any of the threads may run on.
    pub const CPUS_ALLOWED: &str = "cpus_allowed";
    pub const CPUS_ALLOWED_END: &str = "cpus_allowed_end";
    /// The CPUs of [`CPUS_ALLOWED`] as a list, `0-3,8`.
    pub const CPUS_LIST: &str = "cpus_list";
    pub const CPUS_LIST_END: &str = "cpus_list_end";
    /// NUMA nodes of the host, each with the list of its CPUs: `0:0-31;1:32-63`.
    pub const NUMA_NODES: &str = "numa_nodes";
    /// The nodes from which the process may get memory (cpuset), a list.
    pub const NUMA_MEMORY_NODES: &str = "numa_memory_nodes";
    /// CPU time per second that the control group may use, a decimal, the lowest quota of it and its parents; `none`
    /// if none of them has a quota.
    pub const CPU_QUOTA: &str = "cpu_quota";
    /// Directory of the group with that quota, or of the process's own group without a quota.
    pub const CPU_CGROUP: &str = "cpu_cgroup";
    /// CPU weight of the process's own group, as in `cpu.shares` or `cpu.weight`, and the kernel's default for that
    /// file; only if they differ.
    pub const CPU_WEIGHT: &str = "cpu_weight";
    pub const CPU_WEIGHT_DEFAULT: &str = "cpu_weight_default";
    /// Periods in which that group was active, those in which it exhausted its quota, and the time it then waited,
    /// over all CPUs.
    pub const CPU_PERIODS: &str = "cpu_periods";
    pub const CPU_PERIODS_END: &str = "cpu_periods_end";
    pub const THROTTLED_PERIODS: &str = "throttled_periods";
    pub const THROTTLED_PERIODS_END: &str = "throttled_periods_end";
    pub const THROTTLED_NS: &str = "throttled_ns";
    pub const THROTTLED_NS_END: &str = "throttled_ns_end";
    /// GPUs of the host in the order of the driver: number, identifier, name. `0 GPU-1234 NVIDIA H200; 1 ...`.
    pub const GPUS: &str = "gpus";
    /// Memory limit of the control group in bytes, the lowest of it and its parents, or `none`; and the group with
    /// that limit.
    pub const MEMORY_LIMIT: &str = "memory_limit";
    pub const MEMORY_CGROUP: &str = "memory_cgroup";
    /// Limits per second on the I/O of block devices, as in [`crate::io_limits`]; `none` without a limit. The lowest of
    /// the control group and its parents; in version 1 parents have no effect.
    pub const IO_LIMITS: &str = "io_limits";
    /// `other`, `batch`, `idle`, `fifo`, `rr` or `deadline`; and the nice value of the main thread.
    pub const SCHEDULING: &str = "scheduling";
    pub const NICE: &str = "nice";
    /// Soft limits, or `unlimited`: of descriptors, of processes and threads of the user, of locked bytes.
    pub const MAX_OPEN_FILES: &str = "max_open_files";
    pub const MAX_PROCESSES: &str = "max_processes";
    pub const MAX_LOCKED_MEMORY: &str = "max_locked_memory";
    /// These limits after the program has changed them; missing if it has not.
    pub const MAX_OPEN_FILES_END: &str = "max_open_files_end";
    pub const MAX_PROCESSES_END: &str = "max_processes_end";
    pub const MAX_LOCKED_MEMORY_END: &str = "max_locked_memory_end";
    /// Size of `/dev/shm` in bytes.
    pub const SHM_SIZE: &str = "shm_size";
    /// Threads of the process.
    pub const THREADS_END: &str = "threads_end";
    /// Bytes that the process caused the storage to read and write (`/proc/self/io`).
    pub const READ_BYTES_END: &str = "read_bytes_end";
    pub const WRITE_BYTES_END: &str = "write_bytes_end";
    /// CPU time of the process, including its ended threads.
    pub const CPU_NS_END: &str = "cpu_ns_end";
}

/// Values that change while a process runs, in the order of their offsets in the first page of a ring: see
/// [`super::ring::header::LATEST`].
pub const LATEST: [&str; 8] = [
    key::CPUS_ALLOWED_END,
    key::THREADS_END,
    key::READ_BYTES_END,
    key::WRITE_BYTES_END,
    key::CPU_NS_END,
    key::CPU_PERIODS_END,
    key::THROTTLED_PERIODS_END,
    key::THROTTLED_NS_END,
];

/// Variables of a process that determine how many threads its libraries start and where those run; and their keys.
pub const THREAD_VARIABLES: [(&str, &str); 6] = [
    ("OMP_NUM_THREADS", "omp_num_threads"),
    ("MKL_NUM_THREADS", "mkl_num_threads"),
    ("OPENBLAS_NUM_THREADS", "openblas_num_threads"),
    ("TOKENIZERS_PARALLELISM", "tokenizers_parallelism"),
    ("OMP_PROC_BIND", "omp_proc_bind"),
    ("GOMP_CPU_AFFINITY", "gomp_cpu_affinity"),
];

/// The ending of a process, as in the table `processes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Status of `exit`, `_exit` or a return from `main`.
    Exit(i32),
    /// Exited with a status that its C library does not report: musl.
    Exited,
    /// Executed another program.
    Exec,
    /// Unknown: killed by a signal or ended by a raw `exit_group`.
    Killed,
    /// Still running when it was read.
    Running,
}

impl Ending {
    pub fn parse(text: Option<&str>) -> Ending {
        match text {
            Some("exec") => Ending::Exec,
            Some("running") => Ending::Running,
            Some("exit") => Ending::Exited,
            Some(text) => text.strip_prefix("exit ").and_then(|n| n.parse().ok()).map_or(Ending::Killed, Ending::Exit),
            None => Ending::Killed,
        }
    }
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ending::Exit(status) => write!(f, "exit {status}"),
            Ending::Exited => write!(f, "exit"),
            Ending::Exec => write!(f, "exec"),
            Ending::Killed => write!(f, "killed"),
            Ending::Running => write!(f, "running"),
        }
    }
}

/// Facts about one process; a later block's fact replaces an earlier one.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Fields(BTreeMap<String, String>);

impl Fields {
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Returns a number; `None` if it is missing or not a number.
    pub fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.get(key)?.parse().ok()
    }

    pub fn set(&mut self, key: &str, value: impl ToString) {
        self.0.insert(key.to_string(), value.to_string());
    }

    pub fn remove(&mut self, key: &str) -> Option<String> {
        self.0.remove(key)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    pub fn ending(&self) -> Ending {
        Ending::parse(self.get(key::ENDED))
    }

    /// Adds the pairs of a payload. Text that is not UTF-8 is kept with replacement characters.
    pub fn merge(&mut self, payload: &[u8]) -> Result<(), Damage> {
        let mut rest = payload;
        while !rest.is_empty() {
            let key = take(&mut rest)?;
            let value = take(&mut rest)?;
            self.0.insert(String::from_utf8_lossy(key).into_owned(), String::from_utf8_lossy(value).into_owned());
        }
        Ok(())
    }
}

fn take<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Damage> {
    let broken = Damage::Broken("the facts of a process");
    let length = rest.first_chunk::<2>().map(|bytes| u16::from_le_bytes(*bytes) as usize).ok_or(broken.clone())?;
    let text = rest.get(2..2 + length).ok_or(broken)?;
    *rest = &rest[2 + length..];
    Ok(text)
}

/// A writer of pairs into given memory that allocates nothing. A text that does not fit is truncated, a key is
/// omitted.
pub struct FieldWriter<'a> {
    out: &'a mut [u8],
    used: usize,
}

impl<'a> FieldWriter<'a> {
    pub fn new(out: &'a mut [u8]) -> FieldWriter<'a> {
        FieldWriter { out, used: 0 }
    }

    pub fn used(&self) -> usize {
        self.used
    }

    pub fn text(&mut self, key: &str, value: &[u8]) {
        let room = self.out.len() - self.used;
        if key.len() + 4 > room {
            return;
        }
        let value = &value[..value.len().min(room - key.len() - 4).min(u16::MAX as usize)];
        self.put(key.as_bytes());
        self.put(value);
    }

    /// Writes a number, if it fits completely.
    pub fn number(&mut self, key: &str, value: i64) {
        let mut digits = [0; 20];
        let text = decimal(value, &mut digits);
        if key.len() + text.len() + 4 <= self.out.len() - self.used {
            self.text(key, text);
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.out[self.used..self.used + 2].copy_from_slice(&(bytes.len() as u16).to_le_bytes());
        self.out[self.used + 2..self.used + 2 + bytes.len()].copy_from_slice(bytes);
        self.used += 2 + bytes.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_round_trip_and_later_ones_win() {
        let mut out = [0; 100];
        let mut writer = FieldWriter::new(&mut out);
        writer.text(key::HOST, b"node7");
        writer.number(key::PID, -12);
        writer.number(key::PID, i64::MIN);
        let used = writer.used();
        let mut fields = Fields::default();
        fields.merge(&out[..used]).unwrap();
        assert_eq!(fields.get(key::HOST), Some("node7"));
        assert_eq!(fields.number::<i64>(key::PID), Some(i64::MIN));
        assert_eq!(fields.number::<i64>(key::HOST), None);
    }

    #[test]
    fn long_text_is_truncated_without_overflow() {
        for room in 0..40 {
            let mut out = vec![0; room];
            let mut writer = FieldWriter::new(&mut out);
            writer.text("key", b"a text of some length");
            let used = writer.used();
            assert!(Fields::default().merge(&out[..used]).is_ok());
        }
    }

    #[test]
    fn truncated_facts_are_rejected() {
        let mut out = [0; 100];
        let mut writer = FieldWriter::new(&mut out);
        writer.text(key::HOST, b"node7");
        let used = writer.used();
        for cut in 1..used {
            assert!(Fields::default().merge(&out[..cut]).is_err());
        }
    }

    #[test]
    fn endings_read_as_they_print() {
        for ending in [Ending::Exit(0), Ending::Exit(255), Ending::Exited, Ending::Exec, Ending::Running] {
            assert_eq!(Ending::parse(Some(&ending.to_string())), ending);
        }
        assert_eq!(Ending::parse(None), Ending::Killed);
    }
}
