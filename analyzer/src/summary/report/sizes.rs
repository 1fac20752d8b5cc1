//! Bytes moved per call.

use serde::{Deserialize, Serialize};

use super::{Section, Summary};
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::figures::units::{bytes, grouped, power_of_two, share, time};
use crate::summary::files::access::SizeBin;
use crate::summary::report::layout::heading;
use crate::text_table::Grid;

/// Calls of similar size.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub struct SizeUse {
    pub class: String,
    /// Bytes moved: `from` inclusive, `to` exclusive.
    pub from: u64,
    pub to: u64,
    pub count: u64,
    pub bytes: u64,
    pub time_ns: u64,
}

/// The section on transfer sizes.
pub struct Sizes;

impl Section for Sizes {
    type Values = Vec<SizeUse>;

    const MEANING: &'static str = "\
        Access sizes: reads and writes of files by the bytes they moved, in powers of two, with the time they took. \
        Calls that moved no bytes (at the end of a file) are separate; failed calls are left out.";
    const FIELDS: &'static str = "\
        a list, by `class` (`read`, `write`), `from` and `to` (bytes moved by a call, `to` not included; 0 to 1: no \
        bytes, at the end of a file): `count`, `bytes`, `time_ns`";
    const SQL: Option<&'static str> = Some(include_str!("../../../sql/sizes.sql"));

    fn values(analysis: &Analysis, _trace: &Trace) -> Self::Values {
        let bins = ["read", "write"].into_iter().zip(&analysis.counted.access.sizes);
        let rows = bins.flat_map(|(class, bins)| {
            let used = (0u32..).zip(bins).filter(|(_, bin)| bin.count > 0);
            used.map(move |(digits, SizeBin { count, bytes, time_ns })| SizeUse {
                class: class.into(),
                from: if digits == 0 { 0 } else { 1 << (digits - 1) },
                to: 1u64.checked_shl(digits).unwrap_or(u64::MAX),
                count: *count,
                bytes: *bytes,
                time_ns: *time_ns,
            })
        });
        rows.collect()
    }

    fn print(summary: &Summary, _top: usize, out: &mut String) {
        if summary.sizes.is_empty() {
            return;
        }
        heading("Access sizes", out);
        let mut grid = Grid::new(&["<", "<from", "calls", "of calls", "bytes", "of bytes", "time", "of time"]);
        for row in &summary.sizes {
            let class = summary.sizes.iter().filter(|other| other.class == row.class);
            let part = |of: fn(&SizeUse) -> u64| share(of(row) as i64, class.clone().map(of).sum::<u64>() as i64);
            let from = if row.from == 0 { "nothing".into() } else { power_of_two(row.from) };
            grid.row(vec![
                row.class.clone(),
                from,
                grouped(row.count),
                part(|row| row.count),
                bytes(row.bytes as f64),
                part(|row| row.bytes),
                time(row.time_ns as f64),
                part(|row| row.time_ns),
            ]);
        }
        grid.print(out);
    }
}
