//! Jobs that logs describe, and their cost: which jobs and users of many cost the most.

use std::collections::BTreeMap;

use dlio_schemas::ops::Class;
use serde::{Deserialize, Serialize};

use super::{Section, Summary};
use crate::load::Trace;
use crate::load::sources::job_log::JobLog;
use crate::summary::analysis::Analysis;
use crate::summary::count::counted::ProcessCount;
use crate::summary::figures::units::{bytes, grouped, moment, time};
use crate::summary::report::layout::{heading, more, pairs};
use crate::text_table::Grid;

/// A job, and its I/O as far as it was counted.
#[derive(Serialize, Deserialize, Debug, Clone, Default)]
pub struct JobUse {
    pub job_id: i64,
    pub uid: i64,
    pub program: String,
    pub command: String,
    pub processes: i64,
    pub start_ts: i64,
    pub end_ts: i64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Summed over calls.
    pub io_ns: u64,
    pub file: String,
    pub version: String,
    pub library: Option<String>,
    pub modules: Vec<String>,
    /// File system type and mount point.
    pub mounts: Vec<(String, String)>,
    pub metadata: Vec<(String, String)>,
}

impl JobUse {
    fn new(log: &JobLog, counts: &[ProcessCount]) -> JobUse {
        let used = || log.procs.iter().filter_map(|proc| counts.get(*proc as usize));
        let io = |count: &ProcessCount| -> u64 {
            [Class::Read, Class::Write, Class::Metadata, Class::Sync]
                .map(|class| count.time_ns[class as usize])
                .iter()
                .sum()
        };
        let program = log.command.split_whitespace().next().unwrap_or_default();
        JobUse {
            job_id: log.id,
            uid: log.uid,
            program: program.rsplit('/').next().unwrap_or(program).into(),
            command: log.command.clone(),
            processes: log.processes,
            start_ts: log.start_ts,
            end_ts: log.end_ts,
            bytes_read: used().map(|count| count.bytes_read).sum(),
            bytes_written: used().map(|count| count.bytes_written).sum(),
            io_ns: used().map(io).sum(),
            file: log.path.clone(),
            version: log.version.clone(),
            library: log.library.clone(),
            modules: log.modules.iter().map(|name| name.to_string()).collect(),
            mounts: log.mounts.clone(),
            metadata: log.metadata.clone(),
        }
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let written_by =
            self.library.as_ref().map_or(String::new(), |version| format!(", written by Darshan {version}"));
        let mounts: Vec<_> = self.mounts.iter().map(|(kind, place)| format!("{place} ({kind})")).collect();
        let metadata: Vec<_> = self.metadata.iter().filter(|(key, _)| key != "lib_ver").collect();
        let metadata: Vec<_> = metadata.iter().map(|(key, value)| format!("{key}={value}")).collect();
        vec![
            ("job", self.job_id.to_string()),
            ("user id", self.uid.to_string()),
            ("command", self.command.clone()),
            ("processes", grouped(self.processes.max(0) as u64)),
            ("start", moment(self.start_ts)),
            ("end", moment(self.end_ts)),
            ("read", bytes(self.bytes_read as f64)),
            ("written", bytes(self.bytes_written as f64)),
            ("I/O time", format!("{}, summed over processes", time(self.io_ns as f64))),
            ("mounts", if mounts.is_empty() { "unknown".into() } else { mounts.join(", ") }),
            ("metadata", if metadata.is_empty() { "none".into() } else { metadata.join(", ") }),
            ("modules", self.modules.join(", ")),
            ("log", format!("version {}{written_by}", self.version)),
        ]
    }
}

/// Returns the jobs of a trace whose processes the filter selects, those with the most I/O time first.
pub fn jobs(trace: &Trace, analysis: &Analysis) -> Vec<JobUse> {
    let takes = trace.catalog.map_processes(|process| analysis.filter.takes(process));
    let logs = trace.sources.iter().filter_map(|source| source.job());
    let logs = logs.filter(|log| log.procs.iter().any(|proc| takes.get(*proc as usize) == Some(&true)));
    let mut jobs: Vec<_> = logs.map(|log| JobUse::new(log, &analysis.counted.processes)).collect();
    jobs.sort_by(|a, b| b.io_ns.cmp(&a.io_ns).then_with(|| a.file.cmp(&b.file)));
    jobs
}

/// The section on jobs.
pub struct Jobs;

impl Section for Jobs {
    type Values = Vec<JobUse>;

    const MEANING: &'static str = "\
        Jobs: what Darshan's logs contain about each job, and the I/O of the job. Times are summed over processes, so they exceed the \
        run time of a job that reads in parallel. Bytes and times of MPI-IO count only if POSIX did not count the same \
        file; those of HDF5, PnetCDF and DAOS objects do not count. SQL: the tables jobs and counters.";
    const FIELDS: &'static str = "\
        a list of the jobs that Darshan logs describe, by `io_ns` (summed over processes): `job_id`, `uid`, `program`, \
        `command`, `processes`, `start_ts`, `end_ts`, `bytes_read`, `bytes_written`, `file` (the log), `version` (of \
        its format), `library` (Darshan's version), `modules`, `mounts` (pairs of type and mount point), `metadata` \
        (pairs of key and value)";

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        jobs(trace, analysis)
    }

    fn print(summary: &Summary, top: usize, out: &mut String) {
        match summary.jobs.as_slice() {
            [] => {}
            [job] => {
                heading("Job", out);
                pairs(&job.facts(), out);
            }
            jobs => {
                heading("Jobs", out);
                table(jobs, top).print(out);
                more(jobs.len(), top, out);
                users(jobs, top, out);
            }
        }
    }
}

/// Returns the table of the first jobs.
pub fn table(jobs: &[JobUse], top: usize) -> Grid {
    let mut grid = Grid::new(&["<job", "user", "<program", "processes", "read", "written", "I/O time", "<log"]);
    for job in jobs.iter().take(top) {
        let name = job.file.rsplit('/').next().unwrap_or_default().to_string();
        grid.row(vec![
            job.job_id.to_string(),
            job.uid.to_string(),
            job.program.clone(),
            grouped(job.processes.max(0) as u64),
            bytes(job.bytes_read as f64),
            bytes(job.bytes_written as f64),
            time(job.io_ns as f64),
            name,
        ]);
    }
    grid
}

fn users(jobs: &[JobUse], top: usize, out: &mut String) {
    let mut users: BTreeMap<i64, (u64, u64, u64, u64)> = BTreeMap::new();
    for job in jobs {
        let sum = users.entry(job.uid).or_default();
        *sum = (sum.0 + 1, sum.1 + job.bytes_read, sum.2 + job.bytes_written, sum.3 + job.io_ns);
    }
    let mut users: Vec<_> = users.into_iter().collect();
    users.sort_by_key(|(_, (.., io_ns))| std::cmp::Reverse(*io_ns));
    let mut grid = Grid::new(&["user", "jobs", "read", "written", "I/O time"]);
    for (uid, (count, read, written, io_ns)) in users.iter().take(top) {
        let moved = [bytes(*read as f64), bytes(*written as f64)];
        grid.row([uid.to_string(), grouped(*count)].into_iter().chain(moved).chain([time(*io_ns as f64)]).collect());
    }
    grid.print(out);
    more(users.len(), top, out);
}
