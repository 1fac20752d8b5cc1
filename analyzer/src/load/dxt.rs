//! What `darshan-dxt-parser` prints: reads and writes of each file and rank, in seconds since the job began.
//!
//! ```text
//! # start_time: 1700000000
//! # DXT, file_id: 945779606880, file_name: /data/a
//! # DXT, rank: 0, hostname: node7
//! # Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)
//!  X_POSIX       0   read        0               0         4096      0.0023      0.0024
//! ```

use super::text::{Parser, Threads, lines};
use crate::batch::Row;

#[derive(Default)]
pub struct DxtParser {
    start_ns: i64,
    command: Option<String>,
    file: u32,
    host: String,
}

impl Parser for DxtParser {
    fn parse(&mut self, text: &[u8], last: bool, into: &mut Threads) -> usize {
        lines(text, last, |line| self.line(&String::from_utf8_lossy(line), into))
    }
}

impl DxtParser {
    fn line(&mut self, line: &str, into: &mut Threads) {
        let line = line.trim();
        if let Some(fact) = line.strip_prefix('#') {
            self.fact(fact.trim(), into);
        } else if !line.is_empty() && self.segment(line, into).is_none() {
            into.broken += 1;
        }
    }

    fn fact(&mut self, fact: &str, into: &mut Threads) {
        if let Some(seconds) = fact.strip_prefix("start_time:") {
            self.start_ns = seconds.trim().parse().map_or(0, seconds_ns);
        } else if let Some(command) = fact.strip_prefix("exe:") {
            self.command = Some(command.trim().into());
        } else if let Some((_, name)) = fact.split_once("file_name:") {
            self.file = into.catalog.file(name.trim());
        } else if let Some((_, host)) = fact.split_once("hostname:") {
            self.host = host.trim().into();
        }
    }

    fn segment(&self, line: &str, into: &mut Threads) -> Option<()> {
        let mut words = line.split_whitespace();
        let layer = words.next()?.strip_prefix("X_")?.to_ascii_lowercase();
        let rank: i32 = words.next()?.parse().ok()?;
        let name = words.next().filter(|name| matches!(*name, "read" | "write"))?;
        let _segment = words.next()?;
        let pos: i64 = words.next()?.parse().ok()?;
        let length: i64 = words.next()?.parse().ok()?;
        let start: f64 = words.next()?.parse().ok()?;
        let end: f64 = words.next()?.parse().ok()?;
        let command = &self.command;
        let proc = into.process(&self.host, rank, |process| {
            process.rank = Some(rank);
            process.command = command.clone();
        });
        let kind = into.catalog.moving(name, &layer);
        let ts = self.start_ns.saturating_add(seconds_ns(start));
        let dur = seconds_ns(end - start).max(0);
        let file = self.file;
        let row = Row { file, pos, requested: length, bytes: length, ret: length, ..Row::new(ts, dur, kind) };
        into.event(proc, rank, &row, []);
        Some(())
    }
}

/// Seconds as nanoseconds; what is no time is none.
fn seconds_ns(seconds: f64) -> i64 {
    // The conversion saturates, and NaN becomes 0.
    (seconds * 1e9).round() as i64
}
