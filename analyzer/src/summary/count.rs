//! Counting: what one thread remembers of the events it has seen, and how two threads' counts become one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;

use dlio_schemas::ops::Class;
use foldhash::fast::RandomState;

use super::access::{Access, Passes, Timed, stream};
use super::bins::Bins;
use super::blocks::Blocks;
use super::course::Course;
use super::epochs::{Epochs, Told};
use super::groups::lanes::{LaneMeasure, LanePart, LaneSweep, Lanes, SAID, Track};
use super::groups::tree::{Ancestry, LaneId};
use super::intervals::{Interval, Lists, SETS, Set, unite};
use super::quantiles::{Counts, Histogram};
use super::sweep::{Measures, Sweep, Swept};
use crate::batch::{ABSENT, ABSENT_32, Batch, FAILED};
use crate::catalog::{Catalog, FILE_NONE, Kind, Origin, is_stored};
use crate::scan::Consumer;
use crate::unit::{Categories, Seen, Unit};

const CLASSES: usize = Class::ALL.len();

/// Where a kind is counted: calls past files (on pipes, sockets and terminals) have rows of their own.
#[inline(always)]
pub fn row(kind: u32, past_files: bool) -> u32 {
    kind << 1 | past_files as u32
}

/// The kind of a row, and whether it is of calls past files.
pub fn kind_of(row: u32) -> (u32, bool) {
    (row >> 1, row & 1 == 1)
}

/// Of one kind of event.
#[derive(Clone, Default, Debug)]
pub struct KindCount {
    pub durations: Histogram,
    /// Calls that moved bytes, failed ones left out.
    pub sized: u64,
    pub bytes: u128,
    pub failed: u64,
}

/// Of one file.
#[derive(Clone, Copy, Debug)]
pub struct FileCount {
    pub events: u64,
    pub opens: u64,
    pub time_ns: u64,
    /// Of this, in calls that ask about it.
    pub asked_ns: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub first_ts: i64,
    pub last_ts: i64,
    /// Largest position reached.
    pub size: i64,
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

/// Of one thread of a process.
#[derive(Clone, Copy, Debug)]
pub struct ThreadCount {
    pub events: u64,
    pub does_io: bool,
    pub computes: bool,
    /// Read from files.
    pub bytes_read: u64,
    /// Messages taken from pipes and sockets, and handed to them.
    pub taken: u64,
    pub handed: u64,
    /// Waits for batches that spans tell of.
    pub batches: u64,
    /// First start and last end of spans of a training: waits for batches, compute.
    pub said_from: i64,
    pub said_to: i64,
    /// The first and the last epoch that spans number.
    pub epoch_from: i32,
    pub epoch_to: i32,
}

impl Default for ThreadCount {
    fn default() -> ThreadCount {
        ThreadCount {
            events: 0,
            does_io: false,
            computes: false,
            bytes_read: 0,
            taken: 0,
            handed: 0,
            batches: 0,
            said_from: i64::MAX,
            said_to: i64::MIN,
            epoch_from: i32::MAX,
            epoch_to: i32::MIN,
        }
    }
}

impl ThreadCount {
    fn merge(&mut self, other: &ThreadCount) {
        self.events += other.events;
        self.does_io |= other.does_io;
        self.computes |= other.computes;
        self.bytes_read += other.bytes_read;
        self.taken += other.taken;
        self.handed += other.handed;
        self.batches += other.batches;
        self.said_from = self.said_from.min(other.said_from);
        self.said_to = self.said_to.max(other.said_to);
        self.epoch_from = self.epoch_from.min(other.epoch_from);
        self.epoch_to = self.epoch_to.max(other.epoch_to);
    }

    /// How many epochs its spans number.
    pub fn epochs(&self) -> u64 {
        (self.epoch_to as i64 - self.epoch_from as i64 + 1).max(0) as u64
    }

