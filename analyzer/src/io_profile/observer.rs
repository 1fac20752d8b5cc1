//! Sees each event once, together with the summary's counting.

use std::collections::{BTreeMap, HashMap};

use dlio_schemas::ops::Class;

use super::file_group::FileGroup;
pub use super::marks::Budget;
use super::marks::{Activity, Mark};
use super::passes::{FEW_READS, Pass, Read, Use};
use super::transfers::TransferStats;
use crate::batch::{ABSENT, ABSENT_32, Batch};
use crate::catalog::{Catalog, FILE_NONE, Kind, Origin, is_stored};
use crate::scan::Consumer;
use crate::summary::count::kinds::{GENERATE, finds_no_more, is_idle, is_library_call, is_next_batch, opens};
use crate::summary::files::access::Relation;
use crate::summary::report::metadata::group;

/// Everything observed.
#[derive(Default)]
pub struct Observed {
    pub families: BTreeMap<FileGroup, Use>,
    /// The group of each file, as an index into [`Observed::families`].
    pub family_of: Vec<u32>,
    /// In order of time.
    pub marks: Vec<Mark>,
    /// Marks for which there was no space.
    pub unmarked: u64,
}

impl Observed {
    /// Merges the results of another thread. Indexes of groups are equal afterwards.
    pub fn merge(&mut self, other: Observed) {
        let known: Vec<FileGroup> = self.families.keys().cloned().collect();
        let theirs: Vec<FileGroup> = other.families.keys().cloned().collect();
        other.families.into_iter().for_each(|(family, used)| self.families.entry(family).or_default().merge(&used));
        let places: HashMap<&FileGroup, u32> = self.families.keys().zip(0u32..).collect();
        let moved = |families: &[FileGroup]| -> Vec<u32> { families.iter().map(|family| places[family]).collect() };
        let (ours, theirs) = (moved(&known), moved(&theirs));
        self.family_of.iter_mut().for_each(|place| *place = *ours.get(*place as usize).unwrap_or(&NO_FAMILY));
        self.marks.iter_mut().for_each(|mark| mark.family = *ours.get(mark.family as usize).unwrap_or(&NO_FAMILY));
        if self.family_of.len() < other.family_of.len() {
            self.family_of.resize(other.family_of.len(), NO_FAMILY);
        }
        for (mine, place) in self.family_of.iter_mut().zip(other.family_of) {
            *mine = theirs.get(place as usize).copied().unwrap_or(*mine);
        }
        self.marks.extend(other.marks.into_iter().map(|mark| {
            let family = theirs.get(mark.family as usize).copied().unwrap_or(NO_FAMILY);
            Mark { family, ..mark }
        }));
        self.unmarked += other.unmarked;
    }

    /// Completes the results of all threads.
    pub fn settle(&mut self) {
        self.marks.sort_by_key(|mark| (mark.start, mark.end, mark.proc, mark.tid, mark.what));
    }

    pub fn marks_of(&self, what: Activity) -> impl Iterator<Item = &Mark> {
        self.marks.iter().filter(move |mark| mark.what == what)
    }

    /// Returns the index of a group, as used in marks.
    pub fn place(&self, family: &FileGroup) -> Option<u32> {
        self.families.keys().position(|known| known == family).map(|place| place as u32)
    }
}

/// The group of objects that are not files.
pub const NO_FAMILY: u32 = u32::MAX;

/// The maximum number of groups; further files belong to the one without an extension.
const FAMILIES_MAX: usize = 256;

/// The role of a kind of event for an observer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Read,
    Write,
    Sync,
    Open,
    Close,
    Stat,
    Seek,
    List,
    Map,
    Idle,
    Span(Activity),
    Other,
}

impl Role {
    fn of(kind: &Kind) -> Role {
        match kind.origin {
            Origin::Call => Role::of_call(kind),
            Origin::Span => Role::of_span(kind),
            _ => Role::Other,
        }
    }

