//! Files that were read and written.

use serde::{Deserialize, Serialize};

use super::{Section, Summary};
use crate::batch::ABSENT;
use crate::catalog::is_stored;
use crate::load::Trace;
use crate::load::sources::tally::OTHER_FILES;
use crate::summary::analysis::Analysis;
use crate::summary::count::file_locks::LockedFile;
use crate::summary::count::remote_ends::RemoteEnd;
use crate::summary::figures::units::{bytes, grouped, many};
use crate::summary::files::access::Relation;
use crate::summary::report::layout::{heading, pairs};

/// Files that were read and written.
#[derive(Serialize, Deserialize, Debug, Default)]
pub struct Dataset {
    /// `true` if the numbers of files and the positions reached are lower bounds, because some files were counted
    /// together.
    #[serde(default)]
    pub at_least: bool,
    /// Number of events on files that were counted together for lack of space.
    #[serde(default)]
    pub other_events: u64,
    pub files: u64,
    pub files_read: u64,
    pub files_written: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Sum over files of the largest position reached.
    pub bytes_reached: u64,
    /// Bytes through pipes, sockets and terminals, which are not part of a data set.
    pub elsewhere_read: u64,
    pub elsewhere_written: u64,
    /// Number of files that at least two process images used.
    #[serde(default)]
    pub files_shared: u64,
    /// Number of files that were opened without moving a byte, and the number of these opens.
    #[serde(default)]
    pub files_unused: u64,
    #[serde(default)]
    pub opens_unused: u64,
    /// Mappings of shared memory through which processes pass data.
    #[serde(default)]
    pub memory_maps: u64,
    /// Remote ends of sockets, most bytes first.
    #[serde(default)]
    pub peers: Vec<RemoteEnd>,
    /// Files for whose locks threads waited, longest first.
    #[serde(default)]
    pub locked: Vec<LockedFile>,
    /// Bytes beyond the largest position reached in each file: a lower bound of the bytes read repeatedly.
    #[serde(default)]
    pub bytes_reread: u64,
    /// The part of the time in calls on each file that such bytes took, if all bytes of a file take as long.
    #[serde(default)]
    pub reread_ns: u64,
    /// How often a usual file was read: the median over files, weighted by their extent, of the bytes read per byte of
    /// extent. `null` if no file with a known extent was read.
    #[serde(default)]
    pub usual_reads: Option<f64>,
}

impl Dataset {
    /// Returns the words before lower bounds.
    pub fn at_least(&self) -> &'static str {
        if self.at_least { "at least " } else { "" }
    }
}

/// Returns the smallest value that, with all smaller ones, has half of the weight.
fn weighted_median(mut values: Vec<(f64, u64)>) -> Option<f64> {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = values.iter().map(|(_, weight)| weight).sum::<u64>().div_ceil(2);
    let mut below = 0;
    let reaches = |(_, weight): &&(f64, u64)| {
        below += weight;
        below >= half
    };
    values.iter().find(reaches).map(|(value, _)| *value)
}

impl Section for Dataset {
    type Values = Self;