    fn said(&mut self, interval: Interval) {
        self.said_from = self.said_from.min(interval.start);
        self.said_to = self.said_to.max(interval.end);
    }
}

/// Of one process.
#[derive(Clone, Debug)]
pub struct ProcessCount {
    pub events: u64,
    pub lost: u64,
    /// Of what is lost, what the tracer counted together on purpose.
    pub aggregated: u64,
    pub first_ts: i64,
    pub last_ts: i64,
    /// Time of calls by class, summed; of those on files.
    pub(super) time_ns: [u64; CLASSES],
    /// Time of compute spans, summed.
    pub compute_ns: u64,
    /// Time of calls that wait for others, summed.
    pub idle_ns: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub failed: u64,
    pub threads: BTreeMap<i32, ThreadCount>,
}

impl ProcessCount {
    /// Of a process without events.
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
        threads: BTreeMap::new(),
    };
}

impl Default for ProcessCount {
    fn default() -> ProcessCount {
        ProcessCount::NOTHING
    }
}

/// Everything counted.
#[derive(Default)]
pub struct Counted {
    /// What each unit turned out to hold, by source and index.
    pub units: Vec<(u32, u32, Seen)>,
    /// By [`row`].
    pub kinds: Vec<KindCount>,
    pub sizes: Counts,
    /// How files were read and written.
    pub access: Access,
    pub files: Vec<FileCount>,
    pub processes: Vec<ProcessCount>,
    pub course: Course,
    pub epochs: Epochs,
    /// Where ranks write.
    pub blocks: Blocks,
    /// Which process used which file: file in the upper half, process in the lower.
    pub users: HashSet<u64, RandomState>,
    /// Which process moved bytes of which file by calls of the system or of the C library.
    movers: HashSet<u64, RandomState>,
    /// Bytes read and written by calls that stand above those, likewise: they are the same bytes where there are both.
    above: HashMap<u64, (u64, u64), RandomState>,
}

impl Counted {
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
        self.blocks.merge(other.blocks);
        self.users.extend(other.users);
        self.movers.extend(other.movers);
        other.above.into_iter().for_each(|(user, moved)| self.add_above(user, moved));
        self.units.extend(other.units);
    }
}

impl Counted {
    /// Whether spans tell of all computing, and not of parts alone.
    pub fn knows_computing(&self, kinds: &[Kind]) -> bool {
        let counted = (0u32..).zip(&self.kinds).filter(|(_, count)| count.durations.count > 0);
        !counted.filter_map(|(row, _)| kinds.get(kind_of(row).0 as usize)).any(is_part)
    }

    /// What can be said once everything was counted: files met under two numbers are one, bytes seen twice count once.
    pub fn settle(&mut self, aliases: &[(u32, u32)]) {
        if !aliases.is_empty() {
            self.unite_files(aliases);
        }
        self.unite_layers();
        self.access.settle();
    }

    fn add_above(&mut self, user: u64, moved: (u64, u64)) {
        let sum = self.above.entry(user).or_default();
        *sum = (sum.0 + moved.0, sum.1 + moved.1);
    }

    /// Bytes of upper calls count where the calls beneath them were not seen.
    fn unite_layers(&mut self) {
        for (user, (read, written)) in std::mem::take(&mut self.above) {
            if self.movers.contains(&user) {
                continue;
            }
            let (file, process) = (&mut self.files[(user >> 32) as usize], &mut self.processes[user as u32 as usize]);
            file.bytes_read += read;
            file.bytes_written += written;
            process.bytes_read += read;
            process.bytes_written += written;
        }
    }

    fn unite_files(&mut self, aliases: &[(u32, u32)]) {
        for &(file, first) in aliases {
            lengthen(&mut self.files, file.max(first) as usize + 1);
            let count = std::mem::take(&mut self.files[file as usize]);
            self.files[first as usize].merge(&count);
        }
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
    /// Summed time of calls of a class.
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
        self.compute_ns += other.compute_ns;
        self.idle_ns += other.idle_ns;
        self.time_ns.iter_mut().zip(other.time_ns).for_each(|(mine, theirs)| *mine += theirs);
        for (tid, theirs) in other.threads {
            self.threads.entry(tid).or_default().merge(&theirs);
        }
    }
}

