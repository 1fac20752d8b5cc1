//! Process images and their work.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write;

use dlio_schemas::ops::Class;
use serde::{Deserialize, Serialize};

use super::own_loop::OwnLoop;
use super::{Section, Summary};
use crate::catalog::Process;
use crate::load::Trace;
use crate::resources::Resources;
use crate::summary::analysis::Analysis;
use crate::summary::count::counted::{DataReads, ProcessCount};
use crate::summary::figures::units::{bytes, grouped, time};
use crate::summary::report::layout::{dash, heading, more};
use crate::summary::training::Role;
use crate::summary::tree::{LaneId, parents};
use crate::summary::waits::first_threads::FirstThread;
use crate::text_table::Grid;

#[derive(Serialize, Deserialize, Debug)]
pub struct ProcessUse {
    pub host: String,
    pub pid: i32,
    pub rank: Option<i32>,
    pub program: String,
    /// Key into the table of processes.
    #[serde(default)]
    pub proc: u32,
    /// The key of the image that started it; `null` if that image was not traced.
    #[serde(default)]
    pub parent: Option<u32>,
    /// Start of its first event.
    #[serde(default)]
    pub first_ts: Option<i64>,
    /// Its name: the script, or its number among the workers.
    #[serde(default, rename = "name")]
    pub called: String,
    /// Its role in the training.
    #[serde(default)]
    pub role: Option<Role>,
    pub ended: String,
    /// The signal that killed it, as reported to its parent; `null` if there was none, or if it is unknown.
    #[serde(default)]
    pub signal: Option<u8>,
    /// The process that sent this signal, if it was traced: key in the table of processes.
    #[serde(default)]
    pub killer: Option<u32>,
    pub threads: u64,
    pub lost: u64,
    /// Data file reads by its main thread; `null` if there were none.
    #[serde(default)]
    pub own_reads: Option<DataReads>,
    /// Sleeps of its main thread, and its use of mapped data files.
    #[serde(default)]
    pub first_thread: Option<FirstThread>,
    /// The directory of its program if that is a compiled one which may train, for all that calls show.
    #[serde(default)]
    pub own_loop: Option<OwnLoop>,
    /// The host resources it was allowed to use, and their use.
    #[serde(default)]
    pub resources: Resources,
    /// CPU time of its threads with calls, up to their last wait; `null` if the trace does not show it.
    #[serde(default)]
    pub threads_cpu_ns: Option<i64>,
    #[serde(flatten)]
    pub work: Work,
}

/// The work of a process or rank. Times are summed over calls and threads.
#[derive(Serialize, Deserialize, Debug, Default, Clone)]
pub struct Work {
    pub events: u64,
    pub failed: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub read_ns: u64,
    pub write_ns: u64,
    pub metadata_ns: u64,
    pub sync_ns: u64,
    pub compute_ns: u64,
    /// Calls that block: on messages, locks, children.
    #[serde(default)]
    pub wait_ns: u64,
    pub span_ns: i64,
}

/// The section on processes.
pub struct Processes;

impl Section for Processes {
    type Values = Vec<ProcessUse>;

    const MEANING: &'static str = "\
        By process: one row per program that a process ran. Times are those of calls that read, write, sync or \
        access metadata, and of compute spans. They are summed over calls and threads, so they can exceed the run time. Writes never include \
        syncs, here and in all other numbers. Bytes read and written are those of files. t(wait) is the time in calls \
        that wait for a message on a pipe or socket, a lock or a child, but not in calls that wait for time to pass \
        (sleep). killed: the process did not report its end, because a signal killed it (such as Ctrl-C); signal N if its parent learned which. A process \
        is named after its script or module, if it has one. A process that is a copy of its parent is named by its number among \
        the workers, or `child process` if a trainer waits for it and it makes no batches. \
        Trainers are listed first, then their readers.";
    const FIELDS: &'static str = "\
        a list of program images: `host`, `pid`, `rank`, `program`, `proc` (key into the table `processes`), `parent` \
        (that of the image that started it; `null` if that was not traced), `first_ts` (start of its first event), \
        `name` (its script, its number among workers, or `child process` if it makes no batches), `own_reads` (of data files, by its first thread: `from_ts`, \
        `to_ts`, `read_ns`, `pauses` of 1 ms or more between them; `null` if there are none), `own_loop` (`local` or \
        `installed`, the directory of a compiled program which may train: its first thread reads data in a loop, and it \
        sends, receives and writes little; otherwise `null`), \
        `first_thread` (`sleeps`, `slept_ns`, `polled_ns` of short ones in rows, and `mapped`, its mappings of data files: `from_ts` of the first one, \
        `to_ts` of its last event, `faults` that storage served, and the least time `fault_ns` that it waited for them; \
        `null` if it neither slept nor mapped any, or if that is unknown), `resources` (its limits \
        and use: `cpus` and `cpu_list` on which its main thread could run at its start, `cpus_end` and `cpu_list_end` \
        of any of its threads later; `numa_nodes` of its host with their CPUs and `memory_nodes` that it may use; \
        `are_groups_known`; `cpu_quota` in CPUs, `cpu_group`, and while it ran that \
        group's `periods`, `throttled_periods` and `throttled_ns`; `cpu_weight` of its own group (`value`, and the \
        kernel's `default`; `null` if they are equal); `memory_limit` in bytes, `memory_group`; \
        `io_limits` of block devices, empty without one; `shm_size`, `threads_end`, `cpu_ns`, `storage_read` and `storage_written` not served by the page cache, \
        `thread_variables`; `null` if unknown), `threads_cpu_ns` (CPU time of its threads with calls, up to the last wait of each; \
        `null` if unknown), `role` (trainer or reader, as in `training`, otherwise `null`), \
        `ended`, `signal` (that ended it, according to its parent; else `null`), `killer` (`proc` of the process that sent \
        this signal; `null` if none in the trace did), `threads`, `lost`, `events`, \
        `failed`, `bytes_read`, `bytes_written`, `read_ns`, `write_ns`, `metadata_ns`, `sync_ns`, `compute_ns`, \
        `wait_ns` (in calls that wait; times are summed over calls, and all except this one are of files), `span_ns` \
        (first to last event)";
    const SQL: Option<&'static str> = Some(include_str!("../../../sql/processes.sql"));

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        let hosts = trace.catalog.hosts();
        let processes = trace.catalog.processes();
        let parents = parents(&processes);
        let killed = &analysis.measured.waits.killed;
        let firsts = &analysis.measured.waits.first_threads;
        let facts: HashMap<_, _> = (0u32..)
            .zip(analysis.measured.waits.names(&processes))
            .zip(&processes)
            .map(|(fact, process)| (std::ptr::from_ref(process), fact))
            .collect();
        let row = |(process, count): (&Process, &ProcessCount)| {
            let mut work = Work::default();
            work.add(count);
            let (proc, name) = &facts[&std::ptr::from_ref(process)];
            let killed = killed.iter().find(|killed| killed.proc == *proc);
            let lane = LaneId { proc: *proc, tid: process.pid };
            let first_thread = firsts.binary_search_by_key(&lane, |(lane, _)| *lane).ok().map(|at| firsts[at].1);
            ProcessUse {
                host: hosts.get(process.host as usize).map_or_else(String::new, |host| host.name.clone()),
                pid: process.pid,
                rank: process.rank,
                program: process.program.clone().unwrap_or_default(),
                proc: *proc,
                parent: parents[*proc as usize],
                first_ts: (count.events > 0).then_some(count.first_ts),
                called: name.clone(),
                role: None,
                ended: process.ended.clone(),
                signal: killed.map(|killed| killed.signal),
                killer: killed.and_then(|killed| killed.killer),
                threads: count.threads.len() as u64,
                lost: process.lost + count.lost,
                own_reads: count.threads.get(&process.pid).map(|thread| thread.data_reads).filter(|it| it.read_ns > 0),
                first_thread,
                own_loop: OwnLoop::of(process, count, (work.bytes_read, work.bytes_written)),
                resources: process.resources.clone(),
                threads_cpu_ns: (count.cpu_us > 0).then_some(count.cpu_us as i64 * 1_000),
                work,
            }
        };
        analysis.partakers(&processes).into_iter().map(row).collect()
    }

