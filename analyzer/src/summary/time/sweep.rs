//! An exact union of intervals in one pass and little memory: the time in which at least one of many activities was in
//! progress.
//!
//! Streams contain events in the order in which they *ended*, so time is swept backwards: an interval that reaches far
//! back (a span around thousands of reads) precedes everything inside it, and the results for passed time are final.
//!
//! ```text
//!   |----------- span -----------|     the sweep moves to the left; everything right of `horizon`
//!     |read|  |read|    |read|         is counted and dropped; an interval that reaches beyond it to the left
//!        <-----------+                 is kept, shortened to end at the horizon
//!                 horizon
//! ```
//!
//! Threads turn their parts of a trace into lists of disjoint intervals in any order; a [`Sweep`] takes the lists in
//! order of time and measures sets and their overlap. Lists with unknown times are buffered in [`unordered`].
//!
//! [`unordered`]: super::unordered

use super::bins::Bins;
use super::intervals::{Interval, Lists, SETS, Set, length, shared, unite};
use super::unordered::{Part, UnorderedIntervals};

/// The measures of a sweep, in nanoseconds.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Measures {
    /// Length of each set.
    pub of: [i64; SETS],
    pub compute_and_io: i64,
    pub compute_and_app_io: i64,
    pub app_io_and_io: i64,
}

impl Measures {
    pub fn of(&self, set: Set) -> i64 {
        self.of[set as usize]
    }
}

/// The results of a sweep.
pub struct SweepResult {
    pub measures: Measures,
    /// The time of each set in each column.
    pub bands: Bins<SETS>,
    /// Intervals that ended after the horizon although their stream guaranteed otherwise, and their total delay.
    pub late: u64,
    pub late_ns: i64,
    /// The united intervals of a partial sweep, which it did not measure.
    pub parts: Vec<Part>,
}

/// A sweep in progress.
pub struct Sweep {
    /// Lists that extend beyond the horizon, each disjoint and ascending.
    waiting: [Vec<Vec<Interval>>; SETS],
    /// The number of intervals that may be buffered before they are united.
    room: [usize; SETS],
    unordered: UnorderedIntervals,
    horizon: i64,
    measures: Measures,
    bands: Bins<SETS>,
    late: u64,
    late_ns: i64,
    /// United intervals not packed yet, latest first, if they are kept to be united with those of other parts.
    kept: Option<PendingIntervals>,
}

/// United lists for another sweep.
#[derive(Default)]
struct PendingIntervals {
    passed: Vec<Lists>,
    intervals: usize,
    parts: Vec<Part>,
}

/// Intervals packed at a time: fewer would take more space than necessary.
const PACKED: usize = 1 << 16;

impl PendingIntervals {
    fn take(&mut self, passed: Lists) {
        self.intervals += passed.iter().map(Vec::len).sum::<usize>();
        self.passed.push(passed);
        if self.intervals >= PACKED {
            self.pack();
        }
    }

    fn pack(&mut self) {
        let mut lists = Lists::default();
        for passed in self.passed.drain(..).rev() {
            lists.iter_mut().zip(passed).for_each(|(list, later)| list.extend(later));
        }
        lists.iter_mut().for_each(unite);
        self.parts.extend(Part::of(&lists));
        self.intervals = 0;
    }
}

impl Default for Sweep {
    fn default() -> Sweep {
        Sweep {
            waiting: Default::default(),
            room: [WAITING; SETS],
            unordered: UnorderedIntervals::default(),
            horizon: i64::MAX,
            measures: Measures::default(),
            bands: Bins::default(),
            late: 0,
            late_ns: 0,
            kept: None,
        }
    }
}

impl Sweep {
    /// Takes the next lists, and the latest possible end of anything after them: `i64::MAX` if unknown.
    pub fn take(&mut self, lists: Lists, horizon: i64) {
        if horizon == i64::MAX {
            return self.unordered.keep(&lists);
        }
        self.place(lists, horizon);
        while let Some(lists) = self.unordered.next_beyond(horizon) {
            self.place(lists, horizon);
        }
    }

    /// Creates a sweep of a part: its united intervals are kept for the sweep over everything.
    pub fn of_a_part() -> Sweep {
        Sweep { kept: Some(PendingIntervals::default()), ..Sweep::default() }
    }

