//! Hosts.

use serde::{Deserialize, Serialize};

use super::{Section, Summary};
use crate::catalog::{Host, Process};
use crate::load::Trace;
use crate::summary::analysis::Analysis;

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
        Hosts (in JSON and CSV): hosts, one row per boot, with the processes that ran there. clock_spread_ns: how \
        much its processes disagree about the time of day, because the clock was stepped while they ran.";
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

    fn print(_summary: &Summary, _top: usize, _out: &mut String) {}
}

/// Returns the clock difference between these processes; `None` if one of them did not record its clock.
fn spread(processes: &[&Process]) -> Option<i64> {
    let offsets = processes.iter().map(|process| process.clock_offset_ns).collect::<Option<Vec<_>>>()?;
    Some(offsets.iter().max()? - offsets.iter().min()?)
}
