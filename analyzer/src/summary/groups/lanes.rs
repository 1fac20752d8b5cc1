//! Overlap of threads: how long a trainer waited, and how much of that its readers were in I/O or idle.
//!
//! A lane is a thread. Each lane has tracks, which are sets of intervals. The sweep measures the lengths of tracks, and
//! the overlap of tracks of two lanes if one thread's process is the other's process or its ancestor. Time is swept
//! backward as in [`intervals`], so memory contains only open intervals.
//!
//! [`intervals`]: crate::summary::time::intervals

use std::collections::{BTreeMap, BTreeSet, HashMap};

use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};

use super::io_compute_overlap::{Beside, Groups, Passed};
use super::steps::Steps;
use crate::summary::time::bins::Bins;
use crate::summary::time::intervals::{Interval, length, shared, tail, unite, united, without};
use crate::summary::time::sweep::{WAITING, gather, pass};
use crate::summary::time::unordered::{pack, unpack};
use crate::summary::tree::{Ancestry, LaneId};

/// A set of intervals of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Track {
    /// Spans in which the program waits for its next batch.
    Wait,
    /// Spans of compute categories.
    Compute,
    /// Spans of checkpoints.
    Save,
    /// File calls.
    Io,
    /// Calls that block: for a message on a pipe or socket, for a lock, for a child.
    Idle,
    /// Spans of communication.
    Comm,
    /// Calls that send a message.
    Hand,
    /// Calls that receive a message.
    Take,
    /// Waits in which the program finds that there is no next batch; they are also in `Wait`.
    Vain,
    /// File calls that write and synchronize, and those that open, close or stat files that are only written.
    Put,
    /// Calls that block, except on sockets.
    Piped,
}

pub const TRACKS: usize = 11;

type Tracks = [Vec<Interval>; TRACKS];

/// Intervals of a part of a trace, by lane.
#[derive(Default)]
pub struct LanePart {
    index: HashMap<LaneId, usize, RandomState>,
    lanes: Vec<(LaneId, Tracks)>,
}

impl LanePart {
    /// Returns the index of a lane, for [`LanePart::push`].
    pub fn place(&mut self, lane: LaneId) -> usize {
        *self.index.entry(lane).or_insert_with(|| {
            self.lanes.push((lane, Tracks::default()));
            self.lanes.len() - 1
        })
    }

    #[inline(always)]
    pub fn push(&mut self, place: usize, track: Track, interval: Interval) {
        self.lanes[place].1[track as usize].push(interval);
    }

    /// Makes each track disjoint and ascending.
    pub fn unite(&mut self) {
        self.lanes.iter_mut().flat_map(|(_, tracks)| tracks).for_each(unite);
    }

    /// Returns all intervals of a track, united, after the tracks of each lane have been united.
    pub fn all_of(&self, track: Track) -> Vec<Interval> {
        united(self.lanes.iter().map(|(_, tracks)| tracks[track as usize].clone()).collect())
    }
}

/// Overlap of two lanes: `of` the time that the first was in a track, the second was in I/O or idle.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overlap {
    pub io: i64,
    pub idle: i64,
    /// Time in the first lane's track after the second lane's last event, and after its first.
    pub after_last: i64,
    pub after_first: i64,
    /// Time in it after the second lane's last message; `None` if the second lane sends none.
    pub after_last_hand: Option<i64>,
    /// Overlap since the second lane was ready; `None` if that time is unknown.
    pub since_ready: Option<Since>,
    /// Overlap since the second lane's process sent its last message.
    pub since_end: Option<Since>,
    /// Time the first lane wrote and synchronized after the second lane's first event, and after its last.
    pub put_after_first: i64,
    pub put_after_last: i64,
}

/// Overlap of two lanes after a timestamp, and how much of the first lane's track is after it.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Since {
    pub after: i64,
    pub io: i64,
    pub idle: i64,
}

