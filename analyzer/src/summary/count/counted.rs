//! Counts: plain values by kind of event, file, process and thread, and how the counts of two threads are merged.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use dlio_schemas::ops::Class;
use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};

use super::data_sets::DataSets;
use super::device_times::DeviceTimes;
use super::epochs::Epochs;
use super::file_locks::FileLocks;
use super::kinds::{OBJECT, is_part};
use super::remote_ends::{RemoteEnd, remote_ends};
use crate::batch::ABSENT;
use crate::catalog::{Kind, Origin};
use crate::packed_serde::pairs;
use crate::summary::figures::quantiles::{Counts, Histogram};
use crate::summary::files::access::Access;
use crate::summary::files::blocks::Blocks;
use crate::summary::time::intervals::Interval;
use crate::summary::time::time_series::TimeSeries;
use crate::unit::Seen;

const CLASSES: usize = Class::ALL.len();

/// Returns the row of a kind: calls on pipes, sockets and terminals have separate rows.
#[inline(always)]
pub fn row(kind: u32, past_files: bool) -> u32 {
    kind << 1 | past_files as u32
}

/// Returns the kind of a row, and whether its calls are on pipes, sockets or terminals.
pub fn kind_of(row: u32) -> (u32, bool) {
    (row >> 1, row & 1 == 1)
}

/// The counts of one kind of event.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub struct KindCount {
    pub durations: Histogram,
    /// Calls that moved bytes, without failed ones.
    pub sized: u64,
    pub bytes: u128,
    pub failed: u64,
}

/// The counts of one file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FileCount {
    /// Calls that read, write, sync or access metadata, and their time.
    pub events: u64,
    pub opens: u64,
    pub time_ns: u64,
    /// The part of it in metadata calls.
    pub asked_ns: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub first_ts: i64,
    pub last_ts: i64,
    /// Largest position reached.
    pub size: i64,
}

impl FileCount {
    /// Returns `true` if any event names the file.
    pub fn is_used(&self) -> bool {
        self.first_ts <= self.last_ts
    }
}

impl Default for FileCount {
    fn default() -> FileCount {
        FileCount {
            events: 0,
            opens: 0,
            time_ns: 0,
            asked_ns: 0,
            bytes_read: 0,
            bytes_written: 0,
            first_ts: i64::MAX,
            last_ts: i64::MIN,
            size: ABSENT,
        }
    }
}

/// Encodes the counts of files.
mod file_columns {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::FileCount;
    use crate::packed_serde::Columns;

    pub fn serialize<S: Serializer>(files: &[FileCount], to: S) -> Result<S::Ok, S::Error> {
        let signed = |numbers: [u64; 6]| numbers.map(|number| number as i64);
        let columns = Columns::of(files, |file| {
            let FileCount { events, opens, time_ns, asked_ns, bytes_read, bytes_written, first_ts, last_ts, size } =
                *file;
            let [a, b, c, d, e, f] = signed([events, opens, time_ns, asked_ns, bytes_read, bytes_written]);
            [a, b, c, d, e, f, first_ts, last_ts, size]
        });
        columns.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<FileCount>, D::Error> {
        let columns = Columns::deserialize(from)?;
        let files = columns.things(|[events, opens, time_ns, asked_ns, read, written, first_ts, last_ts, size]| {
            let [events, opens, time_ns, asked_ns] = [events, opens, time_ns, asked_ns].map(|number| number as u64);
            let (bytes_read, bytes_written) = (read as u64, written as u64);
            FileCount { events, opens, time_ns, asked_ns, bytes_read, bytes_written, first_ts, last_ts, size }
        });
        files.ok_or_else(|| D::Error::custom("columns of files that do not fit"))
    }
}

/// The counts of one thread of a process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ThreadCount {
    pub events: u64,
    pub does_io: bool,
    pub computes: bool,
    /// Bytes read from files.
    pub bytes_read: u64,
    /// Requests to object stores.
    pub requests: u64,
    /// Messages received from pipes and sockets, and sent to them.
    pub taken: u64,
    pub handed: u64,
    /// The sent messages that went through sockets.
    pub handed_by_socket: u64,
    /// Waits for batches, recorded as spans.
    pub batches: u64,
    /// First start and last end of spans of a training run: waits for batches, compute.
    pub spans_from: i64,
    pub spans_to: i64,
    /// The first and the last epoch in spans.
    pub epoch_from: i32,
    pub epoch_to: i32,
    /// Its reads of data files.
    pub data_reads: DataReads,
}

