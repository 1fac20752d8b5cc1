//! Files by directory.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::files::{Use, use_cells};
use super::{Section, Summary};
use crate::load::Trace;
use crate::load::sources::tally::OTHER_FILES;
use crate::summary::analysis::{Analysis, directory};
use crate::summary::report::layout::{dash, heading, more};
use crate::text_table::Grid;

#[derive(Serialize, Deserialize, Debug)]
pub struct Directory {
    pub directory: String,
    /// Number of files; zero if the row represents files that were counted together.
    pub files: u64,
    #[serde(flatten)]
    pub use_: Use,
}

/// The section on directories.
pub struct Directories;

impl Section for Directories {
    type Values = Vec<Directory>;

    const MEANING: &'static str = "\
        By directory: files grouped by directory; time is summed over calls.";
    const FIELDS: &'static str = "\
        a list: `directory`, `files` (zero if the row represents files that were counted together), and the remaining \
        fields as in `files`";
    const SQL: Option<&'static str> = Some(include_str!("../../../sql/directories.sql"));

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        let paths = trace.catalog.files();
        let mut found: BTreeMap<&str, (u64, Use)> = BTreeMap::new();
        for (path, count) in analysis.used_files(&paths) {
            let is_one = path != OTHER_FILES;
            let folder = if is_one { directory(path).unwrap_or(".") } else { path };
            let (files, sum) = found.entry(folder).or_default();
            *files += is_one as u64;
            sum.add(count);
        }
        let rows =
            found.into_iter().map(|(directory, (files, use_))| Directory { directory: directory.into(), files, use_ });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.use_.time_ns));
        rows
    }

    fn print(summary: &Summary, top: usize, out: &mut String) {
        let values = &summary.directories;
        if values.is_empty() {
            return;
        }
        heading("By directory", out);
        let mut grid = Grid::new(&["<directory", "files", "events", "opens", "read", "written", "time"]);
        for row in values.iter().take(top) {
            grid.row([row.directory.clone(), dash(row.files)].into_iter().chain(use_cells(&row.use_)).collect());
        }
        grid.print(out);
        more(values.len(), top, out);
    }
}