    fn of_call(kind: &Kind) -> Role {
        // Bytes of MPI-IO and HDF5 are moved by calls below them, which are recorded.
        match kind.class {
            _ if *kind.cat == *"mpiio" || is_library_call(kind) => Role::Other,
            Class::Read => Role::Read,
            Class::Write => Role::Write,
            Class::Sync => Role::Sync,
            Class::Metadata if opens(&kind.name) => Role::Open,
            Class::Metadata => match group(&kind.name) {
                "close" => Role::Close,
                "stat" => Role::Stat,
                "seek" => Role::Seek,
                "list" => Role::List,
                "map" if *kind.name == *"mmap" => Role::Map,
                _ => Role::Other,
            },
            _ if is_idle(kind) => Role::Idle,
            _ => Role::Other,
        }
    }

    fn of_span(kind: &Kind) -> Role {
        let named = |words: &[&str]| words.iter().any(|word| kind.name.contains(word));
        match kind.class {
            // The wait that finds no more batches.
            _ if finds_no_more(kind) => Role::Other,
            _ if is_next_batch(kind) => Role::Span(Activity::Fetch),
            Class::Compute => Role::Span(Activity::Compute),
            Class::Write if named(&["settle"]) => Role::Other,
            Class::Write if named(&["load", "restore", "read"]) => Role::Span(Activity::Restore),
            Class::Write => Role::Span(Activity::Save),
            _ if SAMPLE_SPANS.contains(&kind.name.as_ref()) => Role::Span(Activity::Sample),
            _ if *kind.name == *GENERATE => Role::Span(Activity::Generate),
            _ if EVALUATION_SPANS.contains(&kind.name.as_ref()) => Role::Span(Activity::Evaluate),
            _ => Role::Other,
        }
    }
}

/// Spans of one sample each: the benchmark's, and those of the Python package around a data set's items.
const SAMPLE_SPANS: [&str; 2] = ["reader.read", "item"];

/// Spans around a whole evaluation: the benchmark's, and those that programs add with the Python package.
const EVALUATION_SPANS: [&str; 3] = ["evaluate", "validate", "test"];

/// A run of reads.
#[derive(Clone, Copy, Debug)]
struct Run {
    start: i64,
    end: i64,
    pos: Option<i64>,
    bytes: u64,
    reads: u64,
    /// Time in calls that wait for other threads when it started.
    idle: i64,
}

/// One file in one batch.
struct Slot {
    file: u32,
    opened: bool,
    last: [Option<(i64, i64)>; 2],
    pass: Pass,
    runs: Vec<Run>,
    end: i64,
    /// Time in calls that wait for other threads when the pass started, and when its last call did.
    idle: i64,
    idle_last: i64,
}

impl Slot {
    fn new(file: u32) -> Slot {
        Slot {
            file,
            opened: false,
            last: [None; 2],
            pass: Pass::default(),
            runs: Vec::new(),
            end: 0,
            idle: 0,
            idle_last: 0,
        }
    }

    /// Returns how a call at this position follows the previous one in its direction.
    fn relation(&mut self, direction: usize, pos: Option<i64>, bytes: i64) -> Relation {
        let Some(pos) = pos else { return Relation::Unknown };
        let last = self.last[direction].replace((pos, pos.saturating_add(bytes)));
        let first = if self.opened { Relation::First } else { Relation::Unknown };
        last.map_or(first, |last| Relation::of(pos, last))
    }
}

/// The state of one reading thread.
pub struct Observer<'a> {
    catalog: &'a Catalog,
    budget: &'a Budget,
    roles: Vec<Role>,
    families: Vec<FileGroup>,
    uses: Vec<Use>,
    places: HashMap<FileGroup, u32>,
    family_of: Vec<u32>,
    /// By file: number of the batch in which it was used last, and its index among the slots.
    slot_of: Vec<(u32, u32)>,
    batch: u32,
    slots: Vec<Slot>,
    lane: Lane,
    marks: Vec<Mark>,
    unmarked: u64,
}