/// The reads of data files by one thread, without files that programs read to start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DataReads {
    pub from_ts: i64,
    pub to_ts: i64,
    pub read_ns: i64,
    /// Pauses between them, in which the thread does something else.
    pub pauses: u64,
}

/// Reads that are at least this far apart have a pause between them.
const PAUSE_NS: i64 = 1_000_000;

impl Default for DataReads {
    fn default() -> DataReads {
        DataReads { from_ts: i64::MAX, to_ts: i64::MIN, read_ns: 0, pauses: 0 }
    }
}

/// Reads with fewer pauses than this are not a loop over batches.
const PAUSES_MIN: u64 = 8;

impl DataReads {
    /// Returns `true` if the thread may have read batches in a loop.
    pub(in crate::summary) fn are_a_loop(&self) -> bool {
        self.pauses >= PAUSES_MIN
    }

    pub(in crate::summary) fn add(&mut self, interval: Interval) {
        let is_first = self.to_ts == i64::MIN;
        self.pauses += (!is_first && interval.start - self.to_ts >= PAUSE_NS) as u64;
        self.read_ns += interval.end - interval.start;
        self.from_ts = self.from_ts.min(interval.start);
        self.to_ts = self.to_ts.max(interval.end);
    }

    fn merge(&mut self, other: &DataReads) {
        self.from_ts = self.from_ts.min(other.from_ts);
        self.to_ts = self.to_ts.max(other.to_ts);
        self.read_ns += other.read_ns;
        self.pauses += other.pauses;
    }
}

impl Default for ThreadCount {
    fn default() -> ThreadCount {
        ThreadCount {
            events: 0,
            does_io: false,
            computes: false,
            bytes_read: 0,
            requests: 0,
            taken: 0,
            handed: 0,
            handed_by_socket: 0,
            batches: 0,
            spans_from: i64::MAX,
            spans_to: i64::MIN,
            epoch_from: i32::MAX,
            epoch_to: i32::MIN,
            data_reads: DataReads::default(),
        }
    }
}

impl ThreadCount {
    fn merge(&mut self, other: &ThreadCount) {
        self.events += other.events;
        self.does_io |= other.does_io;
        self.computes |= other.computes;
        self.bytes_read += other.bytes_read;
        self.requests += other.requests;
        self.taken += other.taken;
        self.handed += other.handed;
        self.handed_by_socket += other.handed_by_socket;
        self.batches += other.batches;
        self.spans_from = self.spans_from.min(other.spans_from);
        self.spans_to = self.spans_to.max(other.spans_to);
        self.epoch_from = self.epoch_from.min(other.epoch_from);
        self.epoch_to = self.epoch_to.max(other.epoch_to);
        self.data_reads.merge(&other.data_reads);
    }

    /// Returns the number of epochs in its spans.
    pub fn epochs(&self) -> u64 {
        (self.epoch_to as i64 - self.epoch_from as i64 + 1).max(0) as u64
    }

    /// Adds a call on a file, possibly a data file.
    #[inline(always)]
    pub(in crate::summary) fn add_call(&mut self, interval: Interval, read: u64, reads_data: bool) {
        self.does_io = true;
        self.bytes_read += read;
        if reads_data {
            self.data_reads.add(interval);
        }
    }

    /// Adds a request that was in flight while the thread did other things.
    pub(in crate::summary) fn add_request(&mut self, read: u64) {
        self.does_io = true;
        self.bytes_read += read;
    }

    /// Adds a call that waited for requests, possibly for reads of data files.
    pub(in crate::summary) fn add_wait_for_requests(&mut self, interval: Interval, reads_data: bool) {
        self.does_io = true;
        if reads_data {
            self.data_reads.add(interval);
        }
    }

    pub(in crate::summary) fn add_span(&mut self, interval: Interval) {
        self.spans_from = self.spans_from.min(interval.start);
        self.spans_to = self.spans_to.max(interval.end);
    }
}

/// The counts of one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcessCount {
    pub events: u64,
    pub lost: u64,
    /// The lost events that the tracer aggregated on purpose.
    pub aggregated: u64,
    pub first_ts: i64,
    pub last_ts: i64,
    /// Time of file calls, summed by class.
    pub(in crate::summary) time_ns: [u64; CLASSES],
    /// Time of compute spans, summed.
    pub compute_ns: u64,
    /// Time of calls that wait for other threads or processes, summed.
    pub idle_ns: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub failed: u64,
    /// CPU time of its threads, as far as they read the counters of the kernel.
    pub cpu_us: u64,
    /// A node of the map has space for eleven threads, and most processes have one, so counts are boxed.
    pub threads: BTreeMap<i32, Box<ThreadCount>>,
}

