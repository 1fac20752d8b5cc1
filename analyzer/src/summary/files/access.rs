//! Access to files: positions, sizes and durations of calls.
//!
//! A pass is the sequence of bytes that one thread reads (or writes) in one file between opening and closing it,
//! separately for each layer. A call of a pass is related to the previous call:
//!
//! ```text
//!   |== before ==|            first: nothing precedes it in the pass
//!                |--|         consecutive: starts at the end of the previous call
//!                     |--|    forward: starts further on
//!   |--|                      repeated: starts where the previous call started
//!  |--|  or   |--|            backward: starts anywhere else before that end
//! ```
//!
//! Batches are read in any order. The predecessor of the first call of a pass may be in another batch: such ends are
//! kept as [`Stitch`]es and joined when everything has been read. Their number is that of files that are open when a
//! batch ends.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::packed_serde::arrays;
use crate::summary::figures::quantiles::Histogram;

/// The number of simultaneous passes of a file: by layer, read or written.
pub const STREAMS: usize = 6;

/// Layers of streams; MPI-IO and similar layers are the last.
pub const LAYERS: [&str; 3] = ["posix", "stdio", "other"];

/// Returns the stream of a call.
pub fn stream(layer: &str, writes: bool) -> u8 {
    let layer = LAYERS.iter().position(|known| *known == layer).unwrap_or(2);
    (2 * layer + writes as usize) as u8
}

/// The position of a call relative to the previous one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Relation {
    First,
    Consecutive,
    Forward,
    Backward,
    Repeated,
    /// The position is unknown.
    Unknown,
}

pub const RELATIONS: usize = 6;

impl Relation {
    pub fn of(pos: i64, (start, end): (i64, i64)) -> Relation {
        match pos {
            _ if pos == end => Relation::Consecutive,
            _ if pos > end => Relation::Forward,
            _ if pos == start => Relation::Repeated,
            _ => Relation::Backward,
        }
    }
}

/// Calls of a stream that moved bytes.
#[derive(Clone, Copy, Default, Debug, Serialize, Deserialize)]
pub struct Pattern {
    /// By [`Relation`].
    pub calls: [u64; RELATIONS],
    pub bytes: [u64; RELATIONS],
    /// Among calls with a known position: those that do not start at a block of 4 KiB, those that are not whole blocks,
    /// and both.
    pub off_start: u64,
    pub off_size: u64,
    pub off_both: u64,
}

/// The unit of alignment: a page, and the block of most file systems.
pub const BLOCK: i64 = 4096;

impl Pattern {
    fn merge(&mut self, other: &Pattern) {
        self.calls.iter_mut().zip(other.calls).for_each(|(mine, theirs)| *mine += theirs);
        self.bytes.iter_mut().zip(other.bytes).for_each(|(mine, theirs)| *mine += theirs);
        self.off_start += other.off_start;
        self.off_size += other.off_size;
        self.off_both += other.off_both;
    }

    #[inline(always)]
    fn add(&mut self, relation: Relation, bytes: i64) {
        self.calls[relation as usize] += 1;
        self.bytes[relation as usize] += bytes as u64;
    }

    #[inline(always)]
    fn align(&mut self, pos: i64, bytes: i64) {
        let (start, size) = ((pos % BLOCK != 0) as u64, (bytes % BLOCK != 0) as u64);
        self.off_start += start;
        self.off_size += size;
        self.off_both += start & size;
    }
}

/// Calls of one size class: 0, then one class per doubling.
#[derive(Clone, Copy, Default, Debug, Serialize, Deserialize)]
pub struct SizeBin {
    pub count: u64,
    pub bytes: u64,
    pub time_ns: u64,
}

/// The number of size classes: zero, then each number of binary digits.
pub const SIZE_BINS: usize = 65;

/// Bands of latency: by class, for reads and writes also by size.
pub const BANDS: usize = 14;

/// The upper ends of the bands of sizes; the last has none. The first is for calls that moved nothing.
pub const BAND_ENDS: [u64; 5] = [1, 4 << 10, 64 << 10, 1 << 20, 16 << 20];

/// Returns the band of a size.
#[inline(always)]
pub fn band(bytes: u64) -> usize {
    // Bands end at powers of two, so binary digits determine the band.
    const BAND_OF: [u8; SIZE_BINS] = {
        let mut bands = [5; SIZE_BINS];
        let mut digits = 0;
        while digits < SIZE_BINS {
            bands[digits] = match digits {
                0 => 0,
                1..=12 => 1,
                13..=16 => 2,
                17..=20 => 3,
                21..=24 => 4,
                _ => 5,
            };
            digits += 1;
        }
        bands
    };
    BAND_OF[digits(bytes)] as usize
}

