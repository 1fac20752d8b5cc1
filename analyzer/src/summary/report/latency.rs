//! Durations of calls, by purpose and size.

use serde::{Deserialize, Serialize};

use super::{Section, Summary};
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::figures::quantiles::{Histogram, Quantiles};
use crate::summary::figures::units::{grouped, power_of_two, time};
use crate::summary::files::access::BAND_ENDS;
use crate::summary::report::layout::heading;
use crate::text_table::Grid;

/// Calls of one class, and of about one size if they move bytes.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub struct LatencyUse {
    pub class: String,
    /// Bytes moved, at least `from` and below `to`; `null` if calls move no bytes, and if there is no upper limit.
    pub from: Option<u64>,
    pub to: Option<u64>,
    pub count: u64,
    pub time_ns: u64,
    pub duration_ns: Quantiles,
}

/// The section on latency.
pub struct Latency;

impl Section for Latency {
    type Values = Vec<LatencyUse>;

    const MEANING: &'static str = "\
        Latency: times of single file calls, by class, and for reads and writes by the bytes they moved. Calls \
        that moved no bytes are separate; failed calls are left out. Quantiles are within 0.4 %; minimum, mean and \
        maximum are exact.";
    const FIELDS: &'static str = "\
        a list, by `class`, and for reads and writes by `from` and `to` (bytes moved by a call, `to` not included): \
        `count`, `time_ns`, `duration_ns`";
    const SQL: Option<&'static str> = Some(include_str!("../../../sql/latency.sql"));

    fn values(analysis: &Analysis, _trace: &Trace) -> Self::Values {
        let bands = |class| {
            let from = [0].into_iter().chain(BAND_ENDS).map(Some);
            let to = BAND_ENDS.into_iter().map(Some).chain([None]);
            from.zip(to).map(move |(from, to)| (class, from, to))
        };
        let others = ["metadata", "sync"].map(|class| (class, None, None));
        let places = bands("read").chain(bands("write")).chain(others);
        let row = |((class, from, to), times): ((&str, _, _), &Histogram)| {
            Some(LatencyUse {
                class: class.into(),
                from,
                to,
                count: times.count,
                time_ns: times.sum as u64,
                duration_ns: times.quantiles()?,
            })
        };
        let used = places.zip(&analysis.counted.access.latency).filter(|(_, times)| times.count > 0);
        used.filter_map(row).collect()
    }

    fn print(summary: &Summary, _top: usize, out: &mut String) {
        if summary.latency.is_empty() {
            return;
        }
        heading("Latency", out);
        let mut grid = Grid::new(&["<", "<bytes", "calls", "time", "min", "median", "95 %", "99 %", "max"]);
        for row in &summary.latency {
            let size = match (row.from, row.to) {
                (None, _) => String::new(),
                (Some(0), _) => "nothing".into(),
                (Some(from), None) => format!("from {}", power_of_two(from)),
                (Some(_), Some(to)) => format!("below {}", power_of_two(to)),
            };
            let Quantiles { min, median, p95, p99, max, .. } = row.duration_ns;
            let times = [row.time_ns as f64, min, median, p95, p99, max].map(time);
            grid.row([row.class.clone(), size, grouped(row.count)].into_iter().chain(times).collect());
        }
        grid.print(out);
    }
}
