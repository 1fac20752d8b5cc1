//! Files with the most time.

use serde::{Deserialize, Serialize};

use super::{Section, Summary};
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::count::counted::FileCount;
use crate::summary::figures::units::{bytes, grouped, time};
use crate::summary::report::layout::{heading, more};
use crate::text_table::Grid;

#[derive(Serialize, Deserialize, Debug)]
pub struct FileUse {
    pub path: String,
    #[serde(flatten)]
    pub use_: Use,
}

/// Use of a file or directory.
#[derive(Serialize, Deserialize, Debug, Default, Clone)]
pub struct Use {
    pub events: u64,
    pub opens: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub time_ns: u64,
}

/// The section on files.
pub struct Files;

/// Maximum number of files listed, by time; SQL and Parquet contain all files.
pub const FILES_LISTED: usize = 100;

impl Section for Files {
    type Values = Vec<FileUse>;

    const MEANING: &'static str = "\
        By file: the files with the most time; time is summed over calls.";
    const FIELDS: &'static str = "\
        a list of the 100 files with the most time: `path`, `events`, `opens`, `bytes_read`, `bytes_written`, \
        `time_ns`";
    const SQL: Option<&'static str> = Some(include_str!("../../../sql/files.sql"));

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        let paths = trace.catalog.files();
        let mut used: Vec<_> = analysis.used_files(&paths).collect();
        used.sort_by(|a, b| b.1.time_ns.cmp(&a.1.time_ns).then_with(|| a.0.cmp(b.0)));
        used.truncate(analysis.files_listed);
        let row = |(path, count): (&str, &FileCount)| {
            let mut use_ = Use::default();
            use_.add(count);
            FileUse { path: path.into(), use_ }
        };
        used.into_iter().map(row).collect()
    }

    fn print(summary: &Summary, top: usize, out: &mut String) {
        let values = &summary.files;
        if values.is_empty() {
            return;
        }
        heading("By file", out);
        let mut grid = Grid::new(&["<file", "events", "opens", "read", "written", "time"]);
        for row in values.iter().take(top) {
            grid.row([row.path.clone()].into_iter().chain(use_cells(&row.use_)).collect());
        }
        grid.print(out);
        more(summary.dataset.files as usize + summary.dataset.at_least as usize, top, out);
    }
}

impl Use {
    pub fn include(&mut self, other: &Use) {
        self.events += other.events;
        self.opens += other.opens;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.time_ns += other.time_ns;
    }

    pub(super) fn add(&mut self, count: &FileCount) {
        self.events += count.events;
        self.opens += count.opens;
        self.bytes_read += count.bytes_read;
        self.bytes_written += count.bytes_written;
        self.time_ns += count.time_ns;
    }
}

pub(super) fn use_cells(use_: &Use) -> [String; 5] {
    [
        grouped(use_.events),
        grouped(use_.opens),
        bytes(use_.bytes_read as f64),
        bytes(use_.bytes_written as f64),
        time(use_.time_ns as f64),
    ]
}