#[inline(always)]
fn digits(bytes: u64) -> usize {
    (64 - bytes.leading_zeros()) as usize
}

/// All counts of accesses.
#[derive(Default, Serialize, Deserialize)]
pub struct Access {
    pub patterns: [Pattern; STREAMS],
    /// For reads and writes.
    #[serde(with = "arrays")]
    pub sizes: Vec<[SizeBin; SIZE_BINS]>,
    /// For reads and writes by band, for metadata, for syncs.
    pub latency: Vec<Histogram>,
    /// File calls that failed, by row and error number; zero if unknown.
    pub failures: HashMap<(u32, i32), Failures>,
    /// Reads and writes of passes that started in another batch. They are joined before they are sent.
    #[serde(skip)]
    stitches: Vec<Stitch>,
    /// The number of stitches, kept or not.
    stitched: u64,
    heads: PassHeads,
}

/// The first calls of passes within batches, once all stitches of their passes are known.
#[derive(Default, Serialize, Deserialize)]
struct PassHeads {
    /// By their relation.
    together: [Pattern; STREAMS],
    /// All as unknown, which is used if there are too many stitches.
    apart: [Pattern; STREAMS],
}

/// Calls that failed with one error.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Failures {
    pub count: u64,
    pub time_ns: u64,
    /// The start of the first of them, and its file.
    pub first: (i64, u32),
}

/// The maximum number of stitches; beyond it, none is joined, and calls at the start of a batch have an unknown
/// relation. At 64 bytes each, 64 MiB.
const STITCHES_MAX: u64 = 1 << 20;

/// The key of a pass: process, thread, file; and its stream.
type Key = (u32, i32, u32, u8);

/// The first call of a pass within a batch, the last one of it, or the end of a pass.
#[derive(Clone, Copy, Debug)]
struct Stitch {
    key: Key,
    ts: i64,
    what: StitchKind,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum StitchKind {
    /// A call that starts at a position, and its size.
    Head(i64, i64),
    /// Start and end of the last call.
    Tail(i64, i64),
    Bound,
}

impl Access {
    /// Allocates the histograms; call this before adding the first time.
    pub fn ready(&mut self) {
        if self.latency.is_empty() {
            self.latency.resize(BANDS, Histogram::default());
            self.sizes.resize(2, [SizeBin::default(); SIZE_BINS]);
        }
    }

    /// Adds the duration of a call on a file. `bytes` is the size it moved, `None` if it failed or moves none.
    #[inline(always)]
    pub fn time(&mut self, kind: Timed, bytes: Option<u64>, dur: u64) {
        let place = match (kind, bytes) {
            (Timed::Read | Timed::Write, Some(bytes)) => {
                let bin = &mut self.sizes[kind as usize][digits(bytes)];
                bin.count += 1;
                bin.bytes += bytes;
                bin.time_ns += dur;
                6 * kind as usize + band(bytes)
            }
            (Timed::Read | Timed::Write, None) => return,
            (Timed::Metadata, _) => 12,
            (Timed::Sync, _) => 13,
        };
        self.latency[place].add(dur);
    }

    #[cold]
    pub fn failed(&mut self, row: u32, errno: i32, (ts, file): (i64, u32), dur: u64) {
        let fresh = Failures { count: 0, time_ns: 0, first: (ts, file) };
        let failures = self.failures.entry((row, errno)).or_insert(fresh);
        failures.count += 1;
        failures.time_ns += dur;
        failures.first = failures.first.min((ts, file));
    }

    pub fn merge(&mut self, other: Access) {
        self.patterns.iter_mut().zip(&other.patterns).for_each(|(mine, theirs)| mine.merge(theirs));
        if self.latency.is_empty() {
            (self.latency, self.sizes) = (other.latency, other.sizes);
        } else {
            self.latency.iter_mut().zip(&other.latency).for_each(|(mine, theirs)| mine.merge(theirs));
            let bins = self.sizes.iter_mut().flatten().zip(other.sizes.iter().flatten());
            bins.for_each(|(mine, theirs)| {
                mine.count += theirs.count;
                mine.bytes += theirs.bytes;
                mine.time_ns += theirs.time_ns;
            });
        }
        for (key, theirs) in other.failures {
            let mine = self.failures.entry(key).or_insert(Failures { count: 0, time_ns: 0, ..theirs });
            mine.count += theirs.count;
            mine.time_ns += theirs.time_ns;
            mine.first = mine.first.min(theirs.first);
        }
        self.stitched += other.stitched;
        self.stitches.extend(other.stitches);
        for (mine, theirs) in
            [(&mut self.heads.together, &other.heads.together), (&mut self.heads.apart, &other.heads.apart)]
        {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| mine.merge(theirs));
        }
    }