impl Overlap {
    /// Returns the part of the first lane's track within the second lane's life.
    pub fn alive(&self) -> i64 {
        self.after_first - self.after_last
    }

    /// Returns the time the second lane was busy before it was ready: starting, importing.
    pub fn starting(&self) -> i64 {
        let Some(ready) = self.since_ready else { return 0 };
        let before = Since { after: self.after_first, io: self.io, idle: self.idle };
        (before.after - before.idle) - (ready.after - ready.idle)
    }

    /// Returns the time the second lane was busy until it had sent all its output: shutdown is not work.
    pub fn busy(&self) -> i64 {
        let end = self.since_end.unwrap_or(Since { after: self.after_last, io: 0, idle: 0 });
        (self.after_first - self.idle) - (end.after - end.idle)
    }

    /// Returns the I/O between readiness and the last output.
    pub fn working_io(&self) -> i64 {
        self.since_ready.map_or(self.io, |ready| ready.io) - self.since_end.map_or(0, |end| end.io)
    }
}

/// Measurements of one lane.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub struct LaneMeasure {
    pub lengths: [i64; TRACKS],
    /// Its training, if spans show its compute or its waits.
    pub own: Option<Own>,
    /// Its steps, if spans show its waits for batches.
    pub steps: Steps,
    /// First start and last end of the intervals in its tracks.
    pub first_ts: i64,
    pub last_ts: i64,
    /// End of the last call that sends a message.
    pub last_hand_ts: Option<i64>,
    /// Start of its first call that blocks or sends a message after its process has received its last message.
    pub after_takes_ts: Option<i64>,
    /// Time it wrote and synchronized after that.
    #[serde(default)]
    pub put_after_takes: i64,
    /// Number of intervals of at least [`WORK_NS`] between two blocking calls in which it did not block, since its
    /// process received its first message.
    #[serde(default)]
    pub works: u64,
    /// Overlap per lane of an ancestor or of its own process: with the waits in that lane's spans, with its idle calls,
    /// and with its idle calls that are not on a socket.
    pub with: Vec<(LaneId, [Overlap; WAITS])>,
}

impl LaneMeasure {
    pub fn of(&self, track: Track) -> i64 {
        self.lengths[track as usize]
    }

    /// Returns the overlap with the waits of that lane.
    pub fn with(&self, lane: &LaneId) -> Option<&[Overlap; WAITS]> {
        self.with.iter().find(|(with, _)| with == lane).map(|(_, overlaps)| overlaps)
    }

    /// Stores the overlap with the waits of a lane. A lane that never waits does not overlap itself. Most lanes of a
    /// trace with many processes are like that, and storing their empty entries would use most of the memory.
    fn keep_with(&mut self, lane: LaneId, is_itself: bool, overlaps: [Overlap; WAITS]) {
        match self.with.iter_mut().find(|(with, _)| *with == lane) {
            Some((_, known)) => *known = overlaps,
            None if is_itself && overlaps == [Overlap::default(); WAITS] => {}
            None => {
                self.with.reserve_exact(1);
                self.with.push((lane, overlaps));
            }
        }
    }
}

/// Activity of a training thread from its first compute or wait span to its last, outside these spans.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Own {
    /// Time in file calls that read, or that request metadata of files that are read, outside checkpoints.
    pub read: i64,
    /// Time in calls that write and synchronize.
    pub put: i64,
    /// Time in calls that block.
    pub idle: i64,
    /// End of the last span.
    to: i64,
    /// The values of `read`, `put` and `idle` before the earliest span so far.
    before: [i64; 3],
}