/// The thread of the current batch.
#[derive(Default)]
struct Lane {
    proc: u32,
    tid: i32,
    /// Time in calls that wait for other threads, so far.
    idle: i64,
    /// When the last call of each direction started.
    last_move: [Option<i64>; 2],
    /// End of the last pass or run, and of the last received message, with the waiting time at that point.
    last_mark: [Option<(i64, i64)>; 2],
}

impl<'a> Observer<'a> {
    pub fn new(catalog: &'a Catalog, budget: &'a Budget) -> Observer<'a> {
        Observer {
            catalog,
            budget,
            roles: Vec::new(),
            families: Vec::new(),
            uses: Vec::new(),
            places: HashMap::new(),
            family_of: Vec::new(),
            slot_of: Vec::new(),
            batch: 0,
            slots: Vec::new(),
            lane: Lane::default(),
            marks: Vec::new(),
            unmarked: 0,
        }
    }

    pub fn finish(self) -> Observed {
        let Observer { families, uses, family_of, mut marks, unmarked, .. } = self;
        // Indexes in order of the groups, as in a map of them.
        let sorted: BTreeMap<FileGroup, usize> = families.iter().cloned().zip(0..).collect();
        let mut place_of = vec![NO_FAMILY; families.len()];
        sorted.values().zip(0u32..).for_each(|(old, new)| place_of[*old] = new);
        let moved = |place: u32| place_of.get(place as usize).copied().unwrap_or(NO_FAMILY);
        marks.iter_mut().for_each(|mark| mark.family = moved(mark.family));
        Observed {
            families: families.into_iter().zip(uses).collect(),
            family_of: family_of.into_iter().map(moved).collect(),
            marks,
            unmarked,
        }
    }

    /// Extends the tables to the catalog, which grows because foreign formats name things on first use.
    fn learn(&mut self, batch: &Batch) {
        let largest = |column: &[u32]| column.iter().copied().max().unwrap_or(0) as usize;
        if largest(&batch.kind) >= self.roles.len() {
            let kinds = self.catalog.kinds_from(self.roles.len());
            self.roles.extend(kinds.iter().map(Role::of));
        }
        if largest(&batch.file) >= self.family_of.len() {
            for path in self.catalog.files_from(self.family_of.len()) {
                let place = if self.family_of.is_empty() || !is_stored(&path) { NO_FAMILY } else { self.place(&path) };
                self.family_of.push(place);
            }
            self.slot_of.resize(self.family_of.len(), (u32::MAX, 0));
        }
    }

    fn place(&mut self, path: &str) -> u32 {
        let mut family = FileGroup::of(path);
        if self.families.len() >= FAMILIES_MAX && !self.places.contains_key(&family) {
            family.suffix = String::new();
        }
        let next = self.families.len() as u32;
        let place = *self.places.entry(family.clone()).or_insert(next);
        if place == next {
            self.families.push(family);
            self.uses.push(Use::default());
        }
        place
    }

    fn slot(&mut self, file: u32) -> usize {
        let (batch, place) = self.slot_of[file as usize];
        if batch == self.batch {
            return place as usize;
        }
        self.slot_of[file as usize] = (self.batch, self.slots.len() as u32);
        self.slots.push(Slot::new(file));
        self.slots.len() - 1
    }

    fn call(&mut self, batch: &Batch, i: usize, role: Role, file: u32) {
        let place = self.family_of[file as usize];
        if place == NO_FAMILY {
            return self.past_files(batch, i, role);
        }
        let (ts, end) = (batch.ts[i], batch.ts[i].saturating_add(batch.dur[i]));
        let failed = batch.ret[i] < 0 && batch.ret[i] != ABSENT;
        let used = &mut self.uses[place as usize];
        match role {
            Role::Read | Role::Write => return self.moved(batch, i, role, file),
            Role::Sync => used.syncs += 1,
            Role::List => used.lists += 1,
            Role::Map => used.maps += 1,
            Role::Stat => used.stats += 1,
            Role::Open if !failed => used.opens += 1,
            _ => {}
        }
        let known = self.slot_of[file as usize].0 == self.batch;
        if !known && !matches!(role, Role::Open) {
            return;
        }
        let (slot, idle) = (self.slot(file), self.lane.idle);
        let slot = &mut self.slots[slot];
        (slot.end, slot.idle_last) = (end, idle);
        match role {
            Role::Open if !failed && slot.pass.reads == 0 => {
                (slot.opened, slot.last, slot.idle) = (true, [None; 2], idle);
                slot.pass = Pass { start: ts, ..Pass::default() };
            }
            Role::Close if slot.opened || slot.pass.reads > 0 => self.end_pass(file),
            Role::Close => slot.last = [None; 2],
            Role::Stat => slot.pass.stats += 1,
            Role::Seek => slot.pass.seeks += 1,
            _ => {}
        }
    }

    /// Handles a call on a pipe or a socket.
    fn past_files(&mut self, batch: &Batch, i: usize, role: Role) {
        let waits = role == Role::Read;
        let before = self.lane.idle;
        self.lane.idle += if waits { batch.dur[i] } else { 0 };
        if waits && batch.bytes[i] > 0 {
            let bytes = batch.bytes[i] as u64;
            let mark = self.mark(Activity::Take, (batch.ts[i], batch.ts[i].saturating_add(batch.dur[i])), bytes);
            self.keep(Mark { file: batch.file[i], ..mark }, 1, before);
        }
    }

    fn moved(&mut self, batch: &Batch, i: usize, role: Role, file: u32) {
        let (ts, dur, bytes) = (batch.ts[i], batch.dur[i], batch.bytes[i]);
        if bytes == ABSENT {
            return;
        }
        let direction = usize::from(role == Role::Write);
        let pos = (batch.pos[i] != ABSENT).then_some(batch.pos[i]);
        let asked = if batch.requested[i] == ABSENT { bytes } else { batch.requested[i] };
        let place = self.family_of[file as usize] as usize;
        let at = self.slot(file);
        let slot = &mut self.slots[at];
        if slot.pass.reads == 0 && !slot.opened && direction == 0 {
            (slot.pass.start, slot.idle) = (ts, self.lane.idle);
        }
        // A call that moved nothing does not change the position.
        let relation = match bytes {
            0 => Relation::Consecutive,
            _ => slot.relation(direction, pos, bytes),
        };
        // Before the first call a pause is unknown.
        let pause = (slot.end > 0).then(|| (ts - slot.end - (self.lane.idle - slot.idle_last)).max(0) as u64);
        (slot.end, slot.idle_last) = (ts.saturating_add(dur), self.lane.idle);
        let used = &mut self.uses[place];
        if direction == 0 {
            slot.pass.read(Read { pos, asked, bytes, relation, pause });
            slot.pass.time_ns += dur as u64;
            used.asked.add(asked);
            ran(
                &mut slot.runs,
                Run { start: ts, end: slot.end, pos, bytes: bytes as u64, reads: 1, idle: self.lane.idle },
                relation,
            );
        }
        if bytes > 0 {
            let arrival = self.lane.last_move[direction].replace(ts).map(|last| (ts - last).max(0) as u64);
            let moves: &mut TransferStats = if direction == 0 { &mut used.read } else { &mut used.written };
            moves.add(bytes as u64, dur.max(0) as u64, arrival, relation);
        }
    }

    fn end_pass(&mut self, file: u32) {
        let at = self.slot(file);
        let fresh = Slot::new(file);
        let slot = std::mem::replace(&mut self.slots[at], fresh);
        self.account(slot, true);
    }

    /// Handles the end of a pass, or of the batch.
    fn account(&mut self, slot: Slot, closed: bool) {
        let place = self.family_of[slot.file as usize];
        let whole = closed && slot.opened;
        let used = &mut self.uses[place as usize];
        match (slot.opened, closed) {
            (true, true) => used.passes.add(&slot.pass),
            (true, false) => used.passes.begin(&slot.pass),
            (false, _) => {}
        }
        if slot.pass.reads == 0 {
            return;
        }
        if whole {
            let mark = self.mark(Activity::Pass, (slot.pass.start, slot.end), slot.pass.bytes);
            self.keep(Mark { family: place, file: slot.file, ..mark }, 0, slot.idle);
        }
        if !whole || slot.pass.reads > FEW_READS {
            self.account_runs(place, slot.file, &slot.runs);
        }
    }

    fn account_runs(&mut self, place: u32, file: u32, runs: &[Run]) {
        let mut before: Option<i64> = None;
        for run in runs {
            let used = &mut self.uses[place as usize].runs;
            used.reads.add(run.reads);
            used.bytes.add(run.bytes);
            used.asked.add((run.bytes / run.reads.max(1)) as i64);
            let stride = before.zip(run.pos).map(|(before, pos)| pos - before).filter(|stride| *stride > 0);
            stride.into_iter().for_each(|stride| used.strides.add(stride));
            before = run.pos;
            let mark = self.mark(Activity::Run, (run.start, run.end), run.bytes);
            self.keep_at(Mark { family: place, file, ..mark }, 0, (run.idle, run.idle));
        }
    }

    fn mark(&self, what: Activity, (start, end): (i64, i64), bytes: u64) -> Mark {
        let Lane { proc, tid, .. } = self.lane;
        Mark {
            what,
            proc,
            tid,
            start,
            end,
            family: NO_FAMILY,
            file: FILE_NONE,
            epoch: ABSENT_32,
            bytes,
            busy_before: None,
        }
    }

    /// Adds a mark; `idle` is the time in waiting calls when it started.
    fn keep(&mut self, mark: Mark, track: usize, idle: i64) {
        let now = self.lane.idle;
        self.keep_at(mark, track, (idle, now));
    }

    /// Adds a mark, with the time in waiting calls at its start and end.
    fn keep_at(&mut self, mut mark: Mark, track: usize, (idle, idle_after): (i64, i64)) {
        let before = self.lane.last_mark[track].replace((mark.end, idle_after));
        mark.busy_before = before.map(|(end, idle_then)| (mark.start - end - (idle - idle_then)).max(0));
        self.push(mark);
    }

    fn push(&mut self, mark: Mark) {
        match self.budget.take() {
            true => self.marks.push(mark),
            false => self.unmarked += 1,
        }
    }
}

