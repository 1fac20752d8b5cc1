//! The analysis: everything one reading of a trace counted. Reports and tables are made from it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::count::counted::{Counted, FileCount, KindCount, ProcessCount, kind_of};
use super::count::tally::Tally;
use super::figures::quantiles::Counts;
use super::groups::shared_sweep::Measured;
use crate::catalog::{FILE_NONE, Kind, Process, is_stored};
use crate::filter::Filter;

/// One scan's outcome, from which reports and tables are made.
pub struct Analysis {
    /// The filter that let events through.
    pub filter: Filter,
    pub counted: Counted,
    /// Times and unions.
    pub measured: Measured,
    pub tally: Option<Tally>,
    /// Values in the buckets of quantiles, by kind, where a second pass counted them.
    pub durations: Option<Counts>,
    /// The number of files that are listed one by one.
    pub files_listed: usize,
}

impl Analysis {
    /// First start and last end within the filter's window; `None` for a trace without events.
    pub fn bounds(&self) -> Option<(i64, i64)> {
        let used = || self.counted.processes.iter().filter(|process| process.events > 0);
        let bounds = used().map(|process| process.first_ts).min().zip(used().map(|process| process.last_ts).max());
        bounds.map(|(first, last)| self.filter.within(first, last))
    }

    pub fn events(&self) -> u64 {
        self.counted.processes.iter().map(|process| process.events).sum()
    }

    /// Processes with what they did: of whole runs all of them, else those of which something passed.
    pub fn partakers<'a>(&'a self, processes: &'a [Process]) -> Vec<(&'a Process, &'a ProcessCount)> {
        const NOTHING: &ProcessCount = &ProcessCount::NOTHING;
        let counts = self.counted.processes.iter().chain(std::iter::repeat(NOTHING));
        let whole = self.filter.takes_whole_runs();
        let takes = |process, count: &ProcessCount| count.events > 0 || whole && self.filter.takes_run_of(process);
        processes.iter().zip(counts).filter(|(process, count)| takes(process, count)).collect()
    }

    /// Rows of which there are events, with their kinds.
    pub fn rows<'a>(&'a self, kinds: &'a [Kind]) -> impl Iterator<Item = (u32, &'a Kind, &'a KindCount)> {
        let rows = (0u32..).zip(&self.counted.kinds).filter(|(_, count)| count.durations.count > 0);
        rows.filter_map(|(row, count)| Some((row, kinds.get(kind_of(row).0 as usize)?, count)))
    }

    /// Files that were used, with their paths.
    pub fn used_files<'a>(&'a self, paths: &'a [Arc<str>]) -> impl Iterator<Item = (&'a str, &'a FileCount)> {
        let files = paths.iter().zip(&self.counted.files).skip(FILE_NONE as usize + 1);
        files.filter(|(path, count)| count.events > 0 && is_stored(path)).map(|(path, count)| (path.as_ref(), count))
    }
}

/// The number of processes that program images belong to: an exec keeps host, process id and start.
pub fn started<'a>(images: impl IntoIterator<Item = &'a Process>) -> u64 {
    let starts: BTreeSet<_> = images.into_iter().map(|image| (image.host, image.pid, image.start_ts)).collect();
    starts.len() as u64
}

/// Folder of a path.
pub fn directory(path: &str) -> Option<&str> {
    let (folder, _) = path.trim_end_matches('/').rsplit_once('/')?;
    Some(if folder.is_empty() { "/" } else { folder })
}
