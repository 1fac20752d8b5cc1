//! The output of `darshan-dxt-parser`: reads and writes of each file and rank, in seconds since the start of the job.
//!
//! ```text
//! # darshan log version: 3.41
//! # exe: ./ior -a POSIX
//! # jobid: 4233209
//! # start_time: 1700000000
//! # DXT, file_id: 945779606880, file_name: /data/a
//! # DXT, rank: 0, hostname: node7
//! # Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)
//!  X_POSIX       0   read        0               0         4096      0.0023      0.0024     [ 12]
//! ```
//!
//! A rank of a job is a process. Concatenated logs are separate jobs. Newer versions have a column with the thread,
//! named in the head of the table.

use std::collections::HashMap;

use std::path::PathBuf;

use crate::batch::Row;
use crate::catalog::FILE_NONE;
use crate::load::events::parser::{BACKWARD, Parser, Threads, lines};
use crate::load::json::json_scanner::whole_ns;
use crate::load::lines::text;
use crate::load::sources::source::{Format, Opening, Sources};
use dlio_schemas::readable::readable;

/// Darshan's DXT format.
pub const FORMAT: Format = Format {
    name: "darshan-dxt-parser",
    recognises: |head| is_dxt(&String::from_utf8_lossy(head)).into(),
    open: |paths: &[PathBuf], opening: &mut Opening| -> Sources {
        text::open_all(paths, opening, |_| Box::new(DxtParser::default()))
    },
    names_processes: false,
};

fn is_dxt(text: &str) -> bool {
    let start = text.trim_start_matches('\u{feff}').trim_start();
    start.starts_with("# darshan") || start.contains("DXT_POSIX") || start.starts_with("# DXT")
}

#[derive(Default)]
pub struct DxtParser {
    job: Job,
    /// The number of earlier logs in the file.
    before: i64,
    file: u32,
    host: String,
    /// Index of the column with the thread, if it exists.
    thread: Option<usize>,
    /// Numbers of threads whose ids are not numbers, such as addresses, in order of appearance.
    threads: HashMap<(i32, u64), i32>,
}

/// The job, from the head of a log.
#[derive(Default)]
struct Job {
    id: Option<String>,
    command: Option<String>,
    start_ns: i64,
    end_ns: Option<i64>,
}

impl Parser for DxtParser {
    fn parse(&mut self, text: &[u8], last: bool, into: &mut Threads) -> usize {
        lines(text, last, |line| self.line(line, into))
    }
}

impl DxtParser {
    fn line(&mut self, line: &[u8], into: &mut Threads) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(fact) = line.trim_ascii_start().strip_prefix(b"#") {
            self.fact(&readable(fact.trim_ascii_start()), into);
        } else if !line.trim_ascii().is_empty() && self.segment(&String::from_utf8_lossy(line), into).is_none() {
            into.broken += 1;
        }
    }

    fn fact(&mut self, fact: &str, into: &mut Threads) {
        if fact.starts_with("darshan log version:") {
            self.before += 1;
            (self.job, self.file, self.host) = (Job::default(), FILE_NONE, String::new());
        } else if let Some(id) = fact.strip_prefix("jobid:") {
            self.job.id = Some(id.trim().into());
        } else if let Some(seconds) = fact.strip_prefix("start_time:") {
            self.job.start_ns = seconds_ns(seconds).unwrap_or(0);
            into.broken += (seconds_ns(seconds).is_none()) as u64;
        } else if let Some(seconds) = fact.strip_prefix("end_time:") {
            // The last second is part of the job.
            self.job.end_ns = seconds_ns(seconds).and_then(|ns| ns.checked_add(1_000_000_000));
        } else if let Some(command) = fact.strip_prefix("exe:") {
            self.job.command = Some(command.trim().into());
        } else if let Some(columns) = fact.strip_prefix("Module") {
            let is_thread = |name: &str| name.to_ascii_lowercase().contains("thread");
            self.thread = columns.split_whitespace().position(is_thread).map(|place| place + 1);
        } else if let Some(fact) = fact.strip_prefix("DXT, ") {
            if let Some((_, name)) = fact.split_once("file_name: ") {
                self.file = into.catalog.file(name);
            } else if let Some((_, host)) = fact.split_once("hostname:") {
                self.host = host.trim().into();
            }
        }
    }

    fn segment(&mut self, line: &str, into: &mut Threads) -> Option<()> {
        let mut words = line.split_whitespace();
        let layer = words.next()?.strip_prefix("X_")?.to_ascii_lowercase();
        let rank: i32 = words.next()?.parse().ok()?;
        let name = words.next().filter(|name| matches!(*name, "read" | "write"))?;
        let _segment = words.next()?;
        let pos: i64 = words.next()?.parse().ok()?;
        let length: i64 = words.next()?.parse().ok()?;
        let start: f64 = words.next()?.parse().ok()?;
        let end: f64 = words.next()?.parse().ok()?;
        let thread = self.thread.and_then(|place| line.split_whitespace().nth(place)?.parse().ok());
        let job = &self.job;
        let proc = into.process_of_run(&self.host, rank, self.before, |process| {
            (process.rank, process.job, process.command) = (Some(rank), job.id.clone(), job.command.clone());
            process.program = job.command.as_deref().and_then(program);
            if job.start_ns > 0 {
                (process.start_ts, process.end_ts) = (Some(job.start_ns), job.end_ns);
            }
        });
        let kind = into.catalog.moving(name, &layer);
        let ts = self.job.start_ns.checked_add(whole_ns(start * 1e9)?)?;
        let dur = whole_ns((end - start) * 1e9)?;
        if dur < 0 {
            into.remarks(BACKWARD);
        }
        let dur = dur.max(0);
        let file = self.file;
        let row = Row { file, pos, requested: length, bytes: length, ret: length, ..Row::new(ts, dur, kind) };
        let tid = thread.map_or(rank, |id| self.thread_number(rank, id));
        into.event(proc, tid, &row, []);
        Some(())
    }

    fn thread_number(&mut self, rank: i32, id: u64) -> i32 {
        let next = self.threads.len() as i32 + 1;
        i32::try_from(id).unwrap_or_else(|_| *self.threads.entry((rank, id)).or_insert(next))
    }
}

/// Returns the program of a command line.
fn program(command: &str) -> Option<String> {
    let path = command.split_whitespace().next()?;
    Some(path.rsplit('/').next().unwrap_or(path).into())
}

/// Converts seconds to nanoseconds; `None` if the text is not a time.
fn seconds_ns(seconds: &str) -> Option<i64> {
    whole_ns(seconds.trim().parse::<f64>().ok()? * 1e9)
}
