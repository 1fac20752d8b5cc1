//! The overlap of threads: how long a trainer waited, and how much of that its readers were in I/O or idle.
//!
//! A lane is a thread. Each has tracks, which are sets of intervals; what is asked for are lengths of tracks, and of what the
//! tracks of two lanes share, where one thread's process is an ancestor of the other's or the same. Time is swept backwards
//! as in [`intervals`], so that memory holds what is open and not what there is.
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
    /// Calls on files.
    Io,
    /// Calls that wait for others: for a message on a pipe or socket, for a lock, for a child.
    Idle,
    /// Spans of communication.
    Comm,
    /// Calls that hand a message over.
    Hand,
    /// Calls that take one.
    Take,
    /// Waits in which the program finds that there is no next batch; they are waits as well.
    Vain,
    /// Of the calls on files, those that write and synchronise, and those that open, close or ask about what is only written.
    Put,
    /// Of the calls that wait for others, all but those on sockets.
    Piped,
}

pub const TRACKS: usize = 11;

type Tracks = [Vec<Interval>; TRACKS];

/// The intervals of a part of a trace, by lane.
#[derive(Default)]
pub struct LanePart {
    index: HashMap<LaneId, usize, RandomState>,
    lanes: Vec<(LaneId, Tracks)>,
}

impl LanePart {
    /// The place of a lane, for [`LanePart::push`].
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

    /// All intervals of a track, united, once each lane's are.
    pub fn all_of(&self, track: Track) -> Vec<Interval> {
        united(self.lanes.iter().map(|(_, tracks)| tracks[track as usize].clone()).collect())
    }
}

/// The overlap of two lanes: `of` the time that the first was in a track, the second was in I/O or idle.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overlap {
    pub io: i64,
    pub idle: i64,
    /// The part of the first one's track after the second one's last event, and after its first.
    pub after_last: i64,
    pub after_first: i64,
    /// And after the second one's last message; `None` where it hands none over.
    pub after_last_hand: Option<i64>,
    /// The overlap since the second one was ready; `None` where it is not known when.
    pub since_ready: Option<Since>,
    /// And since its process handed its last message over.
    pub since_end: Option<Since>,
    /// The time the first one wrote and synchronised after the second one's first event, and after its last.
    pub put_after_first: i64,
    pub put_after_last: i64,
}

/// The overlap of two lanes after a moment, and how much of the first one's track lies after it.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Since {
    pub after: i64,
    pub io: i64,
    pub idle: i64,
}

impl Overlap {
    /// The part of the first one's track within the second one's life.
    pub fn alive(&self) -> i64 {
        self.after_first - self.after_last
    }

    /// The time the second one was busy before it was ready: starting, importing.
    pub fn starting(&self) -> i64 {
        let Some(ready) = self.since_ready else { return 0 };
        let before = Since { after: self.after_first, io: self.io, idle: self.idle };
        (before.after - before.idle) - (ready.after - ready.idle)
    }

    /// The time the second one was busy until it had handed over all it made: how it ends is no work.
    pub fn busy(&self) -> i64 {
        let end = self.since_end.unwrap_or(Since { after: self.after_last, io: 0, idle: 0 });
        (self.after_first - self.idle) - (end.after - end.idle)
    }

    /// I/O from when it was ready to then.
    pub fn working_io(&self) -> i64 {
        self.since_ready.map_or(self.io, |ready| ready.io) - self.since_end.map_or(0, |end| end.io)
    }
}

/// The measures of one lane.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub struct LaneMeasure {
    pub lengths: [i64; TRACKS],
    /// Its training, where spans have its computing or its waits.
    pub own: Option<Own>,
    /// Its steps, where spans have its waits for batches.
    pub steps: Steps,
    /// First start and last end of what its tracks hold.
    pub first_ts: i64,
    pub last_ts: i64,
    /// End of the last call that hands a message over.
    pub last_hand_ts: Option<i64>,
    /// Start of its first call that waits for others or hands a message over once its process has taken its last message.
    pub after_takes_ts: Option<i64>,
    /// The time it wrote and synchronised after that.
    #[serde(default)]
    pub put_after_takes: i64,
    /// Times of [`WORK_NS`] and more in which it waited for nobody, between two of its calls that wait for others, since
    /// its process took its first message.
    #[serde(default)]
    pub works: u64,
    /// By lane of an ancestor, or of the own process: with the waits it says of itself, with its idle calls, and with those
    /// of them that are on no socket.
    pub with: Vec<(LaneId, [Overlap; WAITS])>,
}

impl LaneMeasure {
    pub fn of(&self, track: Track) -> i64 {
        self.lengths[track as usize]
    }