/// What counting needs to know of a kind, without its strings.
#[derive(Clone, Copy)]
struct KindTraits {
    class: Class,
    call: bool,
    /// Counts as I/O when it is on a file: calls of the process layer do not.
    io: bool,
    opens: bool,
    span: bool,
    /// Is a span in which a trainer waits for its next batch.
    next_batch: bool,
    /// Waits for others, and not for a file or until a time.
    idle: bool,
    /// Moves its bytes by calls that may have been seen too.
    above: bool,
    /// Is a span of communication.
    communicates: bool,
    /// Whose times are measured, and which stream its bytes belong to.
    timed: Timed,
    stream: u8,
    /// Ends a pass through a file by opening it, or by closing it.
    closes: bool,
    category: u64,
}

impl KindTraits {
    /// What an epoch takes it for.
    fn told(&self) -> Told {
        match self.class {
            _ if self.next_batch => Told::Wait,
            Class::Compute => Told::Compute,
            _ => Told::Other,
        }
    }

    fn of(kind: &Kind, category: u32) -> KindTraits {
        let call = kind.origin == Origin::Call;
        KindTraits {
            class: kind.class,
            call,
            io: call && is_io(kind),
            opens: call && kind.class == Class::Metadata && opens(&kind.name),
            span: kind.origin == Origin::Span,
            next_batch: kind.origin == Origin::Span && is_next_batch(kind),
            idle: call && is_idle(kind),
            above: call && *kind.cat == *"mpiio",
            communicates: kind.origin == Origin::Span && communicates(&kind.cat),
            timed: match kind.class {
                Class::Read => Timed::Read,
                Class::Write => Timed::Write,
                Class::Sync => Timed::Sync,
                _ => Timed::Metadata,
            },
            stream: stream(&kind.cat, kind.class == Class::Write),
            closes: call && ["close", "fclose"].contains(&&*kind.name),
            category: Categories::bit_at(category),
        }
    }
}

/// Calls that count as I/O: what reads, writes, synchronises or asks about files.
pub fn is_io(kind: &Kind) -> bool {
    matches!(kind.class, Class::Read | Class::Write | Class::Metadata | Class::Sync)
}

/// Spans in which a trainer waits for its next batch, by the beginning of their name: ours and the benchmark's, PyTorch's
/// profiler's, Lightning's.
pub const NEXT_BATCH: [&str; 3] = ["fetch", "enumerate(DataLoader)", "[_TrainingEpochLoop].train_dataloader_next"];

pub fn is_next_batch(kind: &Kind) -> bool {
    kind.class != Class::Compute && NEXT_BATCH.iter().any(|name| kind.name.starts_with(name))
}

/// What is told of a training step whose forward nobody saw: a part of the computing, which must not be taken for all of it.
const PARTS: [&str; 3] = ["backward", "optimizer.step", "optimizer.part"];

fn is_part(kind: &Kind) -> bool {
    kind.origin == Origin::Span && *kind.cat == *"pipeline" && PARTS.contains(&kind.name.as_ref())
}

/// Calls that wait, whatever for.
pub fn is_wait(kind: &Kind) -> bool {
    kind.class == Class::Wait
}

/// Calls that wait for others. One that sleeps waits for nobody.
pub fn is_idle(kind: &Kind) -> bool {
    is_wait(kind) && !kind.name.ends_with("sleep")
}

/// Calls whose success opens a file. `fdopen` puts a stream before one that is open.
pub const OPENING: [&str; 7] = ["open", "openat", "creat", "mkstemp", "fopen", "freopen", "MPI_File_open"];

pub fn opens(name: &str) -> bool {
    OPENING.contains(&name)
}

/// Categories of spans in which ranks talk to one another begin so.
pub fn communicates(category: &str) -> bool {
    category.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("comm"))
}

/// Where the lists of all threads meet, in order of their parts.
pub struct Meeting(Mutex<Queue>);

struct Queue {
    arrived: BTreeMap<usize, (Lists, LanePart, i64)>,
    next: usize,
    sweep: Sweep,
    lanes: LaneSweep,
}

