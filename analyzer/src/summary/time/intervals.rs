//! Intervals of time, and operations on lists of them.

use serde::{Deserialize, Serialize};

/// From `start` to `end`, `end` not included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Interval {
    pub start: i64,
    pub end: i64,
}

/// The set an interval belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Set {
    /// Spans of compute categories.
    Compute,
    /// Spans that the program names reading, writing or a checkpoint.
    AppIo,
    /// File calls.
    Io,
    /// Spans in which a program waits for its next batch.
    Wait,
}

pub const SETS: usize = 4;

/// One list per set.
pub type Lists = [Vec<Interval>; SETS];

/// Makes a list disjoint and ascending, in place.
pub fn unite(list: &mut Vec<Interval>) {
    if is_united(list) {
        return;
    }
    // Lists are concatenations of few ascending runs, which this sort finds and merges.
    if !list.is_sorted_by_key(|interval| interval.end) {
        list.sort_by_key(|interval| interval.end);
    }
    let mut kept = list.len();
    for i in (0..list.len()).rev() {
        let interval = list[i];
        if interval.end <= interval.start {
            continue;
        }
        match list.get_mut(kept) {
            Some(next) if interval.end >= next.start => next.start = next.start.min(interval.start),
            _ => {
                kept -= 1;
                list[kept] = interval;
            }
        }
    }
    list.drain(..kept);
}

/// Returns `true` if nothing is to be done: usually for the calls of one thread, and for lists united before.
fn is_united(list: &[Interval]) -> bool {
    let is_some = |interval: &Interval| interval.start < interval.end;
    list.is_sorted_by(|a, b| is_some(a) && a.end < b.start) && list.last().is_none_or(is_some)
}

/// Returns the length of a disjoint list.
pub fn length(list: &[Interval]) -> i64 {
    list.iter().map(|interval| interval.end - interval.start).sum()
}

/// Returns the length of the intersection of two disjoint ascending lists.
pub fn shared(a: &[Interval], b: &[Interval]) -> i64 {
    let (few, many) = if a.len() < b.len() { (a, b) } else { (b, a) };
    if few.len() * MANY < many.len() { shared_of_few(few, many) } else { shared_of_alike(few, many) }
}

/// If one list is this many times as long as the other, the parts within each interval of the shorter one are searched
/// and summed.
const MANY: usize = 8;

fn shared_of_few(few: &[Interval], many: &[Interval]) -> i64 {
    let (mut sum, mut from) = (0, 0);
    for interval in few {
        from += many[from..].partition_point(|other| other.end <= interval.start);
        let within = &many[from..];
        let within = &within[..within.partition_point(|other| other.start < interval.end)];
        if let [first, ..] = within
            && let [.., last] = within
        {
            sum += length(within) - (interval.start - first.start).max(0) - (last.end - interval.end).max(0);
            // The last one may extend into the next interval of the shorter list.
            from += within.len() - 1;
        }
    }
    sum
}

fn shared_of_alike(a: &[Interval], b: &[Interval]) -> i64 {
    let (mut i, mut j, mut sum) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        sum += (a[i].end.min(b[j].end) - a[i].start.max(b[j].start)).max(0);
        if a[i].end < b[j].end { i += 1 } else { j += 1 }
    }
    sum
}

/// Returns the parts of a disjoint ascending list that are in no interval of another one.
pub fn without(list: &[Interval], other: &[Interval]) -> Vec<Interval> {
    let (mut left, mut from) = (Vec::with_capacity(list.len()), 0);
    for interval in list {
        from += other[from..].iter().take_while(|hole| hole.end <= interval.start).count();
        let mut start = interval.start;
        for hole in other[from..].iter().take_while(|hole| hole.start < interval.end) {
            if start < hole.start {
                left.push(Interval { start, end: hole.start });
            }
            start = start.max(hole.end);
        }
        if start < interval.end {
            left.push(Interval { start, end: interval.end });
        }
    }
    left
}

/// Returns the intersection of two disjoint ascending lists.
pub fn common(a: &[Interval], b: &[Interval]) -> Vec<Interval> {
    without(a, &without(&[Interval { start: i64::MIN, end: i64::MAX }], b))
}