    /// Adds the intervals of a partial sweep.
    pub fn take_part(&mut self, part: Part) {
        self.unordered.add(part);
    }

    /// Adds lists and measures everything after `horizon`, beyond which only buffered intervals end.
    fn place(&mut self, lists: Lists, horizon: i64) {
        let horizon = horizon.max(self.unordered.last_end());
        for (waiting, mut list) in self.waiting.iter_mut().zip(lists) {
            let late = list.partition_point(|interval| interval.end <= self.horizon);
            for interval in &mut list[late..] {
                self.late += 1;
                self.late_ns += interval.end - self.horizon.max(interval.start);
                interval.end = self.horizon;
                interval.start = interval.start.min(self.horizon);
            }
            if late < list.len() {
                unite(&mut list);
            }
            if !list.is_empty() {
                waiting.push(list);
            }
        }
        if horizon < self.horizon {
            self.advance(horizon);
        }
        self.waiting.iter_mut().zip(&mut self.room).for_each(|(waiting, room)| gather(waiting, room));
    }

    /// Completes the sweep.
    pub fn finish(mut self) -> SweepResult {
        self.take(Lists::default(), i64::MIN);
        self.advance(i64::MIN);
        let Sweep { measures, bands, late, late_ns, mut kept, .. } = self;
        kept.iter_mut().for_each(PendingIntervals::pack);
        let parts = kept.map(|kept| kept.parts).unwrap_or_default();
        SweepResult { measures, bands, late, late_ns, parts }
    }

    fn advance(&mut self, horizon: i64) {
        self.horizon = horizon;
        let mut passed: Lists = Default::default();
        for (waiting, passed) in self.waiting.iter_mut().zip(&mut passed) {
            *passed = pass(waiting, horizon);
        }
        if let Some(kept) = &mut self.kept {
            return kept.take(passed);
        }
        for (set, list) in passed.iter().enumerate() {
            self.bands.add_lengths(list, set);
        }
        let overlap = |a: Set, b: Set| shared(&passed[a as usize], &passed[b as usize]);
        let measures = &mut self.measures;
        measures.of.iter_mut().zip(&passed).for_each(|(sum, list)| *sum += length(list));
        measures.compute_and_io += overlap(Set::Compute, Set::Io);
        measures.compute_and_app_io += overlap(Set::Compute, Set::AppIo);
        measures.app_io_and_io += overlap(Set::AppIo, Set::Io);
    }
}

/// Intervals of a set that are buffered unmerged, in 16 MiB.
pub(in crate::summary) const WAITING: usize = 1 << 20;

/// Unites all buffered lists when they become many: if parts of a trace span all of its time, the horizon never passes
/// them, and each event of the trace would be buffered until the end. The limit grows with the number of remaining
/// intervals, so that the work stays proportional, and faster if uniting gains little, as with calls that never
/// overlap.
pub(in crate::summary) fn gather(waiting: &mut Vec<Vec<Interval>>, room: &mut usize) {
    let before = waiting.iter().map(Vec::len).sum::<usize>();
    if before <= *room {
        return;
    }
    let mut all = waiting.concat();
    unite(&mut all);
    all.shrink_to_fit();
    *room = WAITING.max(all.len() * if all.len() < before / 2 { 2 } else { 4 });
    *waiting = vec![all];
}