impl Own {
    /// Takes the intervals between this horizon and the last one.
    fn pass(own: &mut Option<Own>, passed: &Tracks) {
        let of = |track: Track| &passed[track as usize];
        let spans = [of(Track::Wait).as_slice(), of(Track::Compute)];
        let last = || spans.iter().filter_map(|list| list.last()).map(|it| it.end).max();
        let Some(mut found) = own.or_else(|| last().map(|to| Own { to, ..Own::default() })) else { return };
        let mut beside = spans.concat();
        // Leave out everything after the last span, as if a span covered it.
        beside.push(Interval { start: found.to, end: i64::MAX });
        unite(&mut beside);
        let mut not_reading = [&beside[..], of(Track::Put), of(Track::Save)].concat();
        unite(&mut not_reading);
        let lists =
            [without(of(Track::Io), &not_reading), without(of(Track::Put), &beside), without(of(Track::Idle), &beside)];
        let first = spans.iter().filter_map(|list| list.first()).map(|it| it.start).min();
        let mut after = [0; 3];
        for ((list, before), after) in lists.iter().zip(&mut found.before).zip(&mut after) {
            if let Some(first) = first {
                *after = std::mem::take(before) + tail(list, first);
                *before = length(list) - tail(list, first);
            } else {
                *before += length(list);
            }
        }
        let [read, put, idle] = after;
        *own = Some(Own { read: found.read + read, put: found.put + put, idle: found.idle + idle, ..found });
    }
}

/// A thread that does not block for this long does its own work: forwarding a message takes a tenth of it.
pub const WORK_NS: i64 = 1_000_000;

/// A lane during the sweep.
#[derive(Default)]
struct Lane {
    waiting: [Vec<Vec<Interval>>; TRACKS],
    room: [usize; TRACKS],
    /// Intervals between the last horizon and the previous one.
    passed: Tracks,
    measure: LaneMeasure,
    /// Lengths before `passed` was added: the lengths after the last horizon.
    before: [i64; TRACKS],
    partners: Vec<LaneId>,
    /// Its last wait before its process sent its first message, and the time of that message.
    ready: Option<(i64, i64)>,
    /// `true` if the measurements after its process's last message were taken.
    has_end: bool,
    /// Earliest start so far of a call that blocks or sends a message, and the time it wrote after that.
    earliest: Option<(i64, i64)>,
    /// Start of the earliest blocking call so far, and the works after it.
    works_to: Option<i64>,
    works: u64,
}

/// Tracks whose overlap with other lanes is measured.
const WAITS_OF: [Track; WAITS] = [Track::Wait, Track::Idle, Track::Piped];
pub const WAITS: usize = 3;

/// All measurements of lanes.
#[derive(Default, Serialize, Deserialize)]
pub struct Lanes {
    pub measures: BTreeMap<LaneId, LaneMeasure>,
    /// I/O that overlaps compute, per process group.
    pub beside: BTreeMap<u32, Beside>,
    /// Time per column in which spans of lanes waited, computed and saved, summed over lanes.
    pub bands: Bins<SPAN_TRACKS>,
    /// Idle time per column of each lane whose waits may be for another lane.
    pub idle: BTreeMap<LaneId, Bins<1>>,
}

impl Lanes {
    /// Adds the lanes of unrelated processes.
    pub fn merge(&mut self, other: Lanes) {
        self.measures.extend(other.measures);
        self.beside.extend(other.beside);
        self.bands.merge(other.bands);
        self.idle.extend(other.idle);
        keep_lowest(&mut self.idle);
    }
}

/// Drops the columns of lanes beyond the limit. It keeps the lanes with the lowest ids, so the order of calls does not
/// matter.
fn keep_lowest(idle: &mut BTreeMap<LaneId, Bins<1>>) {
    while idle.len() > IDLE_MAX {
        idle.pop_last();
    }
}

/// Number of tracks that come from spans; these tracks precede the others.
pub const SPAN_TRACKS: usize = Track::Save as usize + 1;

/// Largest number of lanes whose idle time is stored per column: every hundred lanes take a megabyte.
const IDLE_MAX: usize = 256;

