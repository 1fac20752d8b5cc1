//! Draws the snapshot on a screen of any size: the answer in the first lines, then operations, files and processes.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;

use super::snapshot::{Order, Snapshot};
use super::tables::{Table, files, machines, operations, processes, throughput, title, unseen, waiting};
use super::text::nobody;
use crate::summary::report::layout::wrapped;

/// The view selected by keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    pub order: Order,
    pub interval: Duration,
    pub is_paused: bool,
    /// `true` if the keys are explained instead of the snapshot.
    pub is_help: bool,
}

/// The largest number of lines about missing data; more would displace the data itself.
const NOTES_MAX: usize = 2;

/// Draws a snapshot, or the reason why there is none.
pub fn draw(frame: &mut Frame, snapshot: Result<&Snapshot, &str>, view: &View) {
    let area = frame.area();
    let mut page = Page { frame, area, next: 0 };
    match snapshot {
        _ if view.is_help => {
            KEYS.iter().for_each(|(keys, effect)| page.row(&format!("{keys:<6} {effect}"), Style::new()))
        }
        Ok(snapshot) => page.snapshot(snapshot),
        Err(why) => page.line(why, Style::new()),
    }
    page.footer(view);
}

/// The keys and their effects.
const KEYS: [(&str, &str); 9] = [
    ("b", "sort by bytes"),
    ("c", "sort by calls"),
    ("t", "sort by time"),
    ("n", "sort by name"),
    ("space", "pause, resume"),
    ("+", "double the interval"),
    ("-", "halve the interval"),
    ("?", "show these keys, or the numbers"),
    ("q", "quit"),
];

/// A frame that is filled from the top.
struct Page<'f, 'b> {
    frame: &'f mut Frame<'b>,
    area: Rect,
    next: u16,
}

impl Page<'_, '_> {
    /// Draws a text in as many lines as it needs.
    fn line(&mut self, text: &str, style: Style) {
        for line in wrapped(text, self.area.width as usize).lines() {
            self.row(line, style);
        }
    }

    /// Draws one line, which ends at the edge of the screen.
    fn row(&mut self, text: &str, style: Style) {
        self.line_at(self.next, text, style);
        self.next += 1;
    }

    fn line_at(&mut self, y: u16, text: &str, style: Style) {
        if y < self.area.height {
            self.frame.render_widget(Line::styled(text, style), Rect { y, height: 1, ..self.area });
        }
    }

    fn snapshot(&mut self, snapshot: &Snapshot) {
        self.line(&title(snapshot), Style::new().add_modifier(Modifier::BOLD));
        if snapshot.processes.is_empty() {
            nobody(snapshot).lines().for_each(|line| self.line(line, Style::new()));
            return;
        }
        self.line(&throughput(snapshot), Style::new());
        waiting(snapshot).iter().chain(&machines(snapshot)).for_each(|line| self.line(line, Style::new()));
        unseen(snapshot)
            .iter()
            .take(NOTES_MAX)
            .for_each(|line| self.line(line, Style::new().add_modifier(Modifier::DIM)));
        self.tables([operations(snapshot), files(snapshot), processes(snapshot)]);
    }

    /// Draws three tables below each other, each after an empty line and its head.
    fn tables(&mut self, tables: [Table; 3]) {
        const AROUND: usize = 2;
        let footer = 1;
        let room = (self.area.height as usize).saturating_sub(self.next as usize + footer + 3 * AROUND);
        let rows = shares([0, 1, 2].map(|i| tables[i].rows.len()), room);
        for (table, rows) in tables.into_iter().zip(rows) {
            if rows == 0 {
                continue;
            }
            self.next += 1;
            let lines = table.fit(self.area.width as usize).lines(rows);
            for (i, line) in lines.iter().enumerate() {
                let style = if i == 0 { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
                // The head spans the full width.
                let text = if i == 0 { format!("{line:<0$}", self.area.width as usize) } else { line.clone() };
                self.row(&text, style);
            }
        }
    }

    fn footer(&mut self, view: &View) {
        let (state, short) = if view.is_paused { ("space: resume (paused)", "paused") } else { ("space: pause", "") };
        let order = |key: Order, name: &str| if view.order == key { format!("[{name}]") } else { name.to_string() };
        let sort = format!(
            "sort: {} {} {} {}",
            order(Order::Bytes, "b:bytes"),
            order(Order::Calls, "c:calls"),
            order(Order::Time, "t:time"),
            order(Order::Name, "n:name"),
        );
        let every = view.interval.as_secs_f64();
        let texts = [
            format!("{sort}  {state}  +/-: every {every} s  ?: keys  q: quit"),
            format!("{sort}  {state}  +/-: {every} s  ?: keys  q: quit"),
            format!("{short}  every {every} s  ?: keys  q: quit").trim_start().to_string(),
            "?: keys  q: quit".into(),
        ];
        let fits = |text: &&String| text.chars().count() <= self.area.width as usize;
        let text = texts.iter().find(fits).unwrap_or(&texts[3]).clone();
        self.line_at(self.area.height.saturating_sub(1), &text, Style::new().add_modifier(Modifier::DIM));
    }
}

/// Distributes rows: each table gets all it needs if there is space; otherwise tables that need more share equally.
fn shares(wanted: [usize; 3], room: usize) -> [usize; 3] {
    let mut given = [0; 3];
    let mut left = room;
    while left > 0 {
        let Some(next) = (0..3).filter(|&i| given[i] < wanted[i]).min_by_key(|&i| given[i]) else { break };
        given[next] += 1;
        left -= 1;
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::snapshot::{FileRow, OperationRow, ProcessRow, Sum};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn drawn(snapshot: Result<&Snapshot, &str>, width: u16, height: u16) -> Vec<String> {
        let view = View { order: Order::Bytes, interval: Duration::from_secs(2), is_paused: false, is_help: false };
        drawn_as(snapshot, view, width, height)
    }

    fn drawn_as(snapshot: Result<&Snapshot, &str>, view: View, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, snapshot, &view)).unwrap();
        let text = terminal.backend().to_string();
        text.lines().map(|line| line.trim_matches('"').trim_end().to_string()).collect()
    }

