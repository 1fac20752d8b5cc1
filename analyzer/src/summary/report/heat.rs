//! Heat map of bytes moved: ranks, or processes if there are no ranks, by columns of time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Section, Summary};
use crate::catalog::Process;
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::figures::units::bytes;
use crate::summary::report::layout::{bars, heading, more, pairs};
use crate::summary::time::time_series::Cell;

/// The section with the heat map.
#[derive(Serialize, Deserialize, Debug, Default)]
pub struct HeatMap {
    pub start_ts: i64,
    pub column_ns: i64,
    pub columns: u64,
    /// The unit of a row: `rank` or `process`.
    pub by: String,
    pub rows: Vec<Row>,
}

/// One rank or process, or several if there are more than the maximum number of rows.
#[derive(Serialize, Deserialize, Debug, Default)]
pub struct Row {
    pub name: String,
    /// Number of ranks or processes in it.
    pub of: u64,
    /// Index of its first column; columns before and after its range are zero.
    pub first: u64,
    /// Per column from there: bytes read and written, time of file calls, metadata calls.
    pub bytes: Vec<u64>,
    pub io_ns: Vec<u64>,
    pub metadata: Vec<u64>,
}

/// Maximum number of rows.
const ROWS: usize = 256;

impl Section for HeatMap {
    type Values = Self;

    const MEANING: &'static str = "\
        Heat map: bytes read and written by each rank (by each process, if no launcher assigned ranks) in at most 200 \
        columns of equal width, with the time in file calls, summed over threads, and the metadata calls. More \
        than 256 rows are merged into groups of neighbors. Processes without file calls are left out.";
    const FIELDS: &'static str = "\
        `start_ts`, `column_ns`, `columns`, `by` (`rank` or `process`) and `rows`, a list: `name`, `of` (how many \
        ranks or processes the row contains), `first` (its first column), and by column from `first`: `bytes`, \
        `io_ns`, `metadata`";

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        let heat = &analysis.counted.course.heat;
        let range = heat.cells().fold(None, |range: Option<(i64, i64)>, (_, column, _)| {
            Some(range.map_or((column, column), |(first, last)| (first.min(column), last.max(column))))
        });
        let Some((first, last)) = range else { return HeatMap::default() };
        let processes = trace.catalog.processes();
        let by_rank = processes.iter().filter(|process| process.rank.is_some()).count() > 1;
        let mut rows: BTreeMap<Key, BTreeMap<i64, Cell>> = BTreeMap::new();
        for (proc, column, cell) in heat.cells() {
            let row = rows.entry(Key::of(proc, &processes, by_rank)).or_default();
            add(row.entry(column - first).or_default(), cell);
        }
        let shown = grouped(rows, &analysis.measured.waits.names(&processes), &processes);
        HeatMap {
            start_ts: first << heat.shift(),
            column_ns: 1 << heat.shift(),
            columns: (last - first + 1) as u64,
            by: if by_rank { "rank" } else { "process" }.into(),
            rows: shown,
        }
    }

    fn print(summary: &Summary, top: usize, out: &mut String) {
        let heat = &summary.heat;
        if heat.rows.len() < 2 {
            return;
        }
        heading(&format!("Bytes by {} and time", heat.by), out);
        let row = |row: &Row| {
            let mut columns = vec![0; SHOWN];
            for (value, at) in row.bytes.iter().zip(row.first as usize..) {
                columns[at * SHOWN / (heat.columns as usize).max(1)] += value;
            }
            let sum = row.bytes.iter().sum::<u64>() as f64;
            (row.name.clone(), format!("|{}| {}", bars(&columns), bytes(sum)))
        };
        let rows: Vec<_> = heat.rows.iter().take(top).map(row).collect();
        pairs(&rows.iter().map(|(name, value)| (name.as_str(), value.clone())).collect::<Vec<_>>(), out);
        more(heat.rows.len(), top, out);
    }
}

/// Number of characters in a line of bars.
const SHOWN: usize = 50;

/// Subject of a row, in the order of rows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Rank(i32),
    /// Sorted by start time.
    Process(i64, u32),
}

impl Key {
    fn of(proc: u32, processes: &[Process], by_rank: bool) -> Key {
        let process = processes.get(proc as usize);
        match process.and_then(|process| process.rank).filter(|_| by_rank) {
            Some(rank) => Key::Rank(rank),
            None => Key::Process(process.and_then(|process| process.start_ts).unwrap_or(0), proc),
        }
    }

    fn name(self, names: &[String], processes: &[Process]) -> String {
        match self {
            Key::Rank(rank) => format!("rank {rank}"),
            Key::Process(_, proc) => {
                let pid = processes.get(proc as usize).map_or(0, |process| process.pid);
                format!("{} ({pid})", names.get(proc as usize).map_or("", String::as_str))
            }
        }
    }
}

fn add(sum: &mut Cell, cell: &Cell) {
    sum.iter_mut().zip(cell).for_each(|(sum, more)| *sum += more);
}

/// Returns rows in order, with adjacent rows merged if there are too many.
fn grouped(rows: BTreeMap<Key, BTreeMap<i64, Cell>>, names: &[String], processes: &[Process]) -> Vec<Row> {
    let together = rows.len().div_ceil(ROWS).max(1);
    let rows: Vec<_> = rows.into_iter().collect();
    let group = |group: &[(Key, BTreeMap<i64, Cell>)]| {
        let mut cells: BTreeMap<i64, Cell> = BTreeMap::new();
        group.iter().flat_map(|(_, row)| row).for_each(|(column, cell)| add(cells.entry(*column).or_default(), cell));
        let name = |key: Key| key.name(names, processes);
        let name = match group {
            [(Key::Rank(first), _), .., (Key::Rank(last), _)] => format!("ranks {first} to {last}"),
            [(first, _), .., (last, _)] => format!("{} to {}", name(*first), name(*last)),
            [(only, _)] => name(*only),
            [] => String::new(),
        };
        row(name, group.len() as u64, &cells)
    };
    rows.chunks(together).map(group).collect()
}

fn row(name: String, of: u64, cells: &BTreeMap<i64, Cell>) -> Row {
    let first = cells.keys().next().copied().unwrap_or(0);
    let last = cells.keys().next_back().copied().unwrap_or(first);
    let column = |figure: usize| (first..=last).map(|at| cells.get(&at).map_or(0, |cell| cell[figure])).collect();
    Row { name, of, first: first as u64, bytes: column(0), io_ns: column(1), metadata: column(2) }
}
