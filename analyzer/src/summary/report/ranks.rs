//! Processes by the rank that their launcher assigned.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::processes::{WORK_HEADS, Work, work_cells};
use super::{Section, Summary};
use crate::catalog::Process;
use crate::load::Trace;
use crate::summary::analysis::{Analysis, started};
use crate::summary::figures::units::{grouped, time};
use crate::summary::report::layout::{heading, more};
use crate::text_table::Grid;

#[derive(Serialize, Deserialize, Debug)]
pub struct RankUse {
    pub rank: i32,
    pub processes: u64,
    pub pids: u64,
    #[serde(flatten)]
    pub work: Work,
}

/// The section on ranks.
pub struct Ranks;

impl Section for Ranks {
    type Values = Vec<RankUse>;

    const MEANING: &'static str = "\
        By rank: processes by the rank that their launcher assigned.";
    const FIELDS: &'static str = "\
        a list: `rank`, `processes` (program images), `pids` (processes), and the remaining fields as in `processes`";
    const SQL: Option<&'static str> = Some(include_str!("../../../sql/ranks.sql"));

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        let all = trace.catalog.processes();
        let mut ranks: BTreeMap<i32, (Vec<&Process>, Work)> = BTreeMap::new();
        for (process, count) in analysis.partakers(&all) {
            if let Some(rank) = process.rank {
                let (processes, work) = ranks.entry(rank).or_default();
                processes.push(process);
                work.add(count);
            }
        }
        let row = |(rank, (images, work)): (i32, (Vec<&Process>, Work))| RankUse {
            rank,
            processes: images.len() as u64,
            pids: started(images),
            work,
        };
        ranks.into_iter().map(row).collect()
    }

    fn print(summary: &Summary, top: usize, out: &mut String) {
        let values = &summary.ranks;
        if values.is_empty() {
            return;
        }
        heading("By rank", out);
        let mut grid = Grid::new(&[&["rank", "processes"][..], &WORK_HEADS].concat());
        for row in values.iter().take(top) {
            grid.row([row.rank.to_string(), grouped(row.pids)].into_iter().chain(work_cells(&row.work)).collect());
        }
        grid.print(out);
        more(values.len(), top, out);
        slowest(values, out);
    }
}

/// Prints the rank that spent the longest time in I/O, next to the median of all.
fn slowest(ranks: &[RankUse], out: &mut String) {
    let mut times: Vec<_> = ranks.iter().map(|rank| (rank.work.io_ns(), rank.rank)).collect();
    times.sort_unstable();
    if let [_, .., (most, rank)] = times[..] {
        let (low, high) = (times[(times.len() - 1) / 2].0, times[times.len() / 2].0);
        let median = time((low + high) as f64 / 2.0);
        let _ =
            writeln!(out, "  Longest in I/O: rank {rank}, {}; the median of all ranks {median}.", time(most as f64));
    }
}
