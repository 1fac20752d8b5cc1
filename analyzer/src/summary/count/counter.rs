//! Counting: one thread reads batches and adds each event to its counts and to its lists of intervals.

use dlio_schemas::evidence::{Child, Waker};
use dlio_schemas::ops::Class;
use serde::{Deserialize, Serialize};

use super::counted::{Counted, ProcessCount, ThreadCount, UpperLayerTotals, lengthen, row};
use super::data_sets::DataSetCounter;
use super::device_times::DeviceId;
use super::file_traits::FileTraits;
use super::kinds::{KindTraits, Library, directions};
use super::saves::{Saves, interrupts};
use crate::batch::{ABSENT, ABSENT_32, Batch, FAILED};
use crate::catalog::{Catalog, FILE_NONE};
use crate::filter::Filter;
use crate::scan::Consumer;
use crate::summary::files::access::{Passes, Timed};
use crate::summary::files::blocks::name_hash;
use crate::summary::groups::lanes::{LanePart, Track};
use crate::summary::groups::shared_sweep::SharedSweep;
use crate::summary::time::intervals::{Interval, Lists, Set, unite};
use crate::summary::tree::LaneId;
use crate::summary::waits::timeline::{FileMade, Object, Step, StepKind, TimelinePart, file_object};
use crate::unit::{Seen, Unit};

/// Counts the events that one thread reads.
pub struct Counter<'a> {
    catalog: &'a Catalog,
    sweep: &'a SharedSweep,
    kinds: Vec<KindTraits>,
    files: Vec<FileTraits>,
    /// The last process that used a file, doubled, plus whether it moved bytes: avoids most lookups in `users`.
    last_user: Vec<u32>,
    /// By file, the last batch that wrote to it, and the last that read it.
    moved_in: Vec<[u32; 2]>,
    batches: u32,
    lists: Lists,
    lanes: LanePart,
    timelines: TimelinePart,
    /// Requests through rings while they were in flight.
    in_flight: Vec<Interval>,
    /// The file of the last request that the thread of the current batch gave to threads of the C library.
    requested: u32,
    /// Indexes of the next wake in the batch, and of the next counters.
    wake: usize,
    sent: usize,
    usage: usize,
    /// Passes through files in the current batch.
    passes: Passes,
    /// Files that the thread of the current batch is saving.
    saves: Saves,
    /// The lane of the current batch, and whether its process has a rank.
    lane: usize,
    lane_id: LaneId,
    is_ranked: bool,
    /// For the current unit: process ids, and its content.
    pids: Vec<u32>,
    seen: Seen,
    /// Times outside are not counted as wall time.
    window: (i64, i64),
    data_sets: DataSetCounter,
    mpi_files: DataSetCounter,
    /// Lengths of events, while they are few enough to be kept.
    lengths: Option<Lengths>,
    pub counted: Counted,
}

/// Rows and lengths of events, in parallel lists.
#[derive(Default, Serialize, Deserialize)]
pub struct Lengths {
    pub rows: Vec<u32>,
    pub durations: Vec<i64>,
}

/// The maximum number of events whose lengths are kept, in 12 bytes each: their exact quantiles need no second pass
/// over the trace.
pub const LENGTHS_MAX: usize = 2_000_000;

/// An empty unit.
const UNSEEN: Seen = Seen { first_start: i64::MAX, last_end: i64::MIN, pid: None, categories: 0 };