/// All that was measured where lists met.
pub struct Met {
    pub measures: Measures,
    pub lanes: BTreeMap<LaneId, LaneMeasure>,
    /// Intervals that came too late to be counted in full, and how much of them is missing.
    pub late: u64,
    pub late_ns: i64,
    /// How much of each set lies in each column of time.
    pub bands: Bins<SETS>,
    /// The same of what lanes say they did, summed over them, and of the time others let them wait.
    pub said: Bins<SAID>,
    pub idle: BTreeMap<LaneId, Bins<1>>,
}

impl Queue {
    fn due(&mut self) -> Option<(Lists, LanePart, i64)> {
        let due = self.arrived.remove(&self.next)?;
        self.next += 1;
        Some(due)
    }
}

impl Meeting {
    pub fn new(catalog: &Catalog) -> Meeting {
        let lanes = LaneSweep::new(Ancestry::new(catalog));
        Meeting(Mutex::new(Queue { arrived: BTreeMap::new(), next: 0, sweep: Sweep::default(), lanes }))
    }

    fn deliver(&self, part: usize, lists: Lists, lanes: LanePart, horizon: i64) {
        let mut queue = self.0.lock().expect("lists of intervals");
        queue.arrived.insert(part, (lists, lanes, horizon));
        while let Some((lists, lanes, horizon)) = queue.due() {
            queue.sweep.take(lists, horizon);
            queue.lanes.take(lanes, horizon);
        }
    }

    /// Intervals that are known as a whole before the parts arrive, or apart from them.
    pub fn add(&self, mut lists: Lists) {
        lists.iter_mut().for_each(unite);
        self.0.lock().expect("lists of intervals").sweep.take(lists, i64::MAX);
    }

    pub fn finish(self) -> Met {
        let queue = self.0.into_inner().expect("lists of intervals");
        let Swept { measures, bands, late, late_ns } = queue.sweep.finish();
        let Lanes { measures: lanes, said, idle } = queue.lanes.finish();
        Met { measures, lanes, late, late_ns, bands, said, idle }
    }
}

/// Counts what one thread reads.
pub struct Counter<'a> {
    catalog: &'a Catalog,
    meeting: &'a Meeting,
    kinds: Vec<KindTraits>,
    /// Whether a file is one, and no pipe.
    stored: Vec<bool>,
    /// The process that used a file last, doubled, and whether it moved bytes: most of `users` need not be asked.
    last_user: Vec<u32>,
    lists: Lists,
    lanes: LanePart,
    /// Passes through files of the batch being read.
    passes: Passes,
    /// The lane of the batch being read, and whether its process has a rank.
    lane: usize,
    is_ranked: bool,
    /// Of the unit being read: process ids, and what it holds.
    pids: Vec<u32>,
    seen: Seen,
    /// Lengths as they come, while they are few enough to be kept.
    lengths: Option<Lengths>,
    pub counted: Counted,
}

/// Rows and lengths of events, side by side.
#[derive(Default)]
pub struct Lengths {
    pub rows: Vec<u32>,
    pub durations: Vec<i64>,
}

/// Events whose lengths are kept, in 12 bytes each: exact quantiles of that many need no second pass over the trace.
pub const LENGTHS_MAX: usize = 2_000_000;

/// Nothing yet.
const UNSEEN: Seen = Seen { first_start: i64::MAX, last_end: i64::MIN, pid: None, categories: 0 };