impl ProcessCount {
    /// The counts of a process without events.
    pub const NOTHING: ProcessCount = ProcessCount {
        events: 0,
        lost: 0,
        aggregated: 0,
        first_ts: i64::MAX,
        last_ts: i64::MIN,
        time_ns: [0; CLASSES],
        compute_ns: 0,
        idle_ns: 0,
        bytes_read: 0,
        bytes_written: 0,
        failed: 0,
        cpu_us: 0,
        threads: BTreeMap::new(),
    };
}

impl Default for ProcessCount {
    fn default() -> ProcessCount {
        ProcessCount::NOTHING
    }
}

/// From the first start to the last end of the spans that generate a data set; empty without such spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generated {
    start: i64,
    end: i64,
}

impl Default for Generated {
    fn default() -> Generated {
        Generated { start: i64::MAX, end: i64::MIN }
    }
}

impl Generated {
    pub(in crate::summary) fn add(&mut self, span: Interval) {
        self.merge(Generated { start: span.start, end: span.end });
    }

    fn merge(&mut self, other: Generated) {
        *self = Generated { start: self.start.min(other.start), end: self.end.max(other.end) };
    }

    /// Returns `true` for a file that was first used then: it is data, not a checkpoint.
    fn has(&self, file: &FileCount) -> bool {
        (self.start..self.end).contains(&file.first_ts)
    }
}

/// Everything that was counted.
#[derive(Default, Serialize, Deserialize)]
pub struct Counted {
    /// The content of each unit, by source and index.
    pub units: Vec<(u32, u32, Seen)>,
    /// By [`row`].
    pub kinds: Vec<KindCount>,
    pub sizes: Counts,
    /// Access to files.
    pub access: Access,
    #[serde(with = "file_columns")]
    pub files: Vec<FileCount>,
    pub processes: Vec<ProcessCount>,
    pub course: TimeSeries,
    pub epochs: Epochs,
    /// When a data set was generated.
    #[serde(default)]
    pub generated: Generated,
    /// Requests for data sets of libraries above the file system.
    #[serde(default)]
    pub data_sets: DataSets,
    /// Requests of MPI-IO, by file and by how ranks make them.
    pub mpi_files: DataSets,
    /// Mappings of shared memory through which processes pass data.
    #[serde(default)]
    pub memory_maps: u64,
    /// Requests through io_uring rings that are not in the trace, as far as their number is known.
    #[serde(default)]
    pub unseen_requests: u64,
    #[serde(default)]
    pub file_locks: FileLocks,
    /// Times of GPUs, and of the threads that use them.
    #[serde(default)]
    pub devices: DeviceTimes,
    /// Remote ends of network connections.
    #[serde(default)]
    pub remote_ends: Vec<RemoteEnd>,
    /// Where ranks write.
    pub blocks: Blocks,
    /// The processes that used a file: file in the upper half, process in the lower.
    #[serde(with = "pairs")]
    pub users: HashSet<u64, RandomState>,
    /// The processes that moved bytes of a file with calls of the system or the C library.
    #[serde(with = "pairs")]
    pub(in crate::summary) movers: HashSet<u64, RandomState>,
    /// Bytes and times of reads and writes by calls of higher layers, with equal keys: the lower calls move the same
    /// bytes if both were recorded.
    above: HashMap<u64, UpperLayerTotals, RandomState>,
}

/// Bytes and times that calls of higher layers read and wrote.
#[derive(Serialize, Deserialize, Clone, Copy, Default)]
pub(in crate::summary) struct UpperLayerTotals {
    pub(in crate::summary) bytes: (u64, u64),
    pub(in crate::summary) ns: (u64, u64),
    pub(in crate::summary) events: u64,
}

/// Files with fewer bytes written are logs and settings.
const CHECKPOINT_LEAST: u64 = 1 << 20;
/// Logs receive less than this per call, on average.
const LOG_WRITE: u64 = 4096;

impl Counted {
    /// Returns `true` if enough of a file was written for a checkpoint, and the run did not generate it as data.
    pub fn may_be_checkpoint(&self, file: &FileCount) -> bool {
        let is_log = file.bytes_written < LOG_WRITE * file.events;
        file.bytes_written >= CHECKPOINT_LEAST && !is_log && !self.generated.has(file)
    }