impl<'a> Counter<'a> {
    pub fn new(catalog: &'a Catalog, sweep: &'a SharedSweep) -> Counter<'a> {
        Counter {
            catalog,
            sweep,
            kinds: Vec::new(),
            files: Vec::new(),
            last_user: Vec::new(),
            moved_in: Vec::new(),
            batches: 0,
            lists: Default::default(),
            lanes: LanePart::default(),
            timelines: TimelinePart::default(),
            in_flight: Vec::new(),
            requested: FILE_NONE,
            wake: 0,
            sent: 0,
            usage: 0,
            passes: Passes::default(),
            saves: Saves::default(),
            lane: 0,
            lane_id: LaneId { proc: 0, tid: 0 },
            is_ranked: false,
            pids: Vec::new(),
            seen: UNSEEN,
            window: (i64::MIN, i64::MAX),
            data_sets: DataSetCounter::new(Library::Hdf5),
            mpi_files: DataSetCounter::new(Library::Mpi),
            lengths: None,
            counted: Counted::default(),
        }
    }

    /// Returns a counter that excludes the parts of events outside a filter's window.
    pub fn within(self, filter: &Filter) -> Self {
        Counter { window: filter.within(i64::MIN, i64::MAX), ..self }
    }

    /// Returns a counter that also keeps the lengths of events, up to [`LENGTHS_MAX`].
    pub fn keeping_lengths(self) -> Self {
        Counter { lengths: Some(Lengths::default()), ..self }
    }

    /// Returns the lengths of all its events, unless they were too many or not requested.
    pub fn take_lengths(&mut self) -> Option<Lengths> {
        self.lengths.take()
    }

    fn keep_lengths(&mut self, batch: &Batch) {
        self.lengths = self.lengths.take().filter(|kept| kept.rows.len() + batch.len() <= LENGTHS_MAX);
        if let Some(kept) = &mut self.lengths {
            let past = |kind: u32, file: u32| !self.kinds[kind as usize].is_on_file(self.files[file as usize].stored);
            kept.rows.extend(batch.kind.iter().zip(&batch.file).map(|(&kind, &file)| row(kind, past(kind, file))));
            kept.durations.extend_from_slice(&batch.dur);
        }
    }

    /// Extends the tables to the catalog, which grows because foreign formats name things on first use.
    fn learn(&mut self, batch: &Batch) {
        let largest = |column: &[u32]| column.iter().copied().max().unwrap_or(0) as usize;
        if largest(&batch.kind) >= self.kinds.len() {
            let known = self.kinds.len();
            let categories = self.catalog.categories_from(known);
            let kinds = self.catalog.kinds_from(known);
            self.kinds.extend(kinds.iter().zip(categories).map(|(kind, category)| KindTraits::of(kind, category)));
            lengthen(&mut self.counted.kinds, 2 * self.kinds.len());
        }
        let source = batch.sources.iter().chain(&batch.sent).map(|(_, file)| *file as usize).max().unwrap_or(0);
        if largest(&batch.file).max(source) >= self.files.len() {
            let paths = self.catalog.files_from(self.files.len());
            self.files.extend(paths.iter().map(|path| FileTraits::of(path)));
            self.last_user.resize(self.files.len(), u32::MAX);
            self.moved_in.resize(self.files.len(), [0; 2]);
            lengthen(&mut self.counted.files, self.files.len());
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
        let lane_id = LaneId { proc: batch.proc, tid: batch.tid };
        self.requested = if lane_id == self.lane_id { self.requested } else { FILE_NONE };
        self.lane_id = lane_id;
        self.lane = self.lanes.place(self.lane_id);
        self.is_ranked = self.catalog.is_process(batch.proc, |process| process.rank.is_some());
        self.see_moves(batch);
        let first = batch.ts.iter().copied().min();
        self.timelines.divides_by_spans(self.kinds.iter().any(|kind| kind.next_batch));
        self.timelines.begin(self.lane_id, first.unwrap_or(i64::MAX));
        (self.wake, self.sent, self.usage) = (0, 0, 0);
        self.saves.interrupt();
        self.data_sets.begin();
        self.mpi_files.begin();
        self.counted.file_locks.begin();
        for i in 0..batch.len() {
            self.event(batch, i, &mut process, &mut thread);
        }
        for (at, &epoch) in batch.epoch.iter().enumerate().filter(|(_, epoch)| **epoch != ABSENT_32) {
            thread.epoch_from = thread.epoch_from.min(epoch);
            thread.epoch_to = thread.epoch_to.max(epoch);
            let interval = Interval { start: batch.ts[at], end: batch.ts[at].saturating_add(batch.dur[at]) };
            self.counted.epochs.add(epoch, interval, self.kinds[batch.kind[at] as usize].part());
        }
        self.timelines.end(&batch.usage);
        self.passes.end(&mut self.counted.access, (batch.proc, batch.tid));
        for &(row, source) in &batch.sources {
            let row = row as usize;
            let interval = Interval { start: batch.ts[row], end: batch.ts[row].saturating_add(batch.dur[row]) };
            self.source(source, batch.proc, batch.bytes[row], interval, &mut process);
        }
        process.cpu_us = batch.usage.iter().map(|usage| usage.counters.cpu_us).sum();
        process.events = batch.len() as u64;
        thread.events = batch.len() as u64;
        process.threads.insert(batch.tid, Box::new(thread));
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
        self.data_sets.part_done(&mut self.counted.data_sets);
        self.mpi_files.part_done(&mut self.counted.mpi_files);
        let mut lists = std::mem::take(&mut self.lists);
        let mut lanes = std::mem::take(&mut self.lanes);
        let timelines = std::mem::take(&mut self.timelines);
        lanes.unite();
        lists[Set::Io as usize] = lanes.all_of(Track::Io);
        lists[Set::Io as usize].append(&mut self.in_flight);
        lists.iter_mut().for_each(unite);
        self.sweep.deliver(part, (lists, lanes, timelines), horizon);
    }
}

