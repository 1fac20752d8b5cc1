//! Files that more than one process used.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::files::{Use, use_cells};
use super::{Section, Summary};
use crate::catalog::is_stored;
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::figures::units::grouped;
use crate::summary::files::blocks::Common;
use crate::summary::report::layout::{dash, heading, more};
use crate::text_table::Grid;

/// A file of several processes.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub struct SharedFile {
    pub path: String,
    /// The numbers of process images and of ranks that used it.
    pub processes: u64,
    pub ranks: u64,
    /// Writes that start or end in a 1 MiB block to which another rank writes at the same time, and their time.
    #[serde(default)]
    pub common_writes: u64,
    #[serde(default)]
    pub common_ns: u64,
    #[serde(flatten)]
    pub use_: Use,
}

/// The number of files listed; `dataset` has the total.
const LISTED: usize = 100;

/// The section on shared files.
pub struct SharedFiles;

impl Section for SharedFiles {
    type Values = Vec<SharedFile>;

    const MEANING: &'static str = "\
        Shared files: files used by two or more processes (program images), the 100 with the most time; ranks: how \
        many different ranks those processes have. Conflicting writes: writes that begin or end in a block of \
        1 MiB to which another rank writes at the same time.";
    const FIELDS: &'static str = "\
        a list of the 100 files with the most time that two or more program images used: `path`, `processes`, \
        `ranks`, `common_writes` and `common_ns` (writes that begin or end in a block of 1 MiB to which \
        another rank writes at the same time, and their time), and the remaining fields as in `files`";
    const SQL: Option<&'static str> = Some(include_str!("../../../sql/shared.sql"));

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        let paths = trace.catalog.files();
        let mut users = vec![0u32; paths.len()];
        analysis.counted.users.iter().for_each(|user| users[(user >> 32) as usize] += 1);
        let counts = (0u32..).zip(&users).zip(&analysis.counted.files);
        let shared = counts.filter(|((_, users), count)| **users > 1 && count.is_used());
        let mut rows: Vec<_> = shared
            .map(|((file, _), count)| (file, count))
            .filter(|(file, _)| is_stored(&paths[*file as usize]))
            .collect();
        rows.sort_by(|a, b| b.1.time_ns.cmp(&a.1.time_ns).then_with(|| paths[a.0 as usize].cmp(&paths[b.0 as usize])));
        rows.truncate(LISTED);
        let ranks = ranks(analysis, trace, rows.iter().map(|(file, _)| *file).collect());
        let processes = trace.catalog.processes();
        let common =
            analysis.counted.blocks.common(|proc| processes.get(proc as usize).and_then(|process| process.rank));
        let row = |(file, count): (u32, _)| {
            let Common { writes: common_writes, ns: common_ns } = common.get(&file).copied().unwrap_or_default();
            let mut use_ = Use::default();
            use_.add(count);
            SharedFile {
                path: paths[file as usize].to_string(),
                processes: users[file as usize] as u64,
                ranks: ranks.get(&file).map_or(0, |ranks| ranks.len() as u64),
                common_writes,
                common_ns,
                use_,
            }
        };
        rows.into_iter().map(row).collect()
    }

    fn print(summary: &Summary, top: usize, out: &mut String) {
        if summary.shared.is_empty() {
            return;
        }
        heading("Shared files", out);
        let mut grid = Grid::new(&["<file", "processes", "ranks", "events", "opens", "read", "written", "time"]);
        for row in summary.shared.iter().take(top) {
            let head = [row.path.clone(), grouped(row.processes), dash(row.ranks)];
            grid.row(head.into_iter().chain(use_cells(&row.use_)).collect());
        }
        grid.print(out);
        more(summary.dataset.files_shared as usize, top, out);
    }
}

/// Returns the ranks that used these files.
fn ranks(analysis: &Analysis, trace: &Trace, files: BTreeSet<u32>) -> BTreeMap<u32, BTreeSet<i32>> {
    let processes = trace.catalog.processes();
    let mut found: BTreeMap<u32, BTreeSet<i32>> = BTreeMap::new();
    for user in analysis.counted.users.iter().filter(|user| files.contains(&((*user >> 32) as u32))) {
        let rank = processes.get(*user as u32 as usize).and_then(|process| process.rank);
        if let Some(rank) = rank {
            found.entry((user >> 32) as u32).or_default().insert(rank);
        }
    }
    found
}