/// Sweep that measures lanes.
pub struct LaneSweep {
    ancestry: Ancestry,
    lanes: BTreeMap<LaneId, Box<Lane>>,
    /// Lanes with wait spans: all lanes below them are measured against them.
    waiters: BTreeSet<LaneId>,
    /// Known messages of each process, and the end of the last message it received.
    hands: HashMap<u32, Hands, RandomState>,
    takes: HashMap<u32, i64, RandomState>,
    /// Start of the first message that each process received.
    first_takes: HashMap<u32, i64, RandomState>,
    unordered: Vec<Packed>,
    horizon: i64,
    bands: Bins<SPAN_TRACKS>,
    idle: BTreeMap<LaneId, Bins<1>>,
    groups: Groups,
}

/// Start of a process's first message, and end of its last.
#[derive(Clone, Copy)]
struct Hands {
    first: i64,
    last: i64,
}

/// Intervals whose order is not known in advance, in a few bytes each; they are sorted by their ends when they are
/// taken out.
struct Packed {
    last_end: i64,
    lanes: Vec<(LaneId, [Box<[u8]>; TRACKS])>,
}

impl LaneSweep {
    pub fn new(ancestry: Ancestry) -> LaneSweep {
        let (lanes, waiters) = (BTreeMap::new(), BTreeSet::new());
        let (hands, takes, first_takes) = (HashMap::default(), HashMap::default(), HashMap::default());
        let (bands, idle) = (Bins::default(), BTreeMap::new());
        let groups = Groups::default();
        LaneSweep {
            ancestry,
            lanes,
            waiters,
            hands,
            takes,
            first_takes,
            unordered: Vec::new(),
            horizon: i64::MAX,
            bands,
            idle,
            groups,
        }
    }

    /// Takes the next part, whose tracks are united, and the latest end that any later interval can have: `i64::MAX` if
    /// unknown.
    pub fn take(&mut self, part: LanePart, horizon: i64) {
        if horizon == i64::MAX {
            return self.keep(part);
        }
        self.place(part.lanes);
        self.unordered.sort_by_key(|packed| packed.last_end);
        while let Some(packed) = self.unordered.pop_if(|packed| packed.last_end > horizon) {
            let tracks = |tracks: [Box<[u8]>; TRACKS]| tracks.map(|track| unpack(&track));
            self.place(packed.lanes.into_iter().map(|(lane, packed)| (lane, tracks(packed))).collect());
        }
        let horizon = horizon.max(self.unordered.last().map_or(i64::MIN, |packed| packed.last_end));
        if horizon < self.horizon {
            self.advance(horizon);
        }
        for lane in self.lanes.values_mut() {
            lane.waiting.iter_mut().zip(&mut lane.room).for_each(|(waiting, room)| gather(waiting, room));
        }
    }

    /// Returns the measurements by lane.
    pub fn finish(mut self) -> Lanes {
        self.take(LanePart::default(), i64::MIN);
        let (hands, takes) = (self.hands, self.takes);
        let measured = |(id, mut lane): (LaneId, Box<Lane>)| {
            lane.decide_after(takes.get(&id.proc).copied());
            let first_hand = hands.get(&id.proc).map(|hands| hands.first);
            (id, lane.measured(first_hand))
        };
        let measures = self.lanes.into_iter().map(measured).collect();
        Lanes { measures, beside: self.groups.finish(), bands: self.bands, idle: self.idle }
    }

    fn keep(&mut self, part: LanePart) {
        let ends = part.lanes.iter().flat_map(|(_, tracks)| tracks).filter_map(|track| track.last());
        if let Some(last_end) = ends.map(|interval| interval.end).max() {
            let pack = |tracks: Tracks| tracks.map(|track| pack(&track));
            let lanes = part.lanes.into_iter().map(|(lane, tracks)| (lane, pack(tracks))).collect();
            self.unordered.push(Packed { last_end, lanes });
        }
    }