    /// Renumbers files and kinds, after passes were joined.
    pub fn renumber(&mut self, mut row: impl FnMut(u32) -> u32, mut file: impl FnMut(u32) -> u32) {
        let failures = std::mem::take(&mut self.failures).into_iter();
        self.failures = failures
            .map(|((of, errno), failures)| {
                let (ts, path) = failures.first;
                ((row(of), errno), Failures { first: (ts, file(path)), ..failures })
            })
            .collect();
    }

    /// Completes the counts after all of them were merged.
    pub fn finish(&mut self) {
        self.join_passes();
        let heads = std::mem::take(&mut self.heads);
        let counted = if self.stitched <= STITCHES_MAX { heads.together } else { heads.apart };
        self.patterns.iter_mut().zip(&counted).for_each(|(mine, heads)| mine.merge(heads));
    }

    /// Joins passes, once all of their stitches are known.
    pub fn join_passes(&mut self) {
        let mut stitches = std::mem::take(&mut self.stitches);
        // A call that is first and last in its batch must be sorted as first, then as last.
        stitches.sort_by_key(|stitch| (stitch.key, stitch.ts, !matches!(stitch.what, StitchKind::Head(..))));
        let mut open: Option<(Key, (i64, i64))> = None;
        for Stitch { key, what, .. } in stitches {
            let before = open.take().filter(|(other, _)| *other == key).map(|(_, last)| last);
            match what {
                StitchKind::Head(pos, bytes) => {
                    let relation = before.map_or(Relation::First, |last| Relation::of(pos, last));
                    self.heads.together[key.3 as usize].add(relation, bytes);
                    self.heads.apart[key.3 as usize].add(Relation::Unknown, bytes);
                }
                StitchKind::Tail(start, end) => open = Some((key, (start, end))),
                StitchKind::Bound => {}
            }
        }
    }

    fn stitch(&mut self, stitch: Stitch) {
        self.stitched += 1;
        if self.stitched <= STITCHES_MAX {
            self.stitches.push(stitch);
        } else if let StitchKind::Head(_, bytes) = stitch.what {
            self.patterns[stitch.key.3 as usize].add(Relation::Unknown, bytes);
        }
    }
}

/// Which time is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timed {
    Read,
    Write,
    Metadata,
    Sync,
}

/// The passes of one batch.
#[derive(Default)]
pub struct Passes {
    /// By file: the number of the batch in which it was used last, and its index among the slots.
    places: Vec<(u32, u32)>,
    batch: u32,
    slots: Vec<Slot>,
    /// The last file used in this batch, and its slot: most calls are on it again.
    latest: Option<(u32, usize)>,
}

/// One file in one batch.
#[derive(Clone, Copy)]
struct Slot {
    file: u32,
    /// The last opening or closing, if any, and whether the first of them was a closing with nothing before.
    bound: Option<i64>,
    closed_first: bool,
    /// `true` if it was closed and not opened afterwards.
    closed: bool,
    last: [Option<(i64, i64, i64)>; STREAMS],
}

impl Passes {
    #[inline(always)]
    fn slot(&mut self, file: u32) -> &mut Slot {
        match self.latest {
            Some((latest, place)) if latest == file => &mut self.slots[place],
            _ => self.other_slot(file),
        }
    }

    fn other_slot(&mut self, file: u32) -> &mut Slot {
        let at = file as usize;
        if at >= self.places.len() {
            self.places.resize((at + 1).next_power_of_two(), (u32::MAX, 0));
        }
        let (batch, place) = self.places[at];
        let place = if batch == self.batch {
            place as usize
        } else {
            self.places[at] = (self.batch, self.slots.len() as u32);
            self.slots.push(Slot { file, bound: None, closed_first: false, closed: false, last: [None; STREAMS] });
            self.slots.len() - 1
        };
        self.latest = Some((file, place));
        &mut self.slots[place]
    }

    /// Adds a call that moved bytes.
    #[inline(always)]
    pub fn moved(&mut self, access: &mut Access, lane: (u32, i32), file: u32, stream: u8, at: (i64, Option<i64>, i64)) {
        let (ts, pos, bytes) = at;
        let pattern = &mut access.patterns[stream as usize];
        let Some(pos) = pos else { return pattern.add(Relation::Unknown, bytes) };
        pattern.align(pos, bytes);
        let slot = self.slot(file);
        let before = slot.last[stream as usize].replace((ts, pos, pos.saturating_add(bytes)));
        match before {
            Some((_, start, end)) => pattern.add(Relation::of(pos, (start, end)), bytes),
            None if slot.bound.is_some() => pattern.add(Relation::First, bytes),
            None => {
                access.stitch(Stitch { key: (lane.0, lane.1, file, stream), ts, what: StitchKind::Head(pos, bytes) })
            }
        }
    }