    fn print(summary: &Summary, top: usize, out: &mut String) {
        let values = &in_order(summary);
        heading("By process", out);
        let mut grid = Grid::new(&[&["<process", "<host", "<ended", "lost", "threads"][..], &WORK_HEADS].concat());
        for row in values.iter().take(top) {
            let name = format!("{} {}", row.pid, row.called);
            let head = [name, row.host.clone(), row.ending(), grouped(row.lost), grouped(row.threads)];
            grid.row(head.into_iter().chain(work_cells(&row.work)).collect());
        }
        grid.print(out);
        more(values.len(), top, out);
        if summary.tally.is_some() {
            let _ = writeln!(out, "  {ALL_IO}");
        }
    }
}

/// The note on bytes of processes whose calls were counted, not recorded.
pub const ALL_IO: &str = "Bytes read and written include pipes and sockets: counts do not distinguish them from \
    files.";

/// Sets the role of each process.
pub fn assign_roles(summary: &mut Summary) {
    for process in &mut summary.processes {
        process.role = Role::of(process.proc, &summary.training);
    }
}

/// Returns trainers first, then their readers, each by start time; then the rest by time spent in file I/O.
pub fn in_order(summary: &Summary) -> Vec<&ProcessUse> {
    let mut rows: Vec<_> = summary.processes.iter().collect();
    rows.sort_by_key(|process| match process.role {
        Some(role) => (false, Some(role), Reverse(0)),
        None => (true, None, Reverse(process.work.io_ns())),
    });
    rows
}

impl ProcessUse {
    /// Returns how it ended, for a table.
    pub fn ending(&self) -> String {
        self.signal.map_or_else(|| self.ended.clone(), |signal| format!("signal {signal}"))
    }
}

impl Work {
    /// Returns the total time of file calls.
    pub fn io_ns(&self) -> u64 {
        self.read_ns + self.write_ns + self.metadata_ns + self.sync_ns
    }

    pub(super) fn add(&mut self, count: &ProcessCount) {
        self.events += count.events;
        self.failed += count.failed;
        self.bytes_read += count.bytes_read;
        self.bytes_written += count.bytes_written;
        self.read_ns += count.call_time(Class::Read);
        self.write_ns += count.call_time(Class::Write);
        self.metadata_ns += count.call_time(Class::Metadata);
        self.sync_ns += count.call_time(Class::Sync);
        self.compute_ns += count.compute_ns;
        self.wait_ns += count.idle_ns;
        self.span_ns = self.span_ns.max(count.last_ts.saturating_sub(count.first_ts).max(0));
    }
}

pub(super) const WORK_HEADS: [&str; 10] =
    ["events", "failed", "read", "written", "t(read)", "t(write)", "t(sync)", "t(meta)", "t(wait)", "t(compute)"];

pub(super) fn work_cells(work: &Work) -> [String; 10] {
    [
        grouped(work.events),
        dash(work.failed),
        bytes(work.bytes_read as f64),
        bytes(work.bytes_written as f64),
        time(work.read_ns as f64),
        time(work.write_ns as f64),
        time(work.sync_ns as f64),
        time(work.metadata_ns as f64),
        time(work.wait_ns as f64),
        time(work.compute_ns as f64),
    ]
}
