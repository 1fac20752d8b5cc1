//! Data sets of HDF5 files: what the program requested of the library, and what the library called on files for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Section, Summary};
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::count::data_sets::DataSetCount;
use crate::summary::figures::pattern::pattern;
use crate::summary::figures::units::{bytes, grouped, time};
use crate::summary::report::layout::{heading, more};
use crate::text_table::Grid;

/// The data sets of one name, in files of one name.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub struct DataSetUse {
    /// A path with `#` instead of digits.
    pub file: String,
    /// A name with `#` instead of digits; empty for calls on the file itself, on groups and on attributes.
    pub data_set: String,
    pub files: u64,
    #[serde(flatten)]
    pub count: DataSetCount,
}

impl DataSetUse {
    /// Returns the bytes that the library read per requested byte; `None` if nothing was requested.
    pub fn amplification(&self) -> Option<f64> {
        let requested = self.count.reads.bytes;
        (requested > 0).then(|| self.count.reads_below.bytes as f64 / requested as f64)
    }

    /// Returns `true` if the row is that of a data set.
    pub fn is_data_set(&self) -> bool {
        !self.data_set.is_empty()
    }
}

/// The number of rows listed.
const LISTED: usize = 100;

/// The section on data sets of HDF5.
pub struct Hdf5;

impl Section for Hdf5 {
    type Values = Vec<DataSetUse>;

    const MEANING: &'static str = "\
        Data sets of HDF5 files, with the most time first; # replaces digits in the names of files and data sets. \
        Opens, reads and writes are calls of the HDF5 library, and requested bytes are bytes in the memory of the \
        program. Calls below are reads and writes of files that the library made inside these calls, in the same \
        thread, and their bytes. Read per requested byte: 1 for data that is stored unchanged, less if it is \
        compressed or was in the library's cache, more if whole chunks are read for a part of them. Time is that of \
        the library's calls, which includes the calls below; it is not part of any other section. A row without a \
        data set represents file calls, groups and attributes.";
    const FIELDS: &'static str = "\
        a list of the 100 rows with the most time: `file`, `data_set` (with `#` instead of digits; empty for file \
        calls, groups and attributes), `files`, `opens`, `failed`, `reads` and `writes` (requests: `calls`, `bytes` in \
        memory), `time_ns` (of all requests), `read_ns`, `open_ns`, `reads_below` and `writes_below` (file calls inside the \
        requests: `calls`, `bytes`), `below_ns` (of these calls), `shape`, `chunk`, `chunk_bytes` and `filters` of one of the data sets (empty or \
        zero if unknown or none)";

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        let paths = trace.catalog.files();
        let mut found: BTreeMap<(String, Arc<str>), DataSetUse> = BTreeMap::new();
        for ((file, name), count) in &analysis.counted.data_sets.rows {
            let path = pattern(paths.get(*file as usize).map_or("", |path| path));
            let row = found.entry((path.clone(), name.clone())).or_insert_with(|| DataSetUse {
                file: path,
                data_set: name.to_string(),
                files: 0,
                count: DataSetCount::default(),
            });
            row.files += 1;
            row.count.merge(count.clone());
        }
        let mut rows: Vec<_> = found.into_values().collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.count.time_ns));
        rows.truncate(LISTED);
        rows
    }

    fn print(summary: &Summary, top: usize, out: &mut String) {
        let rows = &summary.hdf5;
        if rows.is_empty() {
            return;
        }
        heading("Data sets of HDF5", out);
        let mut grid = Grid::new(&[
            "<file",
            "<data set",
            "opens",
            "reads",
            "requested",
            "calls below",
            "read below",
            "read per byte",
            "writes",
            "written",
            "time",
        ]);
        for row in rows.iter().take(top) {
            let count = &row.count;
            grid.row(vec![
                row.file.clone(),
                if row.is_data_set() { row.data_set.clone() } else { "(files, groups, attributes)".into() },
                grouped(count.opens),
                grouped(count.reads.calls),
                bytes(count.reads.bytes as f64),
                grouped(count.reads_below.calls),
                bytes(count.reads_below.bytes as f64),
                row.amplification().map_or("-".into(), |times| format!("{times:.2}")),
                grouped(count.writes.calls),
                bytes(count.writes.bytes as f64),
                time(count.time_ns as f64),
            ]);
        }
        grid.print(out);
        more(rows.len(), top, out);
    }
}