    /// Notes that a file was opened or closed.
    pub fn bound(&mut self, ts: i64, file: u32, closes: bool) {
        let slot = self.slot(file);
        slot.closed_first |= closes && slot.bound.is_none() && slot.last.iter().all(Option::is_none);
        slot.bound = Some(ts);
        slot.closed = closes;
        slot.last = [None; STREAMS];
    }

    /// Ends the batch; passes that continue in another one are kept.
    pub fn end(&mut self, access: &mut Access, (proc, tid): (u32, i32)) {
        self.latest = None;
        for slot in self.slots.drain(..) {
            let tails = slot.last.iter().zip(0u8..).filter_map(|(last, stream)| Some(((*last)?, stream)));
            for ((ts, start, end), stream) in tails {
                access.stitch(Stitch { key: (proc, tid, slot.file, stream), ts, what: StitchKind::Tail(start, end) });
            }
            let is_open = !slot.closed && slot.last.iter().all(Option::is_none);
            if let Some(ts) = slot.bound.filter(|_| slot.closed_first || is_open) {
                for stream in 0..STREAMS as u8 {
                    access.stitch(Stitch { key: (proc, tid, slot.file, stream), ts, what: StitchKind::Bound });
                }
            }
        }
        self.batch += 1;
        if self.batch == u32::MAX {
            (self.batch, self.places) = (0, Vec::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANE: (u32, i32) = (0, 1);

    fn calls(access: &Access) -> [u64; RELATIONS] {
        access.patterns[0].calls
    }

    /// Positions of reads of 10 bytes, divided into batches, which are read in reverse order.
    fn read(batches: &[&[i64]]) -> Access {
        let (mut access, mut passes) = (Access::default(), Passes::default());
        let mut ts = 1000;
        for batch in batches.iter().rev() {
            ts -= 100;
            for (at, pos) in (0i64..).zip(*batch) {
                match *pos {
                    -1 => passes.bound(ts + at, 5, true),
                    -2 => passes.bound(ts + at, 5, false),
                    pos => passes.moved(&mut access, LANE, 5, 0, (ts + at, Some(pos), 10)),
                }
            }
            passes.end(&mut access, LANE);
        }
        access.finish();
        access
    }

    #[test]
    fn calls_are_related_to_the_one_before() {
        let found = read(&[&[0, 10, 20, 50, 50, 40, 45, 55]]);
        // 55 starts where 45 ended.
        assert_eq!(calls(&found), [1, 3, 1, 2, 1, 0]);
        assert_eq!(found.patterns[0].bytes, [10, 30, 10, 20, 10, 0]);
    }

    #[test]
    fn passes_span_batches_until_closed() {
        assert_eq!(calls(&read(&[&[0, 10], &[20, 30], &[40]])), [1, 4, 0, 0, 0, 0]);
        assert_eq!(calls(&read(&[&[0, 10], &[-1, -2, 20]])), [2, 1, 0, 0, 0, 0]);
        assert_eq!(calls(&read(&[&[0, 10], &[-1], &[20]])), [2, 1, 0, 0, 0, 0]);
        assert_eq!(calls(&read(&[&[0, 10, -1, -2], &[10]])), [2, 1, 0, 0, 0, 0]);
        assert_eq!(calls(&read(&[&[-2, 0, -1, -2, 10, -1], &[20]])), [3, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn call_at_unknown_position_counts_as_unknown() {
        let (mut access, mut passes) = (Access::default(), Passes::default());
        passes.moved(&mut access, LANE, 5, 1, (0, None, 10));
        assert_eq!(access.patterns[1].calls[Relation::Unknown as usize], 1);
    }

    #[test]
    fn bands_end_at_their_limits() {
        let bands = [0, 1, 4095, 4096, 65_535, 65_536, (1 << 20) - 1, 1 << 20, (16 << 20) - 1, 16 << 20].map(band);
        assert_eq!(bands, [0, 1, 1, 2, 2, 3, 3, 4, 4, 5]);
        for (at, end) in BAND_ENDS.into_iter().enumerate() {
            assert_eq!((band(end - 1), band(end)), (at, at + 1));
        }
    }
}