/// Removes the time after the horizon from the buffered lists, and returns it united; time before the horizon remains.
pub(in crate::summary) fn pass(waiting: &mut Vec<Vec<Interval>>, horizon: i64) -> Vec<Interval> {
    let mut passed = Vec::new();
    // Later lists contain earlier times: in reverse, most need no sorting.
    for list in waiting.iter_mut().rev() {
        let from = list.partition_point(|interval| interval.end <= horizon);
        if from == 0 && passed.is_empty() {
            passed = std::mem::take(list);
        } else {
            passed.extend_from_slice(&list[from..]);
            list.truncate(from);
        }
    }
    waiting.retain(|list| !list.is_empty());
    unite(&mut passed);
    let mut reach = horizon;
    for interval in passed.iter_mut().take_while(|interval| interval.start < horizon) {
        reach = reach.min(interval.start);
        interval.start = horizon;
    }
    if reach < horizon {
        waiting.push(vec![Interval { start: reach, end: horizon }]);
    }
    passed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::time::intervals::list;

    /// Random intervals, divided into parts at random, against a bitmap of the same time.
    #[test]
    fn a_sweep_in_parts_equals_a_bitmap() {
        let mut state = 42u64;
        let mut random = |below: i64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) as i64) % below
        };
        for round in 0..200 {
            let mut events: Vec<(usize, Interval)> = (0..200)
                .map(|_| {
                    let start = random(1000);
                    let length = if random(10) == 0 { random(500) } else { random(8) };
                    (random(SETS as i64) as usize, Interval { start, end: start + length })
                })
                .collect();
            events.sort_by_key(|(_, interval)| std::cmp::Reverse(interval.end));
            let mut sweep = Sweep::default();
            let mut rest = &events[..];
            while !rest.is_empty() {
                let (part, after) = rest.split_at((1 + random(40) as usize).min(rest.len()));
                let mut lists: Lists = Default::default();
                part.iter().for_each(|(set, interval)| lists[*set].push(*interval));
                lists.iter_mut().for_each(unite);
                sweep.take(lists, after.first().map_or(i64::MIN, |(_, interval)| interval.end));
                rest = after;
            }
            let mut bits = vec![[false; SETS]; 1600];
            for (set, interval) in &events {
                (interval.start..interval.end).for_each(|at| bits[at as usize][*set] = true);
            }
            let count = |of: &dyn Fn(&[bool; SETS]) -> bool| bits.iter().filter(|bits| of(bits)).count() as i64;
            let SweepResult { measures: found, bands, late, .. } = sweep.finish();
            assert_eq!(late, 0);
            let width = bands.shift();
            let band = |set: usize| bands.range().map_or(0, |range| bands.column(set, width, range).iter().sum());
            assert_eq!(std::array::from_fn(band), found.of.map(|length| length as u64), "round {round}");
            let io = Set::Io as usize;
            let both = count(&|bits| bits[Set::Compute as usize] && bits[io]);
            assert_eq!((found.of(Set::Io), found.compute_and_io), (count(&|bits| bits[io]), both), "round {round}");
            assert_eq!(found.of(Set::AppIo), count(&|bits| bits[Set::AppIo as usize]));
        }
    }

    #[test]
    fn unordered_lists_measure_like_ordered_ones() {
        let of = |from: i64, to: i64| {
            let mut lists: Lists = Default::default();
            lists[Set::Io as usize] = list(&[(from, to)]);
            lists
        };
        let mut sweep = Sweep::default();
        for (from, to) in [(50, 60), (10, 30), (85, 95), (0, 20), (55, 70)] {
            sweep.take(of(from, to), i64::MAX);
        }
        sweep.take(of(90, 100), 90);
        sweep.take(of(40, 52), 45);
        let SweepResult { measures, late, .. } = sweep.finish();
        assert_eq!((measures.of(Set::Io), late), (30 + 30 + 15, 0));
    }

    #[test]
    fn many_unordered_lists_are_united() {
        let mut waiting: Vec<_> = (0..10).map(|i| list(&[(i, i + 1), (100 + 2 * i, 101 + 2 * i)])).collect();
        let mut room = 20;
        gather(&mut waiting, &mut room);
        assert_eq!(waiting.len(), 10);
        room = 19;
        gather(&mut waiting, &mut room);
        let ends: Vec<_> = (0..10).map(|i| (100 + 2 * i, 101 + 2 * i)).collect();
        assert_eq!(waiting, [list(&[&[(0, 10)], &ends[..]].concat())]);
        assert_eq!(room, WAITING);
    }

    #[test]
    fn late_interval_counts_as_late() {
        let mut sweep = Sweep::default();
        let lists = |pairs: &[(i64, i64)]| {
            let mut lists: Lists = Default::default();
            lists[Set::Io as usize] = list(pairs);
            lists
        };
        sweep.take(lists(&[(80, 100)]), 50);
        sweep.take(lists(&[(40, 60)]), 0);
        let SweepResult { measures, late, late_ns, .. } = sweep.finish();
        assert_eq!((measures.of(Set::Io), late, late_ns), (30, 1, 10));
    }
}