impl Counter<'_> {
    /// Notes which files a batch reads and writes: the purpose of opening or closing a file shows in the calls after
    /// it.
    fn see_moves(&mut self, batch: &Batch) {
        self.batches += 1;
        for (&kind, &file) in batch.kind.iter().zip(&batch.file) {
            let traits = self.kinds[kind as usize];
            if traits.io && matches!(traits.class, Class::Read | Class::Write) {
                self.moved_in[file as usize][(traits.class == Class::Read) as usize] = self.batches;
            }
        }
    }

    /// Returns `true` if a call on a file is for writing. A call that moves nothing is, if it changes the file, or its
    /// batch writes the file and does not read it.
    #[inline(always)]
    fn puts(&self, traits: KindTraits, file: u32) -> bool {
        match traits.class {
            Class::Write | Class::Sync => true,
            Class::Metadata => traits.changes || self.only_writes(file),
            _ => (traits.enters_ring || traits.awaits_requests) && self.only_writes(file),
        }
    }

    /// Returns `true` if the batch writes a file and does not read it.
    fn only_writes(&self, file: u32) -> bool {
        let [written, read] = self.moved_in[file as usize];
        written == self.batches && read != self.batches
    }

    /// Adds the time that a thread spends in a call on a file.
    #[inline(always)]
    fn file_call(&mut self, traits: KindTraits, file: u32, interval: Interval) {
        self.lanes.push(self.lane, Track::Io, interval);
        if self.puts(traits, file) {
            self.lanes.push(self.lane, Track::Put, interval);
            self.timelines.put(interval);
        }
    }

    /// Notes a call on a file that a thread may be saving.
    #[inline(always)]
    fn saves(&mut self, traits: KindTraits, file: u32, interval: Interval, (written, is_done): (u64, bool)) {
        match traits.class {
            Class::Write => self.saves.write(file, written),
            Class::Read => self.saves.read(file),
            _ if traits.opens && is_done => self.saves.open(file, interval.start),
            _ if traits.closes => {
                if let Some(saved) = self.saves.close(file, interval.end) {
                    self.lanes.push(self.lane, Track::Put, saved);
                    self.timelines.saved(saved);
                }
            }
            _ => {}
        }
    }

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
        let named = self.files[file as usize];
        let stored = traits.is_on_file(named.stored);
        let row = row(kind as u32, !stored);
        self.count_kind(row, dur, failed, bytes);
        process.first_ts = process.first_ts.min(ts);
        process.last_ts = process.last_ts.max(end);
        // A wait that timed out did what was requested.
        process.failed += if traits.class == Class::Wait { 0 } else { failed };
        if self.is_of_library(batch, i, (traits, named.stored)) {
            return;
        }
        // The time of calls in higher layers is part of the calls below, if those were recorded.
        let is_above = traits.above && stored && matches!(traits.class, Class::Read | Class::Write);
        process.time_ns[traits.class as usize] += if traits.call && stored && !is_above { dur as u64 } else { 0 };
        let whole = Interval { start: ts, end };
        let start = ts.max(self.window.0);
        let interval = Interval { start, end: end.min(self.window.1).max(start) };
        let (mut read, mut written) = directions(traits.class, moved);
        let timed = if traits.by_ring && !stored { Interval { start: interval.end, ..interval } } else { interval };
        self.activity((batch, i), (row, traits, file), (timed, read, written), process, thread);
        if !stored && written > 0 {
            thread.handed += 1;
            thread.handed_by_socket += named.socket as u64;
            self.lanes.push(self.lane, Track::Hand, timed);
        }
        let reached = if failed > 0 { ABSENT } else { reached(batch, i, read + written, traits) };
        if traits.above {
            let ns = directions(traits.class, if is_above { dur as u64 } else { 0 });
            let more = UpperLayerTotals { bytes: (read, written), ns, events: is_above as u64 };
            self.counted.add_above((file as u64) << 32 | batch.proc as u64, more);
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
            self.file(file, batch.proc, reached, (read, written), whole, (traits.opens && failed == 0, traits));
        }
    }

    /// Adds an event to what its thread and its process did.
    #[inline(always)]
    fn activity(
        &mut self,
        (batch, i): (&Batch, usize),
        (row, traits, file): (u32, KindTraits, u32),
        (interval, read, written): (Interval, u64, u64),
        process: &mut ProcessCount,
        thread: &mut ThreadCount,
    ) {
        if traits.of_request && file != FILE_NONE {
            self.requested = file;
        }
        let file = if traits.awaits_requests { self.requested } else { file };
        let named = self.files[file as usize];
        let stored = traits.is_on_file(named.stored);
        let awaits_file = (traits.enters_ring || traits.awaits_requests) && named.stored && file != FILE_NONE;
        if awaits_file {
            self.timelines.file_call(interval, (named.hand_over, self.only_writes(file)));
        } else if !(traits.by_ring && stored) {
            self.conversation(batch, i, (traits, named), (interval, read + written));
        }
        if traits.io && stored {
            if traits.by_ring {
                // Its thread does other things in the meantime.
                self.in_flight.push(interval);
                thread.add_request(read);
            } else {
                self.file_call(traits, file, interval);
                self.saves(traits, file, interval, (written, batch.ret[i] >= 0));
                // A read at the end of a file takes time, too, and returns nothing.
                thread.add_call(interval, read, named.data && traits.class == Class::Read);
            }
            thread.requests += traits.requests as u64;
            self.access(batch, i, (row, traits), batch.ret[i] < 0 && batch.ret[i] != ABSENT);
        } else if traits.span {
            process.compute_ns += if traits.class == Class::Compute { batch.dur[i] as u64 } else { 0 };
            self.span((batch, i), traits, interval, thread);
        } else if awaits_file {
            self.file_call(traits, file, interval);
            thread.add_wait_for_requests(interval, named.data && !self.only_writes(file));
        } else if traits.waits_for_device {
            self.counted.devices.sync(self.lane_id, interval);
        } else if traits.unseen {
            self.counted.unseen_requests += batch.ret[i].max(0) as u64;
        } else if traits.idle || traits.io && traits.class == Class::Read {
            process.idle_ns += if traits.by_ring { 0 } else { batch.dur[i] as u64 };
            self.wait(file, interval, read > 0, thread);
        }
    }

    /// Adds an event to the counts of its kind.
    #[inline(always)]
    fn count_kind(&mut self, row: u32, dur: i64, failed: u64, bytes: i64) {
        let count = &mut self.counted.kinds[row as usize];
        count.durations.add(dur as u64);
        count.failed += failed;
        if bytes != ABSENT {
            count.sized += 1;
            count.bytes += bytes as u64 as u128;
            self.counted.sizes.add(row, bytes as u64);
        }
    }

    /// Counts calls of libraries, and the file calls inside them, by data set. Returns `true` for a call of a
    /// library, which counts as nothing else.
    #[inline(always)]
    fn is_of_library(&mut self, batch: &Batch, i: usize, (traits, is_stored): (KindTraits, bool)) -> bool {
        if batch.has_data_sets {
            self.data_sets.event((batch, i), (traits, is_stored), self.catalog, &mut self.counted.data_sets);
            self.mpi_files.event((batch, i), (traits, is_stored), self.catalog, &mut self.counted.mpi_files);
        }
        traits.library.is_some()
    }

    /// Adds a call to the activity of its thread: on a file, or with other threads.
    #[inline(always)]
    fn conversation(
        &mut self,
        batch: &Batch,
        i: usize,
        (traits, file): (KindTraits, FileTraits),
        (interval, moved): (Interval, u64),
    ) {
        while let Some(usage) = batch.usage.get(self.usage).filter(|usage| usage.ts <= interval.start) {
            self.timelines.counted(usage.ts);
            self.usage += 1;
        }
        if traits.io && file.stored {
            self.counted.memory_maps += u64::from(file.hand_over && traits.maps);
            if traits.maps && file.data && !file.hand_over {
                self.timelines.mapped(interval.start);
            }
            // Opening and closing a file that is only written, and syncing it, is a part of writing it.
            let puts = traits.class == Class::Write || !file.hand_over && self.puts(traits, batch.file[i]);
            let writes = puts && !traits.copies;
            self.timelines.file_call(interval, (file.hand_over, traits.sizes || writes));
            self.sends_file(batch, i, (interval, moved));
            self.refused_lock(batch, i, traits);
            self.look_for_file(batch, i, traits, file.hash);
        } else if traits.next_batch {
            self.saves.interrupt();
            self.timelines.fetch(interval);
        } else if traits.starts_loader {
            self.timelines.loader_start(interval);
        } else if traits.is_task() {
            self.timelines.task(interval);
        } else if let Some(kind) = traits.step {
            if interrupts(kind) {
                self.saves.interrupt();
            }
            self.step(batch, i, (kind, file.object), (interval, moved));
            self.counted.file_locks.step(kind, batch.file[i], interval.end - interval.start);
            self.refused_lock(batch, i, traits);
        }
    }

    /// Adds the message that a call made of a file: it ends when the call does, which read the file until then.
    #[inline(always)]
    fn sends_file(&mut self, batch: &Batch, i: usize, (interval, moved): (Interval, u64)) {
        while batch.sent.get(self.sent).is_some_and(|(row, _)| (*row as usize) < i) {
            self.sent += 1;
        }
        let Some(&(_, target)) = batch.sent.get(self.sent).filter(|(row, _)| *row as usize == i && moved > 0) else {
            return;
        };
        self.timelines.step(Step {
            start: interval.end,
            end: interval.end,
            kind: StepKind::Give,
            object: self.files[target as usize].object,
            woken: interval.end - interval.start,
            amount: moved as i64,
            ..Step::NOTHING
        });
    }

    #[inline(always)]
    fn refused_lock(&mut self, batch: &Batch, i: usize, traits: KindTraits) {
        if is_refused_lock(traits, batch.ret[i]) {
            self.timelines.lock_refused();
            self.counted.file_locks.refused(batch.file[i]);
        }
    }

    /// Notes a call that shows whether a file exists, or that makes one.
    #[inline(always)]
    fn look_for_file(&mut self, batch: &Batch, i: usize, traits: KindTraits, hash: u64) {
        const NO_ENTRY: i64 = -2;
        if traits.class != Class::Metadata {
            return;
        }
        let ret = batch.ret[i];
        if ret < 0 {
            if ret == NO_ENTRY {
                self.timelines.missed_file(batch.file[i], hash);
            }
            return;
        }
        if self.timelines.awaits_file(hash) {
            self.timelines.found_file();
        }
        if traits.opens && self.timelines.has_slept() && self.is_read(batch.file[i]) {
            let folder = folder_hash(&self.catalog.path(batch.file[i]));
            self.timelines.opened_file(batch.ts[i], hash, folder);
        }
        if traits.makes || traits.renames || traits.opens && !self.is_read(batch.file[i]) {
            let file = match traits.renames {
                true => FileMade::Renamed(folder_hash(&self.catalog.path(batch.file[i]))),
                false => FileMade::New(file_object(hash)),
            };
            self.timelines.made_file(batch.ts[i].saturating_add(batch.dur[i]), file);
        }
    }

    /// Returns `true` if the batch reads a file.
    fn is_read(&self, file: u32) -> bool {
        self.moved_in[file as usize][1] == self.batches
    }

    fn step(
        &mut self,
        batch: &Batch,
        i: usize,
        (kind, object): (StepKind, Object),
        (interval, moved): (Interval, u64),
    ) {
        let mut step = Step {
            start: interval.start,
            end: interval.end,
            kind,
            object,
            amount: if matches!(kind, StepKind::Child | StepKind::Fork) { batch.ret[i] } else { moved as i64 },
            timed_out: timed_out(kind, batch.ret[i]),
            ..Step::NOTHING
        };
        if kind == StepKind::Post && !self.is_shared(batch, i) {
            // A waiting thread is recorded in the wait itself.
            return;
        }
        while batch.wakes.get(self.wake).is_some_and(|wake| (wake.row as usize) < i) {
            self.wake += 1;
        }
        if let Some(wake) = batch.wakes.get(self.wake).filter(|wake| wake.row as usize == i) {
            match kind {
                StepKind::Connect | StepKind::Accept | StepKind::Pair => {
                    // A thread may wait for a connection before it is requested.
                    let at = if kind == StepKind::Accept { interval.end } else { interval.start };
                    self.timelines.peer(at, kind, step.object, (wake.object, wake.waker));
                }
                StepKind::Child => {
                    let child = Child::unpack(wake.object as i64);
                    step.amount = step.amount.max(child.pid as i64);
                    self.timelines.collected(interval.end, child);
                }
                StepKind::Kill => self.timelines.sent(interval.start, Child::unpack(wake.object as i64)),
                _ => step.wake(Waker::unpack(wake.waker), wake.object),
            }
        }
        if kind == StepKind::Sleep {
            self.timelines.sleeps_for_file(|file| folder_hash(&self.catalog.path(file)));
        }
        if kind != StepKind::Kill {
            self.timelines.step(step);
        }
    }

    /// Returns `true` if a post is on a semaphore that processes share.
    fn is_shared(&self, batch: &Batch, i: usize) -> bool {
        let from = &batch.wakes[self.wake.min(batch.wakes.len())..];
        let wake = from.iter().find(|wake| wake.row as usize >= i).filter(|wake| wake.row as usize == i);
        wake.is_some_and(|wake| Waker::unpack(wake.waker).flags & Waker::SHARED != 0)
    }

    /// Adds a call in which a thread waits for another, and receives a message if it moved bytes.
    #[inline(always)]
    fn wait(&mut self, file: u32, interval: Interval, takes: bool, thread: &mut ThreadCount) {
        self.lanes.push(self.lane, Track::Idle, interval);
        if !self.files[file as usize].socket {
            self.lanes.push(self.lane, Track::Piped, interval);
        }
        if takes {
            thread.taken += 1;
            self.lanes.push(self.lane, Track::Take, interval);
        }
    }

    /// Adds a call on a file: its duration, position and error.
    #[inline(always)]
    fn access(&mut self, batch: &Batch, i: usize, (row, traits): (u32, KindTraits), failed: bool) {
        let (ts, dur, file, bytes) = (batch.ts[i], batch.dur[i] as u64, batch.file[i], batch.bytes[i]);
        let access = &mut self.counted.access;
        access.time(traits.timed, (bytes != ABSENT).then_some(bytes as u64), dur);
        if bytes > 0 && file != FILE_NONE && matches!(traits.timed, Timed::Read | Timed::Write) {
            let pos = (batch.pos[i] != ABSENT).then_some(batch.pos[i]);
            if traits.requests && pos == Some(0) {
                self.passes.bound(ts, file, false);
            }
            self.passes.moved(access, (batch.proc, batch.tid), file, traits.stream, (ts, pos, bytes));
            if let Some(pos) = pos.filter(|_| self.is_ranked && traits.timed == Timed::Write) {
                let interval = Interval { start: ts, end: ts.saturating_add(batch.dur[i]) };
                let hash = self.files[file as usize].hash;
                self.counted.blocks.wrote(batch.proc, (file, hash), (pos, bytes), interval);
            }
        } else if !failed && file != FILE_NONE && (traits.opens || traits.closes) {
            self.passes.bound(ts, file, traits.closes);
        }
        if failed {
            let errno = if batch.ret[i] == FAILED { 0 } else { -batch.ret[i] as i32 };
            access.failed(row, errno, (ts, file), dur);
        }
    }

    fn span(&mut self, (batch, i): (&Batch, usize), traits: KindTraits, interval: Interval, thread: &mut ThreadCount) {
        if let Some(span) = traits.device {
            let device = batch.device.get(i).copied().filter(|device| *device != ABSENT_32);
            self.counted.devices.span(DeviceId { proc: batch.proc, device }, span, interval);
        } else if traits.profiled {
            self.counted.devices.profiled(self.lane_id.proc, interval);
        }
        match traits.class {
            Class::Compute => {
                thread.computes = true;
                self.lists[Set::Compute as usize].push(interval);
                if traits.device.is_none() {
                    self.lanes.push(self.lane, Track::Compute, interval);
                    thread.add_span(interval);
                }
            }
            Class::Read | Class::Write => self.lists[Set::AppIo as usize].push(interval),
            _ => {}
        }
        if traits.requests {
            self.lanes.push(self.lane, Track::Io, interval);
            thread.does_io = true;
            thread.requests += 1;
        }
        if traits.communicates {
            self.lanes.push(self.lane, Track::Comm, interval);
        }
        if traits.class == Class::Write {
            self.lanes.push(self.lane, Track::Save, interval);
            self.counted.devices.save(self.lane_id, interval);
        }
        if traits.generates {
            self.counted.generated.add(interval);
        }
        if traits.starts_loader || traits.next_batch {
            self.lists[Set::Wait as usize].push(interval);
            self.lanes.push(self.lane, Track::Wait, interval);
            self.counted.devices.fetch(self.lane_id, interval);
            thread.add_span(interval);
        }
        match traits.in_vain {
            _ if !traits.next_batch => {}
            true => self.lanes.push(self.lane, Track::Vain, interval),
            false => thread.batches += 1,
        }
    }

    /// Adds the bytes that a call copied from a second file, the only effect on that file.
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
        count.opens += opened as u64;
        // Starting a program is not I/O on its file.
        let is_above = traits.above && matches!(traits.class, Class::Read | Class::Write);
        let is_counted = traits.io && !is_above;
        count.events += is_counted as u64;
        count.time_ns += if is_counted { ns } else { 0 };
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

