//! Hosts, processes and threads that took part.

use std::collections::{BTreeMap, BTreeSet};

use dlio_schemas::native::names::URING;
use dlio_schemas::native::untraced::{self, Untraced};
use serde::{Deserialize, Serialize};

use super::{Section, Summary, hosts};
use crate::catalog::Process;
use crate::load::Trace;
use crate::summary::analysis::{Analysis, started};
use crate::summary::count::counted::ProcessCount;
use crate::summary::figures::units::{grouped, many, time};
use crate::summary::report::layout::{heading, pairs};

/// Hosts, processes and threads that took part.
#[derive(Serialize, Deserialize, Debug, Default)]
pub struct Allocation {
    pub hosts: u64,
    /// Process images: an exec starts a new one.
    pub processes: u64,
    /// Processes, regardless of the number of programs that each ran in sequence.
    pub pids: u64,
    pub killed: u64,
    pub threads: u64,
    pub io_threads: u64,
    pub compute_threads: u64,
    pub events: u64,
    pub lost: u64,
    /// Calls among them that DFTracer aggregated: only their number is known.
    #[serde(default)]
    pub aggregated: u64,
    pub filtered: u64,
    pub names_lost: u64,
    pub misused_spans: u64,
    /// Lost events of processes whose run is unknown, if the report covers one of several runs.
    #[serde(default)]
    pub lost_run_unknown: u64,
    /// `true` if the trace has too many waits and messages to determine their causes.
    #[serde(default)]
    pub waits_unexplained: bool,
    /// Processes with requests through an io_uring ring that are not in the trace, and the number of these requests as
    /// far as it is known.
    #[serde(default)]
    pub uring: u64,
    #[serde(default)]
    pub uring_requests: u64,
    /// Program images that `dlio trace --ptrace-static` recorded.
    #[serde(default)]
    pub by_ptrace: u64,
    /// Programs that were started without leaving a trace.
    #[serde(default)]
    pub untraced: Vec<UntracedProgram>,
}

impl Allocation {
    /// Returns the note on programs that were recorded from outside.
    pub fn ptrace_note(&self) -> Option<String> {
        let programs = || many(self.by_ptrace, "program was", "programs were");
        (self.by_ptrace > 0).then(|| format!("{} recorded by ptrace, which makes each system call longer", programs()))
    }

    /// Returns `true` if events are missing, except those that a tracer aggregated on purpose.
    pub fn lacks_events(&self) -> bool {
        self.lost > self.aggregated
    }
}

impl Allocation {
    /// Returns text such as `12 requests of 1 process through io_uring`, which are not in the trace.
    pub fn unseen_requests(&self) -> String {
        let processes = many(self.uring, "process", "processes");
        let requests = match self.uring_requests {
            0 => "requests".into(),
            known => many(known, "request", "requests"),
        };
        format!("{requests} of {processes} through io_uring")
    }

    /// Returns text such as `4 processes`, followed by the number of programs if it is larger.
    pub fn shown_processes(&self) -> String {
        let processes = many(self.pids, "process", "processes");
        match self.processes == self.pids {
            true => processes,
            false => format!("{processes} ({})", many(self.processes, "program", "programs")),
        }
    }
}

impl Section for Allocation {
    type Values = Self;