/// Unites several lists pairwise, because overlaps reduce their length in each round.
pub fn united(mut lists: Vec<Vec<Interval>>) -> Vec<Interval> {
    let of_pair = |pair: &[Vec<Interval>]| {
        let mut both = pair.concat();
        unite(&mut both);
        both
    };
    while lists.len() > 1 {
        lists = lists.chunks(2).map(of_pair).collect();
    }
    lists.pop().unwrap_or_default()
}

/// Returns the part of a disjoint ascending list after a timestamp.
pub fn tail(list: &[Interval], ts: i64) -> i64 {
    let from = list.partition_point(|interval| interval.end <= ts);
    list[from..].iter().map(|interval| interval.end - interval.start.max(ts)).sum()
}

/// Returns a list of intervals, for tests.
#[cfg(test)]
pub fn list(pairs: &[(i64, i64)]) -> Vec<Interval> {
    pairs.iter().map(|&(start, end)| Interval { start, end }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_keeps_parts_outside_the_other_list() {
        let left = |a: &[(i64, i64)], b: &[(i64, i64)]| without(&list(a), &list(b));
        assert_eq!(left(&[(0, 10), (20, 30)], &[(5, 22), (24, 25)]), list(&[(0, 5), (22, 24), (25, 30)]));
        assert_eq!(left(&[(0, 10), (12, 14)], &[(0, 10)]), list(&[(12, 14)]));
        assert_eq!(left(&[(5, 6)], &[(0, 5), (6, 9)]), list(&[(5, 6)]));
    }

    fn pairs_united(pairs: &[(i64, i64)]) -> Vec<(i64, i64)> {
        let mut list = list(pairs);
        unite(&mut list);
        list.iter().map(|interval| (interval.start, interval.end)).collect()
    }

    #[test]
    fn overlapping_and_touching_intervals_become_one() {
        assert_eq!(pairs_united(&[(0, 5), (5, 8), (10, 12), (11, 20), (1, 2)]), [(0, 8), (10, 20)]);
        assert_eq!(pairs_united(&[(0, 100), (10, 20), (30, 40)]), [(0, 100)]);
        assert_eq!(pairs_united(&[(3, 3), (5, 4)]), []);
        assert_eq!(pairs_united(&[]), []);
    }

    #[test]
    fn shared_measures_the_intersection() {
        assert_eq!(shared(&list(&[(0, 10), (20, 30)]), &list(&[(5, 25), (29, 40)])), 5 + 5 + 1);
        assert_eq!(shared(&list(&[(0, 10)]), &[]), 0);
    }

    /// Returns disjoint ascending lists of random gaps and lengths, some touching those of another.
    fn random(state: &mut u64, count: usize, gap: u64, length: u64) -> Vec<Interval> {
        let mut below = |limit: u64| {
            *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((*state >> 33) % limit) as i64
        };
        let mut at = 0;
        let interval = |_| {
            let start = at + 1 + below(gap);
            at = start + 1 + below(length);
            Interval { start, end: at }
        };
        (0..count).map(interval).collect()
    }

    #[test]
    fn shared_is_equal_for_short_and_long_lists() {
        let mut state = 5;
        for (few, gap, length) in [(1, 900, 5000), (3, 300, 900), (10, 100, 40), (10, 1, 300), (0, 1, 1)] {
            for _ in 0..50 {
                let (few, many) = (random(&mut state, few, gap, length), random(&mut state, 300, 9, 12));
                let expected = shared_of_alike(&few, &many);
                assert_eq!(shared_of_few(&few, &many), expected, "{few:?}");
                assert_eq!((shared(&few, &many), shared(&many, &few)), (expected, expected));
            }
        }
    }

    #[test]
    fn lists_united_two_by_two_are_as_united_at_once() {
        let mut state = 9;
        for count in [0, 1, 2, 5, 8] {
            let lists: Vec<_> = (0..count).map(|_| random(&mut state, 40, 20, 9)).collect();
            let mut at_once = lists.concat();
            unite(&mut at_once);
            assert_eq!(united(lists), at_once, "{count}");
        }
    }
}
