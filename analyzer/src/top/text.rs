//! The snapshot as plain text, for a pipe or a file.

use super::snapshot::Snapshot;
use super::tables::{files, machines, operations, processes, throughput, title, unseen, waiting};
use crate::summary::figures::units::grouped;

/// The largest number of rows per table.
const ROWS: usize = 20;

pub fn print(snapshot: &Snapshot) -> String {
    if snapshot.processes.is_empty() {
        return format!("{}\n{}", title(snapshot), nobody(snapshot));
    }
    let mut out = format!("{}; over {:.2} s\n{}\n", title(snapshot), snapshot.interval_s, throughput(snapshot));
    waiting(snapshot)
        .into_iter()
        .chain(machines(snapshot))
        .chain(unseen(snapshot))
        .for_each(|line| out += &format!("{line}\n"));
    for table in [operations(snapshot), files(snapshot), processes(snapshot)] {
        if table.rows.is_empty() {
            continue;
        }
        let more = table.rows.len().saturating_sub(ROWS);
        out += &format!("\n{}\n", table.lines(ROWS).join("\n"));
        if more > 0 {
            out += &format!("and {} more\n", grouped(more as u64));
        }
    }
    out + "\nmoved: bytes read or written. in calls: time in file calls as a share of the interval, over all \
        threads.\n"
}

/// Returns the text for a directory without running processes.
pub fn nobody(snapshot: &Snapshot) -> String {
    let mut out: String = snapshot.unreadable.iter().map(|what| format!("Not watched: {what}\n")).collect();
    out += match snapshot.ended {
        0 => "No traced process runs yet: dlio trace -- COMMAND starts one.\n",
        _ => "No traced process is running: `dlio analyze` reports on those that have ended.\n",
    };
    out
}