    const MEANING: &'static str = "\
        Allocation: the processes and threads that took part. A process counts once, regardless of how many programs \
        it runs by exec; if there are more programs than processes, both numbers are printed. With a filter, only \
        processes with at least one matching event count. A thread counts as an I/O thread if it made a call on a \
        file, and as a compute thread if it has a span of a compute category; it can be both. Lost events did not fit \
        into the tracer's memory and are missing from all numbers. Events that filters left out while tracing are \
        counted separately. Requests through an io_uring are recorded when their results are seen; requests that were         not seen are missing, and their number is printed if it is known.";
    const FIELDS: &'static str = "\
        `hosts`, `processes` (program images: an exec starts a new one), `pids` (processes, each counted once), \
        `killed` (with a filter: only processes with matching events), `threads`, `io_threads`, `compute_threads` \
        (threads likewise), `events`, `lost`, `aggregated` (part of `lost`: calls that DFTracer counted together), \
        `filtered`, `names_lost` (names that did not fit), `misused_spans` (closed on a different thread, and not \
        recorded), `lost_run_unknown` (part of `lost`: events of processes whose run is unknown, if the report covers \
        one of several runs), `waits_unexplained` (whether the trace has too many waits and messages to compute their \
        causes), `uring` (processes with requests through an io_uring that are not in the trace), `uring_requests` \
        (these requests, 0 if their number is unknown), `by_ptrace` (programs that the library cannot enter, recorded with `--ptrace-static`), `untraced` (programs that were started but not traced, a list: `program`, `reason` (static, go, privileged, own-ptrace, other-library or other-machine), `times`)";
    const SQL: Option<&'static str> = Some(include_str!("../../../sql/allocation.sql"));

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        let all = trace.catalog.processes();
        let threads = threads(&all, &analysis.counted.processes);
        let batches_lost: u64 = analysis.counted.processes.iter().map(|process| process.lost).sum();
        let batches_aggregated: u64 = analysis.counted.processes.iter().map(|process| process.aggregated).sum();
        let partakers = analysis.partakers(&all);
        let made = || partakers.iter().map(|(process, _)| *process);
        // Lost events may belong to any selected process.
        let processes: Vec<_> = all.iter().filter(|process| analysis.filter.takes(process)).collect();
        let is_one_run = analysis.filter.run.is_some();
        let of_no_run = processes.iter().filter(|process| is_one_run && process.start_ts.is_none());
        Allocation {
            waits_unexplained: analysis.measured.waits.is_cut,
            lost_run_unknown: of_no_run.map(|process| process.lost - process.aggregated).sum(),
            hosts: hosts::Hosts::values(analysis, trace).len() as u64,
            processes: partakers.len() as u64,
            pids: started(made()),
            killed: made().filter(|process| process.ended == "killed").count() as u64,
            threads: threads.len() as u64,
            io_threads: threads.values().filter(|(does_io, _)| *does_io).count() as u64,
            compute_threads: threads.values().filter(|(_, computes)| *computes).count() as u64,
            events: analysis.events(),
            lost: processes.iter().map(|process| process.lost).sum::<u64>() + batches_lost,
            aggregated: processes.iter().map(|process| process.aggregated).sum::<u64>() + batches_aggregated,
            filtered: processes.iter().map(|process| process.filtered).sum(),
            names_lost: processes.iter().map(|process| process.names_lost).sum(),
            misused_spans: processes.iter().map(|process| process.misused_spans).sum(),
            uring: with_rings(analysis, trace, &all),
            uring_requests: analysis.counted.unseen_requests,
            by_ptrace: made().filter(|process| process.by_ptrace).count() as u64,
            untraced: untraced_of(analysis, trace, &partakers),
        }
    }

    fn print(summary: &Summary, _top: usize, out: &mut String) {
        let who = &summary.allocation;
        heading("Allocation", out);
        let killed = if who.killed > 0 { format!(" ({} killed)", grouped(who.killed)) } else { String::new() };
        let programs = match who.processes == who.pids {
            true => grouped(who.pids),
            false => format!("{}, of {}", grouped(who.pids), many(who.processes, "program", "programs")),
        };
        let mut rows = vec![
            ("hosts", grouped(who.hosts)),
            ("processes", programs + &killed),
            (
                "threads",
                format!(
                    "{} ({} with I/O, {} with compute)",
                    grouped(who.threads),
                    grouped(who.io_threads),
                    grouped(who.compute_threads)
                ),
            ),
            ("events", grouped(who.events)),
            ("lost events", grouped(who.lost)),
        ];
        if who.aggregated > 0 {
            let calls = grouped(who.aggregated);
            rows.push((
                "aggregated",
                format!("{calls}, included in lost: calls that DFTracer counted together, without times"),
            ));
        }
        if who.filtered > 0 {
            rows.push(("left out by filters", grouped(who.filtered)));
        }
        if who.waits_unexplained {
            rows.push(("causes of waits", "not computed: too many waits and messages".into()));
        }
        if who.names_lost > 0 {
            rows.push((
                "names lost",
                format!("{} that did not fit: their events are kept without a name", grouped(who.names_lost)),
            ));
        }
        if who.misused_spans > 0 {
            rows.push(("misused spans", format!("{}, closed on a different thread", grouped(who.misused_spans))));
        }
        if who.uring > 0 {
            rows.push(("io_uring", format!("{} are not in the trace", who.unseen_requests())));
        }
        if who.by_ptrace > 0 {
            let programs = many(who.by_ptrace, "program", "programs");
            rows.push((
                "recorded by ptrace",
                format!("{programs}: each system call took longer; waits are not recorded"),
            ));
        }
        for program in &who.untraced {
            rows.push(("not traced", program.text()));
        }
        for host in summary.hosts.iter().filter(|host| host.clock_spread_ns.abs() > CLOCK_SPREAD_SHOWN_NS) {
            let stepped =
                format!("stepped by {} on {} while it was traced", time(host.clock_spread_ns as f64), host.host);
            rows.push(("clock", stepped));
        }
        pairs(&rows, out);
    }
}

