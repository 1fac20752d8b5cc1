//! Start positions of reads and writes, and their alignment.

use serde::{Deserialize, Serialize};

use super::{Section, Summary};
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::figures::units::{grouped, share};
use crate::summary::files::access::{LAYERS, Pattern, RELATIONS};
use crate::summary::report::layout::heading;
use crate::text_table::Grid;

/// Reads or writes of a layer that moved bytes.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub struct AccessUse {
    pub layer: String,
    pub class: String,
    pub calls: Relations,
    pub bytes: Relations,
    /// Number of calls with a known position whose start, size, or both are not a multiple of 4 KiB.
    pub off_start: u64,
    pub off_size: u64,
    pub off_both: u64,
}

/// Calls by start position relative to the previous call in its pass.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, Default)]
pub struct Relations {
    pub first: u64,
    pub consecutive: u64,
    pub forward: u64,
    pub backward: u64,
    pub repeated: u64,
    pub unknown: u64,
}

impl Relations {
    fn of(counts: [u64; RELATIONS]) -> Relations {
        let [first, consecutive, forward, backward, repeated, unknown] = counts;
        Relations { first, consecutive, forward, backward, repeated, unknown }
    }

    pub fn known(&self) -> u64 {
        self.first + self.consecutive + self.forward + self.backward + self.repeated
    }
}

/// The section on access patterns.
pub struct AccessPatterns;

impl Section for AccessPatterns {
    type Values = Vec<AccessUse>;

    const MEANING: &'static str = "\
        Access patterns: file calls that moved bytes, by layer. A pass is the sequence of reads (or writes) of \
        one thread between opening and closing a file. First: the first call of a pass. Consecutive: begins where the \
        previous call ended. Forward: begins after that position. Repeated: begins where the previous call began. Backward: \
        begins anywhere else before the end of the previous call. Unknown: the trace does not contain the position. \
        Not aligned: the position, the size or both are not multiples of 4 KiB; only calls with a known position \
        count.";
    const FIELDS: &'static str = "\
        a list, by `layer` (`posix`, `stdio`, `other`) and `class` (`read`, `write`): `calls` and `bytes`, each by \
        `first`, `consecutive`, `forward`, `backward`, `repeated`, `unknown`; `off_start`, `off_size`, `off_both` \
        (calls whose position, size or both are not multiples of 4 KiB)";
    const SQL: Option<&'static str> = Some(include_str!("../../../sql/access.sql"));

    fn values(analysis: &Analysis, _trace: &Trace) -> Self::Values {
        let layers = LAYERS.iter().flat_map(|layer| [(layer, "read"), (layer, "write")]);
        let used = layers.zip(&analysis.counted.access.patterns);
        let row = |((layer, class), pattern): ((&&str, &str), &Pattern)| AccessUse {
            layer: layer.to_string(),
            class: class.into(),
            calls: Relations::of(pattern.calls),
            bytes: Relations::of(pattern.bytes),
            off_start: pattern.off_start,
            off_size: pattern.off_size,
            off_both: pattern.off_both,
        };
        used.filter(|(_, pattern)| pattern.calls.iter().any(|calls| *calls > 0)).map(row).collect()
    }

    fn print(summary: &Summary, _top: usize, out: &mut String) {
        if summary.access.is_empty() {
            return;
        }
        heading("Access patterns", out);
        let heads = ["<", "calls", "first", "consecutive", "forward", "backward", "repeated", "unknown", "not aligned"];
        let mut grid = Grid::new(&heads);
        for row in &summary.access {
            let calls = &row.calls;
            let all = calls.known() + calls.unknown;
            let parts = [calls.first, calls.consecutive, calls.forward, calls.backward, calls.repeated, calls.unknown];
            let off = row.off_start + row.off_size - row.off_both;
            let cells = parts.map(|part| share(part as i64, all as i64));
            let head = [format!("{} {}", row.layer, row.class), grouped(all)];
            grid.row(head.into_iter().chain(cells).chain([share(off as i64, calls.known() as i64)]).collect());
        }
        grid.print(out);
    }
}