    fn place(&mut self, lanes: Vec<(LaneId, Tracks)>) {
        for (id, tracks) in lanes {
            if !tracks[Track::Wait as usize].is_empty() && self.waiters.insert(id) {
                self.pair_with(id);
            }
            if !self.lanes.contains_key(&id) {
                let partners = self.ancestry.partners(id, &self.waiters);
                self.look_to(&partners, id);
                self.lanes.insert(id, Box::new(Lane::new(partners)));
            }
            let Some(lane) = self.lanes.get_mut(&id) else { continue };
            for (waiting, mut track) in lane.waiting.iter_mut().zip(tracks) {
                // An interval that ends after the horizon despite the caller's guarantee is truncated there, as in the
                // other sweep, which counts such intervals.
                let late = track.partition_point(|interval| interval.end <= self.horizon);
                for interval in &mut track[late..] {
                    *interval = Interval { start: interval.start.min(self.horizon), end: self.horizon };
                }
                if late < track.len() {
                    unite(&mut track);
                }
                if !track.is_empty() {
                    waiting.push(track);
                }
            }
        }
    }

    /// Starts to store the idle time per column of lanes whose waits may be for this one.
    fn look_to(&mut self, partners: &[LaneId], id: LaneId) {
        for partner in partners.iter().filter(|partner| **partner != id) {
            self.idle.entry(*partner).or_default();
        }
        keep_lowest(&mut self.idle);
    }

    /// Adds a lane that the known lanes are measured against.
    fn pair_with(&mut self, waiter: LaneId) {
        for (id, lane) in &mut self.lanes {
            if !lane.partners.contains(&waiter) && self.ancestry.is_below(id.proc, waiter.proc) {
                lane.partners.push(waiter);
            }
        }
    }

    /// Adds the passed intervals of a lane to the columns.
    fn record(&mut self, id: LaneId, lane: &Lane) {
        for (track, passed) in lane.passed[..SPAN_TRACKS].iter().enumerate() {
            self.bands.add_lengths(passed, track);
        }
        if let Some(columns) = self.idle.get_mut(&id) {
            columns.add_lengths(&lane.passed[Track::Idle as usize], 0);
        }
    }

    fn advance(&mut self, horizon: i64) {
        self.horizon = horizon;
        for (id, lane) in &mut self.lanes {
            lane.pass(horizon);
            let hands = &lane.passed[Track::Hand as usize];
            if let Some((first, last)) = hands.first().zip(hands.last()) {
                let known = self.hands.entry(id.proc).or_insert(Hands { first: first.start, last: last.end });
                *known = Hands { first: known.first.min(first.start), last: known.last.max(last.end) };
            }
            if let Some(last) = lane.passed[Track::Take as usize].last() {
                let known = self.takes.entry(id.proc).or_insert(last.end);
                *known = last.end.max(*known);
            }
            if let Some(first) = lane.passed[Track::Take as usize].first() {
                let known = self.first_takes.entry(id.proc).or_insert(first.start);
                *known = first.start.min(*known);
            }
        }
        for (id, lane) in &mut self.lanes {
            lane.see_after(self.takes.get(&id.proc).copied());
            lane.see_works(self.first_takes.get(&id.proc).copied());
        }
        let passed = self.lanes.iter().filter(|(_, lane)| lane.has_passed());
        self.groups.pass(passed.map(|(id, lane)| {
            let [waits, compute, _, io, ..] = &lane.passed;
            Passed { group: self.ancestry.group(id.proc), waits, compute, io }
        }));
        let ids: Vec<LaneId> = self.lanes.iter().filter(|(_, lane)| lane.has_passed()).map(|(id, _)| *id).collect();
        for id in ids {
            // A lane that is removed from the map can be measured against the lanes in it.
            let Some(mut lane) = self.lanes.remove(&id) else { continue };
            lane.see();
            self.record(id, &lane);
            let hands = self.hands.get(&id.proc).copied();
            let moments = hands.map(|hands| (lane.get_ready(hands.first), lane.get_end(hands.last)));
            for partner in lane.partners.clone() {
                let overlaps = lane.measure.with(&partner).copied().unwrap_or_default();
                let other = if partner == id { Some(&lane) } else { self.lanes.get(&partner) };
                let met = other.map_or(overlaps, |other| lane.meet(other, overlaps, moments.unwrap_or_default()));
                lane.measure.keep_with(partner, partner == id, met);
            }
            self.lanes.insert(id, lane);
        }
    }
}

