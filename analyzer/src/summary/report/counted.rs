//! The counts that processes kept in the place of events, and the precision of the figures made of them.

use super::{Section, Summary};
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::count::tally::Tally;
use crate::summary::figures::units::{bytes, grouped, share, time};
use crate::summary::report::layout::{bars, heading, pairs};
use crate::text_table::Grid;

/// See the module.
pub struct CountedInstead;

impl Section for CountedInstead {
    type Values = Option<Tally>;

    const MEANING: &'static str = "\
        Counted while the programs ran, not recorded: in summary mode, or beyond a limit, processes count \
        events by file and function in place of keeping them. Quantiles are then off by a sixteenth at most; \
        unions of time are off by the gaps that are named. Access: the share of calls that began where the \
        one before on their file had ended or further on (sequential), or exactly there (consecutive).";
    const FIELDS: &'static str = "\
        `null`, or what processes counted in the place of events: `processes`, `events`, `left_out` (of \
        them, those no filter could be applied to), `gap_ns` (unions of time are off by gaps up to this \
        long), `access` (a list: `name`, `calls`, `sequential`, `consecutive`), `activity` (`start_ts`, \
        `column_ns`, and by column `events`, `bytes_read`, `bytes_written`, `io_ns`)";

    fn values(analysis: &Analysis, _trace: &Trace) -> Self::Values {
        analysis.tally.clone()
    }

    fn print(summary: &Summary, _top: usize, out: &mut String) {
        let Some(tally) = &summary.tally else { return };
        heading("Counted while the programs ran, not recorded", out);
        let mut rows = vec![
            ("events", grouped(tally.events)),
            ("by processes", grouped(tally.processes)),
            ("quantiles", "to a sixteenth; counts, sums, smallest and largest are exact".to_string()),
        ];
        if tally.gap_ns > 0 {
            rows.push(("unions of time", format!("where they overlap, to gaps of {}", time(tally.gap_ns as f64))));
        }
        if tally.left_out > 0 {
            rows.push(("in no figure", format!("{}, as counts cannot be filtered so", grouped(tally.left_out))));
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
