//! Time in communication between ranks: collective calls and barriers of MPI, and spans of communication.

use serde::{Deserialize, Serialize};

use super::findings::Unit;
use super::{Section, Summary};
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::figures::units::{many, share, time};
use crate::summary::groups::lanes::Track;
use crate::summary::report::layout::{heading, more};
use crate::text_table::Grid;

/// The communication of one process: that of the thread that spent most time in it.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct CommunicationUse {
    pub proc: u32,
    pub host: String,
    pub pid: i32,
    pub rank: Option<i32>,
    pub communicated_ns: i64,
    /// From the first to the last event of this thread.
    pub span_ns: i64,
}

/// The section on communication.
pub struct Communication;

/// A rank that communicates for less than this part of the mean of the others arrives last: they wait for it.
const LAST: f64 = 0.5;

impl Section for Communication {
    type Values = Vec<CommunicationUse>;

    const MEANING: &'static str = "\
        By rank: time in communication with other ranks, in collective calls and barriers of MPI or in spans of \
        communication. It contains the time in which a rank waits for the others.";
    const FIELDS: &'static str = "\
        a list, one row per process that communicates: `proc` (key into the table `processes`), `host`, `pid`, `rank`, \
        `communicated_ns` (of its thread that communicated most), `span_ns` (from the first to the last event of this \
        thread)";

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        let (processes, hosts) = (trace.catalog.processes(), trace.catalog.hosts());
        let mut rows: Vec<CommunicationUse> = Vec::new();
        for (lane, measure) in &analysis.measured.lanes {
            let (communicated_ns, span_ns) = (measure.of(Track::Comm), measure.last_ts - measure.first_ts);
            let Some(process) = processes.get(lane.proc as usize).filter(|_| communicated_ns > 0) else { continue };
            let host = hosts.get(process.host as usize).map_or_else(String::new, |host| host.name.clone());
            let row = CommunicationUse {
                proc: lane.proc,
                host,
                pid: process.pid,
                rank: process.rank,
                communicated_ns,
                span_ns,
            };
            match rows.last_mut().filter(|last| last.proc == lane.proc) {
                Some(last) if last.communicated_ns >= communicated_ns => {}
                Some(last) => *last = row,
                None => rows.push(row),
            }
        }
        rows.sort_by_key(|row| (row.rank, row.proc));
        rows
    }

    fn print(summary: &Summary, top: usize, out: &mut String) {
        let rows = &summary.communication;
        if rows.is_empty() {
            return;
        }
        heading("Communication between ranks", out);
        let mut grid = Grid::new(&["<rank", "<host", "time", "of its run"]);
        for row in rows.iter().take(top) {
            let of_run = share(row.communicated_ns, row.span_ns);
            grid.row(vec![row.named(), row.host.clone(), time(row.communicated_ns as f64), of_run]);
        }
        grid.print(out);
        more(rows.len(), top, out);
    }
}

impl CommunicationUse {
    fn named(&self) -> String {
        self.rank.map_or_else(|| format!("process {}", self.pid), |rank| format!("rank {rank}"))
    }
}

/// The communication of all ranks of a run.
pub struct RanksTime<'a> {
    rows: &'a [CommunicationUse],
    /// The rank that arrives last, if one does.
    last: Option<&'a CommunicationUse>,
}

/// Returns the communication of a run with several ranks.
pub fn of_ranks(summary: &Summary) -> Option<RanksTime<'_>> {
    let rows = summary.communication.as_slice();
    let least = rows.iter().min_by_key(|row| row.communicated_ns).filter(|_| rows.len() > 1)?;
    let others: i64 = rows.iter().map(|row| row.communicated_ns).sum::<i64>() - least.communicated_ns;
    let mean = others as f64 / (rows.len() - 1) as f64;
    let last = (least.communicated_ns as f64) < LAST * mean;
    Some(RanksTime { rows, last: last.then_some(least) })
}

impl RanksTime<'_> {
    /// Returns the share of the ranks' time that they communicate: without the last one, for which they wait.
    pub fn share(&self) -> f64 {
        let sum = |of: fn(&CommunicationUse) -> i64| self.waiting().map(of).sum::<i64>() as f64;
        sum(|row| row.communicated_ns) / sum(|row| row.span_ns).max(1.0)
    }

    fn waiting(&self) -> impl Iterator<Item = &CommunicationUse> {
        let last = self.last.map(|row| row.proc);
        self.rows.iter().filter(move |row| Some(row.proc) != last)
    }

    /// Returns a sentence on the ranks that wait, and the one for which they wait.
    pub fn sentence(&self) -> String {
        let number = self.waiting().count();
        let mean =
            |of: fn(&CommunicationUse) -> i64| time(self.waiting().map(of).sum::<i64>() as f64 / number.max(1) as f64);
        let spent = format!(
            "{} spent {} of {} each ({}; mean) in collective calls, barriers or other communication",
            self.who(),
            mean(|row| row.communicated_ns),
            mean(|row| row.span_ns),
            Unit::Share.text(self.share())
        );
        match self.last {
            Some(last) => {
                format!("{spent}, and {}, for which they wait, {}.", last.named(), time(last.communicated_ns as f64))
            }
            None => format!("{spent}: the trace does not show whether they waited for each other or for the network."),
        }
    }

    /// Returns the ranks that communicate, as a subject: `3 of 4 ranks`.
    pub fn who(&self) -> String {
        let all = self.rows.len() as u64;
        self.last.map_or_else(|| many(all, "rank", "ranks"), |_| format!("{} of {all} ranks", all - 1))
    }

    /// Returns the next step.
    pub fn step(&self) -> String {
        match self.last {
            Some(last) => {
                let option =
                    last.rank.map_or_else(String::new, |rank| format!(" (--rank {rank} limits a report to it)"));
                format!("find out why {} arrives last: more work, slower files or a slower host{option}", last.named())
            }
            None => "communicate less often or in larger messages, or while computing".into(),
        }
    }
}