impl<'a> Counter<'a> {
    pub fn new(catalog: &'a Catalog, meeting: &'a Meeting) -> Counter<'a> {
        Counter {
            catalog,
            meeting,
            kinds: Vec::new(),
            stored: Vec::new(),
            last_user: Vec::new(),
            lists: Default::default(),
            lanes: LanePart::default(),
            passes: Passes::default(),
            lane: 0,
            is_ranked: false,
            pids: Vec::new(),
            seen: UNSEEN,
            lengths: None,
            counted: Counted::default(),
        }
    }

    /// One that keeps the lengths of events too, up to [`LENGTHS_MAX`].
    pub fn keeping_lengths(self) -> Self {
        Counter { lengths: Some(Lengths::default()), ..self }
    }

    /// The lengths of all its events, unless they were too many or not asked for.
    pub fn take_lengths(&mut self) -> Option<Lengths> {
        self.lengths.take()
    }

    fn keep_lengths(&mut self, batch: &Batch) {
        self.lengths = self.lengths.take().filter(|kept| kept.rows.len() + batch.len() <= LENGTHS_MAX);
        if let Some(kept) = &mut self.lengths {
            let past = |file: u32| !self.stored[file as usize];
            kept.rows.extend(batch.kind.iter().zip(&batch.file).map(|(&kind, &file)| row(kind, past(file))));
            kept.durations.extend_from_slice(&batch.dur);
        }
    }

    /// Foreign formats name things as they come to them: the tables grow with the catalogue.
    fn learn(&mut self, batch: &Batch) {
        let largest = |column: &[u32]| column.iter().copied().max().unwrap_or(0) as usize;
        if largest(&batch.kind) >= self.kinds.len() {
            let known = self.kinds.len();
            let categories = self.catalog.categories_from(known);
            let kinds = self.catalog.kinds_from(known);
            self.kinds.extend(kinds.iter().zip(categories).map(|(kind, category)| KindTraits::of(kind, category)));
            lengthen(&mut self.counted.kinds, 2 * self.kinds.len());
        }
        let source = batch.sources.iter().map(|(_, file)| *file as usize).max().unwrap_or(0);
        if largest(&batch.file).max(source) >= self.stored.len() {
            self.stored.extend(self.catalog.files_from(self.stored.len()).iter().map(|path| is_stored(path)));
            self.last_user.resize(self.stored.len(), u32::MAX);
            lengthen(&mut self.counted.files, self.stored.len());
        }
        lengthen(&mut self.counted.processes, batch.proc as usize + 1);
    }
}

impl Consumer for Counter<'_> {
    fn batch(&mut self, batch: &mut Batch) {
        if batch.is_empty() && batch.lost == 0 {
            return;
        }
        self.learn(batch);
        self.keep_lengths(batch);
        let mut process = ProcessCount { lost: batch.lost, aggregated: batch.aggregated, ..ProcessCount::default() };
        let mut thread = ThreadCount::default();
        self.counted.course.begin(batch.proc);
        self.counted.access.ready();
        self.lane = self.lanes.place(LaneId { proc: batch.proc, tid: batch.tid });
        self.is_ranked = self.catalog.is_process(batch.proc, |process| process.rank.is_some());
        for i in 0..batch.len() {
            self.event(batch, i, &mut process, &mut thread);
        }
        for (at, &epoch) in batch.epoch.iter().enumerate().filter(|(_, epoch)| **epoch != ABSENT_32) {
            thread.epoch_from = thread.epoch_from.min(epoch);
            thread.epoch_to = thread.epoch_to.max(epoch);
            let interval = Interval { start: batch.ts[at], end: batch.ts[at].saturating_add(batch.dur[at]) };
            self.counted.epochs.add(epoch, interval, self.kinds[batch.kind[at] as usize].told());
        }
        self.passes.end(&mut self.counted.access, (batch.proc, batch.tid));
        for &(row, source) in &batch.sources {
            let row = row as usize;
            let interval = Interval { start: batch.ts[row], end: batch.ts[row].saturating_add(batch.dur[row]) };
            self.source(source, batch.proc, batch.bytes[row], interval, &mut process);
        }
        process.events = batch.len() as u64;
        thread.events = batch.len() as u64;
        process.threads.insert(batch.tid, thread);
        self.seen.first_start = self.seen.first_start.min(process.first_ts);
        self.seen.last_end = self.seen.last_end.max(process.last_ts);
        if self.pids.last() != Some(&batch.proc) {
            self.pids.push(batch.proc);
        }
        self.counted.processes[batch.proc as usize].merge(process);
    }

    fn unit_done(&mut self, unit: &Unit) {
        let seen = std::mem::replace(&mut self.seen, UNSEEN);
        let procs = std::mem::take(&mut self.pids);
        let pid = match procs.first() {
            Some(&only) if procs.iter().all(|proc| *proc == only) && unit.proc.is_none() => {
                Some(self.catalog.pid(only))
            }
            _ => None,
        };
        self.counted.units.push((unit.source, unit.index, Seen { pid, ..seen }));
    }

    fn part_done(&mut self, part: usize, horizon: i64) {
        self.counted.course.flush();
        let mut lists = std::mem::take(&mut self.lists);
        let mut lanes = std::mem::take(&mut self.lanes);
        lanes.unite();
        lists[Set::Io as usize] = lanes.all_of(Track::Io);
        lists.iter_mut().for_each(unite);
        self.meeting.deliver(part, lists, lanes, horizon);
    }
}