    const MEANING: &'static str = "\
        Dataset: the files that calls named. Pipes, sockets and terminals are excluded; their bytes are reported \
        separately. Extent reached: the sum over files of the largest known position. Bytes of an MPI-IO call count \
        only if no call beneath it moved bytes of that file in that process. At least: in summary mode, files without \
        a separate row are counted together and their number is unknown. Read again: the number of bytes read from each file \
        in excess of its largest position, minus bytes without a known position; this is a lower bound. Opened only: files without \
        any bytes moved. Shared: files used by two or more program images.";
    const FIELDS: &'static str = "\
        `at_least` (whether `files*` and `bytes_reached` may be larger: in summary mode further files are counted \
        together), `other_events` (events on those files), `files`, `files_read`, `files_written`, `bytes_read`, \
        `bytes_written` (of each file and process by POSIX and C library calls, by MPI-IO if none of those moved \
        any), `bytes_reached` (sum of the largest position reached in each file), `elsewhere_read`, \
        `elsewhere_written` (bytes through pipes, sockets and terminals, which are not part of the data set), \
        `files_shared` (used by two or more program images), `files_unused`, `opens_unused` (opened, but no bytes \
        moved), `memory_maps` (mappings of shared memory through which processes pass data), `peers` (remote ends of \
        sockets, at most three, most bytes first: `address`, `bytes`, `connections`), `locked` (files for whose locks threads waited, at most three, longest \
        first: `path`, `waits`, `wait_ns` summed over threads), `bytes_reread` (bytes read from each file beyond the \
        largest position, minus bytes without a position: a lower bound), `reread_ns` (the part of the time in calls on each file \
        that such bytes took, if all bytes of a file take as long), `usual_reads` (bytes read from a file per byte of its extent: the median over files, \
        weighted by their extent)";
    const SQL: Option<&'static str> = Some(include_str!("../../../sql/dataset.sql"));

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        let paths = trace.catalog.files();
        let mut dataset = Dataset { memory_maps: analysis.counted.memory_maps, ..Dataset::default() };
        let mut reads: Vec<(f64, u64)> = Vec::new();
        for (path, count) in analysis.used_files(&paths) {
            dataset.bytes_read += count.bytes_read;
            dataset.bytes_written += count.bytes_written;
            // Their number is unknown, and some of these files may have been counted separately before space ran out.
            if path == OTHER_FILES {
                (dataset.at_least, dataset.other_events) = (true, count.events);
                continue;
            }
            dataset.files += 1;
            dataset.files_read += (count.bytes_read > 0) as u64;
            dataset.files_written += (count.bytes_written > 0) as u64;
            let is_unused = count.opens > 0 && count.bytes_read + count.bytes_written == 0;
            dataset.files_unused += is_unused as u64;
            dataset.opens_unused += if is_unused { count.opens } else { 0 };
            let again = |size: i64| count.bytes_read.saturating_sub(size.max(0) as u64);
            let reread = if count.size == ABSENT { 0 } else { again(count.size) };
            dataset.bytes_reread += reread;
            dataset.reread_ns += (count.time_ns as f64 * (reread as f64 / count.bytes_read.max(1) as f64)) as u64;
            let extent = if count.size == ABSENT { 0 } else { count.size.max(0) as u64 };
            dataset.bytes_reached += extent;
            if extent > 0 && count.bytes_read > 0 {
                reads.push((count.bytes_read as f64 / extent as f64, extent));
            }
        }
        dataset.usual_reads = weighted_median(reads);
        let reads = analysis.counted.access.patterns.iter().step_by(2);
        let unplaced: u64 = reads.map(|reads| reads.bytes[Relation::Unknown as usize]).sum();
        dataset.bytes_reread = dataset.bytes_reread.saturating_sub(unplaced);
        let mut users = vec![0u32; paths.len()];
        analysis.counted.users.iter().for_each(|user| users[(user >> 32) as usize] += 1);
        let counts = paths.iter().zip(&analysis.counted.files).zip(users);
        let shared = counts.filter(|((path, count), users)| *users > 1 && count.is_used() && is_stored(path));
        dataset.files_shared = shared.filter(|((path, _), _)| ***path != *OTHER_FILES).count() as u64;
        dataset.peers = analysis.counted.remote_ends.clone();
        dataset.locked = analysis.counted.file_locks.longest(&paths);
        for (_, count) in paths.iter().zip(&analysis.counted.files).filter(|(path, _)| !is_stored(path)) {
            dataset.elsewhere_read += count.bytes_read;
            dataset.elsewhere_written += count.bytes_written;
        }
        dataset
    }

    fn print(summary: &Summary, _top: usize, out: &mut String) {
        let what = &summary.dataset;
        heading("Dataset", out);
        let (read, written) = (grouped(what.files_read), grouped(what.files_written));
        let least = what.at_least();
        let mut rows = vec![
            ("files", format!("{least}{} ({least}{read} read, {least}{written} written)", grouped(what.files))),
            ("read", bytes(what.bytes_read as f64)),
            ("written", bytes(what.bytes_written as f64)),
            ("extent reached", format!("{least}{}", bytes(what.bytes_reached as f64))),
        ];
        let unused = grouped(what.files_unused);
        rows.push(("opened only", format!("{unused} files, {} times", grouped(what.opens_unused))));
        rows.push(("shared", format!("{} files of several processes", grouped(what.files_shared))));
        if what.bytes_reread > 0 {
            rows.push(("read again", format!("at least {}", bytes(what.bytes_reread as f64))));
        }
        if what.at_least {
            let events = many(what.other_events, "event is", "events are");
            rows.push((OTHER_FILES, format!("{events} on files without a separate row, counted together")));
        }
        if what.elsewhere_read + what.elsewhere_written > 0 {
            let (read, written) = (bytes(what.elsewhere_read as f64), bytes(what.elsewhere_written as f64));
            rows.push(("also", format!("{read} read and {written} written through pipes, sockets and terminals")));
        }
        pairs(&rows, out);
    }
}