impl Lane {
    fn new(partners: Vec<LaneId>) -> Lane {
        let measure = LaneMeasure { first_ts: i64::MAX, last_ts: i64::MIN, ..LaneMeasure::default() };
        Lane { room: [WAITING; TRACKS], partners, measure, ..Lane::default() }
    }

    /// Moves intervals after the horizon from `waiting` to `passed`.
    fn pass(&mut self, horizon: i64) {
        for track in 0..TRACKS {
            self.before[track] = self.measure.lengths[track];
            self.passed[track] = pass(&mut self.waiting[track], horizon);
        }
        // A thread that waits for a batch does not train during the wait: compute within a wait makes the batch.
        let [wait, compute, ..] = &mut self.passed;
        if !wait.is_empty() && !compute.is_empty() {
            *compute = without(compute, wait);
        }
        for track in 0..TRACKS {
            self.measure.lengths[track] += length(&self.passed[track]);
        }
        Own::pass(&mut self.measure.own, &self.passed);
        let [wait, compute, save, io, _, comm, _, _, vain, ..] = &self.passed;
        self.measure.steps.pass(horizon, [compute, comm, save, wait, io], vain);
    }

    fn has_passed(&self) -> bool {
        self.passed.iter().any(|track| !track.is_empty())
    }

    fn see(&mut self) {
        let (first, last) = self.reach();
        self.measure.first_ts = self.measure.first_ts.min(first);
        self.measure.last_ts = self.measure.last_ts.max(last);
        let hand = self.passed[Track::Hand as usize].last().map(|interval| interval.end);
        self.measure.last_hand_ts = self.measure.last_hand_ts.max(hand);
    }

    /// Returns first start and last end of the passed intervals.
    fn reach(&self) -> (i64, i64) {
        let first = self.passed.iter().filter_map(|track| track.first()).map(|interval| interval.start).min();
        let last = self.passed.iter().filter_map(|track| track.last()).map(|interval| interval.end).max();
        (first.unwrap_or(i64::MAX), last.unwrap_or(i64::MIN))
    }

    /// Returns the length of a track after `ts`, which must not be later than the previous horizon.
    fn after(&self, track: Track, ts: i64) -> i64 {
        self.before[track as usize] + tail(&self.passed[track as usize], ts)
    }

    /// Finds the lane's first wait or message after the last message that its process received.
    fn see_after(&mut self, last_take: Option<i64>) {
        if self.measure.after_takes_ts.is_some() {
            return;
        }
        let from = last_take.unwrap_or(i64::MIN);
        let calls = [Track::Idle, Track::Hand].map(|track| &self.passed[track as usize]);
        let first = |list: &Vec<Interval>| list.get(list.partition_point(|it| it.start < from)).map(|it| it.start);
        let earliest = calls.into_iter().filter_map(first).min();
        self.earliest = earliest.map(|ts| (ts, self.after(Track::Put, ts))).or(self.earliest);
        self.decide_after(last_take);
    }

    /// Fixes the earliest such call once the last message of its process is known.
    fn decide_after(&mut self, last_take: Option<i64>) {
        if self.measure.after_takes_ts.is_none() && last_take.is_some() {
            self.measure.after_takes_ts = self.earliest.map(|(ts, _)| ts);
            self.measure.put_after_takes = self.earliest.map_or(0, |(_, put)| put);
        }
    }