    /// Returns `true` if a process moved bytes of a file.
    pub fn has_moved(&self, proc: u32, file: u32) -> bool {
        self.movers.contains(&((file as u64) << 32 | proc as u64))
    }

    pub fn merge(&mut self, other: Counted) {
        lengthen(&mut self.kinds, other.kinds.len());
        self.kinds.iter_mut().zip(&other.kinds).for_each(|(mine, theirs)| mine.merge(theirs));
        self.sizes.merge(&other.sizes);
        self.access.merge(other.access);
        lengthen(&mut self.files, other.files.len());
        self.files.iter_mut().zip(&other.files).for_each(|(mine, theirs)| mine.merge(theirs));
        lengthen(&mut self.processes, other.processes.len());
        self.processes.iter_mut().zip(other.processes).for_each(|(mine, theirs)| mine.merge(theirs));
        self.course.merge(other.course);
        self.epochs.merge(other.epochs);
        self.generated.merge(other.generated);
        self.data_sets.merge(other.data_sets);
        self.mpi_files.merge(other.mpi_files);
        self.memory_maps += other.memory_maps;
        self.unseen_requests += other.unseen_requests;
        self.blocks.merge(other.blocks);
        self.users.extend(other.users);
        self.movers.extend(other.movers);
        other.above.into_iter().for_each(|(user, moved)| self.add_above(user, moved));
        self.units.extend(other.units);
        self.devices.merge(other.devices);
        self.file_locks.merge(other.file_locks);
    }
}

impl Counted {
    /// Returns `true` if calls, or requests to object stores, were recorded: otherwise I/O is unknown.
    pub fn knows_calls(&self, kinds: &[Kind]) -> bool {
        let counted = (0u32..).zip(&self.kinds).filter(|(_, count)| count.durations.count > 0);
        let tells = |kind: &Kind| kind.origin == Origin::Call || *kind.cat == *OBJECT;
        counted.filter_map(|(row, _)| kinds.get(kind_of(row).0 as usize)).any(tells)
    }

    /// Returns `true` if spans cover all computing, and not only parts of it.
    pub fn knows_computing(&self, kinds: &[Kind]) -> bool {
        let counted = (0u32..).zip(&self.kinds).filter(|(_, count)| count.durations.count > 0);
        !counted.filter_map(|(row, _)| kinds.get(kind_of(row).0 as usize)).any(is_part)
    }

    /// Renumbers kinds and files for another catalog. Two that get one number are merged.
    pub fn renumber(&mut self, mut kind: impl FnMut(u32) -> u32, mut file: impl FnMut(u32) -> u32) {
        let mut row = |old: u32| {
            let (of, past_files) = kind_of(old);
            self::row(kind(of), past_files)
        };
        let mut kinds: Vec<KindCount> = Vec::new();
        for (old, count) in (0u32..).zip(&self.kinds).filter(|(_, count)| count.is_used()) {
            let new = row(old) as usize;
            // The rows of a kind are adjacent.
            lengthen(&mut kinds, (new | 1) + 1);
            kinds[new].merge(count);
        }
        self.kinds = kinds;
        self.sizes = self.sizes.renumbered(&mut row);
        self.access.renumber(&mut row, &mut file);
        let mut files: Vec<FileCount> = Vec::new();
        for (old, count) in (0u32..).zip(&self.files).filter(|(_, count)| **count != FileCount::default()) {
            let new = file(old) as usize;
            lengthen(&mut files, new + 1);
            files[new].merge(count);
        }
        let mut pair = |pair: u64| (file((pair >> 32) as u32) as u64) << 32 | pair & u32::MAX as u64;
        for users in [&mut self.users, &mut self.movers] {
            *users = std::mem::take(users).into_iter().map(&mut pair).collect();
        }
        let above = std::mem::take(&mut self.above);
        above.into_iter().for_each(|(user, moved)| self.add_above(pair(user), moved));
        self.data_sets.renumber(&mut file);
        self.mpi_files.renumber(&mut file);
        self.blocks.renumber(&mut file);
        self.file_locks.renumber(&mut file);
        // Other named files need a row too, which may get counts later.
        let named = self.users.iter().map(|user| (user >> 32) as usize + 1).max().unwrap_or(0);
        lengthen(&mut files, named);
        self.files = files;
    }