    /// Returns what it shares with the waits of that lane.
    pub fn with(&self, lane: &LaneId) -> Option<&[Overlap; WAITS]> {
        self.with.iter().find(|(with, _)| with == lane).map(|(_, overlaps)| overlaps)
    }

    /// Keeps what it shares with the waits of a lane. A lane that never waits shares nothing with itself, which most lanes of
    /// a trace of many processes do: an entry would be most of their memory.
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

/// What a thread that trains did from its first span of computing or of waiting to the last of these, beside both.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Own {
    /// In calls on files that read, or ask about what is read, and in no checkpoint.
    pub read: i64,
    /// In those that write and synchronise.
    pub put: i64,
    /// In calls that wait for others.
    pub idle: i64,
    /// The end of the last span.
    to: i64,
    /// The same times before the earliest span so far.
    before: [i64; 3],
}

impl Own {
    /// Takes what lies before the last horizon and behind this one.
    fn pass(own: &mut Option<Own>, passed: &Tracks) {
        let of = |track: Track| &passed[track as usize];
        let spans = [of(Track::Wait).as_slice(), of(Track::Compute)];
        let last = || spans.iter().filter_map(|list| list.last()).map(|it| it.end).max();
        let Some(mut found) = own.or_else(|| last().map(|to| Own { to, ..Own::default() })) else { return };
        let mut beside = spans.concat();
        // What follows the last span is left out as what lies beside one is.
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

/// Whoever waits for nobody for so long does something of its own: passing a message on takes a tenth of it.
pub const WORK_NS: i64 = 1_000_000;

/// A lane under way.
#[derive(Default)]
struct Lane {
    waiting: [Vec<Vec<Interval>>; TRACKS],
    room: [usize; TRACKS],
    /// The intervals between the last horizon and the one before.
    passed: Tracks,
    measure: LaneMeasure,
    /// Lengths before `passed` was added: how much lies after the last horizon.
    before: [i64; TRACKS],
    partners: Vec<LaneId>,
    /// Its last wait before its process handed its first message over, and the time of that.
    ready: Option<(i64, i64)>,
    /// True if it was noted what there was after its process's last message.
    has_end: bool,
    /// The earliest start so far of a call that waits for others or hands a message over, and how long it wrote after that.
    earliest: Option<(i64, i64)>,
    /// The start of the earliest call so far that waits for others, and the works after it.
    works_to: Option<i64>,
    works: u64,
}

/// The tracks whose overlap with other lanes is measured.
const WAITS_OF: [Track; WAITS] = [Track::Wait, Track::Idle, Track::Piped];
pub const WAITS: usize = 3;

/// All that was measured of lanes.
#[derive(Default, Serialize, Deserialize)]
pub struct Lanes {
    pub measures: BTreeMap<LaneId, LaneMeasure>,
    /// By group of processes, I/O beside compute.
    pub beside: BTreeMap<u32, Beside>,
    /// In each column of time, how long spans of lanes waited, computed, saved: summed over them.
    pub bands: Bins<SPAN_TRACKS>,
    /// By lane that others may make wait, how long it was idle in each column of time.
    pub idle: BTreeMap<LaneId, Bins<1>>,
}

impl Lanes {
    /// Adds those of processes that are no relatives of these.
    pub fn merge(&mut self, other: Lanes) {
        self.measures.extend(other.measures);
        self.beside.extend(other.beside);
        self.bands.merge(other.bands);
        self.idle.extend(other.idle);
        keep_lowest(&mut self.idle);
    }
}

/// Keeps the columns of so many lanes as there is room for: those of the lowest numbers, in whatever order they come.
fn keep_lowest(idle: &mut BTreeMap<LaneId, Bins<1>>) {
    while idle.len() > IDLE_MAX {
        idle.pop_last();
    }
}

/// Tracks that spans make, which come first.
pub const SPAN_TRACKS: usize = Track::Save as usize + 1;

/// Lanes whose idle time is kept by columns: that of more is a megabyte each hundred.
const IDLE_MAX: usize = 256;

/// See the module.
pub struct LaneSweep {
    ancestry: Ancestry,
    lanes: BTreeMap<LaneId, Box<Lane>>,
    /// Lanes with spans of waiting: whoever is below them is measured against these.
    waiters: BTreeSet<LaneId>,
    /// The messages of each process, as far as they are known, and the end of the last one it took.
    hands: HashMap<u32, Hands, RandomState>,
    takes: HashMap<u32, i64, RandomState>,
    /// By process, the start of the first message it took.
    first_takes: HashMap<u32, i64, RandomState>,
    unordered: Vec<Packed>,
    horizon: i64,
    bands: Bins<SPAN_TRACKS>,
    idle: BTreeMap<LaneId, Bins<1>>,
    groups: Groups,
}

/// The beginning of a process's first message, and the end of its last.
#[derive(Clone, Copy)]
struct Hands {
    first: i64,
    last: i64,
}

/// Intervals whose place in time nobody knew before, in a few bytes each; sorted by their ends when they are taken out.
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

    /// Takes the next part, whose tracks are united, and the latest end that anything after it can have: `i64::MAX` where
    /// nobody knows.
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

    /// The measures by lane.
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
                // What ended behind the horizon against its promise is cut there, as in the other sweep, which counts it.
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

    /// Keeps the idle time of lanes that others may make wait by columns, from now on.
    fn look_to(&mut self, partners: &[LaneId], id: LaneId) {
        for partner in partners.iter().filter(|partner| **partner != id) {
            self.idle.entry(*partner).or_default();
        }
        keep_lowest(&mut self.idle);
    }

    /// Lets the lanes that are known already be measured against one more.
    fn pair_with(&mut self, waiter: LaneId) {
        for (id, lane) in &mut self.lanes {
            if !lane.partners.contains(&waiter) && self.ancestry.is_below(id.proc, waiter.proc) {
                lane.partners.push(waiter);
            }
        }
    }

    /// Notes when a lane did what it did.
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
            // A lane out of the map can be measured against those that are in it.
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

    /// Moves what lies behind the horizon from what waits to what has passed.
    fn pass(&mut self, horizon: i64) {
        for track in 0..TRACKS {
            self.before[track] = self.measure.lengths[track];
            self.passed[track] = pass(&mut self.waiting[track], horizon);
        }
        // Who waits for a batch trains nothing meanwhile: what it computes there makes the batch.
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

    /// First start and last end of what has passed.
    fn reach(&self) -> (i64, i64) {
        let first = self.passed.iter().filter_map(|track| track.first()).map(|interval| interval.start).min();
        let last = self.passed.iter().filter_map(|track| track.last()).map(|interval| interval.end).max();
        (first.unwrap_or(i64::MAX), last.unwrap_or(i64::MIN))
    }

    /// The part of a track after a moment that no horizon before the last one lies behind.
    fn after(&self, track: Track, ts: i64) -> i64 {
        self.before[track as usize] + tail(&self.passed[track as usize], ts)
    }

    /// Looks for its first wait or message after the last one that its process took.
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

    /// What is earliest once it is known which was its process's last message stays so.
    fn decide_after(&mut self, last_take: Option<i64>) {
        if self.measure.after_takes_ts.is_none() && last_take.is_some() {
            self.measure.after_takes_ts = self.earliest.map(|(ts, _)| ts);
            self.measure.put_after_takes = self.earliest.map_or(0, |(_, put)| put);
        }
    }

    /// Counts its works, and notes how many there were since its process took a message that is the first so far.
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

    /// Notes when it last waited before its process handed its first message over, and says when it has just come to know.
    fn get_ready(&mut self, hand: i64) -> Option<i64> {
        if self.ready.is_some_and(|(_, known)| known == hand) {
            return None;
        }
        let idle = &self.passed[Track::Idle as usize];
        let last = idle[..idle.partition_point(|interval| interval.end <= hand)].last()?;
        self.ready = Some((last.end, hand));
        Some(last.end)
    }

    /// The end of its process's last message, the first time that it asks.
    fn get_end(&mut self, hand: i64) -> Option<i64> {
        (!std::mem::replace(&mut self.has_end, true)).then_some(hand)
    }

    /// Its measures; it was ready only where the first message is the one that this was found by.
    fn measured(mut self, first_hand: Option<i64>) -> LaneMeasure {
        if self.ready.map(|(_, hand)| hand) != first_hand {
            let overlaps = self.measure.with.iter_mut().flat_map(|(_, overlaps)| overlaps);
            overlaps.for_each(|overlap| overlap.since_ready = None);
        }
        self.measure
    }

    /// Adds what this lane shares with another one's waits of each kind.
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

/// The overlap of two disjoint ascending lists after a moment.
fn shared_after(a: &[Interval], b: &[Interval], ts: i64) -> i64 {
    let from = |list: &[Interval]| list.partition_point(|interval| interval.end <= ts);
    let (a, b) = (&a[from(a)..], &b[from(b)..]);
    let Some((first_a, first_b)) = a.first().zip(b.first()) else { return 0 };
    let early = (ts.min(first_a.end).min(first_b.end) - first_a.start.max(first_b.start)).max(0);
    shared(a, b) - early
}