/// Adds a read to the previous run, or starts one.
fn ran(runs: &mut Vec<Run>, read: Run, relation: Relation) {
    match runs.last_mut().filter(|_| relation == Relation::Consecutive) {
        Some(run) => {
            run.end = read.end;
            run.bytes += read.bytes;
            run.reads += u64::from(read.bytes > 0);
        }
        None => runs.push(read),
    }
}

impl Consumer for Observer<'_> {
    fn batch(&mut self, batch: &mut Batch) {
        if batch.is_empty() {
            return;
        }
        self.learn(batch);
        self.lane = Lane { proc: batch.proc, tid: batch.tid, ..Lane::default() };
        for i in 0..batch.len() {
            match self.roles[batch.kind[i] as usize] {
                Role::Other => {}
                Role::Idle => self.lane.idle += batch.dur[i],
                Role::Span(what) => {
                    let span = (batch.ts[i], batch.ts[i].saturating_add(batch.dur[i]));
                    let epoch = batch.epoch.get(i).copied().unwrap_or(ABSENT_32);
                    let mark = Mark { epoch, ..self.mark(what, span, 0) };
                    self.push(mark);
                }
                role if batch.file[i] != FILE_NONE => self.call(batch, i, role, batch.file[i]),
                _ => {}
            }
        }
        let slots = std::mem::take(&mut self.slots);
        slots.into_iter().filter(|slot| slot.pass.reads > 0).for_each(|slot| self.account(slot, false));
        self.batch += 1;
        if self.batch == u32::MAX {
            self.batch = 0;
            self.slot_of.iter_mut().for_each(|slot| *slot = (u32::MAX, 0));
        }
    }

    fn part_done(&mut self, _: usize, _: i64) {}
}
