//! The picture as plain text, for a pipe or a file.

use super::picture::Picture;
use super::tables::{files, operations, processes, throughput, title, unseen, waiting};
use crate::summary::units::grouped;

/// Rows of a table.
const ROWS: usize = 20;

pub fn print(picture: &Picture) -> String {
    if picture.processes.is_empty() {
        return format!("{}\n{}", title(picture), nobody(picture));
    }
    let mut out = format!("{}; over {:.2} s\n{}\n", title(picture), picture.interval_s, throughput(picture));
    waiting(picture).into_iter().chain(unseen(picture)).for_each(|line| out += &format!("{line}\n"));
    for table in [operations(picture), files(picture), processes(picture)] {
        if table.rows.is_empty() {
            continue;
        }
        let more = table.rows.len().saturating_sub(ROWS);
        out += &format!("\n{}\n", table.lines(ROWS).join("\n"));
        if more > 0 {
            out += &format!("and {} more\n", grouped(more as u64));
        }
    }
    out + "\nmoved: bytes read or written. in calls: time within calls on files as a share of the interval, over all threads.\n"
}

/// What is said where no process runs.
pub fn nobody(picture: &Picture) -> String {
    let mut out: String = picture.unreadable.iter().map(|what| format!("Not watched: {what}\n")).collect();
    out += match picture.ended {
        0 => "No traced process runs yet: dlio trace -- COMMAND starts one.\n",
        _ => "No traced process runs: `dlio analyze` tells of those that have ended.\n",
    };
    out
}