    /// Counts its works, and records their number since its process received the first message so far.
    fn see_works(&mut self, first_take: Option<i64>) {
        for idle in self.passed[Track::Idle as usize].iter().rev() {
            let is_since = first_take.is_some_and(|first| idle.end >= first);
            self.works += self.works_to.is_some_and(|to| to - idle.end >= WORK_NS) as u64;
            self.works_to = Some(idle.start);
            if is_since {
                self.measure.works = self.works;
            }
        }
    }

    /// Records its last wait before its process sent its first message, and returns that time if it is new.
    fn get_ready(&mut self, hand: i64) -> Option<i64> {
        if self.ready.is_some_and(|(_, known)| known == hand) {
            return None;
        }
        let idle = &self.passed[Track::Idle as usize];
        let last = idle[..idle.partition_point(|interval| interval.end <= hand)].last()?;
        self.ready = Some((last.end, hand));
        Some(last.end)
    }

    /// Returns the end of its process's last message on the first call.
    fn get_end(&mut self, hand: i64) -> Option<i64> {
        (!std::mem::replace(&mut self.has_end, true)).then_some(hand)
    }

    /// Returns its measurements; readiness counts only if it was derived from the actual first message.
    fn measured(mut self, first_hand: Option<i64>) -> LaneMeasure {
        if self.ready.map(|(_, hand)| hand) != first_hand {
            let overlaps = self.measure.with.iter_mut().flat_map(|(_, overlaps)| overlaps);
            overlaps.for_each(|overlap| overlap.since_ready = None);
        }
        self.measure
    }

    /// Adds the overlap of this lane with another lane's waits of each kind.
    fn meet(
        &self,
        other: &Lane,
        mut overlaps: [Overlap; WAITS],
        (ready, end): (Option<i64>, Option<i64>),
    ) -> [Overlap; WAITS] {
        let (first, last) = self.reach();
        let is_new = last == self.measure.last_ts;
        let hand = self.passed[Track::Hand as usize].last().map(|interval| interval.end);
        let new_hand = hand.filter(|_| hand == self.measure.last_hand_ts);
        for (track, overlap) in WAITS_OF.into_iter().zip(&mut overlaps) {
            let theirs = &other.passed[track as usize];
            let after = |ts: i64| other.after(track, ts);
            let since = |ts: i64| Since {
                after: after(ts),
                io: overlap.io + shared_after(theirs, &self.passed[Track::Io as usize], ts),
                idle: overlap.idle + shared_after(theirs, &self.passed[Track::Idle as usize], ts),
            };
            let (since_ready, since_end) = (ready.map(since), end.map(since));
            overlap.since_ready = since_ready.or(overlap.since_ready);
            overlap.since_end = since_end.or(overlap.since_end);
            overlap.io += shared(theirs, &self.passed[Track::Io as usize]);
            overlap.idle += shared(theirs, &self.passed[Track::Idle as usize]);
            if is_new {
                overlap.after_last = after(last);
                overlap.put_after_last = other.after(Track::Put, last);
            }
            overlap.after_first = after(first);
            overlap.put_after_first = other.after(Track::Put, first);
            overlap.after_last_hand = new_hand.map(after).or(overlap.after_last_hand);
        }
        overlaps
    }
}

/// Returns the overlap of two disjoint ascending lists after a timestamp.
fn shared_after(a: &[Interval], b: &[Interval], ts: i64) -> i64 {
    let from = |list: &[Interval]| list.partition_point(|interval| interval.end <= ts);
    let (a, b) = (&a[from(a)..], &b[from(b)..]);
    let Some((first_a, first_b)) = a.first().zip(b.first()) else { return 0 };
    let early = (ts.min(first_a.end).min(first_b.end) - first_a.start.max(first_b.start)).max(0);
    shared(a, b) - early
}