/// Returns `true` if a call asked for a lock that another thread has: a lock on a file, or a file that exists only while
/// a lock is held.
#[inline(always)]
fn is_refused_lock(traits: KindTraits, ret: i64) -> bool {
    const AGAIN: i64 = -11;
    const ACCESS: i64 = -13;
    const EXISTS: i64 = -17;
    traits.locks && (ret == AGAIN || ret == ACCESS) || traits.opens && ret == EXISTS
}

#[cold]
fn folder_hash(path: &str) -> u64 {
    name_hash(path.rsplit_once('/').map_or("", |(folder, _)| folder))
}

/// Returns `true` if a wait timed out: `poll` and similar calls then return zero, all others an error.
fn timed_out(kind: StepKind, ret: i64) -> bool {
    const TIMED_OUT: i64 = -110;
    ret == TIMED_OUT || kind == StepKind::Poll && ret == 0
}

/// Returns how far a call reached into its file. If nothing was moved, the position is meaningless: it may be after the
/// end.
#[inline(always)]
fn reached(batch: &Batch, i: usize, moved: u64, traits: KindTraits) -> i64 {
    match batch.pos[i] {
        ABSENT => ABSENT,
        pos if moved > 0 => pos.saturating_add(moved as i64),
        pos if traits.sizes => pos.saturating_add(batch.requested[i].max(0)),
        _ => 0,
    }
}
