//! Counting: what one thread remembers of the events it has seen, and how two threads' counts become one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;

use dlio_schemas::ops::Class;
use foldhash::fast::RandomState;

use super::intervals::{Interval, Lists, Measures, Set, Sweep, unite};
use super::quantiles::{Counts, Histogram};
use crate::batch::{ABSENT, Batch};
use crate::catalog::{Catalog, FILE_NONE, Kind, Origin, is_stored};
use crate::filter::Categories;
use crate::load::{Seen, Unit};
use crate::scan::Consumer;

const CLASSES: usize = Class::ALL.len();

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
            bytes_read: 0,
            bytes_written: 0,
            first_ts: i64::MAX,
            last_ts: i64::MIN,
            size: ABSENT,
        }
    }
}

/// Of one thread of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadCount {
    pub events: u64,
    pub does_io: bool,
    pub computes: bool,
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
    /// Time of calls by class, summed.
    pub(super) time_ns: [u64; CLASSES],
    /// Time of compute spans, summed.
    pub compute_ns: u64,
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
    pub kinds: Vec<KindCount>,
    pub sizes: Counts,
    pub files: Vec<FileCount>,
    pub processes: Vec<ProcessCount>,
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
        lengthen(&mut self.files, other.files.len());
        self.files.iter_mut().zip(&other.files).for_each(|(mine, theirs)| mine.merge(theirs));
        lengthen(&mut self.processes, other.processes.len());
        self.processes.iter_mut().zip(other.processes).for_each(|(mine, theirs)| mine.merge(theirs));
        self.users.extend(other.users);
        self.movers.extend(other.movers);
        other.above.into_iter().for_each(|(user, moved)| self.add_above(user, moved));
        self.units.extend(other.units);
    }
}

