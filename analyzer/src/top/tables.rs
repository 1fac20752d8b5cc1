//! The snapshot as lines and text tables, for plain text and for the screen.

use super::machine::MachineRow;
use super::snapshot::{FileRow, OperationRow, ProcessRow, Snapshot, Sum};
use crate::summary::figures::units::{bytes, grouped, many, time};

/// A column: its head, whether it contains numbers, which are right-aligned, and its rank for removal if space is
/// short: the largest rank is removed first, zero never.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub head: &'static str,
    is_number: bool,
    spare: usize,
}

/// A table whose last column contains paths and names, and may be truncated at its start.
pub struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<String>>,
}

/// Parses heads; a head that begins with `<` is a text column.
fn columns(heads: &[(&'static str, usize)]) -> Vec<Column> {
    let column = |(head, spare): &(&'static str, usize)| match head.strip_prefix('<') {
        Some(head) => Column { head, is_number: false, spare: *spare },
        None => Column { head, is_number: true, spare: *spare },
    };
    heads.iter().map(column).collect()
}

/// Replaces control characters: names come from the traced host and must not move the terminal's cursor.
fn plain(text: &str) -> String {
    text.chars().map(|c| if crate::text_table::is_obeyed(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Rates of an interval.
struct Rates {
    seconds: f64,
}

impl Rates {
    fn of(snapshot: &Snapshot) -> Rates {
        Rates { seconds: snapshot.interval_s }
    }

    fn count(&self, count: u64) -> String {
        if self.seconds <= 0.0 {
            return "-".into();
        }
        match count as f64 / self.seconds {
            0.0 => "0".into(),
            rate if rate < 9.95 => format!("{rate:.1}"),
            rate => grouped(rate.round() as u64),
        }
    }

    fn bytes(&self, count: u64) -> String {
        if self.seconds <= 0.0 { "-".into() } else { format!("{}/s", bytes((count as f64 / self.seconds).round())) }
    }

    fn share(&self, seconds: Option<f64>) -> String {
        match seconds {
            Some(seconds) if self.seconds > 0.0 => format!("{:.0} %", 100.0 * seconds / self.seconds),
            _ => "-".into(),
        }
    }
}

/// Returns the first line: the directory and its processes.
pub fn title(snapshot: &Snapshot) -> String {
    let ended = match snapshot.ended {
        0 => String::new(),
        ended => format!(", {} ended", grouped(ended)),
    };
    format!(
        "{}: {} running{ended}",
        plain(&snapshot.folder),
        many(snapshot.processes.len() as u64, "process", "processes")
    )
}

/// Describes the throughput of all processes in one or two sentences.
pub fn throughput(snapshot: &Snapshot) -> String {
    let (rates, sum) = (Rates::of(snapshot), &snapshot.sum);
    if snapshot.interval_s <= 0.0 {
        return "The first numbers appear after one interval.".into();
    }
    let about = if snapshot.exact { "" } else { "about " };
    format!(
        "Files: read {about}{}, written {about}{}, {about}{} calls/s{}; {}",
        rates.bytes(sum.bytes_read),
        rates.bytes(sum.bytes_written),
        rates.count(sum.calls),
        if sum.failed > 0 { format!(", {} failed/s", rates.count(sum.failed)) } else { String::new() },
        if snapshot.lost > 0 {
            format!("{} lost", many(snapshot.lost, "event", "events"))
        } else {
            "no event lost".into()
        },
    )
}

/// Returns the sentence on whether trainers wait for data, by their own spans.
pub fn waiting(snapshot: &Snapshot) -> Option<String> {
    let trainers: Vec<&ProcessRow> =
        snapshot.processes.iter().filter(|row| row.waiting_s.is_some() || row.computing_s.is_some()).collect();
    if trainers.is_empty() || snapshot.interval_s <= 0.0 {
        return None;
    }
    let mean = |of: fn(&ProcessRow) -> Option<f64>| {
        let all: Vec<f64> = trainers.iter().filter_map(|row| of(row)).collect();
        (!all.is_empty()).then(|| 100.0 * all.iter().sum::<f64>() / all.len() as f64 / snapshot.interval_s)
    };
    let part = |share: Option<f64>, what: &str| share.map(|share| format!("{what} {share:.0} %"));
    let parts: Vec<String> = [
        part(mean(|row| row.waiting_s), "waits for data"),
        part(mean(|row| row.gpu_waiting_s), "the GPU waits for data"),
        part(mean(|row| row.computing_s), "computes"),
        part(mean(|row| row.checkpoint_s).filter(|share| *share > 0.0), "saves checkpoints"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let who = match trainers.as_slice() {
        [one] => format!("{} ({})", plain(&one.name), one.pid),
        all => format!("the mean of {} trainers", all.len()),
    };
    // A wait of the host during which the GPU works costs nothing.
    let waits = mean(|row| row.gpu_waiting_s).or(mean(|row| row.waiting_s));
    let label = bottleneck(waits, mean(|row| row.computing_s), mean(|row| row.checkpoint_s));
    Some(format!("{label}: {who} {} of the time", parts.join(", ")))
}

/// Waits or checkpoints of this percentage of training time or more limit training; less than `FREE` does not matter.
const LIMITING: f64 = 20.0;
const FREE: f64 = 5.0;

/// Returns the bottleneck that spans show in one interval. Spans do not show why data is late.
fn bottleneck(waits: Option<f64>, computes: Option<f64>, saves: Option<f64>) -> &'static str {
    let (waited, saved) = (waits.unwrap_or(0.0), saves.unwrap_or(0.0));
    match waits {
        _ if saved > waited && saved >= LIMITING => "CHECKPOINT-BOUND",
        _ if saved > waited && saved >= FREE => "PARTLY CHECKPOINT-BOUND",
        Some(waited) if waited >= LIMITING => "DATA-BOUND",
        Some(waited) if waited >= FREE => "PARTLY DATA-BOUND",
        Some(_) if computes.is_some_and(|percent| percent >= 50.0) => "COMPUTE-BOUND",
        Some(_) => "NOT DATA-BOUND",
        None => "Training",
    }
}

/// Describes the activity of each host in one line.
pub fn machines(snapshot: &Snapshot) -> Vec<String> {
    snapshot.machines.iter().map(machine).collect()
}

fn machine(row: &MachineRow) -> String {
    let cores = row.cores.map_or(String::new(), |cores| format!(" of {cores}"));
    let percent = |share: Option<f64>| share.map(|share| 100.0 * share).filter(|percent| *percent >= 1.0);
    let parts = [
        row.cpus_busy.map(|cpus| format!("{cpus:.1}{cores} CPUs busy")),
        row.cpus_stolen.filter(|cpus| *cpus >= 0.05).map(|cpus| format!("{cpus:.1} taken by other guests")),
        percent(row.throttled).map(|percent| format!("quota used up in {percent:.0} % of the periods")),
        percent(row.io_pressure).map(|percent| format!("tasks waited for storage {percent:.0} % of the time")),
        percent(row.memory_pressure).map(|percent| format!("for memory {percent:.0} %")),
        row.memory_available.map(|free| format!("{} of memory free", bytes(free as f64))),
    ];
    format!("Host {}: {}", plain(&row.host), parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// Describes missing data, one line per reason.
pub fn unseen(snapshot: &Snapshot) -> Vec<String> {
    let mut lines: Vec<String> = snapshot.unreadable.iter().map(|what| format!("Not watched: {what}")).collect();
    let threads: u64 = snapshot.processes.iter().map(|row| row.threads_unseen).sum();
    if threads > 0 {
        lines.push(format!(
            "{} visible only after a delay: their rings did not fit",
            many(threads, "thread is", "threads are")
        ));
    }
    if !snapshot.exact {
        lines.push(
            "Too many events to read them all: numbers by operation and file are a sample; the number of events is \
             exact."
                .into(),
        );
    }
    lines
}

fn mean_time(sum: &Sum) -> String {
    if sum.calls == 0 { "-".into() } else { time(1e9 * sum.call_s / sum.calls as f64) }
}

pub fn operations(snapshot: &Snapshot) -> Table {
    let rates = Rates::of(snapshot);
    let row = |row: &OperationRow| {
        vec![
            row.operation.into(),
            rates.count(row.sum.calls),
            if row.sum.failed > 0 { rates.count(row.sum.failed) } else { "-".into() },
            if row.total.bytes() > 0 { rates.bytes(row.sum.bytes()) } else { "-".into() },
            mean_time(&row.sum),
            grouped(row.total.calls),
            if row.total.bytes() > 0 { bytes(row.total.bytes() as f64) } else { "-".into() },
        ]
    };
    Table {
        columns: columns(&[
            ("<operation", 0),
            ("calls/s", 0),
            ("failed/s", 1),
            ("moved", 0),
            ("mean time", 0),
            ("calls so far", 2),
            ("moved so far", 3),
        ]),
        rows: snapshot.operations.iter().map(row).collect(),
    }
}

pub fn files(snapshot: &Snapshot) -> Table {
    let rates = Rates::of(snapshot);
    let row = |row: &FileRow| {
        vec![
            rates.count(row.sum.calls),
            rates.bytes(row.sum.bytes_read),
            rates.bytes(row.sum.bytes_written),
            rates.share(Some(row.sum.call_s)),
            plain(&row.path),
        ]
    };
    Table {
        columns: columns(&[("calls/s", 0), ("read", 0), ("written", 0), ("in calls", 1), ("<file", 0)]),
        rows: snapshot.files.iter().map(row).collect(),
    }
}

pub fn processes(snapshot: &Snapshot) -> Table {
    let rates = Rates::of(snapshot);
    let row = |row: &ProcessRow| {
        let doing = match (row.activity, &row.now) {
            (Some(activity), _) => activity.name().to_string(),
            (None, Some(span)) => format!("in {}", plain(span)),
            _ => "-".into(),
        };
        vec![
            row.pid.to_string(),
            row.rank.map_or("-".into(), |rank| rank.to_string()),
            row.role.unwrap_or("-").into(),
            rates.count(row.sum.calls),
            rates.bytes(row.sum.bytes_read),
            rates.bytes(row.sum.bytes_written),
            rates.share(Some(row.sum.call_s)),
            rates.share(row.waiting_s),
            rates.share(row.computing_s),
            doing,
            plain(&row.name),
        ]
    };
    Table {
        columns: columns(&[
            ("pid", 0),
            ("rank", 1),
            ("<role", 2),
            ("calls/s", 0),
            ("read", 0),
            ("written", 3),
            ("in calls", 5),
            ("waits", 0),
            ("computes", 4),
            ("<now", 6),
            ("<process", 0),
        ]),
        rows: snapshot.processes.iter().map(row).collect(),
    }
}

/// The minimum width of the last column.
const LAST_LEAST: usize = 12;

/// The space between columns.
const GAP: usize = 2;

impl Table {
    /// Returns the width of each column.
    fn widths(&self) -> Vec<usize> {
        let width = |place: usize| {
            let cells = self.rows.iter().map(|row| row[place].chars().count());
            cells.chain([self.columns[place].head.len()]).max().unwrap_or(0)
        };
        (0..self.columns.len()).map(width).collect()
    }

    /// Returns the head and the first `most` rows as lines.
    pub fn lines(mut self, most: usize) -> Vec<String> {
        self.rows.truncate(most);
        let widths = self.widths();
        let heads = self.columns.iter().map(|column| column.head.to_string()).collect();
        let line = |cells: &Vec<String>| {
            let placed =
                cells.iter().zip(&widths).zip(&self.columns).map(|((cell, width), column)| match column.is_number {
                    true => format!("{cell:>width$}"),
                    false => format!("{cell:<width$}"),
                });
            placed.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_string()
        };
        [heads].iter().chain(&self.rows).map(line).collect()
    }

    /// Fits the table into a width: removes columns without information, then truncates the last column at its start,
    /// where paths are alike, and then removes columns by rank.
    pub fn fit(mut self, width: usize) -> Table {
        loop {
            let widths = self.widths();
            let before = widths.iter().rev().skip(1).map(|width| width + GAP).sum::<usize>();
            let last = widths.last().copied().unwrap_or(0);
            let is_empty = |place: &usize| self.rows.iter().all(|row| row[*place] == "-");
            let places = || (0..self.columns.len()).filter(|place| self.columns[*place].spare > 0);
            let out = match (before + last <= width, before + last.min(LAST_LEAST) <= width) {
                (true, _) => None,
                (_, true) => places().find(is_empty),
                _ => places().find(is_empty).or_else(|| places().max_by_key(|place| self.columns[*place].spare)),
            };
            let Some(out) = out else {
                self.cut_last(width.saturating_sub(before));
                return self;
            };
            self.columns.remove(out);
            self.rows.iter_mut().for_each(|row| drop(row.remove(out)));
        }
    }

    fn cut_last(&mut self, room: usize) {
        let room = room.max(LAST_LEAST);
        for cell in self.rows.iter_mut().filter_map(|row| row.last_mut()) {
            let length = cell.chars().count();
            if length > room {
                *cell = format!("…{}", cell.chars().skip(length + 1 - room).collect::<String>());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let row = |cells: [&str; 4]| cells.map(str::to_string).to_vec();
        Table {
            columns: columns(&[("calls/s", 0), ("rank", 1), ("<now", 2), ("<file", 0)]),
            rows: vec![row(["10", "-", "computing", "/data/of/a/long/path/a.npy"]), row(["1,000", "-", "-", "/b"])],
        }
    }

    #[test]
    fn columns_that_say_nothing_go_first_and_paths_lose_their_beginning() {
        assert_eq!(
            table().lines(1),
            ["calls/s  rank  now        file", "     10     -  computing  /data/of/a/long/path/a.npy"]
        );
        assert_eq!(table().fit(50).lines(1)[1], "     10  computing  /data/of/a/long/path/a.npy");
        assert_eq!(table().fit(40).lines(1)[1], "     10  computing  …f/a/long/path/a.npy");
        assert_eq!(table().fit(22).lines(9), ["calls/s  file", "     10  …g/path/a.npy", "  1,000  /b"]);
        assert_eq!(table().fit(1).lines(9)[1], "     10  …/path/a.npy");
    }

    #[test]
    fn what_would_move_the_cursor_is_shown() {
        assert_eq!(plain("a\u{1b}[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
    }
}