/// Smaller differences are within the accuracy of reading two clocks in sequence.
const CLOCK_SPREAD_SHOWN_NS: i64 = 1_000_000;

/// A program that was started without leaving a trace.
#[derive(Serialize, Deserialize, Default, Debug, Clone, PartialEq)]
pub struct UntracedProgram {
    pub program: String,
    /// `static`, `go`, `privileged`, `own-ptrace`, `other-library` or `other-machine`.
    pub reason: String,
    pub times: u64,
}

/// Programs that are linked statically on most systems, run for milliseconds and touch no data: `ctypes` runs ldconfig
/// to find a library.
const HELPERS: [&str; 1] = ["ldconfig"];

impl UntracedProgram {
    /// Returns `false` for a short helper, whose time cannot change the report.
    pub fn matters(&self) -> bool {
        let name = self.program.rsplit('/').next().unwrap_or_default();
        !HELPERS.contains(&name)
    }

    /// Returns the reason in words.
    pub fn text(&self) -> String {
        let why = match self.reason.as_str() {
            untraced::STATIC => "it is linked statically, so no library can be preloaded",
            untraced::GO => "it is a Go program, which bypasses the C library",
            untraced::OWN_PTRACE => "it uses ptrace itself, and was recorded until then",
            untraced::PRIVILEGED => "it gains privileges, so the loader ignores the library",
            untraced::OTHER_LIBRARY => "it does not start with the preloaded library",
            untraced::OTHER_MACHINE => "its architecture or word size differs from the library's",
            other => other,
        };
        let times = if self.times > 1 { format!("{} times; ", grouped(self.times)) } else { String::new() };
        format!("{} ({times}{why})", self.program)
    }
}

/// Maximum number of programs to name.
const UNTRACED_MAX: usize = 20;

/// Returns programs without a trace that were started while these processes ran.
fn untraced_of(analysis: &Analysis, trace: &Trace, of: &[(&Process, &ProcessCount)]) -> Vec<UntracedProgram> {
    let first = of.iter().filter_map(|(process, _)| process.start_ts).min();
    let last = of.iter().filter_map(|(process, _)| process.end_ts).max();
    let is_one_run = analysis.filter.run.is_some();
    let is_of_it = |program: &&Untraced| {
        let began = program.began_ns as i64;
        !is_one_run || first.is_none_or(|first| began >= first) && last.is_none_or(|last| began <= last)
    };
    let mut found: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for program in trace.untraced.iter().filter(is_of_it) {
        *found.entry((&program.program, &program.reason)).or_default() += 1;
    }
    let row = |((program, reason), times): ((&str, &str), u64)| UntracedProgram {
        program: program.into(),
        reason: reason.into(),
        times,
    };
    found.into_iter().map(row).take(UNTRACED_MAX).collect()
}

/// Returns the number of processes with an io_uring ring whose requests are not all in the trace: a ring whose requests
/// are recorded has no name.
fn with_rings(analysis: &Analysis, trace: &Trace, all: &[Process]) -> u64 {
    let files = trace.catalog.files();
    let is_ring = |user: &&u64| files.get((**user >> 32) as usize).is_some_and(|path| **path == *URING);
    let users = analysis.counted.users.iter().filter(is_ring);
    let processes = users.filter_map(|user| all.get(*user as u32 as usize));
    processes.map(|process| (process.host, process.pid)).collect::<BTreeSet<_>>().len() as u64
}

/// Returns threads by host, process and thread id, and whether they did I/O and computed: a thread remains the same
/// across an exec.
fn threads(processes: &[Process], counted: &[ProcessCount]) -> BTreeMap<(u32, i32, i32), (bool, bool)> {
    let mut threads = BTreeMap::new();
    for (process, count) in processes.iter().zip(counted) {
        for (tid, thread) in &count.threads {
            let (does_io, computes) = threads.entry((process.host, process.pid, *tid)).or_default();
            *does_io |= thread.does_io;
            *computes |= thread.computes;
        }
    }
    threads
}