impl Counted {
    /// What can be said once everything was counted: files met under two numbers are one, bytes seen twice count once.
    pub fn settle(&mut self, aliases: &[(u32, u32)]) {
        if !aliases.is_empty() {
            self.unite_files(aliases);
        }
        self.unite_layers();
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
        self.time_ns.iter_mut().zip(other.time_ns).for_each(|(mine, theirs)| *mine += theirs);
        for (tid, theirs) in other.threads {
            let mine = self.threads.entry(tid).or_default();
            mine.events += theirs.events;
            mine.does_io |= theirs.does_io;
            mine.computes |= theirs.computes;
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
    /// Moves its bytes by calls that may have been seen too.
    above: bool,
    category: u64,
}

impl KindTraits {
    fn of(kind: &Kind, categories: &Categories) -> KindTraits {
        let call = kind.origin == Origin::Call;
        KindTraits {
            class: kind.class,
            call,
            io: call && is_io(kind),
            opens: call && kind.class == Class::Metadata && opens(&kind.name),
            span: kind.origin == Origin::Span,
            above: call && *kind.cat == *"mpiio",
            category: categories.bit(&kind.cat),
        }
    }
}

/// Calls that count as I/O: what reads, writes, synchronises or asks about files.
pub fn is_io(kind: &Kind) -> bool {
    matches!(kind.class, Class::Read | Class::Write | Class::Metadata | Class::Sync)
}

/// Calls whose success opens a file.
pub const OPENING: [&str; 8] = ["open", "openat", "creat", "mkstemp", "fopen", "freopen", "fdopen", "MPI_File_open"];

pub fn opens(name: &str) -> bool {
    OPENING.contains(&name)
}

/// Where the lists of all threads meet, in order of their parts.
#[derive(Default)]
pub struct Meeting(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    arrived: BTreeMap<usize, (Lists, i64)>,
    next: usize,
    sweep: Sweep,
}

impl Queue {
    fn due(&mut self) -> Option<(Lists, i64)> {
        let due = self.arrived.remove(&self.next)?;
        self.next += 1;
        Some(due)
    }
}

impl Meeting {
    fn deliver(&self, part: usize, lists: Lists, horizon: i64) {
        let mut queue = self.0.lock().expect("lists of intervals");
        queue.arrived.insert(part, (lists, horizon));
        while let Some((lists, horizon)) = queue.due() {
            queue.sweep.take(lists, horizon);
        }
    }

    /// Intervals that are known as a whole before the parts arrive, or apart from them.
    pub fn add(&self, mut lists: Lists) {
        lists.iter_mut().for_each(unite);
        self.0.lock().expect("lists of intervals").sweep.take(lists, i64::MAX);
    }

    /// Measures; then how many intervals came too late to be counted in full, and how much of them is missing.
    pub fn finish(self) -> (Measures, u64, i64) {
        self.0.into_inner().expect("lists of intervals").sweep.finish()
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
    /// Of the unit being read: process ids, and what it holds.
    pids: Vec<u32>,
    seen: Seen,
    /// Lengths as they come, while they are few enough to be kept.
    lengths: Option<Lengths>,
    pub counted: Counted,
}

/// Kinds and lengths of events, side by side.
#[derive(Default)]
pub struct Lengths {
    pub kinds: Vec<u32>,
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
        self.lengths = self.lengths.take().filter(|kept| kept.kinds.len() + batch.len() <= LENGTHS_MAX);
        if let Some(kept) = &mut self.lengths {
            kept.kinds.extend_from_slice(&batch.kind);
            kept.durations.extend_from_slice(&batch.dur);
        }
    }

    /// Foreign formats name things as they come to them: the tables grow with the catalogue.
    fn learn(&mut self, batch: &Batch) {
        let largest = |column: &[u32]| column.iter().copied().max().unwrap_or(0) as usize;
        if largest(&batch.kind) >= self.kinds.len() {
            let categories = Categories::new(self.catalog.categories());
            self.kinds = self.catalog.kinds().iter().map(|kind| KindTraits::of(kind, &categories)).collect();
            lengthen(&mut self.counted.kinds, self.kinds.len());
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
        for i in 0..batch.len() {
            self.event(batch, i, &mut process, &mut thread);
        }
        for &(row, source) in &batch.sources {
            self.source(source, batch.proc, batch.bytes[row as usize], &mut process);
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
        let mut lists = std::mem::take(&mut self.lists);
        lists.iter_mut().for_each(unite);
        self.meeting.deliver(part, lists, horizon);
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
        let count = &mut self.counted.kinds[kind];
        count.durations.add(dur as u64);
        count.failed += failed;
        if bytes != ABSENT {
            count.sized += 1;
            count.bytes += moved as u128;
            self.counted.sizes.add(kind as u32, moved);
        }
        process.first_ts = process.first_ts.min(ts);
        process.last_ts = process.last_ts.max(end);
        process.failed += failed;
        process.time_ns[traits.class as usize] += if traits.call { dur as u64 } else { 0 };
        let file = batch.file[i];
        let stored = self.stored[file as usize];
        let interval = Interval { start: ts, end };
        if traits.io && stored {
            self.lists[Set::Io as usize].push(interval);
            thread.does_io = true;
        } else if traits.span {
            process.compute_ns += if traits.class == Class::Compute { dur as u64 } else { 0 };
            self.span(traits.class, interval, thread);
        }
        let (mut read, mut written) = directions(traits.class, moved);
        let pos = batch.pos[i];
        let reached = if pos == ABSENT { ABSENT } else { pos.saturating_add((read + written) as i64) };
        if traits.above {
            self.counted.add_above((file as u64) << 32 | batch.proc as u64, (read, written));
            (read, written) = (0, 0);
        }
        process.bytes_read += read;
        process.bytes_written += written;
        if file != FILE_NONE && traits.call {
            self.file(file, batch.proc, reached, (read, written), interval, traits.opens && failed == 0);
        }
    }

    fn span(&mut self, class: Class, interval: Interval, thread: &mut ThreadCount) {
        match class {
            Class::Compute => {
                thread.computes = true;
                self.lists[Set::Compute as usize].push(interval);
            }
            Class::Read | Class::Write => self.lists[Set::AppIo as usize].push(interval),
            _ => {}
        }
    }

    /// What a call wrote to one file it read from another, of which it says no more.
    fn source(&mut self, file: u32, proc: u32, bytes: i64, process: &mut ProcessCount) {
        if file != FILE_NONE && bytes != ABSENT {
            process.bytes_read += bytes as u64;
            self.counted.files[file as usize].bytes_read += bytes as u64;
            let user = (file as u64) << 32 | proc as u64;
            self.counted.users.insert(user);
            self.counted.movers.insert(user);
        }
    }

    #[inline(always)]
    fn file(&mut self, file: u32, proc: u32, reached: i64, moved: (u64, u64), interval: Interval, opened: bool) {
        let count = &mut self.counted.files[file as usize];
        count.events += 1;
        count.opens += opened as u64;
        count.time_ns += (interval.end - interval.start) as u64;
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
