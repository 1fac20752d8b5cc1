//! Hosts.

use serde::{Deserialize, Serialize};

use super::{Section, Summary};
use crate::catalog::{Host, Process};
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::figures::units::{bytes, grouped, time};
use crate::summary::report::layout::{heading, more};
use crate::text_table::Grid;

#[derive(Serialize, Deserialize, Debug)]
pub struct HostUse {
    pub host: String,
    pub cores: Option<i32>,
    /// Bytes.
    #[serde(default)]
    pub memory: Option<i64>,
    pub processes: u64,
    pub clock_spread_ns: i64,
}

/// The section on hosts.
pub struct Hosts;

impl Section for Hosts {
    type Values = Vec<HostUse>;

    const MEANING: &'static str = "\
        Hosts: one row per boot of a host, with the processes that ran there. Clock spread: how much its processes \
        disagree about the time of day, because the clock was stepped while they ran.";
    const FIELDS: &'static str = "\
        a list: `host`, `cores`, `memory` (bytes), `processes`, `clock_spread_ns` (how much its processes disagree \
        about the time of day)";
    const SQL: Option<&'static str> = Some(include_str!("../../../sql/hosts.sql"));

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        let processes = trace.catalog.processes();
        let hosts = trace.catalog.hosts();
        let mut partakers: Vec<Vec<&Process>> = vec![Vec::new(); hosts.len()];
        analysis.partakers(&processes).iter().for_each(|(process, _)| partakers[process.host as usize].push(process));
        let is_one_run = analysis.filter.run.is_some();
        let row = |(host, processes): (Host, Vec<&Process>)| HostUse {
            clock_spread_ns: spread(&processes).filter(|_| is_one_run).unwrap_or(host.clock_spread_ns),
            host: host.name,
            cores: host.cores,
            memory: host.memory,
            processes: processes.len() as u64,
        };
        let takes = |processes: &[&Process]| analysis.filter.is_empty() || !processes.is_empty();
        hosts.into_iter().zip(partakers).filter(|(_, processes)| takes(processes)).map(row).collect()
    }

    fn print(summary: &Summary, top: usize, out: &mut String) {
        if summary.hosts.is_empty() {
            return;
        }
        heading("Hosts", out);
        let mut grid = Grid::new(&["<host", "CPUs", "memory", "processes", "clock spread"]);
        for row in summary.hosts.iter().take(top) {
            let known = |text: Option<String>| text.unwrap_or_else(|| "-".into());
            let memory = known(row.memory.map(|size| bytes(size as f64)));
            let cells = [known(row.cores.map(|cores| cores.to_string())), memory, grouped(row.processes)];
            let spread = time(row.clock_spread_ns as f64);
            grid.row([row.host.clone()].into_iter().chain(cells).chain([spread]).collect());
        }
        grid.print(out);
        more(summary.hosts.len(), top, out);
    }
}

/// Returns the clock difference between these processes; `None` if one of them did not record its clock.
fn spread(processes: &[&Process]) -> Option<i64> {
    let offsets = processes.iter().map(|process| process.clock_offset_ns).collect::<Option<Vec<_>>>()?;
    Some(offsets.iter().max()? - offsets.iter().min()?)
}