    /// Completes the counts: a file under two numbers becomes one, bytes recorded in two layers count once.
    pub fn finish(&mut self, aliases: &[(u32, u32)], paths: &[Arc<str>]) {
        // Afterwards all sockets are one file.
        let used = paths.iter().zip(&self.files).filter(|(_, count)| count.is_used());
        let moved = used.map(|(path, count)| (path.as_ref(), count.bytes_read + count.bytes_written));
        self.remote_ends = remote_ends(moved);
        if !aliases.is_empty() {
            self.unite_files(aliases);
        }
        self.unite_layers();
        self.data_sets.finish();
        self.mpi_files.finish();
        self.access.finish();
    }

    pub(in crate::summary) fn add_above(&mut self, user: u64, more: UpperLayerTotals) {
        let sum = self.above.entry(user).or_default();
        let add = |a: (u64, u64), b: (u64, u64)| (a.0 + b.0, a.1 + b.1);
        *sum = UpperLayerTotals {
            bytes: add(sum.bytes, more.bytes),
            ns: add(sum.ns, more.ns),
            events: sum.events + more.events,
        };
    }

    /// Counts bytes and times of higher layers if the calls below them were not recorded.
    fn unite_layers(&mut self) {
        for (user, UpperLayerTotals { bytes: (read, written), ns, events }) in std::mem::take(&mut self.above) {
            if self.movers.contains(&user) {
                continue;
            }
            let (file, process) = (&mut self.files[(user >> 32) as usize], &mut self.processes[user as u32 as usize]);
            file.bytes_read += read;
            file.bytes_written += written;
            process.bytes_read += read;
            process.bytes_written += written;
            file.events += events;
            file.time_ns += ns.0 + ns.1;
            process.time_ns[Class::Read as usize] += ns.0;
            process.time_ns[Class::Write as usize] += ns.1;
        }
    }

    fn unite_files(&mut self, aliases: &[(u32, u32)]) {
        for &(file, first) in aliases {
            lengthen(&mut self.files, file.max(first) as usize + 1);
            let count = std::mem::take(&mut self.files[file as usize]);
            self.files[first as usize].merge(&count);
        }
        let alias = |file: u32| aliases.iter().find(|(other, _)| *other == file).map_or(file, |(_, first)| *first);
        self.file_locks.renumber(alias);
        let firsts: HashMap<u64, u64> = aliases.iter().map(|&(file, first)| (file as u64, first as u64)).collect();
        let first = |user: u64| firsts.get(&(user >> 32)).map_or(user, |first| first << 32 | user & u32::MAX as u64);
        for users in [&mut self.users, &mut self.movers] {
            *users = std::mem::take(users).into_iter().map(first).collect();
        }
        let above = std::mem::take(&mut self.above);
        above.into_iter().for_each(|(user, moved)| self.add_above(first(user), moved));
    }
}

pub fn lengthen<T: Default + Clone>(list: &mut Vec<T>, length: usize) {
    if list.len() < length {
        list.resize(length, T::default());
    }
}

impl KindCount {
    fn is_used(&self) -> bool {
        self.durations.count > 0 || self.sized > 0 || self.failed > 0
    }

    fn merge(&mut self, other: &KindCount) {
        self.durations.merge(&other.durations);
        self.sized += other.sized;
        self.bytes += other.bytes;
        self.failed += other.failed;
    }
}

impl FileCount {
    pub fn merge(&mut self, other: &FileCount) {
        self.events += other.events;
        self.opens += other.opens;
        self.time_ns += other.time_ns;
        self.asked_ns += other.asked_ns;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.first_ts = self.first_ts.min(other.first_ts);
        self.last_ts = self.last_ts.max(other.last_ts);
        self.size = self.size.max(other.size);
    }
}

impl ProcessCount {
    /// Returns the summed time of calls of a class.
    pub fn call_time(&self, class: Class) -> u64 {
        self.time_ns[class as usize]
    }

    pub fn merge(&mut self, other: ProcessCount) {
        self.events += other.events;
        self.lost += other.lost;
        self.aggregated += other.aggregated;
        self.first_ts = self.first_ts.min(other.first_ts);
        self.last_ts = self.last_ts.max(other.last_ts);
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.failed += other.failed;
        self.cpu_us += other.cpu_us;
        self.compute_ns += other.compute_ns;
        self.idle_ns += other.idle_ns;
        self.time_ns.iter_mut().zip(other.time_ns).for_each(|(mine, theirs)| *mine += theirs);
        for (tid, theirs) in other.threads {
            self.threads.entry(tid).or_default().merge(&theirs);
        }
    }
}
