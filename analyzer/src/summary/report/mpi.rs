//! Files of MPI-IO: what ranks requested, and what the library called on files for it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Section, Summary};
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::count::data_sets::{DataSetCount, DataSetKey, DataSets, Range};
use crate::summary::count::kinds::INDEPENDENT;
use crate::summary::figures::pattern::pattern;
use crate::summary::figures::units::{bytes, grouped, time};
use crate::summary::report::layout::{heading, more};
use crate::text_table::Grid;

/// Requests of one kind for the files of one name.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub struct MpiFileUse {
    /// A path with `#` instead of digits.
    pub file: String,
    /// `collective`, `independent`, or empty for calls that move no data.
    pub mode: String,
    pub files: u64,
    /// Processes that made such calls on one of the files, at most.
    pub processes: u64,
    /// Processes whose part of a file begins before that of another one ends, at most.
    pub interleaved: u64,
    #[serde(flatten)]
    pub count: DataSetCount,
}

impl MpiFileUse {
    pub fn is_independent(&self) -> bool {
        self.mode == INDEPENDENT
    }

    pub fn requests(&self) -> u64 {
        self.count.reads.calls + self.count.writes.calls
    }

    pub fn bytes(&self) -> u64 {
        self.count.reads.bytes + self.count.writes.bytes
    }
}

/// The number of rows listed.
const LISTED: usize = 100;

/// The section on files of MPI-IO.
pub struct MpiFiles;

impl Section for MpiFiles {
    type Values = Vec<MpiFileUse>;

    const MEANING: &'static str = "\
        Files of MPI-IO, with the most time first; # replaces digits in their names. Ranks make a collective request \
        together and an independent request alone; other calls move no data. Requested and written: the bytes of the \
        requests. Read below and written below: the bytes of the file calls that the library made inside these requests, in \
        the same thread. In a collective request, a few ranks may make these calls for all ranks. Time: the time of all \
        requests of all ranks. Time below: the time of the file calls. The difference is communication, waiting for ranks that \
        arrive late, and the library itself. These times are not part of any other section.";
    const FIELDS: &'static str = "\
        a list of the 100 rows with the most time: `file` (with `#` instead of digits), `mode` (`collective`, \
        `independent`, or empty for calls that move no data), `files`, `processes` (of one file, at most), \
        `interleaved` (processes whose parts of a file overlap, at most), and the fields of `hdf5` from `opens` on";

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        let paths = trace.catalog.files();
        let counted = &analysis.counted.mpi_files;
        let mut found: BTreeMap<(String, String), MpiFileUse> = BTreeMap::new();
        for (key, ranges) in ranges(counted) {
            let Some(count) = counted.rows.get(key) else { continue };
            let path = pattern(paths.get(key.0 as usize).map_or("", |path| path));
            let row = found.entry((path.clone(), key.1.to_string())).or_insert_with(|| MpiFileUse {
                file: path,
                mode: key.1.to_string(),
                files: 0,
                processes: 0,
                interleaved: 0,
                count: DataSetCount::default(),
            });
            row.files += 1;
            row.processes = row.processes.max(ranges.len() as u64);
            row.interleaved = row.interleaved.max(interleaved(ranges));
            row.count.merge(count.clone());
        }
        let mut rows: Vec<_> = found.into_values().collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.count.time_ns));
        rows.truncate(LISTED);
        rows
    }

    fn print(summary: &Summary, top: usize, out: &mut String) {
        let rows = &summary.mpi;
        if rows.is_empty() {
            return;
        }
        heading("Files of MPI-IO", out);
        let mut grid = Grid::new(&[
            "<file",
            "<requests",
            "ranks",
            "reads",
            "requested",
            "calls below",
            "read below",
            "writes",
            "written",
            "calls below",
            "written below",
            "time",
            "time below",
        ]);
        for row in rows.iter().take(top) {
            let count = &row.count;
            grid.row(vec![
                row.file.clone(),
                if row.mode.is_empty() { "(other calls)".into() } else { row.mode.clone() },
                grouped(row.processes),
                grouped(count.reads.calls),
                bytes(count.reads.bytes as f64),
                grouped(count.reads_below.calls),
                bytes(count.reads_below.bytes as f64),
                grouped(count.writes.calls),
                bytes(count.writes.bytes as f64),
                grouped(count.writes_below.calls),
                bytes(count.writes_below.bytes as f64),
                time(count.time_ns as f64),
                time(count.below_ns as f64),
            ]);
        }
        grid.print(out);
        more(rows.len(), top, out);
    }
}

/// Returns the parts of files that processes reached, by file and kind of request.
fn ranges(counted: &DataSets) -> BTreeMap<&DataSetKey, Vec<Range>> {
    let mut all: BTreeMap<&DataSetKey, Vec<Range>> = BTreeMap::new();
    counted.ranges.iter().for_each(|((key, _), range)| all.entry(key).or_default().push(*range));
    all
}

/// Returns the number of processes whose part of the file overlaps another one's.
fn interleaved(mut ranges: Vec<Range>) -> u64 {
    ranges.retain(|range| range.start < range.end);
    let overlaps = |a: &Range, b: &Range| a.start < b.end && b.start < a.end;
    let others =
        |at: usize| ranges.iter().enumerate().any(|(other, range)| other != at && overlaps(range, &ranges[at]));
    (0..ranges.len()).filter(|&at| others(at)).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_file_are_interleaved_if_they_overlap() {
        let ranges = |list: &[(i64, i64)]| list.iter().map(|&(start, end)| Range { start, end }).collect::<Vec<_>>();
        assert_eq!(interleaved(ranges(&[(0, 10), (10, 20), (20, 30)])), 0);
        assert_eq!(interleaved(ranges(&[(0, 100), (10, 110), (200, 300)])), 2);
        assert_eq!(interleaved(ranges(&[(0, 100), (i64::MAX, i64::MIN)])), 0);
    }
}
