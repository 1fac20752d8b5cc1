//! Counts that processes stored instead of events, and the precision of the numbers derived from them.

use super::{Section, Summary};
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::count::tally::Tally;
use crate::summary::figures::units::{bytes, grouped, share, time};
use crate::summary::report::layout::{bars, heading, pairs};
use crate::text_table::Grid;

/// The section on counts.
pub struct CountedInstead;

impl Section for CountedInstead {
    type Values = Option<Tally>;

    const MEANING: &'static str = "\
        Counted while the programs ran, not recorded: in summary mode, or beyond a limit, processes count events by \
        file and function instead of recording them. Quantiles are then accurate to 6.3 %. Unions of time are \
        accurate to the listed gaps between calls. Access: the share of calls that began where the previous call on their file ended or further on \
        (sequential), or exactly there (consecutive). A Darshan log has sums per file and rank: quantiles are those of \
        the means, and when a call ran, and which calls overlapped, is unknown.";
    const FIELDS: &'static str = "\
        `null`, or the counts of processes that did not record events: `processes`, `events`, `left_out` (of them, \
        events to which the filter could not be applied), `gap_ns` (unions of time are accurate to gaps of this length), \
        `untimed` (of `events`, calls of a Darshan log: only sums of their times are known), \
        `access` (a list: `name`, `calls`, `sequential`, `consecutive`), `activity` (`start_ts`, `column_ns`, and by \
        column `events`, `bytes_read`, `bytes_written`, `io_ns`)";

    fn values(analysis: &Analysis, _trace: &Trace) -> Self::Values {
        analysis.tally.clone()
    }

    fn print(summary: &Summary, _top: usize, out: &mut String) {
        let Some(tally) = &summary.tally else { return };
        heading("Counted while the programs ran, not recorded", out);
        let quantiles = match tally.untimed {
            0 => "within 6.3 %; counts, sums, smallest and largest are exact",
            _ => "of means per file; counts, sums and largest are exact, sizes within their range",
        };
        let mut rows = vec![
            ("events", grouped(tally.events)),
            ("by processes", grouped(tally.processes)),
            ("quantiles", quantiles.to_string()),
        ];
        if tally.gap_ns > 0 {
            rows.push(("unions of time", format!("within gaps of {} where they overlap", time(tally.gap_ns as f64))));
        }
        if tally.left_out > 0 {
            rows.push(("not included", format!("{}: counts cannot be filtered this way", grouped(tally.left_out))));
        }
        for (name, column) in [("read", &tally.activity.bytes_read), ("written", &tally.activity.bytes_written)] {
            if let Some(most) = column.iter().max().filter(|most| **most > 0) {
                let rate = *most as f64 * 1e9 / tally.activity.column_ns.max(1) as f64;
                rows.push((name, format!("|{}| to {}/s", bars(column), bytes(rate))));
            }
        }
        pairs(&rows, out);
        if tally.access.is_empty() {
            return;
        }
        let mut grid = Grid::new(&["<access", "calls", "sequential", "consecutive"]);
        for access in &tally.access {
            let of_calls = |n: u64| share(n as i64, access.calls.saturating_sub(1).max(1) as i64);
            let cells = [of_calls(access.sequential), of_calls(access.consecutive)];
            grid.row([access.name.clone(), grouped(access.calls)].into_iter().chain(cells).collect());
        }
        grid.print(out);
    }
}