    fn snapshot() -> Snapshot {
        let sum = Sum { calls: 2000, failed: 0, bytes_read: 8_000_000, bytes_written: 0, call_s: 0.5 };
        let process = |pid: i32, name: &str, role| ProcessRow {
            pid,
            name: name.into(),
            role: Some(role),
            sum,
            waiting_s: (role == "trainer").then_some(0.5),
            computing_s: (role == "trainer").then_some(1.5),
            ..ProcessRow::default()
        };
        Snapshot {
            folder: "dlio-trace".into(),
            interval_s: 2.0,
            exact: true,
            sum,
            operations: vec![OperationRow { operation: "pread", sum, total: sum }],
            files: vec![FileRow { path: "/data/a.npy".into(), sum, processes: 1 }],
            files_touched: 1,
            processes: vec![process(12, "train.py", "trainer"), process(13, "worker 0", "reader")],
            ..Snapshot::default()
        }
    }

    #[test]
    fn the_first_lines_say_how_fast_and_whether_anybody_waits() {
        let lines = drawn(Ok(&snapshot()), 80, 24);
        assert_eq!(
            lines[..3],
            [
                "dlio-trace: 2 processes running",
                "Files: read 4 MB/s, written 0 B/s, 1,000 calls/s; no event lost",
                "DATA-BOUND: train.py (12) waits for data 25 %, computes 75 % of the time",
            ]
        );
        assert!(lines.iter().any(|line| line.ends_with("/data/a.npy")), "{lines:#?}");
        assert!(lines.iter().any(|line| line.ends_with("worker 0")), "{lines:#?}");
        assert!(lines[23].starts_with("sort: [b:bytes] c:calls") && lines[23].ends_with("q: quit"), "{lines:#?}");
    }

    #[test]
    fn narrow_screens_show_whole_sentences_and_keys() {
        let lines = drawn(Ok(&snapshot()), 40, 24);
        let text = lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
        for part in ["written 0 B/s, 1,000 calls/s; no event lost", "computes 75 % of the time", "?: keys", "q: quit"] {
            assert!(text.contains(part), "{part}: {lines:#?}");
        }
        assert!(lines.iter().all(|line| line.chars().count() <= 40), "{lines:#?}");
        let view = View { order: Order::Bytes, interval: Duration::from_secs(2), is_paused: true, is_help: true };
        let lines = drawn_as(Ok(&snapshot()), view, 40, 24);
        let has = |start: &str| lines.iter().any(|line| line.starts_with(start));
        assert!(has("space  pause") && has("q      quit") && has("paused  every 2 s"), "{lines:#?}");
    }

    #[test]
    fn any_size_is_drawn_on() {
        for (width, height) in [(1, 1), (10, 3), (40, 8), (80, 10), (300, 100)] {
            assert_eq!(drawn(Ok(&snapshot()), width, height).len(), height as usize);
        }
    }

    #[test]
    fn what_is_missing_is_said() {
        assert_eq!(drawn(Err("waiting"), 20, 3)[0], "waiting");
        let none = Snapshot { folder: "t".into(), ended: 3, ..Snapshot::default() };
        let lines = drawn(Ok(&none), 80, 5);
        assert_eq!(lines[0], "t: 0 processes running, 3 ended");
        assert!(lines[1].starts_with("No traced process is running:"), "{lines:#?}");
    }

    #[test]
    fn rows_are_shared_out_evenly() {
        assert_eq!(shares([5, 2, 9], 9), [4, 2, 3]);
        assert_eq!(shares([1, 0, 2], 9), [1, 0, 2]);
        assert_eq!(shares([5, 5, 5], 0), [0, 0, 0]);
    }
}
