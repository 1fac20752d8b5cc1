//! The analysis: everything that one reading of a trace counted, the basis of reports and tables.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::count::counted::{Counted, FileCount, KindCount, ProcessCount, kind_of};
use super::count::tally::Tally;
use super::figures::quantiles::Counts;
use super::groups::shared_sweep::Measured;
use crate::catalog::{FILE_NONE, Kind, Process, is_stored};
use crate::filter::Filter;

/// The result of one scan, the basis of reports and tables.
pub struct Analysis {
    /// The filter of the events.
    pub filter: Filter,
    pub counted: Counted,
    /// Times and unions.
    pub measured: Measured,
    pub tally: Option<Tally>,
    /// Values in the buckets of quantiles, by kind, if a second pass counted them.
    pub durations: Option<Counts>,
    /// The number of files that are listed individually.
    pub files_listed: usize,
}

impl Analysis {
    /// Returns the first start and last end within the filter's window; `None` for a trace without events.
    pub fn bounds(&self) -> Option<(i64, i64)> {
        let used = || self.counted.processes.iter().filter(|process| process.events > 0);
        let bounds = used().map(|process| process.first_ts).min().zip(used().map(|process| process.last_ts).max());
        bounds.map(|(first, last)| self.filter.within(first, last))
    }

    pub fn events(&self) -> u64 {
        self.counted.processes.iter().map(|process| process.events).sum()
    }

    /// Returns processes with their counts: all processes of whole runs, otherwise those with events that pass the
    /// filter.
    pub fn partakers<'a>(&'a self, processes: &'a [Process]) -> Vec<(&'a Process, &'a ProcessCount)> {
        const NOTHING: &ProcessCount = &ProcessCount::NOTHING;
        let counts = self.counted.processes.iter().chain(std::iter::repeat(NOTHING));
        let whole = self.filter.takes_whole_runs();
        let takes = |process, count: &ProcessCount| count.events > 0 || whole && self.filter.takes_run_of(process);
        processes.iter().zip(counts).filter(|(process, count)| takes(process, count)).collect()
    }

    /// Returns the rows with events, with their kinds.
    pub fn rows<'a>(&'a self, kinds: &'a [Kind]) -> impl Iterator<Item = (u32, &'a Kind, &'a KindCount)> {
        let rows = (0u32..).zip(&self.counted.kinds).filter(|(_, count)| count.durations.count > 0);
        rows.filter_map(|(row, count)| Some((row, kinds.get(kind_of(row).0 as usize)?, count)))
    }

    /// Returns files that were used, with their paths.
    pub fn used_files<'a>(&'a self, paths: &'a [Arc<str>]) -> impl Iterator<Item = (&'a str, &'a FileCount)> {
        let files = paths.iter().zip(&self.counted.files).skip(FILE_NONE as usize + 1);
        files.filter(|(path, count)| count.is_used() && is_stored(path)).map(|(path, count)| (path.as_ref(), count))
    }
}

/// Returns the number of processes that images belong to: an exec keeps host, process id and start.
pub fn started<'a>(images: impl IntoIterator<Item = &'a Process>) -> u64 {
    let starts: BTreeSet<_> = images.into_iter().map(|image| (image.host, image.pid, image.start_ts)).collect();
    starts.len() as u64
}

/// Returns the directory of a path.
pub fn directory(path: &str) -> Option<&str> {
    let (folder, _) = path.trim_end_matches('/').rsplit_once('/')?;
    Some(if folder.is_empty() { "/" } else { folder })
}