impl Counter<'_> {
    #[inline(always)]
    fn event(&mut self, batch: &Batch, i: usize, process: &mut ProcessCount, thread: &mut ThreadCount) {
        let kind = batch.kind[i] as usize;
        let traits = self.kinds[kind];
        let (ts, dur, bytes) = (batch.ts[i], batch.dur[i], batch.bytes[i]);
        let end = ts.saturating_add(dur);
        self.seen.categories |= traits.category;
        let failed = (batch.ret[i] < 0 && batch.ret[i] != ABSENT) as u64;
        let moved = if bytes == ABSENT { 0 } else { bytes as u64 };
        let file = batch.file[i];
        let stored = self.stored[file as usize];
        let row = row(kind as u32, !stored);
        let count = &mut self.counted.kinds[row as usize];
        count.durations.add(dur as u64);
        count.failed += failed;
        if bytes != ABSENT {
            count.sized += 1;
            count.bytes += moved as u128;
            self.counted.sizes.add(row, moved);
        }
        process.first_ts = process.first_ts.min(ts);
        process.last_ts = process.last_ts.max(end);
        // A wait whose time ran out did what it was asked for.
        process.failed += if traits.class == Class::Wait { 0 } else { failed };
        process.time_ns[traits.class as usize] += if traits.call && stored { dur as u64 } else { 0 };
        let interval = Interval { start: ts, end };
        let (mut read, mut written) = directions(traits.class, moved);
        if traits.io && stored {
            self.lanes.push(self.lane, Track::Io, interval);
            thread.does_io = true;
            thread.bytes_read += read;
            self.access(batch, i, (row, traits), failed > 0);
        } else if traits.span {
            process.compute_ns += if traits.class == Class::Compute { dur as u64 } else { 0 };
            self.span(traits, interval, thread);
        } else if traits.idle || traits.io && traits.class == Class::Read {
            self.lanes.push(self.lane, Track::Idle, interval);
            process.idle_ns += dur as u64;
            thread.taken += (read > 0) as u64;
        }
        if !stored && written > 0 {
            thread.handed += 1;
            self.lanes.push(self.lane, Track::Hand, interval);
        }
        let pos = batch.pos[i];
        let reached = if pos == ABSENT { ABSENT } else { pos.saturating_add((read + written) as i64) };
        if traits.above {
            self.counted.add_above((file as u64) << 32 | batch.proc as u64, (read, written));
            (read, written) = (0, 0);
        }
        if stored {
            process.bytes_read += read;
            process.bytes_written += written;
            if traits.io {
                self.counted.course.add(interval, read, written, traits.class == Class::Metadata);
            }
        }
        if file != FILE_NONE && traits.call {
            self.file(file, batch.proc, reached, (read, written), interval, (traits.opens && failed == 0, traits));
        }
    }

    /// A call on a file: how long it took, where it began, how it failed.
    #[inline(always)]
    fn access(&mut self, batch: &Batch, i: usize, (row, traits): (u32, KindTraits), failed: bool) {
        let (ts, dur, file, bytes) = (batch.ts[i], batch.dur[i] as u64, batch.file[i], batch.bytes[i]);
        let access = &mut self.counted.access;
        access.time(traits.timed, (bytes != ABSENT).then_some(bytes as u64), dur);
        if bytes > 0 && file != FILE_NONE && matches!(traits.timed, Timed::Read | Timed::Write) {
            let pos = (batch.pos[i] != ABSENT).then_some(batch.pos[i]);
            self.passes.moved(access, (batch.proc, batch.tid), file, traits.stream, (ts, pos, bytes));
            if let Some(pos) = pos.filter(|_| self.is_ranked && traits.timed == Timed::Write) {
                let interval = Interval { start: ts, end: ts.saturating_add(batch.dur[i]) };
                self.counted.blocks.wrote(batch.proc, file, (pos, bytes), interval);
            }
        } else if !failed && file != FILE_NONE && (traits.opens || traits.closes) {
            self.passes.bound(ts, file, traits.closes);
        }
        if failed {
            let errno = if batch.ret[i] == FAILED { 0 } else { -batch.ret[i] as i32 };
            access.failed(row, errno, (ts, file), dur);
        }
    }

    fn span(&mut self, traits: KindTraits, interval: Interval, thread: &mut ThreadCount) {
        match traits.class {
            Class::Compute => {
                thread.computes = true;
                self.lists[Set::Compute as usize].push(interval);
                self.lanes.push(self.lane, Track::Compute, interval);
                thread.said(interval);
            }
            Class::Read | Class::Write => self.lists[Set::AppIo as usize].push(interval),
            _ => {}
        }
        if traits.communicates {
            self.lanes.push(self.lane, Track::Comm, interval);
        }
        if traits.class == Class::Write {
            self.lanes.push(self.lane, Track::Save, interval);
        }
        if traits.next_batch {
            self.lanes.push(self.lane, Track::Wait, interval);
            thread.batches += 1;
            thread.said(interval);
        }
    }

    /// What a call wrote to one file it read from another, of which it says no more.
    fn source(&mut self, file: u32, proc: u32, bytes: i64, interval: Interval, process: &mut ProcessCount) {
        if file != FILE_NONE && bytes != ABSENT {
            process.bytes_read += bytes as u64;
            self.counted.course.add_bytes(interval, bytes as u64);
            self.counted.files[file as usize].bytes_read += bytes as u64;
            let user = (file as u64) << 32 | proc as u64;
            self.counted.users.insert(user);
            self.counted.movers.insert(user);
        }
    }

    #[inline(always)]
    fn file(
        &mut self,
        file: u32,
        proc: u32,
        reached: i64,
        moved: (u64, u64),
        interval: Interval,
        (opened, traits): (bool, KindTraits),
    ) {
        let count = &mut self.counted.files[file as usize];
        let ns = (interval.end - interval.start) as u64;
        count.events += 1;
        count.opens += opened as u64;
        count.time_ns += ns;
        count.asked_ns += if traits.timed == Timed::Metadata && traits.io { ns } else { 0 };
        count.bytes_read += moved.0;
        count.bytes_written += moved.1;
        count.first_ts = count.first_ts.min(interval.start);
        count.last_ts = count.last_ts.max(interval.end);
        if reached != ABSENT {
            count.size = count.size.max(reached);
        }
        let (last, moves) = (self.last_user[file as usize], moved.0 + moved.1 > 0);
        if last >> 1 != proc || moves && last & 1 == 0 {
            self.user(file, proc, moves);
        }
    }

    #[cold]
    fn user(&mut self, file: u32, proc: u32, moves: bool) {
        self.last_user[file as usize] = proc << 1 | moves as u32;
        let user = (file as u64) << 32 | proc as u64;
        self.counted.users.insert(user);
        if moves {
            self.counted.movers.insert(user);
        }
    }
}

/// Bytes read and bytes written.
#[inline(always)]
pub fn directions(class: Class, moved: u64) -> (u64, u64) {
    match class {
        Class::Read => (moved, 0),
        Class::Write => (0, moved),
        _ => (0, 0),
    }
}
