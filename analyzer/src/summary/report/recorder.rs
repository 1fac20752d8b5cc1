//! Flight recorders (`dlio trace --last`): how much of a run the trace holds in full, and the counts of all of it.

use std::collections::BTreeMap;

use dlio_schemas::ops::Layer;
use serde::{Deserialize, Serialize};

use super::{Section, Summary};
use crate::catalog::{Kind, Origin, Process};
use crate::load::Trace;
use crate::load::sources::tally::ProcessTally;
use crate::summary::analysis::Analysis;
use crate::summary::count::kinds::{directions, is_library_call};
use crate::summary::figures::units::{bytes, grouped, many, time};
use crate::summary::report::layout::{dash, heading, more, pairs};
use crate::text_table::Grid;

/// The kept part of a run, and the counts of all of it.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub struct Recording {
    pub processes: u64,
    /// Unix time from which all events are in the trace; `None` if none was dropped.
    pub from_ts: Option<i64>,
    pub kept_ns: i64,
    /// From the start of the first process to the end of the last one.
    pub whole_ns: i64,
    pub dropped: u64,
    /// Counted events, recorded or not.
    pub events: u64,
    /// Events of killed processes that were recorded and not counted.
    pub uncounted: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub functions: Vec<Total>,
}

/// The counts of one function or span in the whole run.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub struct Total {
    pub name: String,
    pub cat: String,
    pub count: u64,
    pub failed: u64,
    pub time_ns: u64,
    pub bytes: u64,
}

/// The section on flight recorders.
pub struct Recorder;

impl Section for Recorder {
    type Values = Option<Recording>;

    const MEANING: &'static str = "\
        Flight recorder: dlio trace --last keeps the events of the last period and counts all events. The report and its \
        verdict begin at the time after which no process has dropped any events; earlier events are only in these counts. \
        They are dropped on purpose and do not count as lost. Counts are exact. They include the recorded events, \
        except the last ones of a killed process.";
    const FIELDS: &'static str = "\
        `null`, or the content of a flight recorder: `processes`, `from_ts` (all later events are in the trace; `null` if none \
        was dropped), `kept_ns` (from then to the end), `whole_ns` (the run), `dropped`, and of the whole run: `events`, \
        `uncounted` (recorded by killed processes, not in the counts), `bytes_read`, `bytes_written`, `functions` (a \
        list: `name`, `cat`, `count`, `failed`, `time_ns`, `bytes`)";

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        let is_of_run = |process: &Process| analysis.filter.takes_run_of(process);
        let processes = trace.catalog.processes();
        let of_run: Vec<_> = processes.iter().filter(|process| is_of_run(process)).collect();
        let recorders: Vec<_> = of_run.iter().filter_map(|process| process.recorder.as_ref()).collect();
        if recorders.is_empty() {
            return None;
        }
        let start = of_run.iter().filter_map(|process| process.start_ts).min().unwrap_or(0);
        let end = of_run.iter().filter_map(|process| process.end_ts).max().unwrap_or(start);
        let from_ts = trace.catalog.kept_from(is_of_run);
        let mut recording = Recording {
            processes: recorders.len() as u64,
            from_ts,
            kept_ns: end - from_ts.unwrap_or(start),
            whole_ns: end - start,
            dropped: recorders.iter().map(|recorder| recorder.dropped).sum(),
            uncounted: recorders.iter().map(|recorder| recorder.uncounted).sum(),
            ..Recording::default()
        };
        recording.add_counts(trace, is_of_run);
        Some(recording)
    }

    fn print(summary: &Summary, top: usize, out: &mut String) {
        let Some(recording) = &summary.recorder else { return };
        heading("Flight recorder: counts of the whole run", out);
        let mut rows = vec![
            ("the run took", time(recording.whole_ns as f64)),
            ("of that, kept in full", format!("{}, the last part", time(recording.kept_ns as f64))),
            ("events counted", grouped(recording.events)),
            ("of these, dropped", grouped(recording.dropped)),
            ("read", bytes(recording.bytes_read as f64)),
            ("written", bytes(recording.bytes_written as f64)),
        ];
        if recording.uncounted > 0 {
            let text = format!("{}: the last events of killed processes", grouped(recording.uncounted));
            rows.push(("recorded, not counted", text));
        }
        pairs(&rows, out);
        let mut grid = Grid::new(&["<call or span", "<category", "count", "failed", "time", "bytes"]);
        for total in recording.functions.iter().take(top) {
            let moved = if total.bytes == 0 { "-".into() } else { bytes(total.bytes as f64) };
            let (count, failed, took) = (grouped(total.count), dash(total.failed), time(total.time_ns as f64));
            grid.row(vec![total.name.clone(), total.cat.clone(), count, failed, took, moved]);
        }
        grid.print(out);
        more(recording.functions.len(), top, out);
    }
}

impl Recording {
    /// Adds the tables of counts of the selected processes.
    fn add_counts(&mut self, trace: &Trace, takes: impl Fn(&Process) -> bool) {
        let tables = trace.sources.iter().filter_map(|source| source.totals(&trace.catalog));
        let tables: Vec<_> = tables.filter(|table| trace.catalog.is_process(table.proc, &takes)).collect();
        let kinds = trace.catalog.kinds();
        let mut functions: BTreeMap<u32, Total> = BTreeMap::new();
        for table in &tables {
            self.events += table.events;
            for row in &table.rows {
                let total = functions.entry(row.kind).or_default();
                total.count += row.row.count;
                total.failed += row.row.failed;
                total.time_ns += row.time_ns;
                total.bytes += row.row.bytes;
            }
            let (read, written) = moved(table, &kinds);
            (self.bytes_read, self.bytes_written) = (self.bytes_read + read, self.bytes_written + written);
        }
        let named = |(kind, total): (u32, Total)| {
            let kind = &kinds[kind as usize];
            Total { name: kind.name.to_string(), cat: kind.cat.to_string(), ..total }
        };
        self.functions = functions.into_iter().map(named).collect();
        self.functions.sort_by_key(|total| std::cmp::Reverse(total.time_ns));
    }

    /// Returns the sentence that every report of a shortened trace begins with.
    fn sentence(&self) -> Option<String> {
        self.from_ts?;
        let (kept, whole) = (time(self.kept_ns as f64), time(self.whole_ns as f64));
        let (calls, read, written) =
            (many(self.events, "event", "events"), bytes(self.bytes_read as f64), bytes(self.bytes_written as f64));
        Some(format!(
            "The trace holds the last {kept} of {whole}, and this report covers that time. Counts cover the whole run: \
             {calls}, {read} read, {written} written (--section recorder)."
        ))
    }
}

/// Returns the bytes that a process read from files and wrote to them, as in the section on processes.
fn moved(table: &ProcessTally, kinds: &[Kind]) -> (u64, u64) {
    let is_file_call =
        |kind: &Kind| kind.origin == Origin::Call && *kind.cat != *Layer::Net.name() && !is_library_call(kind);
    let rows = table.rows.iter().map(|row| (&kinds[row.kind as usize], row.row.bytes));
    let moved = rows.filter(|(kind, _)| is_file_call(kind)).map(|(kind, bytes)| directions(kind.class, bytes));
    moved.fold((0, 0), |sum, moved| (sum.0 + moved.0, sum.1 + moved.1))
}

/// Adds the sentence on the reported period to the verdict, so that it is in every form of the report.
pub fn qualify(summary: &mut Summary) {
    let sentence = summary.recorder.as_ref().and_then(Recording::sentence);
    sentence.into_iter().for_each(|sentence| summary.verdict.insert(0, sentence));
}
